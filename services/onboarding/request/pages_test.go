package request_test

import (
	"encoding/base64"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// TestPageTokens is about the tokens of every list of /v1, and of which one leads on where.
func TestPageTokens(t *testing.T) {
	t.Parallel()
	id := uuid.NewString()
	token := rpc.NextPage(&onboardingv1.ListSessionsRequest{ProfileId: "p", Status: []string{"active"}, PageSize: 2}, id)

	for _, tt := range []struct {
		name string
		in   rpc.List
		want string // what is wrong, or empty
	}{
		{name: "TheSameFilters", in: &onboardingv1.ListSessionsRequest{ProfileId: "p", Status: []string{"active"}, PageSize: 2, PageToken: token}},
		{name: "AnotherPageSize", in: &onboardingv1.ListSessionsRequest{ProfileId: "p", Status: []string{"active"}, PageSize: 9, PageToken: token}},
		{name: "AnotherFilter", in: &onboardingv1.ListSessionsRequest{ProfileId: "q", Status: []string{"active"}, PageToken: token}, want: "other filters"},
		{name: "OneFilterMore", in: &onboardingv1.ListSessionsRequest{ProfileId: "p", Status: []string{"active"}, Stuck: true, PageToken: token}, want: "other filters"},
		{name: "NoFilter", in: &onboardingv1.ListSessionsRequest{PageToken: token}, want: "other filters"},
		{name: "AnotherList", in: &onboardingv1.ListGoalsRequest{ProfileId: "p", PageToken: token}, want: "another list"},
		{name: "AnotherService", in: &messagingv1.ListMessagesRequest{ProfileId: "p", PageToken: token}, want: "another list"},
		{name: "OfTheReleaseBefore", in: &onboardingv1.ListGoalsRequest{PageToken: base64.RawURLEncoding.EncodeToString([]byte(id))}},
		{name: "NoBase64", in: &onboardingv1.ListGoalsRequest{PageToken: "?"}, want: "not one of ours"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			place, err := rpc.PageFrom(tt.in)
			if tt.want != "" {
				require.ErrorIs(t, err, rpc.ErrPageToken)
				require.ErrorContains(t, err, tt.want)
				require.ErrorContains(t, err, "leave it out to begin again")
				return
			}
			require.NoError(t, err)
			require.Equal(t, id, place)
		})
	}

	t.Run("EveryListHasOnesOfItsOwn", func(t *testing.T) {
		t.Parallel()
		seen := map[string]protoreflect.FullName{}
		for _, file := range []protoreflect.FileDescriptor{
			onboardingv1.File_paceline_onboarding_v1_onboarding_proto, onboardingv1.File_paceline_onboarding_v1_engagement_proto,
			onboardingv1.File_paceline_onboarding_v1_goals_proto, onboardingv1.File_paceline_onboarding_v1_events_proto,
			onboardingv1.File_paceline_onboarding_v1_webhook_jobs_proto, onboardingv1.File_paceline_onboarding_v1_flows_proto, onboardingv1.File_paceline_onboarding_v1_tickets_proto, onboardingv1.File_paceline_onboarding_v1_runs_proto, onboardingv1.File_paceline_onboarding_v1_api_keys_proto, messagingv1.File_paceline_messaging_v1_messaging_proto,
			messagingv1.File_paceline_messaging_v1_outbound_proto,
		} {
			for i := range file.Messages().Len() {
				described := file.Messages().Get(i)
				if described.Fields().ByName("page_token") == nil {
					continue
				}
				kind, err := protoregistry.GlobalTypes.FindMessageByName(described.FullName())
				require.NoError(t, err)
				list, ok := kind.New().Interface().(rpc.List)
				require.True(t, ok, "%s", described.FullName())
				of := rpc.NextPage(list, id)
				require.Empty(t, seen[of], "%s", described.FullName())
				seen[of] = described.FullName()
			}
		}
		require.Greater(t, len(seen), 12)
	})
}
