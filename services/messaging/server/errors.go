package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"

	"paceline.internal/platform/phone"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/inbox"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sms"
)

// domain is the proto package that the reasons belong to.
const domain = "paceline.messaging.v1"

// outagePause is when a caller should try again after an outage.
const outagePause = time.Second

// errDenied is a caller who may call the method, but not about this.
var errDenied = errors.New("not allowed")

// refusal is how one kind of error is answered. Only those whose text is made for the caller show it.
type refusal struct {
	err    error
	code   codes.Code
	reason messagingv1.Reason
	text   string // instead of the error's own
}

// refusals is every error that a caller can act on; the first that matches answers.
func refusals() []refusal {
	return []refusal{
		{send.ErrUnavailable, codes.Unavailable, messagingv1.Reason_REASON_UNAVAILABLE, "a dependency cannot be reached; try again"},
		{send.ErrInvalid, codes.InvalidArgument, messagingv1.Reason_REASON_INVALID, ""},
		{phone.ErrRefused, codes.InvalidArgument, messagingv1.Reason_REASON_NUMBER_REFUSED, ""},
		{sms.ErrPhone, codes.InvalidArgument, messagingv1.Reason_REASON_INVALID, ""},
		{sms.ErrBody, codes.InvalidArgument, messagingv1.Reason_REASON_INVALID, ""},
		{rpc.ErrPageToken, codes.InvalidArgument, messagingv1.Reason_REASON_INVALID, ""},
		{errDenied, codes.PermissionDenied, messagingv1.Reason_REASON_PERMISSION_DENIED, "not allowed"},
		{send.ErrKeyReused, codes.AlreadyExists, messagingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED, send.ErrKeyReused.Error()},
		{send.ErrNoSender, codes.FailedPrecondition, messagingv1.Reason_REASON_ORGANISATION_WITHOUT_SENDER, send.ErrNoSender.Error()},
		{send.ErrUnknownSender, codes.NotFound, messagingv1.Reason_REASON_UNKNOWN_SENDER, send.ErrUnknownSender.Error()},
		{send.ErrMessageNotFound, codes.NotFound, messagingv1.Reason_REASON_MESSAGE_NOT_FOUND, send.ErrMessageNotFound.Error()},
		{outbound.ErrKeyReused, codes.AlreadyExists, messagingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED, outbound.ErrKeyReused.Error()},
		{outbound.ErrNotFound, codes.NotFound, messagingv1.Reason_REASON_QUEUED_TEXT_NOT_FOUND, outbound.ErrNotFound.Error()},
		{outbound.ErrNotCancellable, codes.FailedPrecondition, messagingv1.Reason_REASON_NOT_CANCELLABLE, ""},
		{outbound.ErrConsentRequired, codes.FailedPrecondition, messagingv1.Reason_REASON_CONSENT_RECORD_REQUIRED, ""},
		{send.ErrNotResolvable, codes.FailedPrecondition, messagingv1.Reason_REASON_NOT_RESOLVABLE, ""},
		{inbox.ErrOwnOptOut, codes.FailedPrecondition, messagingv1.Reason_REASON_OPTED_OUT_BY_PERSON, ""},
		{inbox.ErrOldEvidence, codes.FailedPrecondition, messagingv1.Reason_REASON_EVIDENCE_TOO_OLD, ""},
		{inbox.ErrPseudonymKey, codes.FailedPrecondition, messagingv1.Reason_REASON_PSEUDONYM_KEY, inbox.ErrPseudonymKey.Error()},
		{inbox.ErrExportTooLarge, codes.FailedPrecondition, messagingv1.Reason_REASON_EXPORT_TOO_LARGE, ""},
		{inbox.ErrConsentNotFound, codes.NotFound, messagingv1.Reason_REASON_CONSENT_NOT_FOUND, inbox.ErrConsentNotFound.Error()},
	}
}

// refuse turns an error into its answer. One that is not in the table is a defect of ours: rpc logs it and answers
// Internal. The cause of an outage goes to the log of the call, for the answer does not carry it.
func refuse(ctx context.Context, err error) error {
	for _, r := range refusals() {
		if !errors.Is(err, r.err) {
			continue
		}
		answer := &rpc.Error{Code: r.code, Reason: r.reason.String(), Domain: domain, Message: r.text}
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
