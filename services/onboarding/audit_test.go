package onboarding_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	auditv1 "paceline.internal/proto/gen/paceline/audit/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/onboardingtest"
)

const onboardingMethods = "paceline.onboarding.v1.OnboardingService/"

// Not parallel inside: each part looks at what the ones before have left.
func TestAudit(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t)
		t.Cleanup(w.run())
		return w
	}
	// listed returns the entries that an operator is shown, without their own calls of ListAudit.
	listed := func(t *testing.T, w *world, in *onboardingv1.ListAuditRequest) (entries []*auditv1.AuditEntry) {
		t.Helper()
		found, err := w.client.ListAudit(w.operator(), in)
		require.NoError(t, err)
		for _, e := range found.GetEntries() {
			if e.GetMethod() != onboardingMethods+"ListAudit" {
				entries = append(entries, e)
			}
		}
		return entries
	}

	onboardingtest.Subtest(t, "AChangeAndAReadLeaveWhoWhatAndAboutWhom", setup, func(t *testing.T, w *world) {
		p, s := w.enrolled("+5511987650001")
		caller := rpc.Principal{Subject: "ada", Role: rpc.RoleOperator, OrgID: onboardingtest.OrgID, Client: "192.0.2.7"}
		ctx := rpc.WithPrincipal(telemetry.WithRequestID(t.Context(), "r-1"), caller)
		_, err := w.client.GetSession(ctx, &onboardingv1.GetSessionRequest{SessionId: s.GetSessionId()})
		require.NoError(t, err)
		_, err = w.client.GetSession(ctx, &onboardingv1.GetSessionRequest{SessionId: onboardingtest.NewID()})
		require.Equal(t, codes.NotFound, status.Code(err))
		_, err = w.client.GetSession(w.as(rpc.RoleUser, p.GetProfileId(), onboardingtest.OrgID), &onboardingv1.GetSessionRequest{SessionId: s.GetSessionId()})
		require.NoError(t, err)

		found := listed(t, w, &onboardingv1.ListAuditRequest{Method: onboardingMethods + "GetSession"})
		require.Len(t, found, 2, "the person's own reading is not kept")
		require.Equal(t, []string{"NotFound", "OK"}, []string{found[0].GetOutcome(), found[1].GetOutcome()})
		require.Equal(t, s.GetSessionId(), found[1].GetTargetId())
		require.Equal(t, p.GetProfileId(), found[1].GetProfileId(), "as the answer says")
		actor := found[1].GetActor()
		require.Equal(t, []string{"ada", "operator", "192.0.2.7", "r-1"},
			[]string{actor.GetSubject(), actor.GetRole(), actor.GetClientAddress(), actor.GetRequestId()})
		require.Equal(t, w.clock.Now(), found[1].GetAt().AsTime())

		created := listed(t, w, &onboardingv1.ListAuditRequest{ProfileId: p.GetProfileId(), Method: onboardingMethods + "CreateProfile"})
		require.Len(t, created, 1)
		require.Equal(t, "+5511987650001", created[0].GetPhone())
		require.Equal(t, "127.0.0.1", created[0].GetActor().GetClientAddress(), "of a direct call, the peer")
		require.Len(t, listed(t, w, &onboardingv1.ListAuditRequest{Phone: "+5511987650001"}), 1)
		require.Len(t, listed(t, w, &onboardingv1.ListAuditRequest{TargetId: s.GetSessionId(), Subject: "ada"}), 1)
		require.Empty(t, listed(t, w, &onboardingv1.ListAuditRequest{Until: timestamppb.New(w.clock.Now())}))
		require.NotEmpty(t, listed(t, w, &onboardingv1.ListAuditRequest{Since: timestamppb.New(w.clock.Now())}))

		for _, e := range listed(t, w, &onboardingv1.ListAuditRequest{Changes: true}) {
			require.NotContains(t, e.GetMethod(), "/Get")
		}
		require.Len(t, listed(t, w, &onboardingv1.ListAuditRequest{Changes: true, ProfileId: p.GetProfileId(), Phone: "+5511987650001"}), 1)
		require.Empty(t, listed(t, w, &onboardingv1.ListAuditRequest{Changes: true, Method: onboardingMethods + "GetSession"}))

		_, err = w.client.ExplainSession(ctx, &onboardingv1.ExplainSessionRequest{SessionId: s.GetSessionId()})
		require.NoError(t, err)
		require.Len(t, listed(t, w, &onboardingv1.ListAuditRequest{ProfileId: p.GetProfileId(), Method: onboardingMethods + "ExplainSession"}), 1)

		own, err := w.client.ListAudit(w.operator(), &onboardingv1.ListAuditRequest{Method: onboardingMethods + "ListAudit", PageSize: 1})
		require.NoError(t, err)
		require.Empty(t, own.GetEntries()[0].GetOutcome(), "this very call, which is under way")
	})

	onboardingtest.Subtest(t, "WhatACallWritesSaysWhoMadeIt", setup, func(t *testing.T, w *world) {
		p, s := w.enrolled("+5511987650001")
		_, err := w.client.HoldProfile(w.operator(), &onboardingv1.HoldProfileRequest{ProfileId: p.GetProfileId(), Reason: "asked for"})
		require.NoError(t, err)
		got, err := w.client.GetSession(w.operator(), &onboardingv1.GetSessionRequest{SessionId: s.GetSessionId()})
		require.NoError(t, err)
		for _, e := range got.GetTimeline() {
			require.Equal(t, "operator-1", e.GetActor().GetSubject(), e.GetKind())
			require.Equal(t, "operator", e.GetActor().GetRole())
			require.NotEmpty(t, e.GetActor().GetRequestId())
		}
		require.NotEmpty(t, got.GetTimeline())
		own, err := w.client.GetSession(w.as(rpc.RoleUser, p.GetProfileId(), onboardingtest.OrgID), &onboardingv1.GetSessionRequest{SessionId: s.GetSessionId()})
		require.NoError(t, err)
		require.Nil(t, own.GetTimeline()[0].GetActor(), "where operators call from is not for the person")

		settings, err := w.client.UpdateSettings(w.operator(), &onboardingv1.UpdateSettingsRequest{
			Settings: &onboardingv1.Settings{QuietHours: &onboardingv1.QuietHours{Enabled: true}},
		})
		require.NoError(t, err)
		require.Equal(t, "operator-1", settings.GetSettings().GetUpdatedBy().GetSubject())
		seen, err := w.client.GetSettings(w.as(rpc.RoleApp, "shop", onboardingtest.OrgID), &onboardingv1.GetSettingsRequest{})
		require.NoError(t, err)
		require.Nil(t, seen.GetSettings().GetUpdatedBy())

		jobs := onboardingv1.NewWebhookJobServiceClient(w.conn)
		stored, err := jobs.EnqueueWebhookJob(w.operator(), &onboardingv1.EnqueueWebhookJobRequest{
			Source: "internal", EventType: "internal.x", IdempotencyKey: "k", Delay: nil,
			Event: &onboardingv1.EnqueueWebhookJobRequest_Payload{Payload: &structpb.Struct{}}, At: timestamppb.New(w.clock.Now().Add(time.Hour)),
		})
		require.NoError(t, err)
		cancelled, err := jobs.CancelWebhookJob(w.as(rpc.RoleOperator, "operator-2", onboardingtest.OrgID), &onboardingv1.CancelWebhookJobRequest{JobId: stored.GetJobId()})
		require.NoError(t, err)
		require.Equal(t, "operator-2", cancelled.GetJob().GetActor().GetSubject())
		require.Len(t, listed(t, w, &onboardingv1.ListAuditRequest{TargetId: stored.GetJobId()}), 2, "stored, and cancelled")
	})

	onboardingtest.Subtest(t, "ACallThatCannotBeKeptIsNotMade", setup, func(t *testing.T, w *world) {
		p, _ := w.enrolled("+5511987650001")
		_, err := pgtest.Owner(t, w.pool).Exec(t.Context(), `alter table audit add constraint full_disk check (subject <> 'ada')`)
		require.NoError(t, err)
		ada := w.as(rpc.RoleOperator, "ada", onboardingtest.OrgID)
		_, err = w.client.HoldProfile(ada, &onboardingv1.HoldProfileRequest{ProfileId: p.GetProfileId()})
		require.Equal(t, codes.Unavailable, status.Code(err))
		_, err = w.client.GetProfile(ada, &onboardingv1.GetProfileRequest{ProfileId: p.GetProfileId()})
		require.Equal(t, codes.Unavailable, status.Code(err))
		got, err := w.client.GetProfile(w.operator(), &onboardingv1.GetProfileRequest{ProfileId: p.GetProfileId()})
		require.NoError(t, err)
		require.False(t, got.GetProfile().GetHold())
	})

	onboardingtest.Subtest(t, "OrganisationsSeeTheirOwn", setup, func(t *testing.T, w *world) {
		p, _ := w.enrolled("+5511987650001")
		w.messaging.Kept(onboardingtest.OrgID, kept(w.clock.Now(), "operator-1"))
		elsewhere := w.as(rpc.RoleOperator, "operator-2", onboardingtest.NewID())
		_, err := w.client.GetProfile(elsewhere, &onboardingv1.GetProfileRequest{ProfileId: p.GetProfileId()})
		require.Equal(t, codes.NotFound, status.Code(err))
		theirs, err := w.client.ListAudit(elsewhere, &onboardingv1.ListAuditRequest{})
		require.NoError(t, err)
		for _, e := range theirs.GetEntries() {
			require.Equal(t, "operator-2", e.GetActor().GetSubject())
		}
		for _, e := range listed(t, w, &onboardingv1.ListAuditRequest{}) {
			require.Equal(t, "operator-1", e.GetActor().GetSubject())
		}
	})

	onboardingtest.Subtest(t, "PagesMergeWhatBothServicesHaveKept", setup, func(t *testing.T, w *world) {
		var want []string
		for i := range 7 {
			w.clock.Advance(time.Second)
			if i%2 == 0 {
				e := kept(w.clock.Now(), "operator-1")
				w.messaging.Kept(onboardingtest.OrgID, e)
				want = append(want, e.GetMethod())
				continue
			}
			_, err := w.client.ListDeadLetters(w.operator(), &onboardingv1.ListDeadLettersRequest{})
			require.NoError(t, err)
			want = append(want, onboardingMethods+"ListDeadLetters")
		}
		end := timestamppb.New(w.clock.Now().Add(time.Microsecond))
		w.clock.Advance(time.Second)
		var got []string
		in := &onboardingv1.ListAuditRequest{PageSize: 2, Until: end}
		for {
			page, err := w.client.ListAudit(w.operator(), in)
			require.NoError(t, err)
			for _, e := range page.GetEntries() {
				got = append([]string{e.GetMethod()}, got...)
			}
			if in.PageToken = page.GetNextPageToken(); in.GetPageToken() == "" {
				break
			}
		}
		require.Equal(t, want, got)

		w.messaging.SetDown(true)
		_, err := w.client.ListAudit(w.operator(), &onboardingv1.ListAuditRequest{})
		onboardingtest.Refused(t, err, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE)
	})

	onboardingtest.Subtest(t, "WhatIsNoFilterIsRefused", setup, func(t *testing.T, w *world) {
		for _, in := range []*onboardingv1.ListAuditRequest{
			{ProfileId: "ada"},
			{TargetId: "x"},
			{Method: "HoldProfile"},
			{Phone: "123"},
			{Subject: "a\x00b"},
			{PageSize: 501},
			{PageToken: "x"},
			{Since: &timestamppb.Timestamp{Seconds: 1 << 40}},
		} {
			_, err := w.client.ListAudit(w.operator(), in)
			onboardingtest.Refused(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
		}
	})
}

// kept is an entry of messaging's.
func kept(at time.Time, subject string) *auditv1.AuditEntry {
	return &auditv1.AuditEntry{
		AuditId: uuid.NewString(), At: timestamppb.New(at), Actor: &auditv1.Actor{Subject: subject, Role: "operator"},
		Method: "paceline.messaging.v1.MessagingService/GetMessage", Outcome: "OK",
	}
}
