package console

import (
	"encoding/csv"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/gateway/console/handsets"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

func TestDeedsOfAForm(t *testing.T) {
	t.Parallel()
	c := &Console{}
	form := func(t *testing.T, deeds ...string) *http.Request {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, root+"/do?deed="+strings.Join(deeds, "&deed="), nil)
		require.NoError(t, r.ParseForm())
		return r
	}
	got, err := c.chosen(form(t, "retry-job.a", "cancel-job.b", "retry-job.a"))
	require.NoError(t, err)
	require.Equal(t, []deed{{Verb: "retry-job", ID: "a"}, {Verb: "cancel-job", ID: "b"}}, got, "each once")
	for _, verb := range []string{"", "delete-everything.a", "retry-job", "retry-job.", "retry-job." + strings.Repeat("x", 200)} {
		_, err := c.chosen(form(t, verb))
		require.Equal(t, codes.InvalidArgument, status.Code(err), verb)
	}
	many := make([]string, maxDeeds+1)
	for i := range many {
		many[i] = "retry-job." + strings.Repeat("x", i%90) + time.Duration(i).String()
	}
	_, err = c.chosen(form(t, many...))
	require.Equal(t, codes.InvalidArgument, status.Code(err), "a bulk is bounded")
	for verb := range c.verbs() {
		require.True(t, known("deed."+verb) && known("deed."+verb+".what"), verb)
	}
}

func TestWordsOfKinds(t *testing.T) {
	t.Parallel()
	for _, kind := range needKinds() {
		require.True(t, known("needs."+kind) && known("needs."+kind+".many") && known("needs."+kind+".do"), kind)
	}
	for _, choice := range handsets.Choices(handsets.Faults{}) {
		require.True(t, known("fault."+choice.Name), choice.Name)
		for _, word := range choice.Words[1:] {
			require.True(t, known("fault."+choice.Name+"."+word), word)
		}
	}
}

func TestGoalCard(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(d)) }
	tests := []struct {
		name   string
		goal   *onboardingv1.Goal
		undone bool
		want   goalCard
	}{
		{name: "Scheduled", goal: &onboardingv1.Goal{Status: "scheduled", ScheduledFor: at(time.Hour)}, want: goalCard{At: now.Add(time.Hour)}},
		{name: "DeviceOffline", goal: &onboardingv1.Goal{Status: "scheduled", ScheduledFor: at(-time.Minute), OfflineTries: 2}, want: goalCard{At: now.Add(-time.Minute), Retrying: true}},
		{name: "DeviceBusy", goal: &onboardingv1.Goal{Status: "scheduled", ScheduledFor: at(-time.Minute), OfflineTries: 1, WaitingSince: at(-time.Second)}, want: goalCard{At: now.Add(-time.Minute), Waiting: true}},
		{name: "Late", goal: &onboardingv1.Goal{Status: "scheduled", ScheduledFor: at(-time.Minute)}, want: goalCard{At: now.Add(-time.Minute), Late: true}},
		{name: "CancelledInTime", goal: &onboardingv1.Goal{Status: "cancelled", ScheduledFor: at(time.Hour), EndedAt: at(0)}, want: goalCard{At: now, Undoable: true}},
		{name: "CancelledAndPast", goal: &onboardingv1.Goal{Status: "cancelled", ScheduledFor: at(-time.Hour), EndedAt: at(0)}, want: goalCard{At: now}},
		{name: "BroughtBackAlready", goal: &onboardingv1.Goal{Status: "cancelled", ScheduledFor: at(time.Hour), EndedAt: at(0)}, undone: true, want: goalCard{At: now}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.want.Goal = tt.goal
			require.Equal(t, tt.want, card(tt.goal, now, tt.undone))
		})
	}
}

func TestReasonsLeadToTheirMessage(t *testing.T) {
	t.Parallel()
	const id = "01a20e93-ce57-7a2a-9c77-dcada5dddb73"
	require.Equal(t, root+"/needs/messages/"+id, messageIn("Twilio 21211: …; once that is mended POST /v1/messages/"+id+":resolve with …"))
	require.Equal(t, root+"/needs/messages/"+id, messageIn("Twilio may or may not have message "+id+"; …"))
	require.Empty(t, messageIn("5 alarms in a row brought nothing"))
}

func TestLedgerForASpreadsheet(t *testing.T) {
	t.Parallel()
	hostile := "=HYPERLINK(\"https://evil.example\"),\n\"x\""
	rows, err := csv.NewReader(strings.NewReader(ledgerCSV(&messagingv1.GetConsentResponse{
		Consent: &messagingv1.Consent{Phone: "+12025550143"},
		Events:  []*messagingv1.ConsentEvent{{Seq: 1, State: "opted_out", Words: hostile, Hash: "ab"}},
	}))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Equal(t, "'"+hostile, rows[1][5], "no formula, and the words as they are")
	require.Equal(t, "'+12025550143", rows[1][2])
}
