package conversation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/emulators/messagingtest"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
)

func TestConsentRecord(t *testing.T) {
	t.Parallel()
	agreed := func(b *bundle) *onboardingv1.ConsentRecord {
		return &onboardingv1.ConsentRecord{
			Source: " web_form ", WordsShown: "I want texts.\nSTOP ends them.", CollectedAt: timestamppb.New(b.Clock.Now().Add(-time.Hour)),
		}
	}
	given := func(b *bundle) *messagingv1.ConsentRecord {
		b.T.Helper()
		attempts := b.Messaging.Attempts()
		require.NotEmpty(b.T, attempts)
		for _, later := range attempts[1:] {
			require.Nil(b.T, later.GetConsent(), "it comes with the opening")
		}
		return attempts[0].GetConsent()
	}
	requires := func(b *bundle, wanted *bool) bool {
		b.T.Helper()
		out, err := onboardingtest.Ask(b.Bundle, b.Current().Server.UpdateSettings, &onboardingv1.UpdateSettingsRequest{
			Settings: &onboardingv1.Settings{QuietHours: &onboardingv1.QuietHours{}, RequireConsentRecord: wanted},
		})
		require.NoError(b.T, err)
		return out.GetSettings().GetRequireConsentRecord()
	}

	onboardingtest.Subtest(t, "R_07_GoesToMessagingWithTheOpening", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		collected := b.Clock.Now().Add(-time.Hour)
		_, err := b.Activates(p, agreed(b))
		require.NoError(t, err)
		b.Reply(p, "yes")
		require.Equal(t, &messagingv1.ConsentRecord{
			Source: "web_form", WordsShown: "I want texts.\nSTOP ends them.", CollectedAt: timestamppb.New(collected),
		}, given(b))
	})

	onboardingtest.Subtest(t, "TheAnswerSaysWhatTheLedgerIsTold", setup, func(t *testing.T, b *bundle) {
		records := func(p people.Profile, consent *onboardingv1.ConsentRecord) string {
			out, err := onboardingtest.Ask(b.Bundle, b.Current().Server.ActivateProfile, &onboardingv1.ActivateProfileRequest{ProfileId: p.ID, Consent: consent})
			require.NoError(t, err)
			return out.GetConsentRecorded()
		}
		p := b.Person()
		require.Equal(t, "collected_elsewhere", records(p, nil), "nobody stated how the person agreed")
		require.Empty(t, records(p, agreed(b)), "of an open session no record is taken")
		b.Resets(b.Newest(p))
		require.Empty(t, records(p, nil), "the ledger has the number")
		b.Resets(b.Newest(p))
		require.Equal(t, "first_send", records(p, agreed(b)))
		require.Equal(t, "first_send", records(b.Person(), agreed(b)))
	})

	onboardingtest.Subtest(t, "R_07_GoesWithAnOpeningThatWasParkedAndWaitsForTheMorning", setup, func(t *testing.T, b *bundle) {
		b.SleepsAtNight()
		p := b.Person()
		b.Messaging.Script(messagingtest.First(messagingtest.Reject))
		_, err := b.Activates(p, agreed(b))
		require.NoError(t, err)
		b.Messaging.ResolveAll()
		b.Messaging.Script(nil)
		b.Turns(23, 0)
		b.Resumed(b.Newest(p))
		b.Clock.Advance(onboardingtest.Morning.Sub(b.Clock.Now()))
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
		require.Equal(t, "web_form", given(b).GetSource())
	})

	onboardingtest.Subtest(t, "R_07_IsRequiredWhenTheOrganisationSaysSo", setup, func(t *testing.T, b *bundle) {
		early := b.Person()
		open := b.Activate(early)
		require.True(t, requires(b, new(true)))
		require.True(t, requires(b, nil), "who does not speak of it changes nothing")
		asked, err := b.Current().Server.GetQuietHours(t.Context(), &onboardingv1.GetQuietHoursRequest{OrgId: onboardingtest.OrgID, Phone: early.Phone})
		require.NoError(t, err)
		require.True(t, asked.GetRequireConsentRecord(), "the gateway says so with each text of the outbound queue")
		p := b.Person()
		_, err = b.Activates(p, nil)
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_CONSENT_RECORD_REQUIRED)
		require.ErrorContains(t, err, "consent {source, words_shown, collected_at}")
		require.Equal(t, 1, b.Sessions())
		require.Equal(t, open.ID, b.Activate(early).ID, "a session that is open already needs none")
		_, err = b.Activates(p, agreed(b))
		require.NoError(t, err)
		require.False(t, requires(b, new(false)))
		b.Activate(b.Person())
	})

	for _, tt := range []struct {
		name   string
		change func(b *bundle, c *onboardingv1.ConsentRecord)
		field  string
	}{
		{"WithoutASource", func(_ *bundle, c *onboardingv1.ConsentRecord) { c.Source = " " }, "consent.source"},
		{"WithASourceOfTwoLines", func(_ *bundle, c *onboardingv1.ConsentRecord) { c.Source = "a\nb" }, "consent.source"},
		{"WithoutWords", func(_ *bundle, c *onboardingv1.ConsentRecord) { c.WordsShown = "" }, "consent.words_shown"},
		{"WithLongWords", func(_ *bundle, c *onboardingv1.ConsentRecord) { c.WordsShown = strings.Repeat("é", 1001) }, "consent.words_shown"},
		{"WithoutATime", func(_ *bundle, c *onboardingv1.ConsentRecord) { c.CollectedAt = nil }, "consent.collected_at"},
		{"FromTheFuture", func(b *bundle, c *onboardingv1.ConsentRecord) {
			c.CollectedAt = timestamppb.New(b.Clock.Now().Add(time.Hour))
		}, "consent.collected_at"},
	} {
		onboardingtest.Subtest(t, "R_07_IsRefused"+tt.name, setup, func(t *testing.T, b *bundle) {
			record := agreed(b)
			tt.change(b, record)
			_, err := b.Activates(b.Person(), record)
			onboardingtest.Refused(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
			require.ErrorContains(t, err, tt.field)
			require.Zero(t, b.Sessions())
		})
	}
}
