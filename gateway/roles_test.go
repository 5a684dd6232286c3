package gateway

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/gateway/route"
	"paceline.internal/platform/rpc"
)

// whoMay lists the callers of each route of /v1, next to the protos, so that a caller who is added there is added here too: what an
// app may not do takes an operator's judgement, or shows what only an operator may see.
func whoMay() map[string]string {
	return map[string]string{
		"createProfile":    "operator app",
		"getProfile":       "operator app user",
		"listProfiles":     "operator app",
		"updateProfile":    "operator app",
		"activateProfile":  "operator app",
		"explainProfile":   "operator",
		"explainSession":   "operator",
		"holdProfile":      "operator",
		"releaseProfile":   "operator",
		"exportProfile":    "operator",
		"eraseProfile":     "operator",
		"getErasure":       "operator",
		"setLegalHold":     "operator",
		"liftLegalHold":    "operator",
		"listSessions":     "operator app user",
		"getSession":       "operator app user",
		"resetSession":     "operator",
		"resumeSession":    "operator",
		"resumeSessions":   "operator",
		"listDeadLetters":  "operator",
		"replayDeadLetter": "operator",
		"getSettings":      "operator app",
		"updateSettings":   "operator",
		"listAudit":        "operator",
		"getOverview":      "operator",
		"getFlow":          "operator app",
		"pauseScheduling":  "operator",
		"resumeScheduling": "operator",

		"listSettingsVersions": "operator",

		"checkFlow":        "operator app",
		"publishFlow":      "operator",
		"getFlowDraft":     "operator",
		"saveFlowDraft":    "operator",
		"publishFlowDraft": "operator",
		"deleteFlowDraft":  "operator",
		"listFlows":        "operator app",
		"getCurrentFlow":   "operator app",
		"getFlowVersion":   "operator app",
		"listFlowVersions": "operator app",
		"getFlowFunnel":    "operator app",

		"listTickets":      "operator app",
		"getTicket":        "operator app",
		"openTicket":       "operator app",
		"assignTicket":     "operator",
		"closeTicket":      "operator",
		"sendAnswer":       "operator",
		"listAnswers":      "operator app",
		"addNote":          "operator",
		"listNotes":        "operator",
		"createSavedReply": "operator",
		"listSavedReplies": "operator",
		"updateSavedReply": "operator",
		"deleteSavedReply": "operator",
		"moveSessions":     "operator",
		"startRun":         "operator app",
		"addRunPeople":     "operator app",
		"listRuns":         "operator app",
		"getRun":           "operator app",
		"pauseRun":         "operator app",
		"resumeRun":        "operator app",
		"cancelRun":        "operator app",

		"createKey":    "operator",
		"listKeys":     "operator",
		"revokeKey":    "operator",
		"createSender": "operator",
		"listSenders":  "operator",
		"getSender":    "operator",
		"updateSender": "operator",
		"deleteSender": "operator",

		"createOrganisation":  "platform",
		"getOrganisation":     "platform",
		"listOrganisations":   "platform",
		"suspendOrganisation": "platform",
		"resumeOrganisation":  "platform",
		"endOrganisation":     "platform",
		"createFirstKey":      "platform",

		"enqueueWebhookJob": "operator",
		"listWebhookJobs":   "operator",
		"getWebhookJob":     "operator",
		"retryWebhookJob":   "operator",
		"cancelWebhookJob":  "operator",

		"getMessage":           "operator app user",
		"listMessages":         "operator app user",
		"explainMessage":       "operator",
		"getEvidence":          "operator",
		"resolveMessage":       "operator",
		"getConsent":           "operator",
		"setConsent":           "operator",
		"getMessagingOverview": "operator",

		"getOnboardingTrend": "operator",
		"getMessagingTrend":  "operator",

		"enqueueText":      "operator app",
		"getQueuedText":    "operator app",
		"listQueuedTexts":  "operator app",
		"cancelQueuedText": "operator",

		"reportAction":              "operator app",
		"setPreferences":            "operator app user",
		"setHousehold":              "operator app",
		"getEngagement":             "operator app user",
		"listEngagementTransitions": "operator app user",
		"listOutreach":              "operator app",
		"cancelOutreach":            "operator",
		"retryOutreach":             "operator",
		"runEngagement":             "operator",
		"listEngagementRuns":        "operator",
		"getEngagementStats":        "operator app",

		"createGoal":     "operator app user",
		"getGoal":        "operator app user",
		"listGoals":      "operator app user",
		"explainGoal":    "operator app user",
		"cancelGoal":     "operator user",
		"rescheduleGoal": "operator user",
		"stopGoal":       "operator user",
		"registerDevice": "operator app user",
		"listDevices":    "operator app user",
		"rotateDevice":   "operator app user",
		"deleteDevice":   "operator app user",

		"listEvents":                    "operator app",
		"createEventSubscription":       "operator app",
		"listEventSubscriptions":        "operator app",
		"getEventSubscription":          "operator app",
		"updateEventSubscription":       "operator app",
		"deleteEventSubscription":       "operator app",
		"pauseEventSubscription":        "operator app",
		"resumeEventSubscription":       "operator app",
		"rotateEventSubscriptionSecret": "operator app",
		"listEventDeliveries":           "operator app",
		"replayEventDelivery":           "operator app",
	}
}

var parameter = regexp.MustCompile(`\{\w+\}`)

// unkept are the routes that keep no calls, of any role, and read those that keep an operator's alone; every route that changes something
// keeps its calls. They are written out next to the protos, too.
func unkept() (never, read []string) {
	never = []string{
		"getSettings", "listSettingsVersions", "listEngagementRuns", "getEngagementStats",
		"listEventSubscriptions", "getEventSubscription", "getOverview",
		"getFlow", "getFlowDraft", "getMessagingOverview", "getOnboardingTrend", "getMessagingTrend", "getFlowFunnel",
		"checkFlow", "listFlows", "getCurrentFlow", "getFlowVersion", "listFlowVersions", "listRuns", "getRun", "listKeys", "listSenders", "getSender",
		"getOrganisation", "listOrganisations",
	}
	read = []string{
		"getProfile", "listProfiles", "listSessions", "getSession",
		"explainProfile", "explainSession", "explainMessage",
		"exportProfile", "getErasure",
		"listDeadLetters", "listAudit", "listWebhookJobs",
		"getWebhookJob", "getMessage", "listMessages",
		"getEvidence", "getConsent", "getQueuedText",
		"listQueuedTexts", "getEngagement", "listEngagementTransitions",
		"listOutreach", "getGoal", "listGoals",
		"explainGoal", "listDevices", "listEvents",
		"listEventDeliveries",
		"listTickets", "getTicket", "listAnswers", "listNotes", "listSavedReplies",
	}
	return never, read
}

// TestWhoMay calls every route of /v1 as every role, and looks which calls are kept.
func TestWhoMay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	allowed := whoMay()
	never, read := unkept()
	for route, o := range routes(t) {
		operation := o.Operation.OperationID
		method, template, _ := strings.Cut(route, " ")
		path := strings.ReplaceAll(template, "{profile_id}", ownProfile)
		path = parameter.ReplaceAllString(strings.ReplaceAll(path, "{phone}", phone), otherProfile)
		for _, role := range rpc.Roles() {
			if role == rpc.RoleService {
				continue // no token of /v1 has it (TestAuthenticator)
			}
			t.Run(string(role)+"/"+operation, func(t *testing.T) {
				t.Parallel()
				roles, known := allowed[operation]
				require.True(t, known, "say in whoMay who may call it")
				requestID := string(role) + "-" + operation
				status, body := b.calls(t, role, method, path, requestID)
				kept := b.services.keptOf(requestID)
				if slices.Contains(strings.Fields(roles), string(role)) {
					require.Contains(t, []int{http.StatusOK, http.StatusCreated}, status, body)
					if slices.Contains(never, operation) || slices.Contains(read, operation) && role != rpc.RoleOperator {
						require.Empty(t, kept)
						return
					}
					require.Len(t, kept, 1)
					require.Equal(t, role, kept[0].Caller.Role)
					require.Equal(t, "127.0.0.1", kept[0].Caller.Client)
					if strings.Contains(template, "{profile_id}") {
						require.Equal(t, ownProfile, kept[0].About.ProfileID)
					}
					return
				}
				require.Empty(t, kept, "nothing happened")
				require.Equal(t, http.StatusForbidden, status, body)
				require.Equal(t, strings.Contains(roles, "app"), strings.Contains(body, "only an operator or an app may do this"), body)
				require.Equal(t, roles == "platform", strings.Contains(body, "a token with the role platform"), body)
				require.Contains(t, body, "REASON_PERMISSION_DENIED")
			})
		}
	}
	require.Len(t, routes(t), len(allowed))
}

// calls makes one request with an empty body.
func (b *bench) calls(t *testing.T, role rpc.Role, method, path, requestID string) (status int, said string) {
	t.Helper()
	var content io.Reader
	if method != http.MethodGet {
		content = strings.NewReader("{}")
	}
	request, err := http.NewRequestWithContext(t.Context(), method, b.url+path, content)
	require.NoError(t, err)
	request.Header.Set("Authorization", bearer(t, string(role)))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(route.HeaderRequestID, requestID)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}
