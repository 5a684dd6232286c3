package onboarding_test

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
	"paceline.internal/services/onboarding/conversation"
)

func TestConsentRecord(t *testing.T) {
	t.Parallel()
	agreed := func(b *bundle) *onboardingv1.ConsentRecord {
		return &onboardingv1.ConsentRecord{
			Source: " web_form ", WordsShown: "I want texts.\nSTOP ends them.", CollectedAt: timestamppb.New(b.clock.Now().Add(-time.Hour)),
		}
	}
	given := func(b *bundle) *messagingv1.ConsentRecord {
		b.t.Helper()
		attempts := b.messaging.Attempts()
		require.NotEmpty(b.t, attempts)
		for _, later := range attempts[1:] {
			require.Nil(b.t, later.GetConsent(), "it comes with the opening")
		}
		return attempts[0].GetConsent()
	}
	requires := func(b *bundle, wanted *bool) bool {
		b.t.Helper()
		out, err := asks(b, b.current().server.UpdateSettings, &onboardingv1.UpdateSettingsRequest{
			Settings: &onboardingv1.Settings{QuietHours: &onboardingv1.QuietHours{}, RequireConsentRecord: wanted},
		})
		require.NoError(b.t, err)
		return out.GetSettings().GetRequireConsentRecord()
	}

	subtest(t, "R_07_GoesToMessagingWithTheOpening", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		collected := b.clock.Now().Add(-time.Hour)
		_, err := b.activates(p, agreed(b))
		require.NoError(t, err)
		b.reply(p, "yes")
		require.Equal(t, &messagingv1.ConsentRecord{
			Source: "web_form", WordsShown: "I want texts.\nSTOP ends them.", CollectedAt: timestamppb.New(collected),
		}, given(b))
	})

	subtest(t, "TheAnswerSaysWhatTheLedgerIsTold", setup, func(t *testing.T, b *bundle) {
		records := func(p conversation.Profile, consent *onboardingv1.ConsentRecord) string {
			out, err := asks(b, b.current().server.ActivateProfile, &onboardingv1.ActivateProfileRequest{ProfileId: p.ID, Consent: consent})
			require.NoError(t, err)
			return out.GetConsentRecorded()
		}
		p := b.person()
		require.Equal(t, "collected_elsewhere", records(p, nil), "nobody stated how the person agreed")
		require.Empty(t, records(p, agreed(b)), "of an open session no record is taken")
		b.resets(b.newest(p))
		require.Empty(t, records(p, nil), "the ledger has the number")
		b.resets(b.newest(p))
		require.Equal(t, "first_send", records(p, agreed(b)))
		require.Equal(t, "first_send", records(b.person(), agreed(b)))
	})

	subtest(t, "R_07_GoesWithAnOpeningThatWasParkedAndWaitsForTheMorning", setup, func(t *testing.T, b *bundle) {
		b.sleepsAtNight()
		p := b.person()
		b.messaging.Script(messagingtest.First(messagingtest.Reject))
		_, err := b.activates(p, agreed(b))
		require.NoError(t, err)
		b.messaging.ResolveAll()
		b.messaging.Script(nil)
		b.turns(23, 0)
		b.resumed(b.newest(p))
		b.clock.Advance(morning.Sub(b.clock.Now()))
		b.quiet()
		require.Equal(t, []string{opening}, b.sequence(p))
		require.Equal(t, "web_form", given(b).GetSource())
	})

	subtest(t, "R_07_IsRequiredWhenTheOrganisationSaysSo", setup, func(t *testing.T, b *bundle) {
		early := b.person()
		open := b.activate(early)
		require.True(t, requires(b, new(true)))
		require.True(t, requires(b, nil), "who does not speak of it changes nothing")
		asked, err := b.current().server.GetQuietHours(t.Context(), &onboardingv1.GetQuietHoursRequest{OrgId: orgID, Phone: early.Phone})
		require.NoError(t, err)
		require.True(t, asked.GetRequireConsentRecord(), "the gateway says so with each text of the outbound queue")
		p := b.person()
		_, err = b.activates(p, nil)
		refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_CONSENT_RECORD_REQUIRED)
		require.ErrorContains(t, err, "consent {source, words_shown, collected_at}")
		require.Equal(t, 1, b.sessions())
		require.Equal(t, open.ID, b.activate(early).ID, "a session that is open already needs none")
		_, err = b.activates(p, agreed(b))
		require.NoError(t, err)
		require.False(t, requires(b, new(false)))
		b.activate(b.person())
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
			c.CollectedAt = timestamppb.New(b.clock.Now().Add(time.Hour))
		}, "consent.collected_at"},
	} {
		subtest(t, "R_07_IsRefused"+tt.name, setup, func(t *testing.T, b *bundle) {
			record := agreed(b)
			tt.change(b, record)
			_, err := b.activates(b.person(), record)
			refuses(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
			require.ErrorContains(t, err, tt.field)
			require.Zero(t, b.sessions())
		})
	}
}
