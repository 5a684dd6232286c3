package stack_test

import (
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/twilio"
)

// TestCrashMatrix cuts the connection at every single call that crosses a boundary during a conversation, in every way that
// a crash on one of its sides can look to the other. Whatever is lost, the person gets every text once, paced, and the
// interview begins; only a text with an outcome that cannot be known is not sent again, visibly.
func TestCrashMatrix(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	t.Run("S0_65_GatewayToOnboarding", func(t *testing.T) {
		t.Parallel()
		b := prepare(t)
		w := grpcWire(t, b, b.config.Addresses.Onboarding)
		b.start(t, "ONBOARDING_ADDR", w.addr)
		matrix(t, b, &w.breaker, 1, before, during, after)
	})
	t.Run("S0_65_OnboardingAndGatewayToMessaging", func(t *testing.T) {
		t.Parallel()
		b := prepare(t)
		w := grpcWire(t, b, b.config.Addresses.Messaging)
		b.start(t, "MESSAGING_ADDR", w.addr)
		matrix(t, b, &w.breaker, 1, before, during, after)
	})
	t.Run("S0_65_OnboardingToQStash", func(t *testing.T) {
		t.Parallel()
		b := prepare(t)
		d := newDetour(t, b.vendors.QStashURL)
		b.start(t, "QSTASH_URL", d.url)
		matrix(t, b, &d.breaker, 1, before, after)
	})
	t.Run("S0_65_MessagingToTwilio", func(t *testing.T) {
		t.Parallel()
		b := prepare(t)
		d := newDetour(t, b.vendors.TwilioURL)
		b.start(t, "TWILIO_API_URL", d.url)
		matrix(t, b, &d.breaker, 1, after)
		lostForGood(t, b, &d.breaker)
	})
	t.Run("S0_65_VendorsToGateway", func(t *testing.T) {
		t.Parallel()
		b := prepare(t)
		d := newDetour(t, "http://"+b.config.Addresses.Gateway)
		b.start(t, "PUBLIC_BASE_URL", d.url)
		b.vendors.Twilio.SetInboundURL(d.url + "/api/webhooks/twilio/inbound#rt=4000&rc=3&rp=all")
		matrix(t, b, &d.breaker, 1, before, after)
	})
	// A conversation makes many round trips, and the loops make them all the time, so these are samples that differ from run to
	// run. With samples of 1 it is every round trip, in a few minutes.
	const ofOnboarding, ofMessaging = 17, 7
	t.Run("S0_65_OnboardingToPostgres", func(t *testing.T) {
		t.Parallel()
		b := prepare(t)
		w, through := postgresWire(t, b, b.config.OnboardingDatabaseURL)
		b.start(t, "ONBOARDING_DATABASE_URL", through)
		matrix(t, b, &w.breaker, ofOnboarding, before, during, after)
	})
	t.Run("S0_65_MessagingToPostgres", func(t *testing.T) {
		t.Parallel()
		b := prepare(t)
		w, through := postgresWire(t, b, b.config.MessagingDatabaseURL)
		b.start(t, "MESSAGING_DATABASE_URL", through)
		matrix(t, b, &w.breaker, ofMessaging, before, during, after)
	})
}

// matrix plays one conversation for every call, or every stride-th, and every way to lose it, until there is no such call.
func matrix(t *testing.T, b *bundle, lost *breaker, stride int, moments ...moment) {
	t.Helper()
	b.vendors.Twilio.SetScript(twilio.Script{OnFate: func(twilio.Message) twilio.Fate {
		return twilio.Fate{Final: twilio.StatusSent} // one receipt for each text is enough: the second would only take time
	}})
	for _, when := range moments {
		cuts := 0
		for call := 0; ; call += stride {
			lost.arm(0, never)
			p := b.enrol(t, "en")
			lost.arm(call, when)
			p.insist(t)
			if lost.seen() <= call {
				break
			}
			cuts++
		}
		require.GreaterOrEqual(t, cuts, 4, "a conversation crosses every boundary at least once for every step")
	}
}

// lostForGood loses the request of a text on its way to Twilio: whether Twilio has it cannot be known, so it is never sent
// again, and shows as unknown.
func lostForGood(t *testing.T, b *bundle, lost *breaker) {
	t.Helper()
	texts := []string{opening, explanation, message1, message2, message3, message4}
	for n := range texts {
		lost.arm(0, never)
		p := b.enrol(t, "en")
		lost.arm(n, before)
		p.activate(t)
		p.hears(t, min(n, 1))
		p.repeats(t, p.greets)
		p.hears(t, min(n, 2))
		p.repeats(t, p.begins)
		b.rest(t)
		p.requireHeard(t, texts[:n]...)
		var unknown []string
		for _, m := range p.messages(t) {
			if m.Status == "unknown" {
				unknown = append(unknown, m.Body)
			}
		}
		require.Equal(t, []string{p.text(t, texts[n])}, unknown)
		require.Equal(t, "active", p.session(t).Status)
	}
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

// postgresWire leads to the server of a database, and says by which URL.
func postgresWire(t *testing.T, b *bundle, database string) (w *wire, through string) {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	query := u.Query()
	network, addr := "tcp", u.Host
	if folder := query.Get("host"); strings.HasPrefix(folder, "/") {
		network, addr = "unix", folder+"/.s.PGSQL."+query.Get("port")
	}
	w = sqlWire(t, b, network, addr)
	host, port, err := net.SplitHostPort(w.addr)
	require.NoError(t, err)
	query.Set("host", host)
	query.Set("port", port)
	query.Set("sslmode", "disable")
	u.RawQuery = query.Encode()
	return w, u.String()
}
