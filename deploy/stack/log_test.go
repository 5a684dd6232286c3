package stack_test

import (
	"encoding/json"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/emulator/qstash"
	"paceline.internal/platform/telemetry"
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
		lines := l.all()
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
