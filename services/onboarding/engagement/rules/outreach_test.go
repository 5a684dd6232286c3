package rules_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/session"
)

func TestS4_32_TheKeyHasTheDayOfThePerson(t *testing.T) {
	t.Parallel()
	daily := instant(t, "2026-11-23T02:30:00Z")
	saoPaulo := zone(t, "America/Sao_Paulo")
	for _, tt := range []struct {
		name string
		o    rules.Outreach
		want string
	}{
		{name: "Goodbye", o: rules.Outreach{Type: rules.Goodbye, At: daily, Zone: saoPaulo}, want: "p:goodbye_sent:2026-11-22"},
		{name: "NoZoneIsUTC", o: rules.Outreach{Type: rules.Goodbye, At: daily}, want: "p:goodbye_sent:2026-11-23"},
		{name: "Reminder", o: rules.Outreach{Type: rules.Reminder, At: daily, Zone: saoPaulo}, want: "p:reminder:2026-11-22"},
		{name: "Welcome", o: rules.Outreach{Type: rules.Welcome, At: daily}, want: "p:welcome:2026-11-23"},
		{name: "HelpRestart", o: rules.Outreach{Type: rules.HelpRestart, At: daily}, want: "p:help_restart:2026-11-23"},
		{name: "S4_84_FirstTier", o: rules.Outreach{Type: rules.TierUnlock, Tier: 1, At: daily}, want: "p:tier_unlock_1:2026-11-23"},
		{name: "S4_84_SecondTierOfTheDay", o: rules.Outreach{Type: rules.TierUnlock, Tier: 2, At: daily}, want: "p:tier_unlock_2:2026-11-23"},
		{name: "WeeklyReview", o: rules.Outreach{Type: rules.WeeklyReview, At: instant(t, "2026-11-23T09:00:00Z"), Zone: saoPaulo}, want: "p:weekly_review:2026-W48"},
		{name: "WeeklyReviewOfTheYearBefore", o: rules.Outreach{Type: rules.WeeklyReview, At: instant(t, "2027-01-01T09:00:00Z")}, want: "p:weekly_review:2026-W53"},
		// By their own calendar both are in 2026-W44: the first is on Monday at 00:00, the second on Sunday at 23:00.
		{name: "AdakInSummer", o: rules.Outreach{Type: rules.WeeklyReview, At: instant(t, "2026-10-26T09:00:00Z"), Zone: zone(t, "America/Adak")}, want: "p:weekly_review:2026-W44"},
		{name: "AdakInWinter", o: rules.Outreach{Type: rules.WeeklyReview, At: instant(t, "2026-11-02T09:00:00Z"), Zone: zone(t, "America/Adak")}, want: "p:weekly_review:2026-W45"},
		{name: "WhateverTheZoneOfTheInstant", o: rules.Outreach{Type: rules.WeeklyReview, At: instant(t, "2026-11-02T09:00:00Z").In(zone(t, "America/Adak"))}, want: "p:weekly_review:2026-W45"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, tt.o.Key("p"))
		})
	}
}

func TestOutreachExpires(t *testing.T) {
	t.Parallel()
	at := instant(t, "2026-11-23T09:00:00Z")
	for kind, want := range map[rules.MessageType]time.Time{
		rules.Goodbye: at.Add(7 * day), rules.Reminder: at.Add(7 * day), rules.Welcome: at.Add(2 * day), rules.TierUnlock: at.Add(2 * day),
		rules.HelpRestart: at.Add(2 * day), rules.WeeklyReview: instant(t, "2026-11-25T03:00:00Z"),
	} {
		require.Equal(t, want, rules.Outreach{Type: kind, At: at, Zone: zone(t, "America/Sao_Paulo")}.Expires(), kind)
	}
	leap := rules.Outreach{Type: rules.WeeklyReview, At: instant(t, "2018-11-02T09:00:00Z"), Zone: zone(t, "America/Sao_Paulo")}
	require.Equal(t, instant(t, "2018-11-04T03:00:00Z"), leap.Expires(), "the day that began at 01:00")
	leap.At = instant(t, "2018-11-04T09:00:00Z")
	require.Equal(t, instant(t, "2018-11-06T02:00:00Z"), leap.Expires(), "two days after it")

	welcome := rules.Outreach{Type: rules.Welcome, At: instant(t, "2026-11-23T10:00:00Z")}
	sendAt, skip := welcome.SendAt(welcome.Expires().Add(-1))
	require.Empty(t, skip)
	require.Equal(t, welcome.Expires().Add(-1), sendAt)
	_, skip = welcome.SendAt(welcome.Expires())
	require.Equal(t, rules.SkipExpired, skip)
}

func TestTheMoreUrgentComesFirst(t *testing.T) {
	t.Parallel()
	require.Equal(t, []rules.MessageType{"help_restart", "welcome", "tier_unlock", "goodbye", "reminder", "weekly_review"}, rules.MessageTypes())
	for i, kind := range rules.MessageTypes() {
		require.Equal(t, i >= 3, kind.Nudges())
	}
}

func TestOutreachIsSentByDayOnly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := rules.Outreach{
			Type: rapid.SampledFrom(rules.MessageTypes()).Draw(t, "type"), Zone: zone(t, rapid.SampledFrom(places).Draw(t, "zone")),
			At: time.Unix(rapid.Int64Range(1_700_000_000, 1_900_000_000).Draw(t, "at"), 0).UTC(),
		}
		now := o.At.Add(time.Duration(rapid.Int64Range(0, int64(8*day)).Draw(t, "later")))
		at, skip := o.SendAt(now)
		if skip != "" {
			require.Equal(t, rules.SkipExpired, skip)
			require.True(t, now.Add(day).After(o.Expires()), "a day has a window")
			return
		}
		local := at.In(o.Zone)
		require.False(t, at.Before(now))
		require.True(t, at.Before(o.Expires()))
		require.True(t, local.Hour() >= 8 && local.Hour() < 21, "at %s", local)
	})
}

// Whatever is due, on no day of a person is there more than one, and on no seven more than two.
func TestOutreachIsCapped(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		location := zone(t, rapid.SampledFrom(places).Draw(t, "zone"))
		now := time.Unix(rapid.Int64Range(1_300_000_000, 1_900_000_000).Draw(t, "at"), 0).UTC()
		var sent []time.Time
		days := map[string]int{}
		date := func(at time.Time) time.Time {
			year, month, of := at.In(location).Date()
			return time.Date(year, month, of, 0, 0, 0, 0, time.UTC)
		}
		for range rapid.IntRange(1, 40).Draw(t, "tries") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*day)).Draw(t, "later")))
			o := rules.Outreach{Type: rapid.SampledFrom([]rules.MessageType{rules.Goodbye, rules.Reminder, rules.WeeklyReview}).Draw(t, "type"), At: now, Zone: location}
			week := 0
			for _, other := range sent {
				if date(now).Sub(date(other)) < 7*day {
					week++
				}
			}
			wanted := days[rules.LocalDay(now, location)] == 0 && week < 2
			require.Equal(t, wanted, o.Capped(now, sent) == "")
			if wanted {
				sent = append(sent, now)
				days[rules.LocalDay(now, location)]++
			} else {
				require.Equal(t, rules.SkipCapped, o.Capped(now, sent))
			}
			o.Type = rapid.SampledFrom([]rules.MessageType{rules.HelpRestart, rules.Welcome, rules.TierUnlock}).Draw(t, "other type")
			require.Empty(t, o.Capped(now, sent), "what follows from what they did is never capped")
		}
	})
}

func TestWhoMayBeWrittenTo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		who  rules.Candidate
		want rules.Skip
		only []rules.MessageType // empty for all types
	}{
		{name: "NeverHadASession"},
		{name: "Interviewing", who: rules.Candidate{Session: session.Active, Mode: session.Interviewing}},
		{name: "Onboarding", who: rules.Candidate{Session: session.Active, Mode: session.Onboarding}, want: rules.SkipOnboarding},
		{name: "ModeUnknown", who: rules.Candidate{Session: session.Active}, want: rules.SkipOnboarding},
		{name: "Stuck", who: rules.Candidate{Session: session.Stuck, Mode: session.Interviewing}, want: rules.SkipParked},
		{name: "Undeliverable", who: rules.Candidate{Session: session.Undeliverable, Mode: session.Onboarding}, want: rules.SkipParked},
		{name: "Stopped", who: rules.Candidate{Session: session.Stopped, Mode: session.Interviewing}, want: rules.SkipStopped},
		{name: "Closed", who: rules.Candidate{Session: session.Closed, Mode: session.Interviewing}, want: rules.SkipClosed},
		{name: "Held", who: rules.Candidate{Held: true, Session: session.Stuck}, want: rules.SkipHeld},
		{name: "OptedOut", who: rules.Candidate{OptedOut: true, Held: true, RemindersOff: true}, want: rules.SkipOptedOut},
		{name: "NoSender", who: rules.Candidate{NoSender: true, OptedOut: true}, want: rules.SkipNoSender},
		{name: "RemindersOff", who: rules.Candidate{RemindersOff: true}, want: rules.SkipRemindersOff, only: []rules.MessageType{rules.Goodbye, rules.Reminder, rules.WeeklyReview}},
		{name: "TipsOff", who: rules.Candidate{TipsOff: true}, want: rules.SkipTipsOff, only: []rules.MessageType{rules.TierUnlock}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, kind := range rules.MessageTypes() {
				want := tt.want
				if tt.only != nil && !slices.Contains(tt.only, kind) {
					want = ""
				}
				require.Equal(t, want, tt.who.Eligible(kind), kind)
			}
		})
	}
}

func TestS4_86_TheWeeklyReview(t *testing.T) {
	t.Parallel()
	config := rules.DefaultConfig()
	nominal := instant(t, "2026-11-23T09:00:00Z")
	for _, tt := range []struct {
		name  string
		state rules.State
		ago   time.Duration
		want  rules.Skip
	}{
		{name: "Active", state: rules.Active, ago: day},
		{name: "HelpFlow", state: rules.HelpFlow, ago: day},
		{name: "SevenDaysAreEnough", state: rules.Active, ago: 7 * day},
		{name: "MoreAreSilence", state: rules.Active, ago: 7*day + 1, want: rules.SkipInactive},
		{name: "AfterTheNominalInstantOfALateRun", state: rules.Active, ago: -day},
		{name: "Dormant", state: rules.Dormant, ago: day, want: rules.SkipInactive},
		{name: "RemindLater", state: rules.RemindLater, ago: day, want: rules.SkipInactive},
		{name: "GoodbyeSent", state: rules.GoodbyeSent, ago: day, want: rules.SkipInactive},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, config.WeeklyReview(rules.Person{State: tt.state, LastActivityAt: nominal.Add(-tt.ago)}, nominal))
		})
	}
}
