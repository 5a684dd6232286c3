package onboarding_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/apikeys"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/messaging"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/organisations"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// grace is between the end of an organisation and its erasure.
const grace = 30 * 24 * time.Hour

// platform is the service of organisations.
func (b *bundle) platform() *organisations.RPC {
	return &organisations.RPC{
		Organisations: &organisations.Service{
			Store: b.Store.Organisations(), Carrier: b.Carrier, Settings: b.Store.People(), Erasing: b.erasures(), Default: onboardingtest.OrgID,
			Grace: grace, Log: slog.New(slog.DiscardHandler), Now: b.Clock.Now,
		},
		Keys: apikeys.NewStore(b.Pool),
	}
}

// forgetful is a messaging that erases at once.
type forgetful struct{ *messaging.Client }

func (forgetful) MayErase(context.Context, erasure.Person) (string, error) { return "erased:1", nil }

func (forgetful) Erase(context.Context, erasure.Erasure) (string, error) { return "", nil }

func (b *bundle) erasures() *erasure.Service {
	return &erasure.Service{Store: b.Store.Erasures(), Carrier: forgetful{b.Carrier}, Log: slog.New(slog.DiscardHandler), Now: b.Clock.Now}
}

// settles lets the loop pass once.
func (b *bundle) settles() {
	b.T.Helper()
	_, err := b.platform().Organisations.Settle(b.T.Context())
	require.NoError(b.T, err)
}

func (b *bundle) suspends(id string) (*onboardingv1.Organisation, error) {
	out, err := b.platform().SuspendOrganisation(b.T.Context(), &onboardingv1.SuspendOrganisationRequest{OrgId: id, Reason: "unpaid"})
	return out.GetOrganisation(), err
}

func (b *bundle) resumes(id string) (*onboardingv1.Organisation, error) {
	out, err := b.platform().ResumeOrganisation(b.T.Context(), &onboardingv1.ResumeOrganisationRequest{OrgId: id})
	return out.GetOrganisation(), err
}

func (b *bundle) ends(id string) (*onboardingv1.Organisation, error) {
	rooms := b.platform()
	rooms.Organisations.Default = onboardingtest.NewID() // which does not end
	out, err := rooms.EndOrganisation(b.T.Context(), &onboardingv1.EndOrganisationRequest{OrgId: id, Reason: "left"})
	return out.GetOrganisation(), err
}

func TestSuspension(t *testing.T) {
	t.Parallel()
	const org = onboardingtest.OrgID

	onboardingtest.Subtest(t, "KeepsABurstThatGoesOnAfterwards", setup, func(t *testing.T, b *bundle) {
		b.settles()
		p, r := b.InBurst(2)
		b.Unmute()
		o, err := b.suspends(org)
		require.NoError(t, err)
		require.Equal(t, []string{"suspended", "unpaid", ""}, []string{o.GetStatus(), o.GetReason(), o.GetChangesTo()})
		b.Pass(10 * time.Minute)
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
		require.Equal(t, session.Active, b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(2)).Status)

		e, err := b.Current().Service.ExplainStep(t.Context(), org, r.ID)
		require.NoError(t, err)
		require.Equal(t, "scheduling_paused", e.Outcome)
		require.Equal(t, "those who run this deployment resume the organisation", e.Advice)
		require.False(t, b.Unpauses(), "its operators cannot lift it")

		o, err = b.resumes(org)
		require.NoError(t, err)
		require.Equal(t, "active", o.GetStatus())
		b.Completes(p)
	})

	onboardingtest.Subtest(t, "KeepsTheAnswerToAText", setup, func(t *testing.T, b *bundle) {
		b.settles()
		p, r := b.Activated()
		_, err := b.suspends(org)
		require.NoError(t, err)
		b.Reply(p, "Sure")
		b.Pass(40 * time.Minute)
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
		b.At(r.ID, session.AwaitingOpeningResponse, "")
		_, err = b.resumes(org)
		require.NoError(t, err)
		b.Pass(2 * time.Minute)
		b.At(r.ID, session.AwaitingExplanationResponse, "")
		b.Reply(p, "ok")
		b.Completes(p)
	})

	onboardingtest.Subtest(t, "HeedsSTOPAndRefusesActivation", setup, func(t *testing.T, b *bundle) {
		b.settles()
		p, r := b.InBurst(2)
		_, err := b.suspends(org)
		require.NoError(t, err)
		b.Reply(p, "STOP")
		b.Pass(time.Minute)
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
		other := b.Person()
		_, err = onboardingtest.Ask(b.Bundle, b.Current().Server.ActivateProfile, &onboardingv1.ActivateProfileRequest{ProfileId: other.ID})
		require.ErrorContains(t, err, people.ErrSuspended.Error())
	})

	onboardingtest.Subtest(t, "IsToldUntilMessagingKnows", setup, func(t *testing.T, b *bundle) {
		b.settles()
		b.Messaging.SetDown(true)
		_, err := b.suspends(org)
		require.ErrorIs(t, err, organisations.ErrNotTold)
		got, err := b.platform().GetOrganisation(t.Context(), &onboardingv1.GetOrganisationRequest{OrgId: org})
		require.NoError(t, err)
		require.Equal(t, []string{"active", "suspended"}, []string{got.GetOrganisation().GetStatus(), got.GetOrganisation().GetChangesTo()})
		b.Messaging.SetDown(false)
		b.settles()
		status, version := b.Messaging.Status()
		require.Equal(t, "suspended", status)
		got, err = b.platform().GetOrganisation(t.Context(), &onboardingv1.GetOrganisationRequest{OrgId: org})
		require.NoError(t, err)
		require.Equal(t, []string{"suspended", ""}, []string{got.GetOrganisation().GetStatus(), got.GetOrganisation().GetChangesTo()})

		// a process that died between messaging and the row
		o, err := b.Store.Organisations().Change(t.Context(), org, organisations.Active, "", b.Clock.Now(), time.Time{})
		require.NoError(t, err)
		require.NoError(t, b.Carrier.SetOrganisation(t.Context(), org, organisations.Active, o.Version))
		require.NoError(t, b.Carrier.SetOrganisation(t.Context(), org, organisations.Suspended, version), "told late, which changes nothing")
		b.settles()
		status, _ = b.Messaging.Status()
		require.Equal(t, "active", status)
		require.Zero(t, b.Count(`select count(*) from organisations where status <> 'active' or next_try_at is not null`))
	})

	onboardingtest.Subtest(t, "OfAnEndIsTakenBackWithinTheGracePeriodOnly", setup, func(t *testing.T, b *bundle) {
		b.settles()
		first, err := b.ends(org)
		require.NoError(t, err)
		b.Clock.Advance(time.Hour)
		again, err := b.ends(org)
		require.NoError(t, err)
		require.Equal(t, first.GetEraseAfter().AsTime(), again.GetEraseAfter().AsTime(), "a repeat changes nothing")
		_, err = b.suspends(org)
		require.ErrorIs(t, err, organisations.ErrEnded)
		status, err := b.platform().GetOrganisationStatus(t.Context(), &onboardingv1.GetOrganisationStatusRequest{OrgId: org})
		require.NoError(t, err)
		require.Equal(t, "ended", status.GetStatus())
		b.Exec(`insert into organisation_settings (org_id, sending, version, updated_at) values ($1, '{}', 1, $2)`, org, b.Clock.Now())
		o, err := b.resumes(org)
		require.NoError(t, err)
		require.Equal(t, "active", o.GetStatus())
		require.Equal(t, 1, b.Count(`select count(*) from organisation_settings where tell_at is not null`), "messaging is told again")
		require.Nil(t, o.GetEraseAfter())

		_, err = b.ends(org)
		require.NoError(t, err)
		b.Clock.Advance(grace)
		_, err = b.resumes(org)
		require.ErrorIs(t, err, organisations.ErrErased)
	})
}

// TestErasedOrganisation ends an organisation while its bursts run, and finds nothing of it after the grace period.
func TestErasedOrganisation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.settles()
	p, _ := b.InBurst(2)
	held := b.Person()
	b.Exec(`update profiles set legal_hold_at = $2, legal_hold_reason = 'a case' where id = $1`, held.ID, b.Clock.Now())
	b.Exec(`insert into saved_replies (id, org_id, title, body, created_at, updated_at, updated_by) values ($1, $2, 't', 'b', $3, $3, 'ada')`,
		onboardingtest.NewID(), onboardingtest.OrgID, b.Clock.Now())
	other := onboardingtest.NewID()
	b.Exec(`insert into saved_replies (id, org_id, title, body, created_at, updated_at, updated_by) values ($1, $2, 't', 'b', $3, $3, 'ada')`,
		onboardingtest.NewID(), other, b.Clock.Now())
	_, err := b.ends(onboardingtest.OrgID)
	require.NoError(t, err)
	pass := func() {
		b.settles()
		_, err := b.erasures().Settle(t.Context())
		require.NoError(t, err)
		b.Clock.Advance(10 * time.Minute)
	}
	b.Clock.Advance(grace - time.Hour)
	b.Work()
	pass()
	require.Equal(t, 2, b.Count(`select count(*) from profiles`))
	require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))

	b.Clock.Advance(time.Hour)
	for range 4 {
		pass()
	}
	require.Equal(t, 1, b.Count(`select count(*) from profiles`), "a legal hold keeps a person")
	waits := func() string {
		got, err := b.platform().GetOrganisation(t.Context(), &onboardingv1.GetOrganisationRequest{OrgId: onboardingtest.OrgID})
		require.NoError(t, err)
		return got.GetOrganisation().GetWaitsFor()
	}
	require.Equal(t, "1 people who are being erased or on legal hold", waits())
	b.Exec(`update profiles set legal_hold_at = null, legal_hold_reason = '' where id = $1`, held.ID)
	b.Messaging.SetDown(true)
	for range 8 {
		_, err = b.platform().Organisations.Settle(t.Context())
		_, erasing := b.erasures().Settle(t.Context())
		require.NoError(t, erasing)
		b.Clock.Advance(10 * time.Minute)
	}
	require.ErrorIs(t, err, people.ErrUnavailable)
	require.Equal(t, "messaging, which has the credentials of its senders", waits())
	require.Zero(t, b.Count(`select count(*) from profiles`))
	require.Equal(t, 2, b.Count(`select count(*) from saved_replies`), "nothing is erased before messaging has forgotten its senders")
	b.Messaging.SetDown(false)
	pass()
	require.Equal(t, "numbers without a profile, which messaging erases", waits())
	require.Equal(t, 2, b.Count(`select count(*) from saved_replies`), "nothing before these either")
	for range 8 {
		pass()
	}
	require.True(t, b.Messaging.Forgotten())
	got, err := b.platform().GetOrganisation(t.Context(), &onboardingv1.GetOrganisationRequest{OrgId: onboardingtest.OrgID})
	require.NoError(t, err)
	require.NotNil(t, got.GetOrganisation().GetErasedAt(), got.GetOrganisation().GetWaitsFor())
	require.Zero(t, b.Count(`select count(*) from profiles`))
	require.Equal(t, 1, b.Count(`select count(*) from saved_replies`), "that of another organisation")
	require.Zero(t, b.Count(`select (select count(*) from webhook_jobs) + (select count(*) from events) + (select count(*) from api_keys)`))
	_, err = b.resumes(onboardingtest.OrgID)
	require.ErrorIs(t, err, organisations.ErrErased)
}

func TestOrganisations(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.settles()
	b.settles()
	root := rpc.WithPrincipal(t.Context(), rpc.Principal{Subject: "root", Role: rpc.RolePlatform})
	rooms := b.platform()
	made, err := rooms.CreateOrganisation(root, &onboardingv1.CreateOrganisationRequest{Name: "Acme"})
	require.NoError(t, err)
	require.True(t, made.GetCreated())
	id := made.GetOrganisation().GetOrgId()
	again, err := rooms.CreateOrganisation(root, &onboardingv1.CreateOrganisationRequest{Name: "Other", OrgId: id})
	require.NoError(t, err)
	require.False(t, again.GetCreated())
	require.Equal(t, "Acme", again.GetOrganisation().GetName())
	list, err := rooms.ListOrganisations(root, &onboardingv1.ListOrganisationsRequest{PageSize: 1})
	require.NoError(t, err)
	require.Len(t, list.GetOrganisations(), 1)
	list, err = rooms.ListOrganisations(root, &onboardingv1.ListOrganisationsRequest{PageSize: 1, PageToken: list.GetNextPageToken()})
	require.NoError(t, err)
	require.Empty(t, list.GetNextPageToken(), "the default organisation has one row")

	_, err = rooms.EndOrganisation(root, &onboardingv1.EndOrganisationRequest{OrgId: onboardingtest.OrgID, Reason: "left"})
	require.ErrorIs(t, err, organisations.ErrDefault)

	_, err = rooms.CreateFirstKey(root, &onboardingv1.CreateFirstKeyRequest{OrgId: onboardingtest.NewID(), Name: "admin"})
	require.ErrorIs(t, err, organisations.ErrNotFound)
	_, err = rooms.CreateFirstKey(root, &onboardingv1.CreateFirstKeyRequest{OrgId: id, Name: "admin"})
	require.NoError(t, err)
	_, err = rooms.CreateFirstKey(root, &onboardingv1.CreateFirstKeyRequest{OrgId: id, Name: "admin"})
	require.ErrorIs(t, err, organisations.ErrHasKey)

	status, err := rooms.GetOrganisationStatus(t.Context(), &onboardingv1.GetOrganisationStatusRequest{OrgId: onboardingtest.NewID()})
	require.NoError(t, err)
	require.Equal(t, "active", status.GetStatus(), "tokens of an organisation without a row go on working")
}

// TestMovedOrganisation: paceline org move decides about it, and what gateways are told depends on how far that is.
func TestMovedOrganisation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	root := rpc.WithPrincipal(t.Context(), rpc.Principal{Subject: "root", Role: rpc.RolePlatform})
	made, err := b.platform().CreateOrganisation(root, &onboardingv1.CreateOrganisationRequest{Name: "Acme"})
	require.NoError(t, err)
	id := made.GetOrganisation().GetOrgId()
	for _, c := range []struct{ state, wanted, want string }{
		{"leaving", "active", "moving"},
		{"leaving", "suspended", "moved"},
		{"left", "suspended", "moved"},
		{"arriving", "suspended", "moved"},
		{"released", "suspended", "moved"},
	} {
		b.Exec(`update organisations set status = $2, wanted = $2, move = jsonb_build_object('state', $3::text) where org_id = $1`, id, c.wanted, c.state)
		status, err := b.platform().GetOrganisationStatus(t.Context(), &onboardingv1.GetOrganisationStatusRequest{OrgId: id})
		require.NoError(t, err)
		require.Equal(t, c.want, status.GetStatus())
		if c.wanted == "suspended" {
			_, err = b.resumes(id)
			require.ErrorIs(t, err, organisations.ErrMoved, c.state)
		}
		_, err = b.ends(id)
		if c.state == "released" {
			require.NoError(t, err, "its rows may be erased")
			continue
		}
		require.ErrorIs(t, err, organisations.ErrMoved, c.state)
	}
}
