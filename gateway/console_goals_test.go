package gateway

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const goalID = "01900000-0000-7000-8000-0000000000e1"

// goalIn is a goal in a state, which is due in 4 min 32 s.
func goalIn(state string) string {
	at := func(d time.Duration) string { return noon().Add(d).Format(time.RFC3339) }
	return fmt.Sprintf(`{"goalId":%q,"profileId":%q,"goal":"water the plants","status":%q,"deviceKind":"phone","createdAt":%q,"startedAt":%q,`+
		`"endedAt":%q,"scheduledFor":%q}`, goalID, ownProfile, state, at(-time.Hour), at(0), at(0), at(4*time.Minute+32*time.Second))
}

// goalCard is the card of a goal in a state, as the list shows it.
func (v *visitor) goalCard(state string) string {
	v.t.Helper()
	v.answers("GoalService/ListGoals", `{"goals":[`+goalIn(state)+`]}`)
	status, page, _ := v.asks(http.MethodGet, "/console/goals", nil)
	require.Equal(v.t, http.StatusOK, status)
	card := regexp.MustCompile(`(?s)<li class="goal ` + state + `" id="goal-` + goalID + `">.*?</li>`).FindString(page)
	require.NotEmpty(v.t, card, page)
	return card
}

func TestConsoleGoals(t *testing.T) {
	t.Parallel()

	t.Run("S3_25_AScheduledGoalHasAClockAndABadgeThatNoOtherStateHas", func(t *testing.T) {
		t.Parallel()
		v := visits(t)
		v.signsIn("operator")
		badge := regexp.MustCompile(`(?s)<span class="badge (\w+)"><svg class="icon".*?>(.*?)</svg>(.*?)</span>`)
		icons, words := map[string]string{}, map[string]string{}
		for _, state := range []string{"scheduled", "running", "completed", "failed", "cancelled"} {
			found := badge.FindStringSubmatch(v.goalCard(state))
			require.NotNil(t, found, state)
			require.Equal(t, state, found[1], "its colour")
			require.Empty(t, icons[found[2]], "%s has the icon of another state", state)
			require.Empty(t, words[found[3]], "%s has the words of another state", state)
			icons[found[2]], words[found[3]] = state, state
		}
		require.Equal(t, "scheduled", words["Scheduled"])
		require.Equal(t, "scheduled", icons[`<circle cx="12" cy="12" r="9"/><path d="M12 6v6.3l4 2.7"/>`], "a face and two hands")
	})

	t.Run("S3_26_TheTooltipHasTheClockTimeBesideTheCountdown", func(t *testing.T) {
		t.Parallel()
		v := visits(t)
		v.signsIn("operator")
		require.Contains(t, v.goalCard("scheduled"), `aria-describedby="tip-`+goalID+`">Runs in `+
			`<time class="due" datetime="2026-03-04T12:04:32Z" title="2026-03-04 12:04:32 UTC">4 min 32 s</time></button>`+
			`<span role="tooltip" id="tip-`+goalID+`">Runs at <time datetime="2026-03-04T12:04:32Z">2026-03-04 12:04:32 UTC</time></span>`)
		require.NotContains(t, v.goalCard("completed"), "Runs in")
	})

	t.Run("S3_27_TheXOfACardCancelsItsGoal", func(t *testing.T) {
		t.Parallel()
		v := visits(t)
		v.signsIn("user")
		pressed := regexp.MustCompile(`<form method="post" action="([^"]+)">(?:<input type="hidden"[^>]*>)*<button class="x" aria-label="Cancel[^"]*: water the plants"`)
		for _, state := range []string{"running", "completed", "failed", "cancelled"} {
			require.Nil(t, pressed.FindStringSubmatch(v.goalCard(state)), state)
		}
		found := pressed.FindStringSubmatch(v.goalCard("scheduled"))
		require.NotNil(t, found)
		status, _, header := v.asks(http.MethodPost, found[1], url.Values{"back": {"/console/goals"}})
		require.Equal(t, http.StatusSeeOther, status)
		made := v.services.seen()
		last := made[len(made)-1]
		require.Equal(t, "GoalService/CancelGoal", last.Method)
		require.Equal(t, rpc.RoleUser, last.Principal.Role)
		require.True(t, proto.Equal(&onboardingv1.CancelGoalRequest{GoalId: goalID}, last.Request), "%v", last.Request)
		_, page, _ := v.asks(http.MethodGet, header.Get("Location"), nil)
		require.Contains(t, page, "Cancelled. It can be brought back")
	})

	t.Run("S3_28_TheListIsDrawnAnewWhenAGoalIsScheduledStartedCompletedOrCancelled", func(t *testing.T) {
		t.Parallel()
		v := visits(t)
		v.signsIn("operator")
		happens := make(chan string)
		v.services.tells(func(in *onboardingv1.StreamEventsRequest, stream eventStreamServer) error {
			require.Empty(t, in.GetTypes(), "every type")
			if err := stream.Send(&onboardingv1.StreamEventsResponse{}); err != nil {
				return err
			}
			for {
				select {
				case what := <-happens:
					e := eventOf(1)
					e.Event.Type = what
					if err := stream.Send(e); err != nil {
						return err
					}
				case <-stream.Context().Done():
					return nil
				}
			}
		})
		v.answers("GoalService/ListGoals", `{}`)
		_, page, _ := v.asks(http.MethodGet, "/console/goals", nil)
		topic := regexp.MustCompile(`data-live="([^"]+)"`).FindStringSubmatch(page)
		require.NotNil(t, topic, "the page listens")
		news := v.listens(topic[1])
		news()
		for _, change := range []struct{ event, state, word string }{
			{"goal.scheduled", "scheduled", "Scheduled"},
			{"goal.started", "running", "Running"},
			{"goal.completed", "completed", "Completed"},
			{"goal.cancelled", "cancelled", "Cancelled"},
		} {
			happens <- change.event
			news()
			require.Contains(t, v.goalCard(change.state), change.word)
		}
	})

	t.Run("S3_28_APersonsOwnListIsDrawnAnewByTheClock", func(t *testing.T) {
		t.Parallel()
		v := visits(t)
		v.signsIn("user")
		v.answers("GoalService/ListGoals", `{}`)
		_, page, _ := v.asks(http.MethodGet, "/console/goals", nil)
		require.Contains(t, page, `data-live="/console/live?topic=`+ownProfile+`"`, "their own topic")
		made := len(v.services.seen())
		news := v.listens("/console/live?topic=" + ownProfile)
		news() // at once
		news() // by the clock
		require.Len(t, v.services.seen(), made, "they read no events")
		require.Contains(t, v.goalCard("running"), "Running")
	})
}

// listens opens the stream of a page. The function waits until it is told that it is old.
func (v *visitor) listens(path string) (news func()) {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, v.url+strings.ReplaceAll(path, "&amp;", "&"), nil)
	require.NoError(v.t, err)
	answer, err := v.client.Do(r)
	require.NoError(v.t, err)
	v.t.Cleanup(func() { _ = answer.Body.Close() }) // it is broken off
	require.Equal(v.t, http.StatusOK, answer.StatusCode)
	lines := bufio.NewScanner(answer.Body)
	return func() {
		v.t.Helper()
		for lines.Scan() {
			if lines.Text() == "data: new" {
				return
			}
		}
		require.FailNow(v.t, "the stream ended", "%v", lines.Err())
	}
}
