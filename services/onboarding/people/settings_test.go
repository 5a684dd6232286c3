package people_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"paceline.internal/platform/phone"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
)

// decide changes the settings, and returns what holds then.
func (b *bundle) decide(change func(*onboardingv1.UpdateSettingsRequest)) (*onboardingv1.Settings, error) {
	in := &onboardingv1.UpdateSettingsRequest{Settings: &onboardingv1.Settings{QuietHours: &onboardingv1.QuietHours{}}}
	change(in)
	out, err := onboardingtest.Ask(b.Bundle, b.Current().Server.UpdateSettings, in)
	return out.GetSettings(), err
}

func (b *bundle) settings() *onboardingv1.Settings {
	b.T.Helper()
	out, err := onboardingtest.Ask(b.Bundle, b.Current().Server.GetSettings, &onboardingv1.GetSettingsRequest{})
	require.NoError(b.T, err)
	return out.GetSettings()
}

func acme() *messagingv1.Sending {
	return &messagingv1.Sending{
		Brand: "Acme", HelpContact: "help@acme.example", Caps: &messagingv1.Caps{PhoneDay: &messagingv1.Cap{Messages: 9, Segments: 30}},
		Recipients: &messagingv1.Recipients{Countries: []string{"BR", "US"}, NumberTypes: []string{"voicemail"}},
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	sending := func(decided *messagingv1.Sending) func(*onboardingv1.UpdateSettingsRequest) {
		return func(r *onboardingv1.UpdateSettingsRequest) { r.Settings.Sending = decided }
	}

	onboardingtest.Subtest(t, "ATimeZoneThatIsNoneIsNamed", setup, func(t *testing.T, b *bundle) {
		for _, zone := range []string{"", "Mars"} {
			_, err := b.decide(func(r *onboardingv1.UpdateSettingsRequest) { r.Settings.TimeZone = &zone })
			onboardingtest.Refused(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
			require.ErrorContains(t, err, "time_zone must ")
			require.NotContains(t, err.Error(), "profile")
		}
	})

	onboardingtest.Subtest(t, "OfSendingReachMessaging", setup, func(t *testing.T, b *bundle) {
		require.Nil(t, b.settings().GetSending())
		require.Zero(t, b.settings().GetVersion())
		got, err := b.decide(sending(acme()))
		require.NoError(t, err)
		require.False(t, got.GetSendingPending())
		told, version := b.Messaging.Settings()
		require.True(t, proto.Equal(acme(), told), told)
		require.Equal(t, []int64{1, 1}, []int64{version, got.GetVersion()})

		b.Messaging.SetDown(true)
		got, err = b.decide(sending(&messagingv1.Sending{Brand: "Acme Corp"}))
		require.NoError(t, err, "it is kept, and told later")
		require.True(t, got.GetSendingPending())
		require.True(t, b.settings().GetSendingPending())
		_, err = b.Current().Persons.TellSettings(t.Context())
		require.NoError(t, err, "it was just tried")
		b.Messaging.SetDown(false)
		b.Clock.Advance(time.Minute)
		b.Pass(time.Minute)
		told, version = b.Messaging.Settings()
		require.Equal(t, "Acme Corp", told.GetBrand())
		require.EqualValues(t, 2, version)
		require.False(t, b.settings().GetSendingPending())
		require.Nil(t, b.settings().GetSending().GetRecipients(), "all of it is replaced")

		got, err = b.decide(func(*onboardingv1.UpdateSettingsRequest) {})
		require.NoError(t, err)
		require.Equal(t, "Acme Corp", got.GetSending().GetBrand(), "what is left out stays")
		_, version = b.Messaging.Settings()
		require.EqualValues(t, 2, version, "and is not told again")
	})

	onboardingtest.Subtest(t, "OfEngagementAreCheckedLikeAFile", setup, func(t *testing.T, b *bundle) {
		engagement := func(fields map[string]any) (*onboardingv1.Settings, error) {
			decided, err := structpb.NewStruct(fields)
			require.NoError(t, err)
			return b.decide(func(r *onboardingv1.UpdateSettingsRequest) { r.Settings.Engagement = decided })
		}
		_, err := engagement(map[string]any{"version": "", "inactivity_days": 0})
		require.Equal(t, codes.InvalidArgument, status.Code(err))
		for _, problem := range []string{"settings.engagement: ", "version is empty", "inactivity_days 0 must be 1 to 365", "; tiers is missing"} {
			require.ErrorContains(t, err, problem)
		}
		require.NotContains(t, err.Error(), rules.ErrConfig.Error())
		builtIn, err := os.ReadFile("../engagement/rules/engagement.json")
		require.NoError(t, err)
		var file map[string]any
		require.NoError(t, json.Unmarshal(builtIn, &file))
		file["inactivity_days"] = 3
		got, err := engagement(file)
		require.NoError(t, err)
		require.InDelta(t, 3, got.GetEngagement().AsMap()["inactivity_days"], 0)
		got, err = b.decide(func(*onboardingv1.UpdateSettingsRequest) {})
		require.NoError(t, err)
		require.NotNil(t, got.GetEngagement(), "what is left out stays")
		file["version"] = ""
		compact, err := json.Marshal(file)
		require.NoError(t, err)
		file["version"] = strings.Repeat("v", 16<<10-len(compact))
		_, err = engagement(file)
		require.NoError(t, err, "the white space of protojson, of some builds, does not count")
		file["version"] = strings.Repeat("v", 16<<10-len(compact)+1)
		_, err = engagement(file)
		require.ErrorContains(t, err, "at most 16384 bytes")
		got, err = engagement(map[string]any{})
		require.NoError(t, err)
		require.Nil(t, got.GetEngagement(), "as the deployment has it, again")
		versions, err := onboardingtest.Ask(b.Bundle, b.Current().Server.ListSettingsVersions, &onboardingv1.ListSettingsVersionsRequest{})
		require.NoError(t, err)
		require.NotNil(t, versions.GetVersions()[1].GetEngagement())
	})

	onboardingtest.Subtest(t, "TextsOfEngagementAreCheckedLikeCopyFiles", setup, func(t *testing.T, b *bundle) {
		texts := func(all map[string]any) (*onboardingv1.Settings, error) {
			decided, err := structpb.NewStruct(all)
			require.NoError(t, err)
			return b.decide(func(r *onboardingv1.UpdateSettingsRequest) { r.Settings.EngagementTexts = decided })
		}
		for problem, bad := range map[string]map[string]any{
			"engagement_texts: they must be":                 {"en": "Hello"},
			`"de" is none of en, pt-BR`:                      {"de": map[string]any{"ENGAGEMENT_TIER_3": "Prima."}},
			`"ONBOARDING_LATER" is no text`:                  {"en": map[string]any{"ONBOARDING_LATER": "Later."}},
			`"ENGAGEMENT_NEVER" is no text`:                  {"en": map[string]any{"ENGAGEMENT_NEVER": "Hello."}},
			"GOAL_CANCELLED in en":                           {"en": map[string]any{"GOAL_CANCELLED": "That one is off."}},
			"ENGAGEMENT_WEEKLY_REVIEW in en":                 {"en": map[string]any{"ENGAGEMENT_WEEKLY_REVIEW": "You noted some things."}},
			"settings.engagement_texts must have at most 32": {"en": map[string]any{"ENGAGEMENT_TIER_3": strings.Repeat("a", 33<<10)}},
		} {
			_, err := texts(bad)
			require.Equal(t, codes.InvalidArgument, status.Code(err), problem)
			require.ErrorContains(t, err, problem)
		}
		text := func(length int) map[string]any {
			return map[string]any{"en": map[string]any{"ENGAGEMENT_TIER_3": strings.Repeat("a", length)}}
		}
		least, err := json.Marshal(text(0))
		require.NoError(t, err)
		_, err = texts(text(32<<10 - len(least)))
		require.NotContains(t, fmt.Sprint(err), "at most 32768 bytes", "the white space of protojson, of some builds, does not count")
		_, err = texts(text(32<<10 - len(least) + 1))
		require.ErrorContains(t, err, "at most 32768 bytes")
		own := map[string]any{"pt-BR": map[string]any{"ENGAGEMENT_TIER_3": "Que bom ver você aqui.", "GOAL_PAST": "Essa hora já passou."}}
		got, err := texts(own)
		require.NoError(t, err)
		require.Equal(t, own, got.GetEngagementTexts().AsMap())
		got, err = b.decide(func(*onboardingv1.UpdateSettingsRequest) {})
		require.NoError(t, err)
		require.NotNil(t, got.GetEngagementTexts(), "what is left out stays")
		got, err = texts(map[string]any{})
		require.NoError(t, err)
		require.Nil(t, got.GetEngagementTexts(), "as the deployment has them, again")
		versions, err := onboardingtest.Ask(b.Bundle, b.Current().Server.ListSettingsVersions, &onboardingv1.ListSettingsVersionsRequest{})
		require.NoError(t, err)
		require.NotNil(t, versions.GetVersions()[1].GetEngagementTexts())
	})

	onboardingtest.Subtest(t, "OfADatabaseThatWentBackAreToldAgain", setup, func(t *testing.T, b *bundle) {
		ahead := func(version int64) {
			_, err := b.Messaging.SetOrganisationSettings(t.Context(), &messagingv1.SetOrganisationSettingsRequest{
				OrgId: onboardingtest.OrgID, Version: version, Sending: &messagingv1.Sending{Brand: "Lost"},
			})
			require.NoError(t, err)
		}
		ahead(9)
		got, err := b.decide(sending(acme()))
		require.NoError(t, err)
		require.False(t, got.GetSendingPending())
		require.EqualValues(t, 10, got.GetVersion())
		require.EqualValues(t, 10, b.settings().GetVersion())
		told, version := b.Messaging.Settings()
		require.True(t, proto.Equal(acme(), told), told)
		require.EqualValues(t, 10, version)

		ahead(19)
		b.Clock.Advance(25 * time.Hour)
		b.Pass(time.Minute)
		told, version = b.Messaging.Settings()
		require.True(t, proto.Equal(acme(), told), told)
		require.EqualValues(t, 20, version)
		require.EqualValues(t, 20, b.settings().GetVersion())
		require.False(t, b.settings().GetSendingPending())
	})

	onboardingtest.Subtest(t, "ThatCannotBeReadDelayNoOther", setup, func(t *testing.T, b *bundle) {
		b.Messaging.SetDown(true)
		_, err := b.decide(sending(acme()))
		require.NoError(t, err)
		b.Messaging.SetDown(false)
		b.Exec(`insert into organisation_settings (org_id, sending, version, tell_at, updated_at) values ($1, '{"caps": "none"}', 1, $2, $2)`,
			onboardingtest.NewID(), b.Clock.Now())
		b.Clock.Advance(time.Minute)
		_, err = b.Current().Persons.TellSettings(t.Context())
		require.ErrorContains(t, err, "sending")
		told, _ := b.Messaging.Settings()
		require.True(t, proto.Equal(acme(), told), told)
		_, err = b.Current().Persons.TellSettings(t.Context())
		require.NoError(t, err, "it was just tried")
	})

	onboardingtest.Subtest(t, "WithARetentionThatCannotBeReadAreToldAllTheSame", setup, func(t *testing.T, b *bundle) {
		b.Messaging.SetDown(true)
		_, err := b.decide(sending(acme()))
		require.NoError(t, err)
		b.Messaging.SetDown(false)
		b.Exec(`update organisation_settings set retention =
			'{"messages": 90, "consent": "for ever", "jobs": 30.5, "receipts": 1e400, "goals": 0}'`)
		untold, err := b.Store.People().Untold(t.Context(), b.Clock.Now().Add(time.Minute), 2)
		require.NoError(t, err)
		require.Len(t, untold, 1)
		require.NoError(t, untold[0].Unreadable)
		require.Equal(t, map[string]int{"messages": 90}, untold[0].Retention)
		b.Clock.Advance(time.Minute)
		_, err = b.Current().Persons.TellSettings(t.Context())
		require.NoError(t, err)
		told, _ := b.Messaging.Settings()
		require.True(t, proto.Equal(acme(), told), told)
	})

	onboardingtest.Subtest(t, "ThatAreWrongAreRefused", setup, func(t *testing.T, b *bundle) {
		for field, bad := range map[string]*messagingv1.Sending{
			"brand": {Brand: "two\nlines"}, "caps.phone_hour": {Caps: &messagingv1.Caps{PhoneHour: &messagingv1.Cap{Messages: 1}}},
			"caps.org_hour":           {Caps: &messagingv1.Caps{OrgHour: &messagingv1.Cap{Messages: -1, Segments: -1}}},
			"recipients.countries":    {Recipients: &messagingv1.Recipients{Countries: []string{"Brazil"}}},
			"recipients.number_types": {Recipients: &messagingv1.Recipients{NumberTypes: []string{"fax"}}},
		} {
			_, err := b.decide(sending(bad))
			require.ErrorContains(t, err, "settings.sending."+field)
		}
		_, err := b.decide(func(r *onboardingv1.UpdateSettingsRequest) { r.Settings.ActivationFlow = new("nobody") })
		require.ErrorContains(t, err, flow.ErrNotFound.Error())
		require.Zero(t, b.settings().GetVersion())
	})

	onboardingtest.Subtest(t, "WithABlankEntryAreNotAllCountries", setup, func(t *testing.T, b *bundle) {
		for _, blank := range []string{"", " ", ","} {
			_, err := b.decide(sending(&messagingv1.Sending{Recipients: &messagingv1.Recipients{Countries: []string{blank}}}))
			require.ErrorContains(t, err, "settings.sending.recipients.countries", blank)
		}
		_, err := b.decide(sending(&messagingv1.Sending{Recipients: &messagingv1.Recipients{NumberTypes: []string{""}}}))
		require.ErrorContains(t, err, "settings.sending.recipients.number_types")
		require.Zero(t, b.settings().GetVersion())
	})

	onboardingtest.Subtest(t, "AreChangedByOneAtATimeAndKeepTheirVersions", setup, func(t *testing.T, b *bundle) {
		at := func(version int64, brand string) func(*onboardingv1.UpdateSettingsRequest) {
			return func(r *onboardingv1.UpdateSettingsRequest) {
				r.Version, r.Settings.Sending = &version, &messagingv1.Sending{Brand: brand}
			}
		}
		_, err := b.decide(at(3, "none"))
		require.ErrorContains(t, err, people.ErrSettingsChanged.Error())
		require.Zero(t, b.settings().GetVersion())
		_, err = b.decide(at(0, "first"))
		require.NoError(t, err)
		_, err = b.decide(at(0, "late"))
		require.ErrorContains(t, err, people.ErrSettingsChanged.Error())
		_, err = b.decide(at(1, "second"))
		require.NoError(t, err)
		out, err := onboardingtest.Ask(b.Bundle, b.Current().Server.ListSettingsVersions, &onboardingv1.ListSettingsVersionsRequest{})
		require.NoError(t, err)
		var found []string
		for _, v := range out.GetVersions() {
			found = append(found, v.GetSending().GetBrand())
			require.Equal(t, b.Clock.Now(), v.GetUpdatedAt().AsTime())
		}
		require.Equal(t, []string{"second", "first"}, found)
		for range 101 {
			_, err = b.decide(func(*onboardingv1.UpdateSettingsRequest) {})
			require.NoError(t, err)
		}
		require.Equal(t, 100, b.Count(`select count(*) from settings_versions`))
	})

	onboardingtest.Subtest(t, "SayWhomIsTexted", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		_, err := b.decide(sending(&messagingv1.Sending{Recipients: &messagingv1.Recipients{Countries: []string{"US"}}}))
		require.NoError(t, err)
		_, err = onboardingtest.Ask(b.Bundle, b.Current().Server.CreateProfile,
			&onboardingv1.CreateProfileRequest{Phone: "+5511987654321", FirstName: "Ada"})
		require.ErrorContains(t, err, phone.ErrRefused.Error())
		_, err = onboardingtest.Ask(b.Bundle, b.Current().Server.ActivateProfile, &onboardingv1.ActivateProfileRequest{ProfileId: p.ID})
		require.ErrorContains(t, err, phone.ErrRefused.Error())
		_, err = onboardingtest.Ask(b.Bundle, b.Current().Server.CreateProfile,
			&onboardingv1.CreateProfileRequest{Phone: "+14155550188", FirstName: "Ada"})
		require.NoError(t, err)
	})
}
