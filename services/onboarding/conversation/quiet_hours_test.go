package conversation_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/hours"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// night returns a person who sleeps while their burst is due: their yes came at 22:30.
func (b *bundle) night() (people.Profile, session.Record) {
	b.T.Helper()
	b.SleepsAtNight()
	p, r := b.Explained()
	b.Turns(22, 30)
	b.Reply(p, "ok")
	b.Work()
	return p, b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(1))
}

// requireWakes holds the newest alarm to the opening, and the burst to beginning then and keeping its pace.
func (b *bundle) requireWakes(p people.Profile, r session.Record) {
	b.T.Helper()
	var due time.Time
	require.NoError(b.T, b.Pool.QueryRow(b.T.Context(),
		`select due_at from step_alarms where session_id = $1 order by generation desc limit 1`, r.ID).Scan(&due))
	require.Equal(b.T, onboardingtest.Morning, due.UTC())
	require.Equal(b.T, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
	b.Clock.Advance(onboardingtest.Morning.Add(-time.Second).Sub(b.Clock.Now()))
	b.Work()
	require.Equal(b.T, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
	b.Pass(time.Second)
	b.Completes(p)
	taken := b.Messaging.Taken(p.Phone)
	require.Equal(b.T, onboardingtest.Morning, taken[2].At)
	require.Equal(b.T, 8*time.Second, taken[3].At.Sub(taken[2].At))
	require.Equal(b.T, 8*time.Second, taken[4].At.Sub(taken[3].At))
}

func TestQuietHours(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "BurstOfALateReplyBeginsInTheMorning", setup, func(t *testing.T, b *bundle) {
		p, r := b.night()
		require.Equal(t, session.KindWaiting, b.Story(r.ID)[len(b.Story(r.ID))-1])
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms`), "deferred by its one alarm")
		b.requireWakes(p, r)
		require.Zero(t, b.Count(`select count(*) from step_alarms where cause <> 'due'`), "no sweeper, no second alarm")
	})

	for _, tt := range []struct {
		name   string
		settle func(b *bundle, p people.Profile)
	}{
		{name: "OffUnlessSet", settle: func(*bundle, people.Profile) {}},
		{name: "AnotherOrganisationsHoursAreTheirs", settle: func(b *bundle, _ people.Profile) {
			_, err := b.Settle(onboardingtest.AnotherOrg, &onboardingv1.QuietHours{Enabled: true})
			require.NoError(b.T, err)
		}},
		{name: "ByThePersonsClock", settle: func(b *bundle, p people.Profile) { // 22:30 is 19:30 there
			b.SleepsAtNight()
			b.Exec(`update profiles set time_zone = 'America/Sao_Paulo' where id = $1`, p.ID)
		}},
	} {
		onboardingtest.Subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, r := b.Explained()
			tt.settle(b, p)
			b.Turns(22, 30)
			b.Reply(p, "ok")
			b.Completes(p)
			b.At(r.ID, session.AwaitingInterviewStart, "")
		})
	}

	onboardingtest.Subtest(t, "NoTextWaitsBehindTheOpeningOfAPersonWhoIsHeld", setup, func(t *testing.T, b *bundle) {
		b.SleepsAtNight()
		b.Turns(23, 0)
		p, r := b.Activated()
		b.Hold(p)
		b.Clock.Advance(onboardingtest.Morning.Sub(b.Clock.Now()))
		b.Pass(2 * time.Minute)
		b.Reply(p, "I want to die")
		require.Equal(t, 1, b.Count(`select count(*) from tickets`))
		b.Reply(p, "STOP")
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
	})

	onboardingtest.Subtest(t, "DefaultHoldsUntilTheOrganisationHasDecided", setup, func(t *testing.T, b *bundle) {
		b.Store.QuietByDefault = hours.DefaultWindow()
		operator := rpc.WithPrincipal(t.Context(), rpc.Principal{Subject: "ada", Role: rpc.RoleOperator, OrgID: onboardingtest.OrgID})
		read, err := b.Current().Server.GetSettings(operator, &onboardingv1.GetSettingsRequest{})
		require.NoError(t, err)
		require.True(t, read.GetSettings().GetQuietHours().GetEnabled())
		require.True(t, read.GetSettings().GetQuietHoursByDefault())
		p, r := b.Explained()
		b.Turns(22, 30)
		b.Reply(p, "ok")
		b.Work()
		b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(1))
		b.Skips(session.SkipQuietHours, onboardingtest.Payload(b.Session(r.ID)))
		explained, err := b.Current().Service.ExplainStep(t.Context(), onboardingtest.OrgID, r.ID)
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(explained.Gates), "the default quiet hours of this installation")
		_, err = b.Settle(onboardingtest.OrgID, &onboardingv1.QuietHours{})
		require.NoError(t, err)
		out, err := b.Execute(onboardingtest.Payload(b.Session(r.ID)))
		require.NoError(t, err)
		require.Empty(t, out.GetSkipReason(), "it has decided to have none")
	})

	onboardingtest.Subtest(t, "RepliesAreAnsweredAtOnce", setup, func(t *testing.T, b *bundle) {
		b.SleepsAtNight()
		p, _ := b.Activated()
		b.Turns(23, 0)
		b.Reply(p, "hi")
		b.Reply(p, "not now")
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.Later}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "ZoneThatIsNotKnownAnyMoreIsThatOfTheNumber", setup, func(t *testing.T, b *bundle) {
		b.SleepsAtNight()
		p, _ := b.Explained()
		b.Exec(`update profiles set time_zone = 'US/Pacific-New' where id = $1`, p.ID)
		b.Turns(22, 30) // half past seven in São Paulo
		b.Reply(p, "ok")
		b.Completes(p)
	})

	onboardingtest.Subtest(t, "NumberOfSeveralZonesWaitsWhileItIsNightInAnyOfThem", setup, func(t *testing.T, b *bundle) {
		b.SleepsAtNight()
		p, r := b.Explained()
		p.Phone = "+12085550123" // Idaho has the clocks of Boise and of Los Angeles
		b.Exec(`update profiles set time_zone = '', phone = $2 where id = $1`, p.ID, p.Phone)
		b.Turns(15, 30) // half past eight in Boise, half past seven in the north
		b.Reply(p, "ok")
		b.Work()
		var due time.Time
		require.NoError(t, b.Pool.QueryRow(t.Context(), `select due_at from step_alarms where session_id = $1 order by generation desc limit 1`, r.ID).Scan(&due))
		require.Equal(t, "16:00", due.UTC().Format("15:04"))
		b.Turns(16, 0)
		b.Work()
		require.NotEmpty(t, b.Messaging.Taken(p.Phone))
	})

	onboardingtest.Subtest(t, "BurstThatHasBegunGoesOn", setup, func(t *testing.T, b *bundle) {
		b.SleepsAtNight()
		p, _ := b.Explained()
		b.Turns(20, 59)
		b.Clock.Advance(55 * time.Second)
		b.Reply(p, "ok")
		b.Completes(p)
		require.Equal(t, 16*time.Second, b.Clock.Now().Sub(b.Messaging.Taken(p.Phone)[2].At))
	})

	onboardingtest.Subtest(t, "BurstWhoseFirstMessageIsNotWrittenDownYetGoesOn", setup, func(t *testing.T, b *bundle) {
		b.SleepsAtNight()
		b.Mute()
		p, r := b.Explained()
		b.Turns(20, 59)
		b.Reply(p, "ok")
		b.Idle()
		body, err := catalog.Default().Render(r.CopyVersion, p.Locale, onboardingtest.First, p.FirstName)
		require.NoError(t, err)
		_, err = b.Carrier.Send(t.Context(), conversation.Message{ // taken, and the process that sent it died
			OrgID: onboardingtest.OrgID, ProfileID: p.ID, To: p.Phone, Body: body, Key: session.Key(p.ID, r.ID, onboardingtest.Step(1)), CorrelationID: "request-0",
			Unknown: b.Flow.UnknownSends(),
		})
		require.NoError(t, err)
		b.Clock.Advance(2 * time.Minute)
		out, err := b.Execute(onboardingtest.Payload(b.Session(r.ID)))
		require.NoError(t, err)
		require.Equal(t, string(session.SkipAlreadySent), out.GetSkipReason())
		b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(2))
	})

	onboardingtest.Subtest(t, "BurstThatWasHeldUpForLongBeginsAnew", setup, func(t *testing.T, b *bundle) {
		b.SleepsAtNight()
		p, r := b.InBurst(2)
		b.Turns(23, 0)
		b.Skips(session.SkipQuietHours, onboardingtest.Payload(r))
		b.Unmute()
		b.Clock.Advance(onboardingtest.Morning.Sub(b.Clock.Now()))
		b.Completes(p)
		require.Equal(t, onboardingtest.Morning, b.Messaging.Taken(p.Phone)[3].At)
	})

	onboardingtest.Subtest(t, "UnreachableMessagingComesBack", setup, func(t *testing.T, b *bundle) {
		_, r := b.night()
		b.Messaging.SetDown(true)
		_, err := b.Execute(onboardingtest.Payload(r))
		onboardingtest.Refused(t, err, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE)
	})
}

func TestAlarmsInQuietHours(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	for _, tt := range []struct {
		name string
		ring func(b *bundle, p people.Profile, r session.Record)
	}{
		{name: "Sweeper", ring: func(*bundle, people.Profile, session.Record) {}},
		{name: "Release", ring: func(b *bundle, p people.Profile, _ session.Record) { b.Hold(p); b.Release(p) }},
		{name: "Resume", ring: func(b *bundle, p people.Profile, r session.Record) {
			b.Exec(`update conversation_sessions set status = 'stuck' where id = $1`, r.ID)
			b.Resumed(r)
		}},
		{name: "ByHand", ring: func(b *bundle, _ people.Profile, r session.Record) {
			b.Skips(session.SkipQuietHours, onboardingtest.Payload(r))
		}},
	} {
		onboardingtest.Subtest(t, "AlarmThatWasLostAndRingsAtNight_"+tt.name, setup, func(t *testing.T, b *bundle) {
			b.SleepsAtNight()
			b.Mute()
			p, r := b.Explained()
			b.Turns(20, 50)
			b.Reply(p, "ok")
			b.Idle() // the alarm was lost
			b.Turns(23, 0)
			b.Unmute()
			tt.ring(b, p, b.Session(r.ID))
			b.Work()
			b.Work()
			require.Equal(t, 1, b.Count(`select count(*) from step_alarms where cause = 'quiet_hours'`))
			require.Equal(t, 1, b.Count(`select count(*) from session_transitions where kind = 'waiting'`))
			b.requireWakes(p, r)
			b.At(r.ID, session.AwaitingInterviewStart, "")
		})
	}

	onboardingtest.Subtest(t, "ManyAtOnceSetNothingMore", setup, func(t *testing.T, b *bundle) {
		p, r := b.night()
		require.NoError(t, onboardingtest.AtOnce(8, func() error {
			out, err := b.Execute(onboardingtest.Payload(r))
			if err == nil && out.GetSkipReason() != string(session.SkipQuietHours) {
				err = fmt.Errorf("%v", out)
			}
			return err
		}))
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms`), "the one that rings in the morning is set already")
		b.requireWakes(p, r)
	})

	onboardingtest.Subtest(t, "AlarmOfAClockThatIsAheadIsSetOnceMore", setup, func(t *testing.T, b *bundle) {
		b.Mute()
		p, r := b.night()
		b.Clock.Advance(onboardingtest.Morning.Add(-300 * time.Millisecond).Sub(b.Clock.Now()))
		b.Unmute()
		for range 3 {
			b.Skips(session.SkipQuietHours, onboardingtest.Payload(r))
		}
		require.Equal(t, 2, b.Count(`select count(*) from step_alarms`))
		b.Pass(30 * time.Second)
		require.Equal(t, onboardingtest.Whole, b.Sequence(p))
		require.False(t, b.Messaging.Taken(p.Phone)[2].At.Before(onboardingtest.Morning))
	})

	onboardingtest.Subtest(t, "HoursThatWereMovedMeanwhileAreWaitedFor", setup, func(t *testing.T, b *bundle) {
		p, r := b.night()
		_, err := b.Settle(onboardingtest.OrgID, &onboardingv1.QuietHours{Enabled: true, Open: "10:00"})
		require.NoError(t, err)
		b.Clock.Advance(onboardingtest.Morning.Sub(b.Clock.Now()))
		b.Work()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
		b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(1))
		b.Clock.Advance(2 * time.Hour)
		b.Quiet()
		require.Equal(t, onboardingtest.Morning.Add(2*time.Hour), b.Messaging.Taken(p.Phone)[2].At)
	})
}

func TestSettings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	reads := func(org string) *onboardingv1.Settings {
		ctx := rpc.WithPrincipal(t.Context(), rpc.Principal{Subject: "ada", Role: rpc.RoleOperator, OrgID: org})
		out, err := b.Current().Server.GetSettings(ctx, &onboardingv1.GetSettingsRequest{})
		require.NoError(t, err)
		return out.GetSettings()
	}
	require.False(t, reads(onboardingtest.OrgID).GetQuietHours().GetEnabled(), "off unless set")
	require.Equal(t, []string{"08:00", "21:00"}, []string{reads(onboardingtest.OrgID).GetQuietHours().GetOpen(), reads(onboardingtest.OrgID).GetQuietHours().GetClose()})
	require.Nil(t, reads(onboardingtest.OrgID).GetUpdatedAt())

	stored, err := b.Settle(onboardingtest.OrgID, &onboardingv1.QuietHours{Enabled: true, Open: "18:00", Close: "02:00"})
	require.NoError(t, err, "a window may go over midnight")
	require.Equal(t, []string{"18:00", "02:00"}, []string{stored.GetQuietHours().GetOpen(), stored.GetQuietHours().GetClose()})
	require.True(t, stored.GetQuietHours().GetEnabled())
	require.Equal(t, b.Clock.Now(), stored.GetUpdatedAt().AsTime())
	require.Equal(t, stored.String(), reads(onboardingtest.OrgID).String())
	require.False(t, reads(onboardingtest.AnotherOrg).GetQuietHours().GetEnabled(), "another organisation's are its own")

	for _, wrong := range []*onboardingv1.QuietHours{
		nil, {Enabled: true, Open: "8:00"}, {Close: "24:00"}, {Open: "09:00", Close: "09:00"}, {Open: "21:00"}, {Open: "18:00\x00"},
	} {
		_, err := b.Settle(onboardingtest.OrgID, wrong)
		onboardingtest.Refused(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
	}
	require.Equal(t, stored.String(), reads(onboardingtest.OrgID).String(), "a refusal changes nothing")
	b.Clock.Advance(time.Hour)
	stored, err = b.Settle(onboardingtest.OrgID, &onboardingv1.QuietHours{})
	require.NoError(t, err)
	require.False(t, stored.GetQuietHours().GetEnabled())
	require.Equal(t, 1, b.Count(`select count(*) from organisation_settings`))
}
