package inbound_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sms"
)

// tells sends our message under a key.
func (b *bundle) tells(key, words string) {
	b.T.Helper()
	text, err := sms.NewBody(words)
	require.NoError(b.T, err)
	require.Equal(b.T, send.Accepted, b.ask(func(r *send.Request) { r.Key, r.Body = key, text }).Outcome)
	b.Clock.Advance(time.Minute)
}

// TestWhatWasAskedLast reads words that may be an opt-out by what was sent before them.
func TestWhatWasAskedLast(t *testing.T) {
	t.Parallel()
	const confirmation = `Got it, we'll text you tomorrow at 09:00: call mom. To undo it, text "undo" today.`
	const opening = "Hi Ana, it's the welcome team. A few short texts will help you start. Ready? Reply STOP to opt out."
	goal := func(b *bundle) { b.tells("goal-answer:1:GOAL_SCHEDULED", confirmation) }
	opens := func(b *bundle) { b.tells("opening", opening) }
	for _, tt := range []struct {
		name   string
		before []func(*bundle)
		words  string
		want   consent.Effect
		next   send.Outcome // of the next message
	}{
		{name: "AGoal", before: []func(*bundle){opens, goal}, words: "cancel it", want: consent.None, next: send.Accepted},
		{name: "SomethingElseSince", before: []func(*bundle){goal, opens}, words: "cancel it", want: consent.Ambiguous, next: send.Held},
		{name: "Nothing", words: "cancel it", want: consent.Ambiguous, next: send.Held},
		{name: "TheKeyword", before: []func(*bundle){goal}, words: "cancel", want: consent.OptOut, next: send.OptedOut},
		{name: "MoreThanTheGoal", before: []func(*bundle){goal}, words: "cancel that, stop texting me", want: consent.OptOut, next: send.OptedOut},
		{name: "AQuoteOfIt", before: []func(*bundle){opens}, words: opening, want: consent.None, next: send.Accepted},
		{name: "AQuoteAndARevocation", before: []func(*bundle){opens}, words: opening + " stop texting me", want: consent.OptOut, next: send.OptedOut},
		{
			name: "ADayAgo", before: []func(*bundle){goal, func(b *bundle) { b.Clock.Advance(24 * time.Hour) }}, words: "cancel it",
			want: consent.Ambiguous, next: send.Held,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			for _, does := range tt.before {
				does(b)
			}
			m := b.Receive("SM1", tt.words)
			require.Equal(t, tt.want, m.ConsentEffect)
			require.Equal(t, m.ID, b.Receive("SM1", tt.words).ID, "again")
			require.Equal(t, tt.next, b.ask(func(r *send.Request) { r.Key = "next" }).Outcome)
		})
	}
}
