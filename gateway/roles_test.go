package gateway

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/rpc"
)

// whoMay is who may call each route of /v1, written out beside the protos, so that a caller who is added there is added here too: what an
// app may not do is what takes an operator's judgement, and what only an operator may see.
func whoMay() map[string]string {
	return map[string]string{
		"OnboardingService_CreateProfile":    "operator app",
		"OnboardingService_GetProfile":       "operator app user",
		"OnboardingService_ListProfiles":     "operator app",
		"OnboardingService_UpdateProfile":    "operator app",
		"OnboardingService_ActivateProfile":  "operator app",
		"OnboardingService_ExplainProfile":   "operator",
		"OnboardingService_ExplainSession":   "operator",
		"OnboardingService_HoldProfile":      "operator",
		"OnboardingService_ReleaseProfile":   "operator",
		"OnboardingService_ExportProfile":    "operator",
		"OnboardingService_EraseProfile":     "operator",
		"OnboardingService_GetErasure":       "operator",
		"OnboardingService_SetLegalHold":     "operator",
		"OnboardingService_LiftLegalHold":    "operator",
		"OnboardingService_ListSessions":     "operator app user",
		"OnboardingService_GetSession":       "operator app user",
		"OnboardingService_ResetSession":     "operator",
		"OnboardingService_ResumeSession":    "operator",
		"OnboardingService_ResumeSessions":   "operator",
		"OnboardingService_ListDeadLetters":  "operator",
		"OnboardingService_ReplayDeadLetter": "operator",
		"OnboardingService_GetSettings":      "operator app",
		"OnboardingService_UpdateSettings":   "operator",
		"OnboardingService_ListAudit":        "operator",
		"OnboardingService_GetOverview":      "operator",
		"OnboardingService_GetFlow":          "operator app",
		"OnboardingService_PauseScheduling":  "operator",
		"OnboardingService_ResumeScheduling": "operator",

		"WebhookJobService_EnqueueWebhookJob": "operator",
		"WebhookJobService_ListWebhookJobs":   "operator",
		"WebhookJobService_GetWebhookJob":     "operator",
		"WebhookJobService_RetryWebhookJob":   "operator",
		"WebhookJobService_CancelWebhookJob":  "operator",

		"MessagingService_GetMessage":           "operator app user",
		"MessagingService_ListMessages":         "operator app user",
		"MessagingService_ExplainMessage":       "operator",
		"MessagingService_GetEvidence":          "operator",
		"MessagingService_ResolveMessage":       "operator",
		"MessagingService_GetConsent":           "operator",
		"MessagingService_SetConsent":           "operator",
		"MessagingService_GetMessagingOverview": "operator",

		"OutboundService_EnqueueText":      "operator app",
		"OutboundService_GetQueuedText":    "operator app",
		"OutboundService_ListQueuedTexts":  "operator app",
		"OutboundService_CancelQueuedText": "operator",

		"EngagementService_ReportAction":              "operator app",
		"EngagementService_SetPreferences":            "operator app user",
		"EngagementService_SetHousehold":              "operator app",
		"EngagementService_GetEngagement":             "operator app user",
		"EngagementService_ListEngagementTransitions": "operator app user",
		"EngagementService_ListOutreach":              "operator app",
		"EngagementService_CancelOutreach":            "operator",
		"EngagementService_RetryOutreach":             "operator",
		"EngagementService_RunEngagement":             "operator",
		"EngagementService_ListEngagementRuns":        "operator",
		"EngagementService_GetEngagementStats":        "operator app",

		"GoalService_CreateGoal":     "operator app user",
		"GoalService_GetGoal":        "operator app user",
		"GoalService_ListGoals":      "operator app user",
		"GoalService_ExplainGoal":    "operator app user",
		"GoalService_CancelGoal":     "operator user",
		"GoalService_RescheduleGoal": "operator user",
		"GoalService_StopGoal":       "operator user",
		"GoalService_RegisterDevice": "operator app user",
		"GoalService_ListDevices":    "operator app user",
		"GoalService_RotateDevice":   "operator app user",
		"GoalService_DeleteDevice":   "operator app user",

		"EventService_ListEvents":                    "operator app",
		"EventService_CreateEventSubscription":       "operator app",
		"EventService_ListEventSubscriptions":        "operator app",
		"EventService_GetEventSubscription":          "operator app",
		"EventService_UpdateEventSubscription":       "operator app",
		"EventService_DeleteEventSubscription":       "operator app",
		"EventService_PauseEventSubscription":        "operator app",
		"EventService_ResumeEventSubscription":       "operator app",
		"EventService_RotateEventSubscriptionSecret": "operator app",
		"EventService_ListEventDeliveries":           "operator app",
		"EventService_ReplayEventDelivery":           "operator app",
	}
}

var parameter = regexp.MustCompile(`\{\w+\}`)

// unkept are the routes whose calls are not kept, of any role, and read those of which only an operator's are; what changes something
// is everything else. They are written out beside the protos, too.
func unkept() (never, read []string) {
	never = []string{
		"OnboardingService_GetSettings", "EngagementService_ListEngagementRuns", "EngagementService_GetEngagementStats",
		"EventService_ListEventSubscriptions", "EventService_GetEventSubscription", "OnboardingService_GetOverview",
		"OnboardingService_GetFlow", "MessagingService_GetMessagingOverview",
	}
	read = []string{
		"OnboardingService_GetProfile", "OnboardingService_ListProfiles", "OnboardingService_ListSessions", "OnboardingService_GetSession",
		"OnboardingService_ExplainProfile", "OnboardingService_ExplainSession", "MessagingService_ExplainMessage",
		"OnboardingService_ExportProfile", "OnboardingService_GetErasure",
		"OnboardingService_ListDeadLetters", "OnboardingService_ListAudit", "WebhookJobService_ListWebhookJobs",
		"WebhookJobService_GetWebhookJob", "MessagingService_GetMessage", "MessagingService_ListMessages",
		"MessagingService_GetEvidence", "MessagingService_GetConsent", "OutboundService_GetQueuedText",
		"OutboundService_ListQueuedTexts", "EngagementService_GetEngagement", "EngagementService_ListEngagementTransitions",
		"EngagementService_ListOutreach", "GoalService_GetGoal", "GoalService_ListGoals",
		"GoalService_ExplainGoal", "GoalService_ListDevices", "EventService_ListEvents",
		"EventService_ListEventDeliveries",
	}
	return never, read
}

// TestWhoMay calls every route of /v1 as every role, and looks which calls are kept.
func TestWhoMay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	allowed := whoMay()
	never, read := unkept()
	for route, operation := range routes(t) {
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
	request.Header.Set(headerRequestID, requestID)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}
