package messaging

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/inbound"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

const (
	orgA, orgB = "0190a000-0000-7000-8000-00000000000a", "0190a000-0000-7000-8000-00000000000b"
	ana, bob   = "0190a000-0000-7000-8000-0000000000a1", "0190a000-0000-7000-8000-0000000000b1"
	ours       = "+14155550100"
	theirs     = "+14155550188"
)

// taking is a carrier that takes everything under a fresh SID; what Twilio really does is the test of send.
type taking struct{}

func (taking) Send(context.Context, twilio.Outgoing) twilio.Outcome {
	return twilio.Outcome{Status: sms.Accepted, SID: "SM" + strings.ReplaceAll(uuid.NewString(), "-", ""), Reported: "queued"}
}

func (taking) List(context.Context, string, time.Time) ([]twilio.Stored, error) { return nil, nil }

func (taking) Fetch(context.Context, string) (twilio.Stored, error) {
	return twilio.Stored{}, twilio.ErrNotFound
}

// slow is a carrier that takes everything, some time after it was asked.
type slow struct {
	taking

	answer func()
}

func (s slow) Send(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
	s.answer()
	return s.taking.Send(ctx, out)
}

// losing is a carrier that loses its answers, of a Twilio that has one text.
type losing struct{ has twilio.Stored }

func (losing) Send(context.Context, twilio.Outgoing) twilio.Outcome { return twilio.Outcome{} }

func (l losing) Fetch(context.Context, string) (twilio.Stored, error) { return l.has, nil }

func (l losing) List(context.Context, string, time.Time) ([]twilio.Stored, error) {
	other := l.has
	other.SID = strings.Replace(other.SID, "SM", "MM", 1)
	return []twilio.Stored{l.has, other}, nil
}

// noon is the time at which the service of setup runs.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func evidence(at time.Time) *messagingv1.Evidence {
	return &messagingv1.Evidence{Method: "phone call", CollectedAt: timestamppb.New(at), Reference: "call 815"}
}

// TestParked goes the way of an operator: find what is parked, see why, say a word.
func TestParked(t *testing.T) {
	t.Parallel()
	vendor := losing{has: twilio.Stored{
		SID: "SM" + strings.Repeat("0", 32), Status: "undelivered", ErrorCode: 30003, Direction: "outbound-api", To: theirs, Body: "hello",
		CreatedAt: noon,
	}}
	store := sendtest.NewStore(pgtest.New(t, schema.Migrations()))
	metrics, err := send.NewMetrics(noop.NewMeterProvider().Meter("test"))
	require.NoError(t, err)
	now := noon
	clock := func() time.Time { return now }
	sender := sendtest.Only(senders.Sender{OrgID: uuid.MustParse(orgA), Number: ours})
	s := serverOf(t, store, send.Config{
		Store: store, Evidence: store, Carrier: vendor, Senders: sender, PublicURL: "https://paceline.example",
		Timeout: time.Second, Lease: time.Minute, StopWait: time.Second, Now: clock, Log: slog.New(slog.DiscardHandler), Metrics: metrics,
	})
	ask := func() *messagingv1.SendResponse {
		answer, err := s.Send(as(t, rpc.RoleService, "", "onboarding"), &messagingv1.SendRequest{
			OrgId: orgA, To: theirs, Body: "hello", IdempotencyKey: "k",
			UnknownPolicy: messagingv1.UnknownPolicy_UNKNOWN_POLICY_NEVER_DUPLICATE,
		})
		require.NoError(t, err)
		return answer
	}
	require.Equal(t, messagingv1.Outcome_OUTCOME_UNKNOWN, ask().GetOutcome())
	now = noon.Add(2 * time.Minute)
	_, err = send.NewReconciler(send.ReconcilerConfig{
		Store: store, Carrier: vendor, Senders: sender, Interval: time.Minute, Timeout: time.Second, Now: clock, Log: slog.New(slog.DiscardHandler), Metrics: metrics,
	}).Once(t.Context())
	require.NoError(t, err)

	answer := ask()
	require.Equal(t, messagingv1.Outcome_OUTCOME_PARKED, answer.GetOutcome())
	require.Contains(t, answer.GetExplanation(), ":resolve")

	operator := as(t, rpc.RoleOperator, orgA, "op")
	for status, want := range map[string]int{"parked": 1, "unknown": 0, "delivered": 0, "": 1} {
		page, err := s.ListMessages(operator, &messagingv1.ListMessagesRequest{Status: status})
		require.NoError(t, err)
		require.Len(t, page.GetMessages(), want, status)
	}
	for _, other := range []*messagingv1.ListMessagesRequest{
		{Status: "unknown", IdempotencyKey: "k"}, {Status: "unknown", ProfileId: ana}, {Status: "parked", ProfileId: ana},
	} {
		page, err := s.ListMessages(operator, other)
		require.NoError(t, err)
		require.Empty(t, page.GetMessages())
	}

	id := answer.GetMessage().GetMessageId()
	evidence, err := s.GetEvidence(operator, &messagingv1.GetEvidenceRequest{MessageId: id})
	require.NoError(t, err)
	require.Equal(t, "parked", evidence.GetMessage().GetStatus())
	require.Len(t, evidence.GetLooks(), 1)
	require.Equal(t, "ambiguous", evidence.GetLooks()[0].GetFinding())
	require.Equal(t, now, evidence.GetLooks()[0].GetAt().AsTime())
	require.Len(t, evidence.GetLooks()[0].GetCandidates(), 2)
	require.Equal(t, vendor.has.SID, evidence.GetLooks()[0].GetCandidates()[0].GetTwilioSid())
	require.Equal(t, noon, evidence.GetLooks()[0].GetCandidates()[0].GetCreatedAt().AsTime())
	require.Nil(t, evidence.GetNextLookAt())
	require.EqualValues(t, 1, evidence.GetAttempt())

	_, err = s.ResolveMessage(operator, &messagingv1.ResolveMessageRequest{
		MessageId: id, Resolution: messagingv1.Resolution_RESOLUTION_GIVE_UP, Reason: "of an attempt that there was not", Attempt: 2,
	})
	requireRefused(t, err, codes.FailedPrecondition, messagingv1.Reason_REASON_NOT_RESOLVABLE)

	_, err = s.ResolveMessage(operator, &messagingv1.ResolveMessageRequest{
		MessageId: id, Resolution: messagingv1.Resolution_RESOLUTION_GIVE_UP, Reason: "the person has moved on",
	})
	require.NoError(t, err)
	require.Equal(t, messagingv1.Outcome_OUTCOME_GIVEN_UP, ask().GetOutcome())
	_, err = s.ResolveMessage(operator, &messagingv1.ResolveMessageRequest{
		MessageId: id, Resolution: messagingv1.Resolution_RESOLUTION_SENT, TwilioSid: vendor.has.SID, Reason: "seen",
	})
	requireRefused(t, err, codes.FailedPrecondition, messagingv1.Reason_REASON_NOT_RESOLVABLE)
	_, err = s.ResolveMessage(operator, &messagingv1.ResolveMessageRequest{
		MessageId: id, Resolution: messagingv1.Resolution_RESOLUTION_NOT_SENT, Reason: "on second thoughts",
	})
	require.NoError(t, err)
	require.Equal(t, messagingv1.Outcome_OUTCOME_UNKNOWN, ask().GetOutcome())

	_, err = s.RecordStatus(as(t, rpc.RoleService, "", "gateway"), &messagingv1.RecordStatusRequest{
		MessageId: id, TwilioSid: "SM1", Status: "undelivered", ErrorCode: 30003,
	})
	require.NoError(t, err)
	evidence, err = s.GetEvidence(operator, &messagingv1.GetEvidenceRequest{MessageId: id})
	require.NoError(t, err)
	require.Len(t, evidence.GetReceipts(), 1)
	require.EqualValues(t, 30003, evidence.GetReceipts()[0].GetErrorCode())
}

func setup(t *testing.T) clients {
	t.Helper()
	store := sendtest.NewStore(pgtest.New(t, schema.Migrations()))
	metrics, err := send.NewMetrics(noop.NewMeterProvider().Meter("test"))
	require.NoError(t, err)
	sender := sendtest.Only(senders.Sender{OrgID: uuid.MustParse(orgA), Number: ours})
	now := func() time.Time { return noon }
	return serverOf(t, store, send.Config{
		Store: store, Evidence: store, Carrier: taking{}, Senders: sender, PublicURL: "https://paceline.example",
		Timeout: time.Second, Lease: time.Minute, StopWait: time.Second, Now: now, Log: slog.New(slog.DiscardHandler), Metrics: metrics,
	})
}

// serverOf serves a way of sending.
func serverOf(t *testing.T, store sendtest.Store, cfg send.Config) clients {
	t.Helper()
	metrics, err := inbound.NewMetrics(noop.NewMeterProvider().Meter("test"))
	require.NoError(t, err)
	sending := send.New(cfg)
	return serve(t, rooms{
		stores: storesOf(store), sending: sending,
		received: inbound.New(inbound.Config{Store: store, Send: sending, Now: cfg.Now, Log: cfg.Log, Metrics: metrics}),
		intake:   &outbound.Intake{Senders: cfg.Senders, Log: cfg.Log, Now: cfg.Now},
	})
}

func storesOf(store sendtest.Store) stores {
	return stores{send: store.Store, ledger: store.Consents.Store}
}

func as(t *testing.T, role rpc.Role, org, subject string) context.Context {
	t.Helper()
	return rpc.WithPrincipal(t.Context(), rpc.Principal{Subject: subject, OrgID: org, Role: role})
}

func sendOne(t *testing.T, s clients, profile, key string) *messagingv1.Message {
	t.Helper()
	answer, err := s.Send(as(t, rpc.RoleService, "", "onboarding"), &messagingv1.SendRequest{
		OrgId: orgA, ProfileId: profile, To: theirs, Body: "hello", IdempotencyKey: key,
	})
	require.NoError(t, err)
	require.Equal(t, messagingv1.Outcome_OUTCOME_ACCEPTED, answer.GetOutcome())
	return answer.GetMessage()
}

func requireRefused(t *testing.T, err error, code codes.Code, reason messagingv1.Reason) {
	t.Helper()
	refused, ok := rpc.ErrorFrom(err)
	require.True(t, ok, "%v", err)
	require.Equal(t, code, refused.Code)
	require.Equal(t, reason.String(), refused.Reason)
	require.Equal(t, "paceline.messaging.v1", refused.Domain)
	require.NotContains(t, refused.Message, theirs)
}

// refusedCall is a call and how it is refused.
type refusedCall struct {
	name string
	call func() error
	code codes.Code
	want messagingv1.Reason
}

func refusedSends(t *testing.T, s clients) []refusedCall {
	t.Helper()
	service := as(t, rpc.RoleService, "", "onboarding")
	request := func(change func(*messagingv1.SendRequest)) func() error {
		r := &messagingv1.SendRequest{OrgId: orgA, To: theirs, Body: "hello", IdempotencyKey: "used"}
		change(r)
		return func() error { _, err := s.Send(service, r); return err }
	}
	return []refusedCall{
		{
			name: "BadPhone", call: request(func(r *messagingv1.SendRequest) { r.To = "4155550123" }),
			code: codes.InvalidArgument, want: messagingv1.Reason_REASON_INVALID,
		},
		{
			name: "PhoneThatIsNotInE164", call: request(func(r *messagingv1.SendRequest) { r.To = "+1 415 555 0123" }),
			code: codes.InvalidArgument, want: messagingv1.Reason_REASON_INVALID,
		},
		{
			name: "BlankBody", call: request(func(r *messagingv1.SendRequest) { r.Body = " " }),
			code: codes.InvalidArgument, want: messagingv1.Reason_REASON_INVALID,
		},
		{
			name: "NoKey", call: request(func(r *messagingv1.SendRequest) { r.IdempotencyKey = "" }),
			code: codes.InvalidArgument, want: messagingv1.Reason_REASON_INVALID,
		},
		{
			name: "LongKey", call: request(func(r *messagingv1.SendRequest) { r.IdempotencyKey = strings.Repeat("k", 201) }),
			code: codes.InvalidArgument, want: messagingv1.Reason_REASON_INVALID,
		},
		{
			name: "NoOrganisation", call: request(func(r *messagingv1.SendRequest) { r.OrgId = "us" }),
			code: codes.InvalidArgument, want: messagingv1.Reason_REASON_INVALID,
		},
		{
			name: "KeyReused", call: request(func(r *messagingv1.SendRequest) { r.Body = "bye" }),
			code: codes.AlreadyExists, want: messagingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED,
		},
		{
			name: "NoSender", call: request(func(r *messagingv1.SendRequest) { r.OrgId = orgB }),
			code: codes.FailedPrecondition, want: messagingv1.Reason_REASON_ORGANISATION_WITHOUT_SENDER,
		},
		{
			name: "PurposeInOtherLetters", call: request(func(r *messagingv1.SendRequest) { r.Purpose = "Goodbye" }),
			code: codes.InvalidArgument, want: messagingv1.Reason_REASON_INVALID,
		},
		{
			name: "LongPurpose", call: request(func(r *messagingv1.SendRequest) { r.Purpose = strings.Repeat("p", 41) }),
			code: codes.InvalidArgument, want: messagingv1.Reason_REASON_INVALID,
		},
		{
			name: "UnknownClass", call: request(func(r *messagingv1.SendRequest) { r.MessageClass = 7 }),
			code: codes.InvalidArgument, want: messagingv1.Reason_REASON_INVALID,
		},
		{
			name: "UnknownPolicy", call: request(func(r *messagingv1.SendRequest) { r.UnknownPolicy = 7 }),
			code: codes.InvalidArgument, want: messagingv1.Reason_REASON_INVALID,
		},
	}
}

func refusedCalls(t *testing.T, s clients) []refusedCall {
	t.Helper()
	service := as(t, rpc.RoleService, "", "onboarding")
	return []refusedCall{
		{
			name: "HoldWithoutAVersion", call: func() error {
				_, err := s.SetHold(service, &messagingv1.SetHoldRequest{OrgId: orgA, Phone: theirs, Held: true})
				return err
			},
			code: codes.InvalidArgument, want: messagingv1.Reason_REASON_INVALID,
		},
		{
			name: "RemindersInTheFuture", call: func() error {
				_, err := s.SetReminders(service, &messagingv1.SetRemindersRequest{
					OrgId: orgA, Phone: theirs, Reminders: off, Source: "person", SaidAt: timestamppb.New(noon.Add(2 * time.Minute)),
				})
				return err
			},
			code: codes.InvalidArgument, want: messagingv1.Reason_REASON_INVALID,
		},
		{
			name: "CheckSender", call: func() error {
				_, err := s.CheckSender(service, &messagingv1.CheckSenderRequest{OrgId: orgB})
				return err
			},
			code: codes.FailedPrecondition, want: messagingv1.Reason_REASON_ORGANISATION_WITHOUT_SENDER,
		},
		{
			name: "UnknownSender", call: func() error {
				_, err := s.RecordInbound(service, &messagingv1.RecordInboundRequest{TwilioSid: "SM1", From: theirs, To: "+14155550777"})
				return err
			},
			code: codes.NotFound, want: messagingv1.Reason_REASON_UNKNOWN_SENDER,
		},
		{
			name: "NoSuchMessage", call: func() error {
				_, err := s.GetMessage(service, &messagingv1.GetMessageRequest{MessageId: uuid.NewString()})
				return err
			},
			code: codes.NotFound, want: messagingv1.Reason_REASON_MESSAGE_NOT_FOUND,
		},
		{
			name: "NoSuchConsent", call: func() error {
				_, err := s.GetConsent(service, &messagingv1.GetConsentRequest{Phone: "+14155550199"})
				return err
			},
			code: codes.NotFound, want: messagingv1.Reason_REASON_CONSENT_NOT_FOUND,
		},
		{
			name: "ConsentWithoutAReason", call: func() error {
				_, err := s.SetConsent(service, &messagingv1.SetConsentRequest{Phone: theirs, State: "opted_in"})
				return err
			},
			code: codes.InvalidArgument, want: messagingv1.Reason_REASON_INVALID,
		},
		{
			name: "ForeignPageToken", call: func() error {
				_, err := s.ListMessages(service, &messagingv1.ListMessagesRequest{PageToken: "x"})
				return err
			},
			code: codes.InvalidArgument, want: messagingv1.Reason_REASON_INVALID,
		},
		{
			name: "ListOfNoStatus", call: func() error {
				_, err := s.ListMessages(service, &messagingv1.ListMessagesRequest{Status: "teleported"})
				return err
			},
			code: codes.InvalidArgument, want: messagingv1.Reason_REASON_INVALID,
		},
		{
			name: "HugePage", call: func() error {
				_, err := s.ListMessages(service, &messagingv1.ListMessagesRequest{PageSize: 501})
				return err
			},
			code: codes.InvalidArgument, want: messagingv1.Reason_REASON_INVALID,
		},
	}
}

// inboundOfNoPhone are texts from no phone number, so that no answer is possible.
func inboundOfNoPhone(t *testing.T, s clients) (refused []refusedCall) {
	t.Helper()
	for name, from := range map[string]string{
		"ShortCode": "24273", "AName": "ACMEBANK", "AnotherChannel": "messenger:1234567890123456", "AnonymousCaller": "anonymous",
	} {
		refused = append(refused, refusedCall{
			name: "S2_36_InboundOf" + name, call: func() error {
				_, err := s.RecordInbound(as(t, rpc.RoleService, "", "onboarding"), &messagingv1.RecordInboundRequest{TwilioSid: "SM1", From: from, To: ours})
				require.ErrorContains(t, err, "not in E.164")
				require.NotContains(t, err.Error(), from)
				return err
			},
			code: codes.InvalidArgument, want: messagingv1.Reason_REASON_INVALID,
		})
	}
	return refused
}

func refusedOperators(t *testing.T, s clients, used *messagingv1.Message) []refusedCall {
	t.Helper()
	operator := as(t, rpc.RoleOperator, orgA, "op")
	return []refusedCall{
		{
			name: "EvidenceOfNothing", call: func() error {
				_, err := s.GetEvidence(operator, &messagingv1.GetEvidenceRequest{MessageId: uuid.NewString()})
				return err
			},
			code: codes.NotFound, want: messagingv1.Reason_REASON_MESSAGE_NOT_FOUND,
		},
		{
			name: "EvidenceOfAnotherOrganisation", call: func() error {
				_, err := s.GetEvidence(as(t, rpc.RoleOperator, orgB, "op"), &messagingv1.GetEvidenceRequest{MessageId: used.GetMessageId()})
				return err
			},
			code: codes.NotFound, want: messagingv1.Reason_REASON_MESSAGE_NOT_FOUND,
		},
		{
			name: "ResolveForAnotherOrganisation", call: func() error {
				_, err := s.ResolveMessage(as(t, rpc.RoleOperator, orgB, "op"), &messagingv1.ResolveMessageRequest{
					MessageId: used.GetMessageId(), Resolution: messagingv1.Resolution_RESOLUTION_GIVE_UP, Reason: "r",
				})
				return err
			},
			code: codes.NotFound, want: messagingv1.Reason_REASON_MESSAGE_NOT_FOUND,
		},
		{
			name: "ResolveInNoWord", call: func() error {
				_, err := s.ResolveMessage(operator, &messagingv1.ResolveMessageRequest{MessageId: used.GetMessageId(), Reason: "r"})
				return err
			},
			code: codes.InvalidArgument, want: messagingv1.Reason_REASON_INVALID,
		},
		{
			name: "ResolveWhatIsInNoDoubt", call: func() error {
				_, err := s.ResolveMessage(operator, &messagingv1.ResolveMessageRequest{
					MessageId: used.GetMessageId(), Resolution: messagingv1.Resolution_RESOLUTION_NOT_SENT, Reason: "r",
				})
				return err
			},
			code: codes.FailedPrecondition, want: messagingv1.Reason_REASON_NOT_RESOLVABLE,
		},
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	s := setup(t)
	used := sendOne(t, s, ana, "used")
	for _, c := range slices.Concat(refusedSends(t, s), refusedCalls(t, s), inboundOfNoPhone(t, s), refusedOperators(t, s, used)) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			requireRefused(t, c.call(), c.code, c.want)
		})
	}
}

func TestView(t *testing.T) {
	t.Parallel()
	s := setup(t)
	m := sendOne(t, s, ana, "a")
	sendOne(t, s, bob, "b")
	for _, c := range []struct {
		name string
		ctx  context.Context //nolint:containedctx // the table is about the caller
		want int
	}{
		{name: "ServiceSeesTheDefaultOrganisation", ctx: as(t, rpc.RoleService, "", "gateway"), want: 2},
		{name: "OperatorSeesTheirOrganisation", ctx: as(t, rpc.RoleOperator, orgA, "op"), want: 2},
		{name: "OperatorOfAnotherSeesNothing", ctx: as(t, rpc.RoleOperator, orgB, "op"), want: 0},
		{name: "AppSeesItsOrganisation", ctx: as(t, rpc.RoleApp, orgA, "shop"), want: 2},
		{name: "AppOfAnotherSeesNothing", ctx: as(t, rpc.RoleApp, orgB, "shop"), want: 0},
		{name: "UserSeesTheirOwn", ctx: as(t, rpc.RoleUser, orgA, ana), want: 1},
		{name: "UserOfAnotherOrganisationSeesNothing", ctx: as(t, rpc.RoleUser, orgB, ana), want: 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			page, err := s.ListMessages(c.ctx, &messagingv1.ListMessagesRequest{})
			require.NoError(t, err)
			require.Len(t, page.GetMessages(), c.want)
			_, err = s.GetMessage(c.ctx, &messagingv1.GetMessageRequest{MessageId: m.GetMessageId()})
			if c.want > 0 {
				require.NoError(t, err)
				return
			}
			requireRefused(t, err, codes.NotFound, messagingv1.Reason_REASON_MESSAGE_NOT_FOUND)
		})
	}
	t.Run("UserMayNotAskForAnotherPerson", func(t *testing.T) {
		t.Parallel()
		_, err := s.ListMessages(as(t, rpc.RoleUser, orgA, ana), &messagingv1.ListMessagesRequest{ProfileId: bob})
		requireRefused(t, err, codes.PermissionDenied, messagingv1.Reason_REASON_PERMISSION_DENIED)
		_, err = s.GetMessage(as(t, rpc.RoleUser, orgA, bob), &messagingv1.GetMessageRequest{MessageId: m.GetMessageId()})
		requireRefused(t, err, codes.NotFound, messagingv1.Reason_REASON_MESSAGE_NOT_FOUND)
	})
	t.Run("UserWithoutAProfileSeesNothing", func(t *testing.T) {
		t.Parallel()
		for _, subject := range []string{"not-a-uuid", uuid.Nil.String()} {
			_, err := s.ListMessages(as(t, rpc.RoleUser, orgA, subject), &messagingv1.ListMessagesRequest{})
			requireRefused(t, err, codes.PermissionDenied, messagingv1.Reason_REASON_PERMISSION_DENIED)
		}
	})
	t.Run("CallerWithoutAPrincipalSeesNothing", func(t *testing.T) {
		t.Parallel()
		_, err := s.ListMessages(t.Context(), &messagingv1.ListMessagesRequest{})
		requireRefused(t, err, codes.PermissionDenied, messagingv1.Reason_REASON_PERMISSION_DENIED)
	})
}

func TestPages(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for _, key := range []string{"1", "2", "3", "4", "5"} {
		sendOne(t, s, ana, key)
	}
	var keys []string
	request := &messagingv1.ListMessagesRequest{PageSize: 2}
	for pages := 1; ; pages++ {
		page, err := s.ListMessages(as(t, rpc.RoleOperator, orgA, "op"), request)
		require.NoError(t, err)
		for _, m := range page.GetMessages() {
			keys = append(keys, m.GetIdempotencyKey())
		}
		if request.PageToken = page.GetNextPageToken(); request.GetPageToken() == "" {
			require.Equal(t, 3, pages)
			break
		}
	}
	require.Equal(t, []string{"5", "4", "3", "2", "1"}, keys)
}

func TestConsent(t *testing.T) {
	t.Parallel()
	s := setup(t)
	operator := as(t, rpc.RoleOperator, orgA, "op")
	sendOne(t, s, ana, "a")
	set, err := s.SetConsent(operator, &messagingv1.SetConsentRequest{Phone: theirs, State: "opted_out", Reason: "called us"})
	require.NoError(t, err)
	require.Equal(t, "opted_out", set.GetConsent().GetState())
	got, err := s.GetConsent(operator, &messagingv1.GetConsentRequest{Phone: "+1 415 555 0188"})
	require.NoError(t, err)
	require.Equal(t, set.GetConsent().String(), got.GetConsent().String())
	require.Len(t, got.GetEvents(), 2)
	require.Equal(t, "collected_elsewhere", got.GetEvents()[0].GetSource())
	require.Equal(t, "operator", got.GetEvents()[1].GetSource())
	require.Equal(t, "called us", got.GetEvents()[1].GetWords())
	require.Equal(t, ours, got.GetEvents()[1].GetSender())
	answer, err := s.Send(as(t, rpc.RoleService, "", "onboarding"), &messagingv1.SendRequest{OrgId: orgA, To: theirs, Body: "hello", IdempotencyKey: "b"})
	require.NoError(t, err)
	require.Equal(t, messagingv1.Outcome_OUTCOME_OPTED_OUT, answer.GetOutcome())
	require.Nil(t, answer.GetMessage())
	_, err = s.GetConsent(as(t, rpc.RoleOperator, orgB, "op"), &messagingv1.GetConsentRequest{Phone: theirs})
	requireRefused(t, err, codes.NotFound, messagingv1.Reason_REASON_CONSENT_NOT_FOUND)
}

func TestSendTellsHowLongAgoItWas(t *testing.T) {
	t.Parallel()
	metrics, err := send.NewMetrics(noop.NewMeterProvider().Meter("test"))
	require.NoError(t, err)
	store := sendtest.NewStore(pgtest.New(t, schema.Migrations()))
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	sender := sendtest.Only(senders.Sender{OrgID: uuid.MustParse(orgA), Number: ours})
	s := serverOf(t, store, send.Config{
		Store: store, Evidence: store, Carrier: slow{answer: func() { now = now.Add(900 * time.Millisecond) }}, Senders: sender,
		PublicURL: "https://paceline.example", Timeout: time.Second, Lease: time.Minute, StopWait: time.Second, Now: clock,
		Log: slog.New(slog.DiscardHandler), Metrics: metrics,
	})
	t.Run("R_13_OfOneThatTwilioTakesNowAndOfOneThatTheyHave", func(t *testing.T) {
		t.Parallel()
		ask := func(outcome messagingv1.Outcome, accepted, asked time.Duration) {
			answer, err := s.Send(as(t, rpc.RoleService, "", "onboarding"), &messagingv1.SendRequest{
				OrgId: orgA, To: theirs, Body: "hello", IdempotencyKey: "k",
			})
			require.NoError(t, err)
			require.Equal(t, outcome, answer.GetOutcome())
			require.Equal(t, accepted, answer.GetAcceptedAgo().AsDuration())
			require.Equal(t, asked, answer.GetAskedAgo().AsDuration())
		}
		ask(messagingv1.Outcome_OUTCOME_ACCEPTED, 0, 900*time.Millisecond)
		now = now.Add(5 * time.Second)
		ask(messagingv1.Outcome_OUTCOME_ALREADY_ACCEPTED, 5*time.Second, 5900*time.Millisecond)
	})
}

func TestRecord(t *testing.T) {
	t.Parallel()
	s := setup(t)
	service := as(t, rpc.RoleService, "", "gateway")
	m := sendOne(t, s, ana, "a")
	for _, r := range []*messagingv1.RecordStatusRequest{
		{MessageId: m.GetMessageId(), TwilioSid: m.GetTwilioSid(), Status: "undelivered", ErrorCode: 30003},
		{MessageId: "not an id of ours", TwilioSid: m.GetTwilioSid(), Status: "sent"},
	} {
		status, err := s.RecordStatus(service, r)
		require.NoError(t, err)
		require.True(t, status.GetMatched())
	}
	got, err := s.GetMessage(service, &messagingv1.GetMessageRequest{MessageId: m.GetMessageId()})
	require.NoError(t, err)
	require.Equal(t, "undelivered", got.GetMessage().GetStatus())
	require.EqualValues(t, 30003, got.GetMessage().GetErrorCode())
	require.Nil(t, got.GetMessage().GetDeliveredAt())

	arrived := sendOne(t, s, ana, "b")
	_, err = s.RecordStatus(service, &messagingv1.RecordStatusRequest{
		MessageId: arrived.GetMessageId(), TwilioSid: arrived.GetTwilioSid(), Status: "delivered",
	})
	require.NoError(t, err)
	list, err := s.ListMessages(service, &messagingv1.ListMessagesRequest{ProfileId: ana})
	require.NoError(t, err)
	require.Equal(t, arrived.GetMessageId(), list.GetMessages()[0].GetMessageId())
	require.NotNil(t, list.GetMessages()[0].GetDeliveredAt(), "as its receipt says")
	require.Nil(t, list.GetMessages()[1].GetDeliveredAt())

	stop, err := s.RecordInbound(service, &messagingv1.RecordInboundRequest{TwilioSid: "SM1", From: theirs, To: ours, Body: "STOP", Segments: 1})
	require.NoError(t, err)
	require.Equal(t, messagingv1.ConsentEffect_CONSENT_EFFECT_OPT_OUT, stop.GetConsentEffect())
	require.Equal(t, orgA, stop.GetOrgId())
	require.Equal(t, "received", stop.GetMessage().GetStatus())
	require.Nil(t, stop.GetMessage().ErrorCode)
}

func TestR_08_OlderCallerIsToldOfAHoldInAWordThatItKnows(t *testing.T) {
	t.Parallel()
	s, service := setup(t), as(t, rpc.RoleService, "", "onboarding")
	hold := func(held bool, version int64) {
		_, err := s.SetHold(service, &messagingv1.SetHoldRequest{OrgId: orgA, Phone: theirs, Held: held, Version: version})
		require.NoError(t, err)
	}
	ask := func(key string, change func(*messagingv1.SendRequest)) *messagingv1.SendResponse {
		r := &messagingv1.SendRequest{OrgId: orgA, ProfileId: ana, To: theirs, Body: "hello", IdempotencyKey: key}
		change(r)
		answer, err := s.Send(service, r)
		require.NoError(t, err)
		return answer
	}
	reader := func(r *messagingv1.SendRequest) {
		r.Understands = []messagingv1.Outcome{messagingv1.Outcome_OUTCOME_HELD}
	}
	hold(true, 2)
	older := ask("k", func(*messagingv1.SendRequest) {})
	require.Equal(t, messagingv1.Outcome_OUTCOME_THROTTLED, older.GetOutcome(), "a word that it knows")
	require.Positive(t, older.GetRetryAfter().AsDuration())
	require.Nil(t, older.GetMessage())
	require.Equal(t, messagingv1.Outcome_OUTCOME_HELD, ask("k", reader).GetOutcome())
	released := ask("k", func(r *messagingv1.SendRequest) { r.HoldVersion = 3 })
	require.Equal(t, messagingv1.Outcome_OUTCOME_ACCEPTED, released.GetOutcome(), "it has read the release")
	hold(false, 3)
	require.Equal(t, messagingv1.Outcome_OUTCOME_ACCEPTED, ask("l", func(*messagingv1.SendRequest) {}).GetOutcome())
}

// TestOptOutTellsWhatIsInForce: the effect of a text never changes, the state of consent since does.
func TestOptOutTellsWhatIsInForce(t *testing.T) {
	t.Parallel()
	s, service := setup(t), as(t, rpc.RoleService, "", "onboarding")
	say := func(sid, words string) *messagingv1.RecordInboundResponse {
		answer, err := s.RecordInbound(service, &messagingv1.RecordInboundRequest{TwilioSid: sid, From: theirs, To: ours, Body: words, Segments: 1})
		require.NoError(t, err)
		return answer
	}
	require.Equal(t, "opted_out", say("SM1", "STOP").GetConsentState())
	require.Empty(t, say("SM2", "START").GetConsentState())
	again := say("SM1", "STOP")
	require.Equal(t, messagingv1.ConsentEffect_CONSENT_EFFECT_OPT_OUT, again.GetConsentEffect())
	require.Equal(t, "opted_in", again.GetConsentState())
}

func TestUnjudgedWords(t *testing.T) {
	t.Parallel()
	s, service := setup(t), as(t, rpc.RoleService, "", "onboarding")
	recorded, err := s.RecordInbound(service, &messagingv1.RecordInboundRequest{
		TwilioSid: "SM1", From: theirs, To: ours, Body: "leave me alone", Segments: 1,
	})
	require.NoError(t, err)
	unjudged := func() string {
		checked, err := s.CheckSender(service, &messagingv1.CheckSenderRequest{OrgId: orgA, To: theirs})
		require.NoError(t, err)
		require.True(t, checked.GetUnrecorded(), "words that may be an opt-out are none yet")
		return checked.GetUnjudgedMessageId()
	}
	require.Equal(t, recorded.GetMessage().GetMessageId(), unjudged(), "no session is opened then")
	_, err = s.JudgeWords(service, &messagingv1.JudgeWordsRequest{OrgId: orgA, Phone: "x"})
	requireRefused(t, err, codes.InvalidArgument, messagingv1.Reason_REASON_INVALID)
	for range 2 {
		_, err = s.JudgeWords(service, &messagingv1.JudgeWordsRequest{OrgId: orgA, Phone: theirs})
		require.NoError(t, err)
		require.Empty(t, unjudged())
	}
}

func TestOptInByAnOperator(t *testing.T) {
	t.Parallel()
	s := setup(t)
	service, operator := as(t, rpc.RoleService, "", "gateway"), as(t, rpc.RoleOperator, orgA, "op")
	for _, tt := range []struct {
		name   string
		change func(r *messagingv1.SetConsentRequest)
		field  string
	}{
		{"WithoutEvidence", func(r *messagingv1.SetConsentRequest) { r.Evidence = nil }, "evidence is required"},
		{"WithoutAMethod", func(r *messagingv1.SetConsentRequest) { r.Evidence.Method = " " }, "evidence.method"},
		{"WithAnInvisibleMethod", func(r *messagingv1.SetConsentRequest) { r.Evidence.Method = "\u200b" }, "evidence.method"},
		{"WithAReasonThatLooksLikeEvidence", func(r *messagingv1.SetConsentRequest) { r.Reason = "x\nmethod: signed form" }, "reason"},
		{"WithAMethodOfTwoLines", func(r *messagingv1.SetConsentRequest) { r.Evidence.Method = "a\nreference: b" }, "evidence.method"},
		{"WithoutATime", func(r *messagingv1.SetConsentRequest) { r.Evidence.CollectedAt = nil }, "evidence.collected_at"},
		{"FromTheFuture", func(r *messagingv1.SetConsentRequest) { r.Evidence = evidence(noon.Add(time.Hour)) }, "evidence.collected_at"},
		{"WithoutAReference", func(r *messagingv1.SetConsentRequest) { r.Evidence.Reference = "" }, "evidence.reference"},
		{"WithALongReference", func(r *messagingv1.SetConsentRequest) { r.Evidence.Reference = strings.Repeat("é", 201) }, "evidence.reference"},
		{"WithEvidenceOfAnOptOut", func(r *messagingv1.SetConsentRequest) { r.State = "opted_out" }, "evidence is for opted_in"},
	} {
		t.Run("R_07_IsRefused"+tt.name, func(t *testing.T) {
			t.Parallel()
			r := &messagingv1.SetConsentRequest{Phone: "+14155550177", State: "opted_in", Reason: "x", Evidence: evidence(noon)}
			tt.change(r)
			_, err := s.SetConsent(operator, r)
			requireRefused(t, err, codes.InvalidArgument, messagingv1.Reason_REASON_INVALID)
			require.ErrorContains(t, err, tt.field)
			_, err = s.GetConsent(operator, &messagingv1.GetConsentRequest{Phone: r.GetPhone()})
			requireRefused(t, err, codes.NotFound, messagingv1.Reason_REASON_CONSENT_NOT_FOUND)
		})
	}
	t.Run("R_07_IsRefusedWithTheReasonAfterSTOP", func(t *testing.T) {
		t.Parallel()
		_, err := s.RecordInbound(service, &messagingv1.RecordInboundRequest{TwilioSid: "SM1", From: theirs, To: ours, Body: "STOP", Segments: 1})
		require.NoError(t, err)
		_, err = s.SetConsent(operator, &messagingv1.SetConsentRequest{Phone: theirs, State: "opted_in", Reason: "x"})
		requireRefused(t, err, codes.FailedPrecondition, messagingv1.Reason_REASON_OPTED_OUT_BY_PERSON)
		require.ErrorContains(t, err, "START")
		for to, out := range map[string]bool{theirs: true, "+14155550166": false, "": false} {
			checked, err := s.CheckSender(service, &messagingv1.CheckSenderRequest{OrgId: orgA, To: to})
			require.NoError(t, err)
			require.Equal(t, out, checked.GetOptedOut())
		}
	})
}

// TestConsentExport reads the export for a lawyer: everything that was said, by what it was read, and proof that nothing was altered.
func TestConsentExport(t *testing.T) {
	t.Parallel()
	s := setup(t)
	service, operator := as(t, rpc.RoleService, "", "gateway"), as(t, rpc.RoleOperator, orgA, "op")
	sendOne(t, s, ana, "a")
	record := func(sid, words string) *messagingv1.RecordInboundResponse {
		answer, err := s.RecordInbound(service, &messagingv1.RecordInboundRequest{TwilioSid: sid, From: theirs, To: ours, Body: words, Segments: 1})
		require.NoError(t, err)
		return answer
	}
	require.Equal(t, messagingv1.ConsentEffect_CONSENT_EFFECT_DOUBTFUL, record("SM1", "this is annoying, leave me alone").GetConsentEffect())
	revoked := record("SM2", "please stop texting me, ok?")
	require.Equal(t, messagingv1.ConsentEffect_CONSENT_EFFECT_OPT_OUT, revoked.GetConsentEffect())
	record("SM3", "STOP")

	got, err := s.GetConsent(operator, &messagingv1.GetConsentRequest{Phone: theirs})
	require.NoError(t, err)
	require.True(t, got.GetConsent().GetBlockedByCarrier())
	require.True(t, got.GetChain().GetVerified())
	require.Zero(t, got.GetChain().GetBrokenAt())
	require.EqualValues(t, 2, got.GetChain().GetLength())
	require.Len(t, got.GetEvents(), 2)
	line := got.GetEvents()[1]
	require.Equal(t, got.GetEvents()[0].GetHash(), line.GetPrevHash())
	require.Equal(t, got.GetChain().GetHead(), line.GetHash())
	require.Equal(t, "please stop texting me, ok?", line.GetWords())
	require.Equal(t, revoked.GetMessage().GetMessageId(), line.GetMessageId())
	require.Equal(t, consent.Version, line.GetKeywordPack())
	require.Equal(t, consent.RulesVersion, line.GetRulesVersion())
	require.Equal(t, "paceline", line.GetConfirmedBy())
	require.NotEmpty(t, line.GetConfirmation())
	require.Empty(t, line.GetConfirmationOutcome(), "the responder has not sent it yet")

	var pages strings.Builder
	token := ""
	for range 2 {
		page, err := s.GetConsent(operator, &messagingv1.GetConsentRequest{Phone: theirs, PageSize: 1, PageToken: token})
		require.NoError(t, err)
		require.Len(t, page.GetEvents(), 1)
		token = page.GetNextPageToken()
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(page)
		require.NoError(t, err)
		pages.Write(text)
	}
	require.Empty(t, token)
	lines, head, err := consent.ReadExport(strings.NewReader(pages.String()))
	require.NoError(t, err)
	require.Nil(t, consent.Verify(lines, head))
	require.Len(t, lines, 2)
	lines, head, err = consent.ReadExport(strings.NewReader(strings.Replace(pages.String(), "texting", "calling", 1)))
	require.NoError(t, err)
	broken := consent.Verify(lines, head)
	require.NotNil(t, broken)
	require.EqualValues(t, 2, broken.Seq)

	record("SM4", "voltar") // which Twilio does not know
	set, err := s.SetConsent(operator, &messagingv1.SetConsentRequest{
		Phone: theirs, State: "opted_in", Reason: "asked on the phone", Evidence: evidence(noon),
	})
	require.NoError(t, err)
	require.Contains(t, set.GetWarning(), "START")
	require.True(t, set.GetChain().GetVerified())
	set, err = s.SetConsent(operator, &messagingv1.SetConsentRequest{Phone: theirs, State: "opted_out", Reason: "changed their mind"})
	require.NoError(t, err)
	require.Empty(t, set.GetWarning())
	require.Equal(t, "asked on the phone\nmethod: phone call\ncollected_at: 2026-11-20T12:00:00Z\nreference: call 815", set.GetEvents()[3].GetWords())

	for _, bad := range []*messagingv1.GetConsentRequest{
		{Phone: theirs, PageSize: 501}, {Phone: theirs, PageSize: -1}, {Phone: theirs, PageToken: "?"}, {Phone: theirs, PageToken: "LTE"}, {Phone: theirs, PageToken: "eA"},
	} {
		_, err := s.GetConsent(operator, bad)
		requireRefused(t, err, codes.InvalidArgument, messagingv1.Reason_REASON_INVALID)
	}
}
