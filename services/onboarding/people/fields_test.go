package people_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/onboardingtest"
)

// bill is a flow with a field of every type.
var bill = map[string]string{
	"flow.yaml": `
flow: bill
languages: [en]
start: due
fields: {amount: text, secret: {type: text, private: true}, guests: number, member: yes_no, until: date}
steps:
  due: {send: DUE, wait: reply, then: thanks}
  thanks: {send: THANKS, then: later}
  later: {send: THANKS, after: 8s, then: done}
  done: {end: paid}
`,
	"en.yaml": `
texts:
  DUE: "{amount|Something} is due."
  THANKS: "Thank you for {amount|it}."
`,
}

func object(t *testing.T, of map[string]any) *structpb.Struct {
	t.Helper()
	made, err := structpb.NewStruct(of)
	require.NoError(t, err)
	return made
}

// TestFields is about the fields of flows that an application sets.
func TestFields(t *testing.T) {
	t.Parallel()
	publish := func(b *bundle) {
		_, err := b.Store.Flows().Publish(t.Context(), onboardingtest.OrgID, bill, b.Clock.Now())
		require.NoError(t, err)
	}
	all := map[string]any{"amount": "$20", "secret": "x", "guests": 3.0, "member": true, "until": "2027-03-12"}

	onboardingtest.Subtest(t, "AreSetReadAndRemoved", setup, func(t *testing.T, b *bundle) {
		publish(b)
		p := b.Person()
		for range 2 { // a repeat changes nothing
			changed, err := b.changes(p, &onboardingv1.UpdateProfileRequest{Fields: object(t, all)})
			require.NoError(t, err)
			require.Equal(t, all, changed.GetFields().AsMap())
		}
		changed, err := b.changes(p, &onboardingv1.UpdateProfileRequest{Fields: object(t, map[string]any{"guests": nil, "amount": "$30"})})
		require.NoError(t, err)
		left := map[string]any{"amount": "$30", "secret": "x", "member": true, "until": "2027-03-12"}
		require.Equal(t, left, changed.GetFields().AsMap())
		read, err := onboardingtest.Ask(b.Bundle, b.Current().Server.GetProfile, &onboardingv1.GetProfileRequest{ProfileId: p.ID})
		require.NoError(t, err)
		require.Equal(t, left, read.GetProfile().GetFields().AsMap())
		require.Equal(t, 1, b.Count(`select count(*) from profile_fields where private and name = 'secret'`))
	})

	onboardingtest.Subtest(t, "AreHeldToWhatFlowsDeclare", setup, func(t *testing.T, b *bundle) {
		publish(b)
		p := b.Person()
		wrong := map[string]any{"amuont": "$20", "guests": "3", "member": "yes", "until": "tomorrow", "amount": "\x00", "secret": []any{}}
		says := []string{
			"fields: amount must be a text, at most 60 characters long", `"amuont" is declared by no current flow; there are: amount, guests, member, secret, until`,
			"guests must be a number", "member must be true or false", "until must be a date such as 2027-03-12", "secret must be a text",
		}
		_, patched := b.changes(p, &onboardingv1.UpdateProfileRequest{Fields: object(t, wrong)})
		_, activated := onboardingtest.Ask(b.Bundle, b.Current().Server.ActivateProfile, &onboardingv1.ActivateProfileRequest{
			ProfileId: p.ID, Flow: "bill", Fields: object(t, wrong),
		})
		for _, err := range []error{patched, activated} {
			onboardingtest.Refused(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
			for _, words := range says {
				require.ErrorContains(t, err, words)
			}
		}
		_, err := onboardingtest.Ask(b.Bundle, b.Current().Server.ActivateProfile, &onboardingv1.ActivateProfileRequest{
			ProfileId: p.ID, Fields: object(t, all),
		})
		require.ErrorContains(t, err, "fields are those of a published flow; send flow, too")
	})

	onboardingtest.Subtest(t, "ComeWithAnActivation", setup, func(t *testing.T, b *bundle) {
		publish(b)
		p := b.Person()
		activate := func(amount string) *onboardingv1.Session {
			out, err := onboardingtest.Ask(b.Bundle, b.Current().Server.ActivateProfile, &onboardingv1.ActivateProfileRequest{
				ProfileId: p.ID, Flow: "bill", Fields: object(t, map[string]any{"amount": amount}),
			})
			require.NoError(t, err)
			return out.GetSession()
		}
		require.Equal(t, activate("$20").GetSessionId(), activate("$30").GetSessionId())
		require.Equal(t, "$20 is due.", b.Messaging.Taken(p.Phone)[0].Body)
		kept, err := b.Store.Fields(t.Context(), onboardingtest.OrgID, p.ID)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"amount": "$20"}, kept, "those that come while the session is open are not taken")
	})

	onboardingtest.Subtest(t, "StayWhileATextIsDue", setup, func(t *testing.T, b *bundle) {
		publish(b)
		p := b.Person()
		_, err := b.Current().Service.Begin(t.Context(), onboardingtest.OrgID, conversation.Start{ProfileID: p.ID, Flow: "bill"})
		require.NoError(t, err)
		_, err = b.changes(p, &onboardingv1.UpdateProfileRequest{Fields: object(t, map[string]any{"amount": "$20"})})
		require.NoError(t, err, "the session waits for a reply")
		b.Reply(p, "ok")
		_, err = b.changes(p, &onboardingv1.UpdateProfileRequest{Fields: object(t, map[string]any{"amount": "$30"})})
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_PROFILE_BUSY)
		_, err = b.changes(p, &onboardingv1.UpdateProfileRequest{Fields: object(t, map[string]any{"amount": "$20"})})
		require.NoError(t, err, "nothing changes")
	})
}
