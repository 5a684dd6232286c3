package onboarding_test

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
	"paceline.internal/services/onboarding/session"
)

const anotherOrg = "00000000-0000-7000-8000-000000000002"

// settle has the organisation decide its quiet hours.
func (b *bundle) settle(org string, hours *onboardingv1.QuietHours) (*onboardingv1.Settings, error) {
	b.t.Helper()
	ctx := rpc.WithPrincipal(b.t.Context(), rpc.Principal{Subject: "ada", Role: rpc.RoleOperator, OrgID: org})
	out, err := b.current().server.UpdateSettings(ctx, &onboardingv1.UpdateSettingsRequest{Settings: &onboardingv1.Settings{QuietHours: hours}})
	return out.GetSettings(), err
}

// sleepsAtNight has the organisation keep to 08:00 to 21:00.
func (b *bundle) sleepsAtNight() {
	b.t.Helper()
	_, err := b.settle(orgID, &onboardingv1.QuietHours{Enabled: true})
	require.NoError(b.t, err)
}

// turns sets the clock forward to a time of the day in UTC, today or tomorrow.
func (b *bundle) turns(hour, minute int) {
	b.t.Helper()
	now := b.clock.Now()
	then := time.Date(now.Year(), now.Month(), now.Day(), hour, minute, 0, 0, time.UTC)
	if then.Before(now) {
		then = then.Add(24 * time.Hour)
	}
	b.clock.Advance(then.Sub(now))
	b.idle()
}

// night is a person whose burst is due and who sleeps: their yes came at 22:30.
func (b *bundle) night() (conversation.Profile, session.Record) {
	b.t.Helper()
	b.sleepsAtNight()
	p, r := b.explained()
	b.turns(22, 30)
	b.reply(p, "ok")
	b.work()
	return p, b.at(r.ID, session.AwaitingBurst, step(1))
}

var morning = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

// requireWakes holds the newest alarm to the opening, and the burst to beginning then and keeping its pace.
func (b *bundle) requireWakes(p conversation.Profile, r session.Record) {
	b.t.Helper()
	var due time.Time
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(),
		`select due_at from step_alarms where session_id = $1 order by generation desc limit 1`, r.ID).Scan(&due))
	require.Equal(b.t, morning, due.UTC())
	require.Equal(b.t, []string{opening, explanation}, b.sequence(p))
	b.clock.Advance(morning.Add(-time.Second).Sub(b.clock.Now()))
	b.work()
	require.Equal(b.t, []string{opening, explanation}, b.sequence(p))
	b.pass(time.Second)
	b.completes(p)
	taken := b.messaging.Taken(p.Phone)
	require.Equal(b.t, morning, taken[2].At)
	require.Equal(b.t, 8*time.Second, taken[3].At.Sub(taken[2].At))
	require.Equal(b.t, 8*time.Second, taken[4].At.Sub(taken[3].At))
}

func TestQuietHours(t *testing.T) {
	t.Parallel()

	subtest(t, "BurstOfALateReplyBeginsInTheMorning", setup, func(t *testing.T, b *bundle) {
		p, r := b.night()
		require.Equal(t, session.KindWaiting, b.story(r.ID)[len(b.story(r.ID))-1])
		require.Equal(t, 1, b.count(`select count(*) from step_alarms`), "deferred by its one alarm")
		b.requireWakes(p, r)
		require.Zero(t, b.count(`select count(*) from step_alarms where cause <> 'due'`), "no sweeper, no second alarm")
	})

	for _, tt := range []struct {
		name   string
		settle func(b *bundle, p conversation.Profile)
	}{
		{name: "OffUnlessSet", settle: func(*bundle, conversation.Profile) {}},
		{name: "AnotherOrganisationsHoursAreTheirs", settle: func(b *bundle, _ conversation.Profile) {
			_, err := b.settle(anotherOrg, &onboardingv1.QuietHours{Enabled: true})
			require.NoError(b.t, err)
		}},
		{name: "ByThePersonsClock", settle: func(b *bundle, p conversation.Profile) { // 22:30 is 19:30 there
			b.sleepsAtNight()
			b.exec(`update profiles set time_zone = 'America/Sao_Paulo' where id = $1`, p.ID)
		}},
	} {
		subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, r := b.explained()
			tt.settle(b, p)
			b.turns(22, 30)
			b.reply(p, "ok")
			b.completes(p)
			b.at(r.ID, session.AwaitingInterviewStart, "")
		})
	}

	subtest(t, "DefaultHoldsUntilTheOrganisationHasDecided", setup, func(t *testing.T, b *bundle) {
		b.store.QuietByDefault = hours.DefaultWindow()
		operator := rpc.WithPrincipal(t.Context(), rpc.Principal{Subject: "ada", Role: rpc.RoleOperator, OrgID: orgID})
		read, err := b.current().server.GetSettings(operator, &onboardingv1.GetSettingsRequest{})
		require.NoError(t, err)
		require.True(t, read.GetSettings().GetQuietHours().GetEnabled())
		require.True(t, read.GetSettings().GetQuietHoursByDefault())
		p, r := b.explained()
		b.turns(22, 30)
		b.reply(p, "ok")
		b.work()
		b.at(r.ID, session.AwaitingBurst, step(1))
		b.skips(session.SkipQuietHours, payload(b.session(r.ID)))
		explained, err := b.current().service.ExplainStep(t.Context(), orgID, r.ID)
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(explained.Gates), "the default quiet hours of this installation")
		_, err = b.settle(orgID, &onboardingv1.QuietHours{})
		require.NoError(t, err)
		out, err := b.execute(payload(b.session(r.ID)))
		require.NoError(t, err)
		require.Empty(t, out.GetSkipReason(), "it has decided to have none")
	})

	subtest(t, "RepliesAreAnsweredAtOnce", setup, func(t *testing.T, b *bundle) {
		b.sleepsAtNight()
		p, _ := b.activated()
		b.turns(23, 0)
		b.reply(p, "hi")
		b.reply(p, "not now")
		require.Equal(t, []string{opening, explanation, later}, b.sequence(p))
	})

	subtest(t, "ZoneThatIsNotKnownAnyMoreIsThatOfTheNumber", setup, func(t *testing.T, b *bundle) {
		b.sleepsAtNight()
		p, _ := b.explained()
		b.exec(`update profiles set time_zone = 'US/Pacific-New' where id = $1`, p.ID)
		b.turns(22, 30) // half past seven in São Paulo
		b.reply(p, "ok")
		b.completes(p)
	})

	subtest(t, "NumberOfSeveralZonesWaitsWhileItIsNightInAnyOfThem", setup, func(t *testing.T, b *bundle) {
		b.sleepsAtNight()
		p, r := b.explained()
		p.Phone = "+12085550123" // Idaho has the clocks of Boise and of Los Angeles
		b.exec(`update profiles set time_zone = '', phone = $2 where id = $1`, p.ID, p.Phone)
		b.turns(15, 30) // half past eight in Boise, half past seven in the north
		b.reply(p, "ok")
		b.work()
		var due time.Time
		require.NoError(t, b.pool.QueryRow(t.Context(), `select due_at from step_alarms where session_id = $1 order by generation desc limit 1`, r.ID).Scan(&due))
		require.Equal(t, "16:00", due.UTC().Format("15:04"))
		b.turns(16, 0)
		b.work()
		require.NotEmpty(t, b.messaging.Taken(p.Phone))
	})

	subtest(t, "BurstThatHasBegunGoesOn", setup, func(t *testing.T, b *bundle) {
		b.sleepsAtNight()
		p, _ := b.explained()
		b.turns(20, 59)
		b.clock.Advance(55 * time.Second)
		b.reply(p, "ok")
		b.completes(p)
		require.Equal(t, 16*time.Second, b.clock.Now().Sub(b.messaging.Taken(p.Phone)[2].At))
	})

	subtest(t, "BurstWhoseFirstMessageIsNotWrittenDownYetGoesOn", setup, func(t *testing.T, b *bundle) {
		b.sleepsAtNight()
		b.mute()
		p, r := b.explained()
		b.turns(20, 59)
		b.reply(p, "ok")
		b.idle()
		body, err := catalog.Default().Render(r.CopyVersion, p.Locale, first, p.FirstName)
		require.NoError(t, err)
		_, err = b.carrier.Send(t.Context(), conversation.Message{ // taken, and the process that sent it died
			OrgID: orgID, ProfileID: p.ID, To: p.Phone, Body: body, Key: session.Key(p.ID, r.ID, step(1)), CorrelationID: "request-0",
			Unknown: b.flow.UnknownSends(),
		})
		require.NoError(t, err)
		b.clock.Advance(2 * time.Minute)
		out, err := b.execute(payload(b.session(r.ID)))
		require.NoError(t, err)
		require.Equal(t, string(session.SkipAlreadySent), out.GetSkipReason())
		b.at(r.ID, session.AwaitingBurst, step(2))
	})

	subtest(t, "BurstThatWasHeldUpForLongBeginsAnew", setup, func(t *testing.T, b *bundle) {
		b.sleepsAtNight()
		p, r := b.inBurst(2)
		b.turns(23, 0)
		b.skips(session.SkipQuietHours, payload(r))
		b.unmute()
		b.clock.Advance(morning.Sub(b.clock.Now()))
		b.completes(p)
		require.Equal(t, morning, b.messaging.Taken(p.Phone)[3].At)
	})

	subtest(t, "UnreachableMessagingComesBack", setup, func(t *testing.T, b *bundle) {
		_, r := b.night()
		b.messaging.SetDown(true)
		_, err := b.execute(payload(r))
		refuses(t, err, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE)
	})
}

func TestAlarmsInQuietHours(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	for _, tt := range []struct {
		name string
		ring func(b *bundle, p conversation.Profile, r session.Record)
	}{
		{name: "Sweeper", ring: func(*bundle, conversation.Profile, session.Record) {}},
		{name: "Release", ring: func(b *bundle, p conversation.Profile, _ session.Record) { b.hold(p); b.release(p) }},
		{name: "Resume", ring: func(b *bundle, p conversation.Profile, r session.Record) {
			b.exec(`update conversation_sessions set status = 'stuck' where id = $1`, r.ID)
			b.resumed(r)
		}},
		{name: "ByHand", ring: func(b *bundle, _ conversation.Profile, r session.Record) { b.skips(session.SkipQuietHours, payload(r)) }},
	} {
		subtest(t, "AlarmThatWasLostAndRingsAtNight_"+tt.name, setup, func(t *testing.T, b *bundle) {
			b.sleepsAtNight()
			b.mute()
			p, r := b.explained()
			b.turns(20, 50)
			b.reply(p, "ok")
			b.idle() // the alarm was lost
			b.turns(23, 0)
			b.unmute()
			tt.ring(b, p, b.session(r.ID))
			b.work()
			b.work()
			require.Equal(t, 1, b.count(`select count(*) from step_alarms where cause = 'quiet_hours'`))
			require.Equal(t, 1, b.count(`select count(*) from session_transitions where kind = 'waiting'`))
			b.requireWakes(p, r)
			b.at(r.ID, session.AwaitingInterviewStart, "")
		})
	}

	subtest(t, "ManyAtOnceSetNothingMore", setup, func(t *testing.T, b *bundle) {
		p, r := b.night()
		require.NoError(t, atOnce(8, func() error {
			out, err := b.execute(payload(r))
			if err == nil && out.GetSkipReason() != string(session.SkipQuietHours) {
				err = fmt.Errorf("%v", out)
			}
			return err
		}))
		require.Equal(t, 1, b.count(`select count(*) from step_alarms`), "the one that rings in the morning is set already")
		b.requireWakes(p, r)
	})

	subtest(t, "AlarmOfAClockThatIsAheadIsSetOnceMore", setup, func(t *testing.T, b *bundle) {
		b.mute()
		p, r := b.night()
		b.clock.Advance(morning.Add(-300 * time.Millisecond).Sub(b.clock.Now()))
		b.unmute()
		for range 3 {
			b.skips(session.SkipQuietHours, payload(r))
		}
		require.Equal(t, 2, b.count(`select count(*) from step_alarms`))
		b.pass(30 * time.Second)
		require.Equal(t, whole, b.sequence(p))
		require.False(t, b.messaging.Taken(p.Phone)[2].At.Before(morning))
	})

	subtest(t, "HoursThatWereMovedMeanwhileAreWaitedFor", setup, func(t *testing.T, b *bundle) {
		p, r := b.night()
		_, err := b.settle(orgID, &onboardingv1.QuietHours{Enabled: true, Open: "10:00"})
		require.NoError(t, err)
		b.clock.Advance(morning.Sub(b.clock.Now()))
		b.work()
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
		b.at(r.ID, session.AwaitingBurst, step(1))
		b.clock.Advance(2 * time.Hour)
		b.quiet()
		require.Equal(t, morning.Add(2*time.Hour), b.messaging.Taken(p.Phone)[2].At)
	})
}

func TestSettings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	reads := func(org string) *onboardingv1.Settings {
		ctx := rpc.WithPrincipal(t.Context(), rpc.Principal{Subject: "ada", Role: rpc.RoleOperator, OrgID: org})
		out, err := b.current().server.GetSettings(ctx, &onboardingv1.GetSettingsRequest{})
		require.NoError(t, err)
		return out.GetSettings()
	}
	require.False(t, reads(orgID).GetQuietHours().GetEnabled(), "off unless set")
	require.Equal(t, []string{"08:00", "21:00"}, []string{reads(orgID).GetQuietHours().GetOpen(), reads(orgID).GetQuietHours().GetClose()})
	require.Nil(t, reads(orgID).GetUpdatedAt())

	stored, err := b.settle(orgID, &onboardingv1.QuietHours{Enabled: true, Open: "18:00", Close: "02:00"})
	require.NoError(t, err, "a window may go over midnight")
	require.Equal(t, []string{"18:00", "02:00"}, []string{stored.GetQuietHours().GetOpen(), stored.GetQuietHours().GetClose()})
	require.True(t, stored.GetQuietHours().GetEnabled())
	require.Equal(t, b.clock.Now(), stored.GetUpdatedAt().AsTime())
	require.Equal(t, stored.String(), reads(orgID).String())
	require.False(t, reads(anotherOrg).GetQuietHours().GetEnabled(), "another organisation's are its own")

	for _, wrong := range []*onboardingv1.QuietHours{
		nil, {Enabled: true, Open: "8:00"}, {Close: "24:00"}, {Open: "09:00", Close: "09:00"}, {Open: "21:00"}, {Open: "18:00\x00"},
	} {
		_, err := b.settle(orgID, wrong)
		refuses(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
	}
	require.Equal(t, stored.String(), reads(orgID).String(), "a refusal changes nothing")
	b.clock.Advance(time.Hour)
	stored, err = b.settle(orgID, &onboardingv1.QuietHours{})
	require.NoError(t, err)
	require.False(t, stored.GetQuietHours().GetEnabled())
	require.Equal(t, 1, b.count(`select count(*) from organisation_settings`))
}
