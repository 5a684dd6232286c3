package send_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// listing is one with what else is known of our messages.
type listing struct {
	send.Listing
	send.Others
}

// inDoubt is a message without an answer, and a listing that is late enough to count.
func inDoubt() (send.Message, listing) {
	token := uuid.New()
	m := send.Message{
		Direction: send.Outbound, To: theirs, Body: body, Status: sms.Unknown, AttemptToken: token, AttemptedAt: noon(),
		LeaseUntil: noon().Add(lease), UnknownPolicy: send.ConfirmAbsentThenResend,
	}
	began := noon().Add(lease + time.Second)
	return m, listing{Listing: send.Listing{Token: token, Began: began, At: began.Add(time.Second), Interval: interval, Timeout: time.Second}}
}

func listed(sid string, at time.Time) twilio.Stored {
	return twilio.Stored{SID: sid, Status: "sent", Direction: "outbound-api", To: theirs, Body: body, CreatedAt: at}
}

// decisionCase is a listing and what follows from it.
type decisionCase struct {
	name    string
	edit    func(*send.Message, *listing)
	kind    send.EvidenceKind
	settled send.Settlement
	status  sms.Status
	next    time.Duration // after noon; 0 for none
}

func candidateDecisions() []decisionCase {
	return []decisionCase{
		{
			name: "TheOneCandidateIsAdoptedEvenEarly", kind: send.Found, settled: send.SettledAdopted, status: sms.Sent,
			edit: func(_ *send.Message, s *listing) {
				s.Began, s.At = noon().Add(time.Second), noon().Add(2*time.Second)
				s.Listed = []twilio.Stored{listed("SM1", noon())}
			},
			next: 62 * time.Second, // its final status is awaited
		},
		{
			name: "ClockOfTwilioMayBeAMinuteBehind", kind: send.Found, settled: send.SettledAdopted, status: sms.Sent,
			edit: func(_ *send.Message, s *listing) {
				s.Listed = []twilio.Stored{listed("SM1", noon().Add(-time.Minute))}
			},
			next: 92 * time.Second,
		},
		{
			name: "SmartEncodingIsSeenThrough", kind: send.Found, settled: send.SettledAdopted, status: sms.Sent,
			edit: func(m *send.Message, s *listing) {
				m.Body = "“Olá – tudo bem?”…"
				l := listed("SM1", noon())
				l.Body = `"Olá - tudo bem?"...`
				s.Listed = []twilio.Stored{l}
			},
			next: 92 * time.Second,
		},
		{
			name: "AbsentTooEarlyDoesNotCount", kind: send.Absent, status: sms.Unknown, next: 31 * time.Second,
			edit: func(_ *send.Message, s *listing) { s.Began = s.Began.Add(-time.Nanosecond) },
		},
		{name: "AbsentOnceIsLookedAtAgain", kind: send.Absent, status: sms.Unknown, next: 61 * time.Second},
		{
			name: "AbsentAgainTooSoonIsLookedAtAgain", kind: send.Absent, status: sms.Unknown, next: 61 * time.Second,
			edit: func(m *send.Message, s *listing) {
				m.AbsentSince = s.Began
				s.Began = s.Began.Add(interval - time.Nanosecond)
			},
		},
		{
			name: "AbsentTwiceMayBeSentAgain", kind: send.Absent, settled: send.SettledAbsent, status: sms.Throttled,
			edit: func(m *send.Message, s *listing) {
				m.AbsentSince = s.Began
				s.Began = s.Began.Add(interval)
			},
		},
		{
			name: "NeverDuplicateIsParkedInstead", kind: send.Absent, settled: send.SettledParked, status: sms.Parked,
			edit: func(m *send.Message, s *listing) {
				m.UnknownPolicy, m.AbsentSince = send.NeverDuplicate, s.Began
				s.Began = s.Began.Add(interval)
			},
		},
		{
			name: "SeveralCandidatesAreParked", kind: send.Ambiguous, settled: send.SettledParked, status: sms.Parked,
			edit: func(_ *send.Message, s *listing) {
				s.Listed = []twilio.Stored{listed("SM1", noon()), listed("SM2", noon())}
			},
		},
		{
			name: "AmbiguityWaitsForReceiptsFirst", kind: send.Ambiguous, status: sms.Unknown, next: 31 * time.Second,
			edit: func(_ *send.Message, s *listing) {
				s.Began = noon()
				s.Listed = []twilio.Stored{listed("SM1", noon()), listed("SM2", noon())}
			},
		},
	}
}

func absenceDecisions() []decisionCase {
	return []decisionCase{
		{
			name: "RivalInDoubtParks", kind: send.Ambiguous, settled: send.SettledParked, status: sms.Parked,
			edit: func(_ *send.Message, s *listing) {
				s.Listed = []twilio.Stored{listed("SM1", noon())}
				s.Rivals = []send.Rival{{Body: body, Status: sms.Unknown}}
			},
		},
		{
			name: "RivalBeingSentIsWaitedFor", kind: send.Ambiguous, status: sms.Unknown, next: 62 * time.Second,
			edit: func(_ *send.Message, s *listing) {
				s.Listed = []twilio.Stored{listed("SM1", noon())}
				s.Rivals = []send.Rival{{Body: body, Status: sms.Sending}}
			},
		},
		{
			name: "RivalWithOtherWordsIsNone", kind: send.Found, settled: send.SettledAdopted, status: sms.Sent,
			edit: func(_ *send.Message, s *listing) {
				s.Listed = []twilio.Stored{listed("SM1", noon())}
				s.Rivals = []send.Rival{{Body: "something else", Status: sms.Unknown}}
			},
			next: 92 * time.Second,
		},
		{
			name: "WithheldWordsAreParked", kind: send.Ambiguous, settled: send.SettledParked, status: sms.Parked,
			edit: func(_ *send.Message, s *listing) {
				l := listed("SM1", noon())
				l.Body = ""
				s.Listed = []twilio.Stored{l}
			},
		},
		{
			name: "WhatIsNotOursIsNoCandidate", kind: send.Absent, status: sms.Unknown, next: 61 * time.Second,
			edit: func(_ *send.Message, s *listing) {
				theirs, other, early, late := listed("SM1", noon()), listed("SM2", noon()), listed("SM3", noon().Add(-61*time.Second)), listed("SM4", noon().Add(92*time.Second))
				reply, rival := listed("SM5", noon()), listed("SM6", noon())
				theirs.Direction, late.Body, reply.Body, rival.Body = "inbound", "other words", "other words", "Hi Bo."
				reply.Direction = "outbound-reply"
				s.Listed, s.Taken = []twilio.Stored{theirs, other, early, late, reply, rival}, map[string]bool{"SM2": true}
				s.Rivals = []send.Rival{{Body: "Hi Bo.", Status: sms.Unknown}}
			},
		},
		{
			name: "OtherWordsInTheWindowAreNoAbsence", kind: send.Ambiguous, settled: send.SettledParked, status: sms.Parked,
			edit: func(m *send.Message, s *listing) {
				m.AbsentSince = s.Began.Add(-interval)
				l := listed("SM1", noon().Add(91*time.Second))
				l.Body = "Hi Ana, see twil.io/x"
				s.Listed = []twilio.Stored{l}
			},
		},
		{
			name: "OtherWordsWaitForReceiptsFirst", kind: send.Ambiguous, status: sms.Unknown, next: 31 * time.Second,
			edit: func(_ *send.Message, s *listing) {
				s.Began = noon()
				l := listed("SM1", noon())
				l.Body = "other words"
				s.Listed = []twilio.Stored{l}
			},
		},
		{
			name: "SameWordsAreTakenBeforeOthers", kind: send.Found, settled: send.SettledAdopted, status: sms.Sent,
			edit: func(_ *send.Message, s *listing) {
				l := listed("SM2", noon())
				l.Body = "other words"
				s.Listed = []twilio.Stored{l, listed("SM1", noon())}
			},
			next: 92 * time.Second,
		},
		{
			name: "TrialNoticeIsSeenThrough", kind: send.Found, settled: send.SettledAdopted, status: sms.Sent,
			edit: func(_ *send.Message, s *listing) {
				l := listed("SM1", noon())
				l.Body = "Sent from your Twilio trial account - " + body
				s.Listed = []twilio.Stored{l}
			},
			next: 92 * time.Second,
		},
		{
			name: "FailureSaysNothing", kind: send.Failed, status: sms.Unknown, next: 62 * time.Second,
			edit: func(_ *send.Message, s *listing) { s.Failure = "HTTP status 500" },
		},
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, c := range slices.Concat(candidateDecisions(), absenceDecisions()) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m, s := inDoubt()
			if c.edit != nil {
				c.edit(&m, &s)
			}
			decision, changed := m.Decide(s.Listing, s.Others)
			require.True(t, changed)
			require.Equal(t, c.kind, decision.Item.Kind, decision.Item.Detail)
			require.NotEmpty(t, decision.Item.Detail)
			require.Equal(t, c.settled, decision.Settled)
			require.Equal(t, c.status, decision.Message.Status)
			if c.next == 0 {
				require.Zero(t, decision.Message.NextCheckAt)
			} else {
				require.Equal(t, noon().Add(c.next), decision.Message.NextCheckAt)
			}
		})
	}

	t.Run("MessageThatIsNotInDoubtIsLeftAlone", func(t *testing.T) {
		t.Parallel()
		for _, status := range sms.Statuses() {
			m, s := inDoubt()
			m.Status = status
			s.Listed = []twilio.Stored{listed("SM1", noon())}
			_, changed := m.Decide(s.Listing, s.Others)
			require.Equal(t, status == sms.Unknown, changed, status)
		}
		m, s := inDoubt()
		s.Token = uuid.New()
		_, changed := m.Decide(s.Listing, s.Others)
		require.False(t, changed, "a look for an earlier attempt says nothing about this one")
	})
}

// TestDecideIsCautious draws what Twilio lists and who else is in doubt.
func TestDecideIsCautious(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, s := inDoubt()
		m.UnknownPolicy = rapid.SampledFrom([]send.UnknownPolicy{send.ConfirmAbsentThenResend, send.NeverDuplicate}).Draw(t, "policy")
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
			s.Rivals = []send.Rival{{Body: body, Status: sms.Parked}}
		}
		decision, changed := m.Decide(s.Listing, s.Others)
		require.True(t, changed)
		if decision.Settled == send.SettledAdopted {
			require.Len(t, decision.Item.Candidates, 1)
		} else {
			require.Len(t, decision.Item.Candidates, ours+strangers)
		}
		after := decision.Message
		switch decision.Settled {
		case send.SettledAdopted:
			require.Equal(t, 1, ours)
			require.Empty(t, s.Rivals)
			require.False(t, s.Taken[after.SID])
			require.True(t, after.Accepted())
			require.False(t, after.AcceptedAt.Before(m.AttemptedAt))
			require.False(t, after.AcceptedAt.After(s.At))
		case send.SettledAbsent:
			require.Zero(t, ours+strangers)
			require.Equal(t, send.ConfirmAbsentThenResend, m.UnknownPolicy)
			require.False(t, m.AbsentSince.IsZero())
			require.GreaterOrEqual(t, s.Began.Sub(m.AbsentSince), interval)
			require.GreaterOrEqual(t, s.Began.Sub(m.LeaseUntil), s.Timeout)
			require.Equal(t, sms.Throttled, after.Status)
		case send.SettledParked:
			require.Equal(t, sms.Parked, after.Status)
			require.True(t, after.NextCheckAt.IsZero(), "only an operator settles it")
		default:
			require.Equal(t, sms.Unknown, after.Status)
			require.True(t, after.NextCheckAt.After(noon()), "a doubt is decision at again until it is settled")
		}
	})
}
