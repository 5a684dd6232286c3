package onboardingtest

import (
	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// Visit is a flow with a step of every kind that a session can stand at.
var Visit = map[string]string{
	"flow.yaml": `
flow: visit
languages: [en]
start: hello
steps:
  hello: {send: HELLO, wait: reply, negative: {send: LATER, stay: true}, then: day}
  day:
    ask: ASK_DAY
    expect: {choice: [monday, tuesday]}
    save: day
    unclear: {send: CHOOSE, times: 1, then: human}
    silence: {after: 24h, send: NUDGE, times: 1, then: gave_up}
    then: free
  free: {call: "https://host.example/free", save: free, failed: human, then: {full: full, else: enough}}
  enough: {if: "person.fields.free > 1 && person.fields.day == 'monday'", then: booked, else: full}
  full: {send: FULL, then: day}
  booked: {send: BOOKED, then: tip}
  tip: {send: TIP, after: 8s, then: done}
  human: {hand_over: no_day, then: done}
  gave_up: {end: silent}
  done: {end: booked}
`,
	"en.yaml": `
texts:
  HELLO: "Hi {first_name|there}, may we come by?"
  LATER: Another time, then.
  ASK_DAY: Which day suits you, Monday or Tuesday?
  CHOOSE: Please write Monday or Tuesday.
  NUDGE: We still need a day.
  FULL: That day is full.
  BOOKED: "We come on {day|that day}."
  TIP: Keep your meter free.
choices:
  monday: [Monday]
  tuesday: [Tuesday]
`,
}

// Visited publishes Visit and starts it with a new person.
func (b *Bundle) Visited() (people.Profile, session.Record) {
	b.T.Helper()
	_, err := b.Store.Flows().Publish(b.T.Context(), OrgID, Visit, b.Clock.Now())
	require.NoError(b.T, err)
	p := b.Person()
	started, err := b.Current().Service.Begin(b.T.Context(), OrgID, conversation.Start{ProfileID: p.ID, Flow: "visit"})
	require.NoError(b.T, err)
	return p, started.Record
}

// Said lists the texts that a person got.
func (b *Bundle) Said(p people.Profile) (bodies []string) {
	for _, sent := range b.Messaging.Taken(p.Phone) {
		bodies = append(bodies, sent.Body)
	}
	return bodies
}

// Answers returns a Host.Answer that is always the same.
func Answers(body string) func(string, []byte) ([]byte, error) {
	return func(string, []byte) ([]byte, error) { return []byte(body), nil }
}
