package goals_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/goals/classifier"
)

// said is a goal by its words.
func (b *bundle) said(words string) goals.New {
	return goals.New{OrgID: orgID, ProfileID: b.owner, Said: words, Source: goals.SourceREST, Key: uuid.NewString(), By: "user:" + b.owner}
}

// model is a server of the chat protocol that answers the same to everything, or fails.
func (b *bundle) model() (asked *atomic.Int32, answer *atomic.Value) {
	b.t.Helper()
	asked, answer = &atomic.Int32{}, &atomic.Value{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		content, _ := answer.Load().(string)
		if content == "" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte(content))
	}))
	b.t.Cleanup(server.Close)
	client, err := classifier.New(classifier.Config{URL: server.URL, Model: "small", APIKey: "key", Orgs: []string{orgID}})
	require.NoError(b.t, err)
	b.t.Cleanup(client.Close)
	b.service.Reader = client
	return asked, answer
}

func TestS3_06_AModelThatFailsLeavesTheGoalToTheRules(t *testing.T) {
	t.Parallel()
	b := setup(t)
	asked, answer := b.model()
	const friday = `{"kind":"at","year":2026,"month":11,"day":20,"hour":17,"minute":30,"amount":null,"unit":"none","goal":"call John"}`

	g, _, err := b.service.Create(t.Context(), b.said("call John in 2 hours"))
	require.NoError(t, err)
	require.Equal(t, b.clock.Now().Add(2*time.Hour), g.ScheduledFor.UTC(), "what the rules read needs no model")
	require.Zero(t, asked.Load())

	unclear := b.said("call John by the end of the day")
	for _, broken := range []string{"", "{}", `{"choices":[{"finish_reason":"stop","message":{"content":"tomorrow!"}}]}`} {
		answer.Store(broken)
		_, _, err = b.service.Create(t.Context(), unclear)
		var asksBack *goals.UnclearError
		require.ErrorAs(t, err, &asksBack, "nothing runs, and the person is asked")
	}
	require.EqualValues(t, 3, asked.Load())
	require.Equal(t, 1, b.count(`select count(*) from goals`))

	answer.Store(`{"choices":[{"finish_reason":"stop","message":{"content":` + quoted(friday) + `}}]}`)
	g, _, err = b.service.Create(t.Context(), unclear)
	require.NoError(t, err)
	require.Equal(t, []string{"call John", "today at 17:30"}, []string{g.Goal, g.Understood})
	require.Equal(t, time.Date(2026, 11, 20, 22, 30, 0, 0, time.UTC), g.ScheduledFor.UTC())
	_, duplicate, err := b.service.Create(t.Context(), unclear)
	require.NoError(t, err)
	require.True(t, duplicate)
	require.EqualValues(t, 4, asked.Load(), "a repeat asks no model")

	answer.Store(`{"choices":[{"finish_reason":"stop","message":{"content":` +
		quoted(strings.Replace(friday, "2026", "2028", 1)) + `}}]}`)
	refused := b.said("call John by the end of a day in a year")
	for range 2 {
		_, _, err = b.service.Create(t.Context(), refused)
		require.ErrorIs(t, err, goals.ErrTooFar)
	}
	require.EqualValues(t, 5, asked.Load(), "nor does that of a goal that was refused")
}

func quoted(text string) string {
	encoded, _ := json.Marshal(text)
	return string(encoded)
}
