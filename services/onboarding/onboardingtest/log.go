package onboardingtest

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Logbook keeps every line that was logged.
type Logbook struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (l *Logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(p)
}

func (l *Logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

// Of returns the lines of one event.
func (l *Logbook) Of(t *testing.T, event string) []map[string]any {
	t.Helper()
	var found []map[string]any
	for line := range strings.Lines(l.String()) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		if fields["msg"] == event {
			found = append(found, fields)
		}
	}
	return found
}

// HoldsNothingPersonal asserts that no phone number and no message text was logged.
func (l *Logbook) HoldsNothingPersonal(t *testing.T) {
	t.Helper()
	all := l.String()
	require.NotRegexp(t, `5511987\d{6}`, all) // in full: the nanoseconds of a log line may hold its beginning
	require.NotContains(t, all, SecretWords)
	for _, words := range []string{"welcome team", "Happy to have you", "No problem, there", "first steps easy", "a few questions", "Your answers help", "first question?"} {
		require.NotContains(t, all, words)
	}
}

// SecretWords is a text of a person that no log may show.
const SecretWords = "my cousin Joaquina lives in Lisboa"
