package stack_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/qstash"
	"paceline.internal/services/onboarding/session"
)

// payload is the body of a step's alarm.
func (p *person) payload(t *testing.T, sessionID, step string) string {
	t.Helper()
	body, err := session.NewStepPayload(p.id, sessionID, session.StepID(step)).Encode()
	require.NoError(t, err)
	return string(body)
}

// ring posts an alarm as QStash would, signed with this key; unsigned when there is none.
func (b *bundle) ring(t *testing.T, body, key string) (int, http.Header, string) {
	t.Helper()
	target := b.services.URL() + "/api/onboarding/step"
	header := http.Header{"Content-Type": {"application/json"}, qstash.HeaderMessageID: {"msg_by_hand"}}
	if key != "" {
		signature, err := qstash.Sign(key, target, []byte(body), b.clock.Now())
		require.NoError(t, err)
		header.Set(qstash.HeaderSignature, signature)
	}
	return b.post(t, target, header, body)
}

func (b *bundle) post(t *testing.T, target string, header http.Header, body string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(body))
	require.NoError(t, err)
	req.Header = header
	resp, err := b.http.Do(req)
	require.NoError(t, err)
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, resp.Header, string(answer)
}
