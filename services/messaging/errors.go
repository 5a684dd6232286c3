package messaging

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/phone"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sms"
)

// outagePause sets the time after which a caller should try again after an outage.
const outagePause = time.Second

// refusal is the answer to one kind of error. Only a text that is made for the caller is shown.
type refusal struct {
	err    error
	code   codes.Code
	reason messagingv1.Reason
	text   string // instead of the error's own
}

// refusals is every error that a caller can act on; the first that matches answers.
func refusals() []refusal {
	return []refusal{
		{sms.ErrUnavailable, codes.Unavailable, messagingv1.Reason_REASON_UNAVAILABLE, "a dependency cannot be reached; try again"},
		{sms.ErrInvalid, codes.InvalidArgument, messagingv1.Reason_REASON_INVALID, ""},
		{phone.ErrRefused, codes.InvalidArgument, messagingv1.Reason_REASON_NUMBER_REFUSED, ""},
		{sms.ErrPhone, codes.InvalidArgument, messagingv1.Reason_REASON_INVALID, ""},
		{sms.ErrBody, codes.InvalidArgument, messagingv1.Reason_REASON_INVALID, ""},
		{rpc.ErrPageToken, codes.InvalidArgument, messagingv1.Reason_REASON_INVALID, ""},
		{edge.ErrDenied, codes.PermissionDenied, messagingv1.Reason_REASON_PERMISSION_DENIED, "not allowed"},
		{send.ErrKeyReused, codes.AlreadyExists, messagingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED, send.ErrKeyReused.Error()},
		{senders.ErrNoSender, codes.FailedPrecondition, messagingv1.Reason_REASON_ORGANISATION_WITHOUT_SENDER, senders.ErrNoSender.Error()},
		{senders.ErrUnknownSender, codes.NotFound, messagingv1.Reason_REASON_UNKNOWN_SENDER, senders.ErrUnknownSender.Error()},
		{senders.ErrNotFound, codes.NotFound, messagingv1.Reason_REASON_SENDER_NOT_FOUND, senders.ErrNotFound.Error()},
		{senders.ErrRefused, codes.FailedPrecondition, messagingv1.Reason_REASON_SENDER_CREDENTIALS_REFUSED, ""},
		{senders.ErrNotOfAccount, codes.FailedPrecondition, messagingv1.Reason_REASON_SENDER_NOT_OF_ACCOUNT, ""},
		{senders.ErrClaimed, codes.AlreadyExists, messagingv1.Reason_REASON_SENDER_CLAIMED, ""},
		{senders.ErrInUse, codes.FailedPrecondition, messagingv1.Reason_REASON_SENDER_IN_USE, senders.ErrInUse.Error()},
		{senders.ErrNoKeyset, codes.FailedPrecondition, messagingv1.Reason_REASON_SENDER_KEYSET_MISSING, senders.ErrNoKeyset.Error()},
		{send.ErrMessageNotFound, codes.NotFound, messagingv1.Reason_REASON_MESSAGE_NOT_FOUND, send.ErrMessageNotFound.Error()},
		{outbound.ErrKeyReused, codes.AlreadyExists, messagingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED, outbound.ErrKeyReused.Error()},
		{outbound.ErrNotFound, codes.NotFound, messagingv1.Reason_REASON_QUEUED_TEXT_NOT_FOUND, outbound.ErrNotFound.Error()},
		{outbound.ErrNotCancellable, codes.FailedPrecondition, messagingv1.Reason_REASON_NOT_CANCELLABLE, ""},
		{outbound.ErrConsentRequired, codes.FailedPrecondition, messagingv1.Reason_REASON_CONSENT_RECORD_REQUIRED, ""},
		{send.ErrNotResolvable, codes.FailedPrecondition, messagingv1.Reason_REASON_NOT_RESOLVABLE, ""},
		{ledger.ErrOwnOptOut, codes.FailedPrecondition, messagingv1.Reason_REASON_OPTED_OUT_BY_PERSON, ""},
		{ledger.ErrOldEvidence, codes.FailedPrecondition, messagingv1.Reason_REASON_EVIDENCE_TOO_OLD, ""},
		{ledger.ErrPseudonymKey, codes.FailedPrecondition, messagingv1.Reason_REASON_PSEUDONYM_KEY, ledger.ErrPseudonymKey.Error()},
		{ledger.ErrExportTooLarge, codes.FailedPrecondition, messagingv1.Reason_REASON_EXPORT_TOO_LARGE, ""},
		{ledger.ErrConsentNotFound, codes.NotFound, messagingv1.Reason_REASON_CONSENT_NOT_FOUND, ledger.ErrConsentNotFound.Error()},
	}
}

// refuse turns an error into its answer. One that is not in the table is our defect: rpc logs it and answers
// Internal. The cause of an outage goes to the log of the call, for the answer does not carry it.
func refuse(ctx context.Context, err error) error {
	for _, r := range refusals() {
		if !errors.Is(err, r.err) {
			continue
		}
		answer := &rpc.Error{Code: r.code, Reason: r.reason.String(), Domain: edge.Domain, Message: r.text}
		if r.text == "" {
			answer.Message = err.Error()
		}
		if r.code == codes.Unavailable {
			answer.RetryAfter = outagePause
			rpc.Annotate(ctx, slog.String("error", err.Error()))
		}
		return answer
	}
	return err
}

// refusing registers services, and words the errors of their handlers by refuse, before the chain of the server sees them.
type refusing struct{ grpc.ServiceRegistrar }

// RegisterService implements grpc.ServiceRegistrar.
func (r refusing) RegisterService(service *grpc.ServiceDesc, implementation any) {
	worded := *service
	worded.Methods = slices.Clone(service.Methods)
	for i, method := range worded.Methods {
		worded.Methods[i].Handler = func(
			srv any, ctx context.Context, decode func(any) error, chain grpc.UnaryServerInterceptor,
		) (any, error) {
			return method.Handler(srv, ctx, decode, func(
				ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
			) (any, error) {
				refused := func(ctx context.Context, request any) (any, error) {
					answer, err := handler(ctx, request)
					if err != nil {
						return nil, refuse(ctx, err)
					}
					return answer, nil
				}
				if chain == nil {
					return refused(ctx, request)
				}
				return chain(ctx, request, info, refused)
			})
		}
	}
	r.ServiceRegistrar.RegisterService(&worded, implementation)
}
