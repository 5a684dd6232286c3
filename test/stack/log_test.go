package stack_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/qstash"
	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/telemetry"
)

// logbook holds the log lines of the services of a stack, from the least severe one on.
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

// indiscretion returns the name of something in a line that no line should hold, empty when it is fine.
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
	for name, key := range b.config.Secrets.Keys() {
		if strings.HasSuffix(name, "_SIGNING_KEY") {
			secrets[key] = "a signing key"
		}
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

// TestLogs checks what all processes together keep to themselves.
func TestLogs(t *testing.T) {
	t.Parallel()

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
		p := b.begin(t) // greeted and answered with the explanation
		b.rest(t)
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
	t.Run("WhereAPictureLiesIsKeptNowhere", func(t *testing.T) {
		t.Parallel()
		const words, sid = "Look at my grandmother's quilt", "ME557ce644e5ab84fa21cc21112e22c485"
		b := setup(t)
		p := b.enrol(t, "en")
		p.activate(t)
		delivery, err := b.vendors.Twilio.ReceiveText(t.Context(), twilio.Incoming{
			From: p.phone, To: stack.FromNumber, Body: words,
			Media: []twilio.Media{{URL: "https://api.twilio.com/2010-04-01/Accounts/AC1/Messages/MM1/Media/" + sid, ContentType: "image/jpeg"}},
		})
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, delivery.StatusCode)
		p.requireStands(t, atExplanation, "") // its words are the answer
		b.rest(t)
		p.requireHeard(t, opening, explanation)
		require.Equal(t, 1, count(t, b.onboarding, `select count(*) from webhook_jobs where payload -> 'media' = '1' and status = 'completed'`))
		require.Empty(t, tablesWith(t, b.onboarding, sid))
		require.Empty(t, tablesWith(t, b.messaging, sid))
		require.NotContains(t, strings.Join(b.log.all(), ""), sid)
		require.Equal(t, []string{"webhook_jobs"}, tablesWith(t, b.onboarding, words), "so it would have been found")
		require.Equal(t, []string{"sms_messages"}, tablesWith(t, b.messaging, words))
	})
}

// tablesWith are the tables that hold a text in any row and column.
func tablesWith(t *testing.T, db *pgxpool.Pool, text string) (found []string) {
	t.Helper()
	rows, err := db.Query(t.Context(), `select tablename::text from pg_tables where schemaname = 'public' order by 1`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for _, table := range tables {
		sql := fmt.Sprintf(`select count(*) from %s r where strpos(r::text, $1) > 0`, pgx.Identifier{table}.Sanitize())
		if count(t, db, sql, text) > 0 {
			found = append(found, table)
		}
	}
	return found
}
