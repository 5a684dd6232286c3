package delivery_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/services/messaging/delivery"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

const interval = 30 * time.Second

// doubtful is a message whose answer was lost, and a look at it that is late enough to count.
func doubtful() (delivery.Message, delivery.Sighting) {
	token := uuid.New()
	m := delivery.Message{
		Direction: delivery.Outbound, To: theirs, Body: body, Status: sms.Unknown, AttemptToken: token, AttemptedAt: noon(),
		LeaseUntil: noon().Add(lease), UnknownPolicy: delivery.ConfirmAbsentThenResend,
	}
	began := noon().Add(lease + time.Second)
	return m, delivery.Sighting{Token: token, Began: began, At: began.Add(time.Second), Interval: interval, Timeout: time.Second}
}

func listed(sid string, at time.Time) twilio.Stored {
	return twilio.Stored{SID: sid, Status: "sent", Direction: "outbound-api", To: theirs, Body: body, CreatedAt: at}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		edit    func(*delivery.Message, *delivery.Sighting)
		finding delivery.Finding
		settled delivery.Settlement
		status  sms.Status
		next    time.Duration // after noon; 0 for none
	}{
		{
			name: "TheOneCandidateIsAdoptedEvenEarly", finding: delivery.Found, settled: delivery.SettledAdopted, status: sms.Sent,
			edit: func(_ *delivery.Message, s *delivery.Sighting) {
				s.Began, s.At = noon().Add(time.Second), noon().Add(2*time.Second)
				s.Listed = []twilio.Stored{listed("SM1", noon())}
			},
			next: 62 * time.Second, // its final status is awaited
		},
		{
			name: "ClockOfTwilioMayBeAMinuteBehind", finding: delivery.Found, settled: delivery.SettledAdopted, status: sms.Sent,
			edit: func(_ *delivery.Message, s *delivery.Sighting) {
				s.Listed = []twilio.Stored{listed("SM1", noon().Add(-time.Minute))}
			},
			next: 92 * time.Second,
		},
		{
			name: "SmartEncodingIsSeenThrough", finding: delivery.Found, settled: delivery.SettledAdopted, status: sms.Sent,
			edit: func(m *delivery.Message, s *delivery.Sighting) {
				m.Body = "“Olá – tudo bem?”…"
				l := listed("SM1", noon())
				l.Body = `"Olá - tudo bem?"...`
				s.Listed = []twilio.Stored{l}
			},
			next: 92 * time.Second,
		},
		{
			name: "AbsentTooEarlyDoesNotCount", finding: delivery.Absent, status: sms.Unknown, next: 31 * time.Second,
			edit: func(_ *delivery.Message, s *delivery.Sighting) { s.Began = s.Began.Add(-time.Nanosecond) },
		},
		{name: "AbsentOnceIsLookedAtAgain", finding: delivery.Absent, status: sms.Unknown, next: 61 * time.Second},
		{
			name: "AbsentAgainTooSoonIsLookedAtAgain", finding: delivery.Absent, status: sms.Unknown, next: 61 * time.Second,
			edit: func(m *delivery.Message, s *delivery.Sighting) {
				m.AbsentSince = s.Began
				s.Began = s.Began.Add(interval - time.Nanosecond)
			},
		},
		{
			name: "AbsentTwiceMayBeSentAgain", finding: delivery.Absent, settled: delivery.SettledAbsent, status: sms.Throttled,
			edit: func(m *delivery.Message, s *delivery.Sighting) {
				m.AbsentSince = s.Began
				s.Began = s.Began.Add(interval)
			},
		},
		{
			name: "NeverDuplicateIsParkedInstead", finding: delivery.Absent, settled: delivery.SettledParked, status: sms.Parked,
			edit: func(m *delivery.Message, s *delivery.Sighting) {
				m.UnknownPolicy, m.AbsentSince = delivery.NeverDuplicate, s.Began
				s.Began = s.Began.Add(interval)
			},
		},
		{
			name: "SeveralCandidatesAreParked", finding: delivery.Ambiguous, settled: delivery.SettledParked, status: sms.Parked,
			edit: func(_ *delivery.Message, s *delivery.Sighting) {
				s.Listed = []twilio.Stored{listed("SM1", noon()), listed("SM2", noon())}
			},
		},
		{
			name: "AmbiguityWaitsForReceiptsFirst", finding: delivery.Ambiguous, status: sms.Unknown, next: 31 * time.Second,
			edit: func(_ *delivery.Message, s *delivery.Sighting) {
				s.Began = noon()
				s.Listed = []twilio.Stored{listed("SM1", noon()), listed("SM2", noon())}
			},
		},
		{
			name: "RivalInDoubtParks", finding: delivery.Ambiguous, settled: delivery.SettledParked, status: sms.Parked,
			edit: func(_ *delivery.Message, s *delivery.Sighting) {
				s.Listed = []twilio.Stored{listed("SM1", noon())}
				s.Rivals = []delivery.Rival{{Body: body, Status: sms.Unknown}}
			},
		},
		{
			name: "RivalBeingSentIsWaitedFor", finding: delivery.Ambiguous, status: sms.Unknown, next: 62 * time.Second,
			edit: func(_ *delivery.Message, s *delivery.Sighting) {
				s.Listed = []twilio.Stored{listed("SM1", noon())}
				s.Rivals = []delivery.Rival{{Body: body, Status: sms.Sending}}
			},
		},
		{
			name: "RivalWithOtherWordsIsNone", finding: delivery.Found, settled: delivery.SettledAdopted, status: sms.Sent,
			edit: func(_ *delivery.Message, s *delivery.Sighting) {
				s.Listed = []twilio.Stored{listed("SM1", noon())}
				s.Rivals = []delivery.Rival{{Body: "something else", Status: sms.Unknown}}
			},
			next: 92 * time.Second,
		},
		{
			name: "WithheldWordsAreParked", finding: delivery.Ambiguous, settled: delivery.SettledParked, status: sms.Parked,
			edit: func(_ *delivery.Message, s *delivery.Sighting) {
				l := listed("SM1", noon())
				l.Body = ""
				s.Listed = []twilio.Stored{l}
			},
		},
		{
			name: "WhatIsNotOursIsNoCandidate", finding: delivery.Absent, status: sms.Unknown, next: 61 * time.Second,
			edit: func(_ *delivery.Message, s *delivery.Sighting) {
				theirs, other, early, late := listed("SM1", noon()), listed("SM2", noon()), listed("SM3", noon().Add(-61*time.Second)), listed("SM4", noon().Add(92*time.Second))
				reply, rival := listed("SM5", noon()), listed("SM6", noon())
				theirs.Direction, late.Body, reply.Body, rival.Body = "inbound", "other words", "other words", "Hi Bo."
				reply.Direction = "outbound-reply"
				s.Listed, s.Taken = []twilio.Stored{theirs, other, early, late, reply, rival}, map[string]bool{"SM2": true}
				s.Rivals = []delivery.Rival{{Body: "Hi Bo.", Status: sms.Unknown}}
			},
		},
		{
			name: "OtherWordsInTheWindowAreNoAbsence", finding: delivery.Ambiguous, settled: delivery.SettledParked, status: sms.Parked,
			edit: func(m *delivery.Message, s *delivery.Sighting) {
				m.AbsentSince = s.Began.Add(-interval)
				l := listed("SM1", noon().Add(91*time.Second))
				l.Body = "Hi Ana, see twil.io/x"
				s.Listed = []twilio.Stored{l}
			},
		},
		{
			name: "OtherWordsWaitForReceiptsFirst", finding: delivery.Ambiguous, status: sms.Unknown, next: 31 * time.Second,
			edit: func(_ *delivery.Message, s *delivery.Sighting) {
				s.Began = noon()
				l := listed("SM1", noon())
				l.Body = "other words"
				s.Listed = []twilio.Stored{l}
			},
		},
		{
			name: "SameWordsAreTakenBeforeOthers", finding: delivery.Found, settled: delivery.SettledAdopted, status: sms.Sent,
			edit: func(_ *delivery.Message, s *delivery.Sighting) {
				l := listed("SM2", noon())
				l.Body = "other words"
				s.Listed = []twilio.Stored{l, listed("SM1", noon())}
			},
			next: 92 * time.Second,
		},
		{
			name: "TrialNoticeIsSeenThrough", finding: delivery.Found, settled: delivery.SettledAdopted, status: sms.Sent,
			edit: func(_ *delivery.Message, s *delivery.Sighting) {
				l := listed("SM1", noon())
				l.Body = "Sent from your Twilio trial account - " + body
				s.Listed = []twilio.Stored{l}
			},
			next: 92 * time.Second,
		},
		{
			name: "FailureSaysNothing", finding: delivery.Failed, status: sms.Unknown, next: 62 * time.Second,
			edit: func(_ *delivery.Message, s *delivery.Sighting) { s.Failure = "HTTP status 500" },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m, s := doubtful()
			if c.edit != nil {
				c.edit(&m, &s)
			}
			looked, changed := m.Decide(s)
			require.True(t, changed)
			require.Equal(t, c.finding, looked.Look.Finding, looked.Look.Detail)
			require.NotEmpty(t, looked.Look.Detail)
			require.Equal(t, c.settled, looked.Settled)
			require.Equal(t, c.status, looked.Message.Status)
			if c.next == 0 {
				require.Zero(t, looked.Message.NextLookAt)
			} else {
				require.Equal(t, noon().Add(c.next), looked.Message.NextLookAt)
			}
		})
	}

	t.Run("MessageThatIsNotInDoubtIsLeftAlone", func(t *testing.T) {
		t.Parallel()
		for _, status := range sms.Statuses() {
			m, s := doubtful()
			m.Status = status
			s.Listed = []twilio.Stored{listed("SM1", noon())}
			_, changed := m.Decide(s)
			require.Equal(t, status == sms.Unknown, changed, status)
		}
		m, s := doubtful()
		s.Token = uuid.New()
		_, changed := m.Decide(s)
		require.False(t, changed, "a look for an earlier attempt says nothing about this one")
	})
}

// TestDecideIsCautious draws what Twilio lists and who else is in doubt.
func TestDecideIsCautious(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, s := doubtful()
		m.UnknownPolicy = rapid.SampledFrom([]delivery.UnknownPolicy{delivery.ConfirmAbsentThenResend, delivery.NeverDuplicate}).Draw(t, "policy")
		s.Began = noon().Add(time.Duration(rapid.IntRange(0, 120).Draw(t, "began")) * time.Second)
		s.At = s.Began.Add(time.Second)
		if rapid.Bool().Draw(t, "absent before") {
			m.AbsentSince = noon().Add(time.Duration(rapid.IntRange(31, 60).Draw(t, "absent since")) * time.Second)
		}
		s.Taken = map[string]bool{}
		ours, strangers := 0, 0
		for i := range rapid.IntRange(0, 4).Draw(t, "listed") {
			l := listed(fmt.Sprint("SM", i), noon().Add(time.Duration(rapid.IntRange(-120, 120).Draw(t, "created"))*time.Second))
			l.Body = rapid.SampledFrom([]string{body, "Sent from your Twilio trial account - " + body, "other words", ""}).Draw(t, "body")
			l.Direction = rapid.SampledFrom([]string{"outbound-api", "inbound"}).Draw(t, "direction")
			s.Taken[l.SID] = rapid.Bool().Draw(t, "taken")
			s.Listed = append(s.Listed, l)
			switch free := l.Direction == "outbound-api" && !s.Taken[l.SID] && !l.CreatedAt.Before(noon().Add(-time.Minute)); {
			case free && l.Body != "other words":
				ours++
			case free && !l.CreatedAt.After(noon().Add(lease+s.Timeout+time.Minute)):
				strangers++
			}
		}
		if rapid.Bool().Draw(t, "rival") {
			s.Rivals = []delivery.Rival{{Body: body, Status: sms.Parked}}
		}
		looked, changed := m.Decide(s)
		require.True(t, changed)
		if looked.Settled == delivery.SettledAdopted {
			require.Len(t, looked.Look.Candidates, 1)
		} else {
			require.Len(t, looked.Look.Candidates, ours+strangers)
		}
		after := looked.Message
		switch looked.Settled {
		case delivery.SettledAdopted:
			require.Equal(t, 1, ours)
			require.Empty(t, s.Rivals)
			require.False(t, s.Taken[after.SID])
			require.True(t, after.Accepted())
			require.False(t, after.AcceptedAt.Before(m.AttemptedAt))
			require.False(t, after.AcceptedAt.After(s.At))
		case delivery.SettledAbsent:
			require.Zero(t, ours+strangers)
			require.Equal(t, delivery.ConfirmAbsentThenResend, m.UnknownPolicy)
			require.False(t, m.AbsentSince.IsZero())
			require.GreaterOrEqual(t, s.Began.Sub(m.AbsentSince), interval)
			require.GreaterOrEqual(t, s.Began.Sub(m.LeaseUntil), s.Timeout)
			require.Equal(t, sms.Throttled, after.Status)
		case delivery.SettledParked:
			require.Equal(t, sms.Parked, after.Status)
			require.True(t, after.NextLookAt.IsZero(), "only an operator settles it")
		default:
			require.Equal(t, sms.Unknown, after.Status)
			require.True(t, after.NextLookAt.After(noon()), "a doubt is looked at again until it is settled")
		}
	})
}
