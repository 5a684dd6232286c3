package stack_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/qstash"
	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/telemetry"
	"paceline.internal/test/stack"
)

// logbook is what the services of a stack have logged, from the least severe line on.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (l *logbook) logger() *slog.Logger {
	return telemetry.NewLogger(l, telemetry.Config{LogLevel: slog.LevelDebug}, "stack")
}

func (l *logbook) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(line))
	return len(line), nil
}

func (l *logbook) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

// events are the lines with this message, oldest first.
func (l *logbook) events(t *testing.T, message string) []map[string]any {
	t.Helper()
	var found []map[string]any
	for _, line := range l.all() {
		if !strings.Contains(line, message) {
			continue
		}
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields), line)
		if fields["msg"] == message {
			found = append(found, fields)
		}
	}
	return found
}

// requireDiscreet fails when a line holds what no log may hold.
func (l *logbook) requireDiscreet(t *testing.T, b *bundle) {
	t.Helper()
	secrets := b.secrets()
	for _, line := range l.all() {
		if leak := indiscretion(line, secrets); leak != "" {
			t.Errorf("a log line holds %s: %s", leak, line)
		}
	}
	if t.Failed() {
		lines := slices.DeleteFunc(l.all(), func(line string) bool { // what the test itself asks, again and again
			return strings.Contains(line, "OnboardingService/ListSessions") || strings.Contains(line, "OnboardingService/GetSession")
		})
		t.Log("the end of the log:\n" + strings.Join(lines[max(0, len(lines)-80):], ""))
	}
}

var (
	number   = regexp.MustCompile(`(?:\+|%2B)[1-9][0-9]{6,14}`)
	anyToken = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}`) // a JWT, and QStash's token
	password = regexp.MustCompile(`postgres(?:ql)?://[^ "]+`)
)

// indiscretion says what a line should not hold, empty when it is fine.
func indiscretion(line string, secrets map[string]string) string {
	switch {
	case number.MatchString(line):
		return "a phone number"
	case anyToken.MatchString(line):
		return "a token"
	case password.MatchString(line):
		return "a database URL"
	}
	for secret, kind := range secrets {
		if strings.Contains(line, secret) {
			return kind
		}
	}
	return ""
}

// secrets are all the words of this stack that no log may hold, and what they are.
func (b *bundle) secrets() map[string]string {
	secrets := map[string]string{
		stack.AuthToken: "Twilio's token", qstash.DevCurrentKey: "a signing key", qstash.DevNextKey: "a signing key",
		b.config.Secrets.APIJWT: "a secret", b.config.Secrets.ServiceAuth: "a secret", b.operator: "an API token",
	}
	for _, p := range cast {
		secrets[p.name] = "a name"
	}
	for _, m := range b.vendors.Twilio.Messages() {
		secrets[strings.TrimPrefix(m.To, "+")], secrets[strings.TrimPrefix(m.From, "+")] = "a phone number", "a phone number"
		if len(m.Body) >= 8 { // shorter ones are ordinary words
			escaped, err := json.Marshal(m.Body)
			if err == nil {
				secrets[strings.Trim(string(escaped), `"`)] = "a text"
			}
			secrets[m.Body] = "a text"
		}
	}
	return secrets
}

// TestLogs is what the services tell about a run, and what they keep to themselves.
func TestLogs(t *testing.T) {
	t.Parallel()

	// Also: S0-27, S0-29
	t.Run("S0_26_EveryStepTellsWhatItDid", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.begin(t)
		p.requireWhole(t)
		session := p.session(t).SessionID
		invoked, sent, next := b.log.events(t, "onboarding.step_handler_invoked"), b.log.events(t, "onboarding.step_sent"),
			b.log.events(t, "onboarding.step_next_scheduled")
		require.Len(t, invoked, 4)
		require.Len(t, sent, 4)
		require.Len(t, next, 3, "none after the last")
		for i := range 4 {
			step := "onboarding_message_" + strconv.Itoa(i+1)
			require.Equal(t, step, invoked[i]["step_id"])
			require.Equal(t, session, invoked[i]["session_id"])
			require.NotEmpty(t, invoked[i]["correlation_id"])
			require.Equal(t, step, sent[i]["step_id"])
			require.Equal(t, "onboarding:"+p.id+":"+session+":"+step, sent[i]["idempotency_key"])
		}
		delays := map[any]any{}
		for _, line := range next { // message 4 may be sent before message 3 has told that it is due
			delays[line["step_id"]] = line["delay_ms"]
			require.NotEmpty(t, line["next_step_id"])
		}
		require.Equal(t, map[any]any{"onboarding_message_1": 8000.0, "onboarding_message_2": 8000.0, "onboarding_message_3": 0.0}, delays)
	})
	t.Run("NoLineHoldsANumberATextANameOrASecret", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.vendors.Twilio.SetScript(twilio.Script{
			OnCreate: func(n int, _ twilio.Message) twilio.CreateFault { // every answer once
				return twilio.CreateFault{Answer: twilio.Answer(n % 7), Commit: true}
			},
			OnFate: func(twilio.Message) twilio.Fate { return twilio.Fate{Final: twilio.StatusFailed, Code: 30008} },
		})
		b.vendors.QStash.SetFaults(qstash.Script{OnDeliver: qstash.Every(qstash.DeliverFault{Copies: 1})})
		for _, locale := range []string{"en", "pt-BR"} {
			p := b.enrol(t, locale)
			b.try(t, b.operator, http.MethodPost, "/v1/profiles", map[string]string{"phone": p.phone + "99999", "first_name": p.name})
			b.try(t, b.operator, http.MethodPost, "/v1/profiles", map[string]string{"phone": p.phone, "first_name": p.name + "{}", "locale": p.phone})
			b.try(t, b.operator, http.MethodGet, "/v1/consents/"+p.phone, nil)
			b.try(t, b.operator, http.MethodGet, "/v1/consents/"+p.phone+"/"+p.name, nil)
			b.try(t, b.operator+"x", http.MethodGet, "/v1/sessions?profile_id="+p.phone, nil)
			p.insist(t)
			b.ring(t, p.payload(t, p.session(t).SessionID, "onboarding_message_1"), "sig_forged")
			b.ring(t, `{"phone":"`+p.phone+`","body":"`+p.text(t, message1)+`"}`, qstash.DevCurrentKey)
			p.says(t, "STOP")
			b.rest(t)
		}
		b.stop(t)
		for _, service := range []string{"gateway", "onboarding", "messaging"} {
			require.Greater(t, strings.Count(strings.Join(b.log.all(), ""), `"service":"`+service+`"`), 10)
		}
		b.log.requireDiscreet(t, b)
	})
	t.Run("TheOpsPortsHoldNoneEither", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.begin(t)
		p.requireWhole(t)
		secrets := b.secrets()
		ports := b.services.Addresses
		for _, addr := range []string{ports.GatewayOps, ports.OnboardingOps, ports.MessagingOps} {
			for _, path := range []string{"/metrics", "/debug/config", "/readyz", "/healthz"} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
				require.NoError(t, err)
				status, shown := b.send(t, req)
				require.Equal(t, http.StatusOK, status, "%s: %s", path, shown)
				require.NotEmpty(t, shown)
				delete(secrets, strings.TrimPrefix(stack.FromNumber, "+")) // the one number that is a setting
				leak := indiscretion(strings.ReplaceAll(string(shown), stack.FromNumber, ""), secrets)
				require.Empty(t, leak, "%s%s: %s", addr, path, shown)
			}
		}
	})
	t.Run("AnIndiscretionWouldBeFound", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.begin(t)
		p.requireWhole(t)
		secrets := b.secrets()
		require.Empty(t, indiscretion(`{"msg":"onboarding.step_sent","masked":"+14***01"}`, secrets))
		for _, leak := range []string{
			p.phone, strings.TrimPrefix(p.phone, "+"), strings.ReplaceAll(p.phone, "+", "%2B"), p.name, p.greets, p.text(t, explanation),
			stack.AuthToken, qstash.DevToken, qstash.DevCurrentKey, b.operator, b.config.Secrets.APIJWT, b.config.MessagingDatabaseURL,
		} {
			log := new(logbook)
			log.logger().Info("oops", "leak", "before "+leak+" after")
			require.NotEmpty(t, indiscretion(log.all()[0], secrets), leak)
		}
	})
}
