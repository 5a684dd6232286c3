package inbound_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/emulators/clock"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/schema"
)

// jobsBundle is the service on a real database; its context is an operator's.
type jobsBundle struct {
	context.Context //nolint:containedctx // of the test

	t      *testing.T
	pool   *pgxpool.Pool
	store  *onboarding.Stores
	clock  *clock.Settable
	orgID  string
	server *inbound.JobsRPC
	rung   int
}

func setupJobs(t *testing.T) *jobsBundle {
	t.Helper()
	pool := pgtest.New(t, schema.Migrations())
	b := &jobsBundle{
		t: t, pool: pool, store: onboarding.NewStores(pool), orgID: uuid.NewString(),
		clock: clock.NewSettable(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)),
	}
	b.Context = b.as(rpc.RoleOperator, b.orgID)
	b.server = &inbound.JobsRPC{
		OrgID: uuid.NewString(), Store: b.store.Inbound(), Notify: func() { b.rung++ }, Now: b.clock.Now,
		Inbound: inbound.New(inbound.Config{Store: b.store, Conversations: conversation.New(conversation.Config{Store: b.store, Now: b.clock.Now}), Now: b.clock.Now}),
	}
	return b
}

func (b *jobsBundle) as(role rpc.Role, orgID string) context.Context {
	return rpc.WithPrincipal(b.t.Context(), rpc.Principal{Subject: "ada", Role: role, OrgID: orgID})
}

// order is a whole request.
func order(key string) *onboardingv1.EnqueueWebhookJobRequest {
	return &onboardingv1.EnqueueWebhookJobRequest{
		Source: conversation.SourceInternal, EventType: "internal.orders.create", IdempotencyKey: key,
		Event: &onboardingv1.EnqueueWebhookJobRequest_PayloadJson{PayloadJson: []byte(`{"id":12345678901234567890}`)},
	}
}

func (b *jobsBundle) enqueue(key string) string {
	b.t.Helper()
	out, err := b.server.EnqueueWebhookJob(b, order(key))
	require.NoError(b.t, err)
	return out.GetJobId()
}

func (b *jobsBundle) get(id string) *onboardingv1.WebhookJob {
	b.t.Helper()
	out, err := b.server.GetWebhookJob(b, &onboardingv1.GetWebhookJobRequest{JobId: id})
	require.NoError(b.t, err)
	return out.GetJob()
}

// drain runs what is due without a handler for anything.
func (b *jobsBundle) drain(handlers map[string]queue.Handler) {
	b.t.Helper()
	_, err := queue.NewRunner(queue.Config{Store: b.store.Jobs(), Handlers: handlers, Log: slog.New(slog.DiscardHandler), Now: b.clock.Now}).Drain(b.t.Context())
	require.NoError(b.t, err)
}

func refusedJob(t *testing.T, err error, code codes.Code, reason onboardingv1.Reason) {
	t.Helper()
	refusal, ok := errors.AsType[*rpc.Error](onboarding.Answer(err))
	require.True(t, ok, "%v", err)
	require.Equal(t, []any{code, reason.String()}, []any{refusal.Code, refusal.Reason})
}

func TestEnqueueWebhookJob(t *testing.T) {
	t.Parallel()

	t.Run("S2_01_16_StoresTheEventAndWakesTheLoop", func(t *testing.T) {
		t.Parallel()
		b := setupJobs(t)
		id := b.enqueue("k")
		require.Equal(t, 1, b.rung)
		j := b.get(id)
		require.Equal(t, []any{"k", "internal", "internal.orders.create", "pending", int32(0), int32(3)},
			[]any{j.GetIdempotencyKey(), j.GetSource(), j.GetEventType(), j.GetStatus(), j.GetAttempts(), j.GetMaxAttempts()})
		require.True(t, b.clock.Now().Equal(j.GetDueAt().AsTime()))
		var kept string
		require.NoError(t, b.pool.QueryRow(t.Context(), `select payload ->> 'id' from webhook_jobs`).Scan(&kept))
		require.Equal(t, "12345678901234567890", kept, "to the last digit")
	})

	t.Run("S2_02_SameKeyIsADuplicateAndWithAnotherPayloadRefused", func(t *testing.T) {
		t.Parallel()
		b := setupJobs(t)
		id := b.enqueue("k")
		out, err := b.server.EnqueueWebhookJob(b, order("k"))
		require.NoError(t, err)
		require.True(t, out.GetDuplicate())
		require.Equal(t, id, out.GetJobId())
		require.Equal(t, 1, b.rung)
		other := order("k")
		payload, err := structpb.NewStruct(map[string]any{"id": 1})
		require.NoError(t, err)
		other.Event = &onboardingv1.EnqueueWebhookJobRequest_Payload{Payload: payload}
		_, err = b.server.EnqueueWebhookJob(b, other)
		refusedJob(t, err, codes.AlreadyExists, onboardingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED)
	})

	t.Run("S2_03_05_TakesATimeADelayAndANumberOfAttempts", func(t *testing.T) {
		t.Parallel()
		b := setupJobs(t)
		in := order("delayed")
		in.Delay, in.MaxAttempts = durationpb.New(time.Minute), 7
		out, err := b.server.EnqueueWebhookJob(b, in)
		require.NoError(t, err)
		j := b.get(out.GetJobId())
		require.Equal(t, int32(7), j.GetMaxAttempts())
		require.Equal(t, time.Minute, j.GetDueAt().AsTime().Sub(b.clock.Now()))
		in = order("at")
		in.At = timestamppb.New(b.clock.Now().Add(time.Hour))
		out, err = b.server.EnqueueWebhookJob(b, in)
		require.NoError(t, err)
		require.Equal(t, time.Hour, b.get(out.GetJobId()).GetDueAt().AsTime().Sub(b.clock.Now()))
	})

	t.Run("S2_19_ServiceSaysWhoseItIsAndNobodyElseMay", func(t *testing.T) {
		t.Parallel()
		b := setupJobs(t)
		service := b.as(rpc.RoleService, "")
		_, err := b.server.EnqueueWebhookJob(service, order("k"))
		require.NoError(t, err)
		in := order("k")
		in.OrgId = b.orgID
		_, err = b.server.EnqueueWebhookJob(service, in)
		require.NoError(t, err)
		var orgs int
		require.NoError(t, b.pool.QueryRow(t.Context(), `select count(*) from webhook_jobs where org_id in ($1, $2)`, b.orgID, b.server.OrgID).Scan(&orgs))
		require.Equal(t, 2, orgs)
		in.OrgId = b.server.OrgID
		_, err = b.server.EnqueueWebhookJob(b, in)
		refusedJob(t, err, codes.PermissionDenied, onboardingv1.Reason_REASON_PERMISSION_DENIED)
	})

	for _, tt := range []struct {
		name string
		bend func(in *onboardingv1.EnqueueWebhookJobRequest)
	}{
		{name: "S2_17_UnknownSource", bend: func(in *onboardingv1.EnqueueWebhookJobRequest) { in.Source = "stripe" }},
		{name: "S2_31_VendorsEventThatNobodySigned", bend: func(in *onboardingv1.EnqueueWebhookJobRequest) {
			in.Source, in.EventType = conversation.SourceKapso, "kapso.message.received"
		}},
		{name: "S2_31_MessageOfAPersonInDisguise", bend: func(in *onboardingv1.EnqueueWebhookJobRequest) { in.EventType = "twilio.message.received" }},
		{name: "NoEventType", bend: func(in *onboardingv1.EnqueueWebhookJobRequest) { in.EventType = "" }},
		{name: "NoKey", bend: func(in *onboardingv1.EnqueueWebhookJobRequest) { in.IdempotencyKey = "" }},
		{name: "R_21_KeyOfAVendorsEvent", bend: func(in *onboardingv1.EnqueueWebhookJobRequest) { in.IdempotencyKey = "shopify:4f2a" }},
		{name: "R_21_KeyOfAMessage", bend: func(in *onboardingv1.EnqueueWebhookJobRequest) { in.IdempotencyKey = "SM" + strings.Repeat("0a", 16) }},
		{name: "R_21_KeyOfAnOpening", bend: func(in *onboardingv1.EnqueueWebhookJobRequest) { in.IdempotencyKey = "opening:" + uuid.NewString() }},
		{name: "R_21_KeyOfAnOpeningThatIsSentAgain", bend: func(in *onboardingv1.EnqueueWebhookJobRequest) {
			in.IdempotencyKey = "opened:" + uuid.NewString() + ":1"
		}},
		{name: "KeyThatIsTooLong", bend: func(in *onboardingv1.EnqueueWebhookJobRequest) { in.IdempotencyKey = strings.Repeat("k", 256) }},
		{name: "KeyWithASpace", bend: func(in *onboardingv1.EnqueueWebhookJobRequest) { in.IdempotencyKey = "a b" }},
		{name: "NoEvent", bend: func(in *onboardingv1.EnqueueWebhookJobRequest) { in.Event = nil }},
		{name: "EventThatIsNoObject", bend: raw(`[1]`)},
		{name: "EventThatIsNull", bend: raw(`null`)},
		{name: "EventThatIsNoJSON", bend: raw(`{`)},
		{name: "EventWithANUL", bend: raw(`{"a":"\u0000"}`)},
		{name: "EventThatIsTooLarge", bend: raw(`{"a":"` + strings.Repeat("x", 2<<20) + `"}`)},
		{name: "TooManyAttempts", bend: func(in *onboardingv1.EnqueueWebhookJobRequest) { in.MaxAttempts = 26 }},
		{name: "TimeAndDelay", bend: func(in *onboardingv1.EnqueueWebhookJobRequest) {
			in.At, in.Delay = timestamppb.Now(), durationpb.New(time.Second)
		}},
		{name: "S2_04_SubjectThatIsPutOff", bend: func(in *onboardingv1.EnqueueWebhookJobRequest) {
			in.Subject, in.Delay = "s", durationpb.New(time.Second)
		}},
		{name: "DelayOfYears", bend: func(in *onboardingv1.EnqueueWebhookJobRequest) { in.Delay = durationpb.New(1e5 * time.Hour) }},
		{name: "OrganisationThatIsNone", bend: func(in *onboardingv1.EnqueueWebhookJobRequest) { in.OrgId = "acme" }},
	} {
		t.Run(tt.name+"IsRefused", func(t *testing.T) {
			t.Parallel()
			b := setupJobs(t)
			in := order("k")
			tt.bend(in)
			_, err := b.server.EnqueueWebhookJob(b, in)
			refusedJob(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
			require.Zero(t, b.rung)
		})
	}
}

func raw(payload string) func(*onboardingv1.EnqueueWebhookJobRequest) {
	return func(in *onboardingv1.EnqueueWebhookJobRequest) {
		in.Event = &onboardingv1.EnqueueWebhookJobRequest_PayloadJson{PayloadJson: []byte(payload)}
	}
}

func TestWebhookJobs(t *testing.T) {
	t.Parallel()

	t.Run("S2_24_38_UnknownEventTypeFailsAtOnceAndIsListedAndRetried", func(t *testing.T) {
		t.Parallel()
		b := setupJobs(t)
		id := b.enqueue("k")
		b.drain(nil)
		out, err := b.server.ListWebhookJobs(b, &onboardingv1.ListWebhookJobsRequest{Status: "failed"})
		require.NoError(t, err)
		require.Len(t, out.GetJobs(), 1)
		require.Equal(t, id, out.GetJobs()[0].GetJobId())
		require.Contains(t, out.GetJobs()[0].GetErrorMessage(), `no handler for event type "internal.orders.create"`)
		require.Nil(t, out.GetJobs()[0].GetPayload())
		again, err := b.server.RetryWebhookJob(b, &onboardingv1.RetryWebhookJobRequest{JobId: id})
		require.NoError(t, err)
		require.Equal(t, "pending", again.GetJob().GetStatus())
		require.Equal(t, 2, b.rung)
		b.drain(map[string]queue.Handler{"internal.orders.create": func(context.Context, queue.Job) error { return nil }})
		require.Equal(t, "completed", b.get(id).GetStatus())
		_, err = b.server.RetryWebhookJob(b, &onboardingv1.RetryWebhookJobRequest{JobId: id})
		refusedJob(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_WEBHOOK_JOB_STATUS)
		require.ErrorContains(t, err, "completed")
	})

	t.Run("PendingJobIsCancelledAndOneThatIsBeingDoneIsRefused", func(t *testing.T) {
		t.Parallel()
		b := setupJobs(t)
		id := b.enqueue("k")
		out, err := b.server.CancelWebhookJob(b, &onboardingv1.CancelWebhookJobRequest{JobId: id})
		require.NoError(t, err)
		require.Equal(t, "cancelled", out.GetJob().GetStatus())
		running := b.enqueue("l")
		now := b.clock.Now()
		_, err = b.store.Jobs().Claim(t.Context(), queue.Claim{ID: running, Limit: 1, Now: now, Until: now.Add(time.Minute)})
		require.NoError(t, err)
		_, err = b.server.CancelWebhookJob(b, &onboardingv1.CancelWebhookJobRequest{JobId: running})
		refusedJob(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_WEBHOOK_JOB_STATUS)
		require.ErrorContains(t, err, "the job is processing; only one that is pending or failed can be changed so")
	})

	t.Run("WhatAnOperatorIsAskedForStaysUntilTheySayThatItIsDone", func(t *testing.T) {
		t.Parallel()
		b := setupJobs(t)
		asked, failed := b.enqueue("asked"), b.enqueue("failed")
		b.drain(map[string]queue.Handler{"internal.orders.create": func(_ context.Context, j queue.Job) error {
			if j.ID == asked {
				return &queue.Permanent{Cause: errors.New(conversation.NeedsOperator + "erase what is kept")}
			}
			return &queue.Permanent{Cause: errors.New("it cannot be done")}
		}})
		sweep := &queue.Retention{
			Queue: b.store.Jobs(), Keep: conversation.KeptJobs, For: 30 * 24 * time.Hour, Log: slog.New(slog.DiscardHandler), Now: b.clock.Now,
		}
		swept := func() int {
			b.clock.Advance(31 * 24 * time.Hour)
			n, err := sweep.Sweep(b)
			require.NoError(t, err)
			return n
		}
		require.Equal(t, 1, swept())
		require.Equal(t, "needs an operator: erase what is kept", b.get(asked).GetErrorMessage())
		_, err := b.server.GetWebhookJob(b, &onboardingv1.GetWebhookJobRequest{JobId: failed})
		refusedJob(t, err, codes.NotFound, onboardingv1.Reason_REASON_WEBHOOK_JOB_NOT_FOUND)
		out, err := b.server.CancelWebhookJob(b, &onboardingv1.CancelWebhookJobRequest{JobId: asked})
		require.NoError(t, err)
		require.Equal(t, "cancelled", out.GetJob().GetStatus())
		require.Equal(t, "needs an operator: erase what is kept", out.GetJob().GetErrorMessage())
		require.Equal(t, 1, swept())
	})

	t.Run("ListIsReadPageByPage", func(t *testing.T) {
		t.Parallel()
		b := setupJobs(t)
		var all, read []string
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			all = append([]string{b.enqueue(key)}, all...)
		}
		in := &onboardingv1.ListWebhookJobsRequest{PageSize: 2, EventType: "internal.orders.create"}
		for {
			out, err := b.server.ListWebhookJobs(b, in)
			require.NoError(t, err)
			for _, j := range out.GetJobs() {
				read = append(read, j.GetJobId())
			}
			if in.PageToken = out.GetNextPageToken(); in.GetPageToken() == "" {
				break
			}
		}
		require.Equal(t, all, read)
		_, err := b.server.ListWebhookJobs(b, &onboardingv1.ListWebhookJobsRequest{Status: "stuck"})
		refusedJob(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
	})

	t.Run("S2_19_OtherOrganisationSeesNothing", func(t *testing.T) {
		t.Parallel()
		b := setupJobs(t)
		id := b.enqueue("k")
		other := b.as(rpc.RoleOperator, uuid.NewString())
		_, get := b.server.GetWebhookJob(other, &onboardingv1.GetWebhookJobRequest{JobId: id})
		_, retry := b.server.RetryWebhookJob(other, &onboardingv1.RetryWebhookJobRequest{JobId: id})
		_, cancel := b.server.CancelWebhookJob(other, &onboardingv1.CancelWebhookJobRequest{JobId: id})
		for _, err := range []error{get, retry, cancel} {
			refusedJob(t, err, codes.NotFound, onboardingv1.Reason_REASON_WEBHOOK_JOB_NOT_FOUND)
		}
		out, err := b.server.ListWebhookJobs(other, &onboardingv1.ListWebhookJobsRequest{})
		require.NoError(t, err)
		require.Empty(t, out.GetJobs())
		_, err = b.server.GetWebhookJob(b, &onboardingv1.GetWebhookJobRequest{JobId: "1"})
		refusedJob(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
	})
}
