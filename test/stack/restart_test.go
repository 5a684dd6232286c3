package stack_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/twilio"
)

// TestRestart stops the services and starts them again on the same databases and addresses. The vendors go on meanwhile.
func TestRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	t.Run("S0_65_BetweenAnyTwoPhases", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.enrol(t, "en")
		b.restart(t)
		p.activate(t)
		b.restart(t)
		p.says(t, p.greets)
		p.reaches(t, atExplanation)
		b.restart(t)
		p.says(t, p.begins)
		for n := 3; n <= 6; n++ {
			p.hears(t, n)
			b.restart(t)
		}
		p.requireWhole(t)
		require.Equal(t, 8*time.Second, p.at(t, message3).Sub(p.at(t, message2)), "they were up whenever they were needed")
	})
	t.Run("S0_65_DownWhileAlarmsRing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.begin(t)
		p.hears(t, 3)
		b.stop(t)
		b.advanceTo(t, p.at(t, message1).Add(30*time.Second)) // message 2's alarm rings at 8 and 18 seconds, its receipts are lost
		b.start(t)
		p.requireWhole(t)
		require.Less(t, p.at(t, message2).Sub(p.at(t, message1)), time.Minute, "QStash's retry finds them")
	})
	for _, step := range []struct {
		name string
		text string
	}{
		{name: "S0_65_WhileTwilioHangsOnTheOpening", text: opening},
		{name: "S0_65_WhileTwilioHangsOnTheExplanation", text: explanation},
		{name: "S0_65_WhileTwilioHangsOnMessage1", text: message1},
		{name: "S0_65_WhileTwilioHangsOnMessage2", text: message2},
		{name: "S0_65_WhileTwilioHangsOnMessage3", text: message3},
		{name: "S0_65_WhileTwilioHangsOnMessage4", text: message4},
	} {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, "TWILIO_TIMEOUT", "300ms")
			p := b.enrol(t, "en")
			bounced := make(chan error, 1)
			var once sync.Once
			text := p.text(t, step.text)
			b.vendors.Twilio.SetScript(twilio.Script{OnCreate: func(_ int, m twilio.Message) (fault twilio.CreateFault) {
				if m.Body == text {
					once.Do(func() {
						fault = twilio.CreateFault{Answer: twilio.AnswerHang, Commit: true}
						b.standstill.Lock()
						go func() {
							defer b.standstill.Unlock()
							bounced <- b.bounce(t.Context())
						}()
					})
				}
				return fault
			}})
			p.insist(t)
			require.NoError(t, <-bounced)
		})
	}
}

// bounce is a restart in another goroutine than the test's own.
func (b *bundle) bounce(ctx context.Context) error {
	err := b.services.Stop(context.WithoutCancel(ctx))
	services, startErr := stack.StartServices(ctx, b.vendors, b.config)
	b.services = services
	return errors.Join(err, startErr)
}

// insist plays the whole conversation with services that may be gone at any moment: a caller that gets no answer asks again. The
// person must not notice.
func (p *person) insist(t *testing.T) {
	t.Helper()
	p.b.until(t, "the activation is answered", func() bool {
		status, _ := p.b.try(t, p.b.operator, http.MethodPost, "/v1/profiles/"+p.id+":activate", struct{}{})
		return status == http.StatusOK
	})
	p.hears(t, 1)
	p.repeats(t, p.greets)
	p.hears(t, 2)
	p.repeats(t, p.begins)
	p.hears(t, 6)
	p.waitsAt(t, atInterview)
	p.repeats(t, p.ready)
	p.waitsAt(t, interviewing)
	p.requireHeard(t, opening, explanation, message1, message2, message3, message4)
	p.requirePaced(t)
}

// repeats sends a text again and again until it arrives.
func (p *person) repeats(t *testing.T, text string) {
	t.Helper()
	p.b.until(t, "the reply arrives", func() bool {
		delivery, err := p.b.vendors.Twilio.Receive(t.Context(), p.phone, stack.FromNumber, text)
		require.NoError(t, err)
		return delivery.StatusCode == http.StatusOK
	})
}

// waitsAt is reaches with services that may not answer.
func (p *person) waitsAt(t *testing.T, token string) {
	t.Helper()
	p.b.until(t, "the session reaches "+token, func() bool {
		status, answer := p.b.try(t, p.b.operator, http.MethodGet, "/v1/sessions?profile_id="+p.id, nil)
		return status == http.StatusOK && strings.Contains(string(answer), token)
	})
}
