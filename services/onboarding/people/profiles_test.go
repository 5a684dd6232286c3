package people_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/platform/roster"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

func TestEnrolment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, tt := range []struct {
		name   string
		person roster.Person
		want   string // what is wrong, or empty
	}{
		{name: "International", person: roster.Person{Phone: "+55 (11) 98765-4321", FirstName: "  Ana   Maria ", Locale: "PT-br", TimeZone: "America/Sao_Paulo"}},
		{name: "S0_68_NoName", person: roster.Person{Phone: "+5511987650001"}, want: "first_name"},
		{name: "S0_68_NameWithoutALetter", person: roster.Person{Phone: "+5511987650001", FirstName: "12 34"}, want: "first_name"},
		{name: "S0_68_NameWhoseLettersComeTooLate", person: roster.Person{Phone: "+5511987650001", FirstName: "12345678901234567890 Ana"}, want: "first_name"},
		{name: "S0_68_NameOfEmoji", person: roster.Person{Phone: "+5511987650001", FirstName: "🙂🙂"}, want: "first_name"},
		{name: "NameWithBraces", person: roster.Person{Phone: "+5511987650001", FirstName: "{first_name}"}, want: "first_name"},
		{name: "NationalPhone", person: roster.Person{Phone: "11987654321", FirstName: "Ana"}, want: "phone"},
		{name: "UnknownLocale", person: roster.Person{Phone: "+5511987650001", FirstName: "Ana", Locale: "fr"}, want: "locale"},
		{name: "UnknownZone", person: roster.Person{Phone: "+5511987650001", FirstName: "Ana", TimeZone: "Local"}, want: "time_zone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, _, err := b.Current().Persons.Enrol(t.Context(), onboardingtest.OrgID, tt.person)
			if tt.want != "" {
				require.ErrorIs(t, err, roster.ErrInvalid)
				require.ErrorContains(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []string{"+5511987654321", "Ana Maria", "pt-BR", "America/Sao_Paulo"}, []string{p.Phone, p.FirstName, p.Locale, p.TimeZone})
		})
	}

	for _, tt := range []struct {
		name, phone, given, want string
		quiet                    string // the zone that decides when it is night; want if empty
	}{
		{name: "ZoneOfTheNumberIsAGuess", phone: "+14155550150", want: "America/Los_Angeles"},
		{name: "NumberOfSeveralZonesHasTheOrganisationsAndItsOwnNights", phone: "+447400123456", want: "Asia/Tokyo", quiet: "Europe/Guernsey"},
		{name: "NumberOfManyZonesHasTheOrganisationsAndItsOwnNights", phone: "+18005550150", want: "Asia/Tokyo", quiet: "America/Adak"},
		{name: "GivenZoneIsNone", phone: "+14155550151", given: "Europe/Lisbon", want: "Europe/Lisbon"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			enrolled, _, err := b.Current().Persons.Enrol(t.Context(), onboardingtest.OrgID, roster.Person{Phone: tt.phone, FirstName: "Ana", TimeZone: tt.given})
			require.NoError(t, err)
			require.Equal(t, tt.given == "", enrolled.TimeZoneGuessed)
			operator := rpc.WithPrincipal(t.Context(), rpc.Principal{Subject: "ada", Role: rpc.RoleOperator, OrgID: onboardingtest.OrgID})
			_, err = b.Current().Server.UpdateSettings(operator, &onboardingv1.UpdateSettingsRequest{Settings: &onboardingv1.Settings{
				QuietHours: &onboardingv1.QuietHours{Enabled: true}, TimeZone: new("Asia/Tokyo"), // after they were enrolled
			}})
			require.NoError(t, err)
			found, err := b.Current().Server.GetProfile(operator, &onboardingv1.GetProfileRequest{ProfileId: enrolled.ID})
			require.NoError(t, err)
			require.Equal(t, tt.want, found.GetProfile().GetTimeZone())
			r := b.Activate(enrolled)
			require.Equal(t, cmp.Or(tt.quiet, tt.want), b.Session(r.ID).Quiet.Zone.String(), "and their conversation goes by it")
			asked, err := b.Current().Server.GetQuietHours(t.Context(), &onboardingv1.GetQuietHoursRequest{OrgId: onboardingtest.OrgID, Phone: tt.phone})
			require.NoError(t, err)
			require.Equal(t, cmp.Or(tt.quiet, tt.want), asked.GetTimeZone(), "and what others send them")
		})
	}

	t.Run("ATextIsInTheNameOfWhoHasThePhone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ana, _, err := b.Current().Persons.Enrol(t.Context(), onboardingtest.OrgID, roster.Person{Phone: "+14155550160", FirstName: "Ana"})
		require.NoError(t, err)
		bia, _, err := b.Current().Persons.Enrol(t.Context(), onboardingtest.OrgID, roster.Person{Phone: "+14155550161", FirstName: "Bia"})
		require.NoError(t, err)
		for _, tt := range []struct{ org, phone, profile, refused string }{
			{org: onboardingtest.OrgID, phone: "+1 (415) 555-0160", profile: ana.ID},
			{org: onboardingtest.OrgID, phone: "+14155550160", profile: strings.ToUpper(ana.ID)},
			{org: onboardingtest.OrgID, phone: bia.Phone, profile: ana.ID, refused: "to must be the phone of profile_id"},
			{org: onboardingtest.OrgID, phone: "+14155550162", profile: ana.ID, refused: "to must be the phone of profile_id"},
			{org: onboardingtest.OrgID, phone: ana.Phone, profile: onboardingtest.NewID(), refused: "to must be the phone of profile_id"},
			{org: onboardingtest.NewID(), phone: ana.Phone, profile: ana.ID, refused: "to must be the phone of profile_id"},
			{org: onboardingtest.OrgID, phone: ana.Phone, profile: "ana", refused: "profile_id must be a UUID"},
			{org: onboardingtest.OrgID, phone: ana.Phone},
		} {
			_, err := b.Current().Server.GetQuietHours(t.Context(),
				&onboardingv1.GetQuietHoursRequest{OrgId: tt.org, Phone: tt.phone, ProfileId: tt.profile})
			if tt.refused == "" {
				require.NoError(t, err)
				continue
			}
			require.Equal(t, codes.InvalidArgument, status.Code(onboarding.Answer(err)))
			require.ErrorContains(t, err, tt.refused)
		}
	})

	t.Run("EverythingThatIsWrongAtOnce", func(t *testing.T) {
		t.Parallel()
		_, _, err := b.Current().Persons.Enrol(t.Context(), onboardingtest.OrgID, roster.Person{Phone: "x", Locale: "fr", TimeZone: "Mars"})
		for _, field := range []string{"phone", "first_name", "locale", "time_zone"} {
			require.ErrorContains(t, err, field)
		}
	})

	t.Run("SamePhoneIsTheSameProfile", func(t *testing.T) {
		t.Parallel()
		one, created, err := b.Current().Persons.Enrol(t.Context(), onboardingtest.OrgID, roster.Person{Phone: "+5511987657777", FirstName: "Ana"})
		require.NoError(t, err)
		require.True(t, created)
		two, created, err := b.Current().Persons.Enrol(t.Context(), onboardingtest.OrgID, roster.Person{Phone: "+5511987657777", FirstName: "Bia"})
		require.NoError(t, err)
		require.False(t, created)
		require.Equal(t, one, two)
		elsewhere, _, err := b.Current().Persons.Enrol(t.Context(), onboardingtest.NewID(), roster.Person{Phone: "+5511987657777", FirstName: "Ana"})
		require.NoError(t, err)
		require.NotEqual(t, one.ID, elsewhere.ID)
	})
}

// lists reads profiles as an operator, page by page.
func (b *bundle) lists(in *onboardingv1.ListProfilesRequest) []string {
	b.T.Helper()
	var names []string
	for {
		out, err := onboardingtest.Ask(b.Bundle, b.Current().Server.ListProfiles, in)
		require.NoError(b.T, err)
		for _, p := range out.GetProfiles() {
			names = append(names, p.GetFirstName())
		}
		if in.PageToken = out.GetNextPageToken(); in.GetPageToken() == "" {
			return names
		}
	}
}

func TestListProfiles(t *testing.T) {
	t.Parallel()
	b := setup(t)
	called := func(p people.Profile, name string) people.Profile {
		b.Exec(`update profiles set first_name = $2 where id = $1`, p.ID, name)
		return p
	}
	none := called(b.Person(), "Ângela")
	active, _ := b.Activated()
	called(active, "Ana")
	stopped, _ := b.Activated()
	b.Reply(stopped, "STOP")
	called(stopped, "ANABEL")
	closed, r := b.Activated()
	b.Resets(r)
	called(closed, "Bia")
	again, r := b.Activated() // its session that was closed is not the newest one
	b.Resets(r)
	b.Activate(again)
	called(again, "Ben_%")
	parked, _, _ := b.ParkedAtStep(messagingtest.Reject)
	called(parked, "Cid")
	held := called(b.Person(), "Dora")
	b.Hold(held)
	b.Exec(`update profiles set locale = 'pt-BR' where id = $1`, held.ID)
	_, _, err := b.Current().Persons.Enrol(t.Context(), onboardingtest.NewID(), roster.Person{Phone: none.Phone, FirstName: "Eve"})
	require.NoError(t, err)
	all := []string{"Dora", "Cid", "Ben_%", "Bia", "ANABEL", "Ana", "Ângela"}

	for _, tt := range []struct {
		name string
		in   *onboardingv1.ListProfilesRequest
		want []string
	}{
		{name: "NewestFirst", in: &onboardingv1.ListProfilesRequest{}, want: all},
		{name: "PageByPage", in: &onboardingv1.ListProfilesRequest{PageSize: 2}, want: all},
		{name: "ByPhoneInAnySpelling", in: &onboardingv1.ListProfilesRequest{Phone: active.Phone[:3] + " (" + active.Phone[3:5] + ") " + active.Phone[5:]}, want: []string{"Ana"}},
		{name: "ByPhoneWhosePlusBecameASpace", in: &onboardingv1.ListProfilesRequest{Phone: " " + active.Phone[1:]}, want: []string{"Ana"}},
		{name: "ByAPhoneWithoutAProfile", in: &onboardingv1.ListProfilesRequest{Phone: "+5511987650000"}},
		{name: "ByTheBeginningOfAName", in: &onboardingv1.ListProfilesRequest{Name: "ana"}, want: []string{"ANABEL", "Ana"}},
		{name: "ByANameInOtherLetters", in: &onboardingv1.ListProfilesRequest{Name: "ÂNG"}, want: []string{"Ângela"}},
		{name: "ByANameWithoutItsAccent", in: &onboardingv1.ListProfilesRequest{Name: "an"}, want: []string{"ANABEL", "Ana", "Ângela"}},
		{name: "ByANameWithAnAccentTooMany", in: &onboardingv1.ListProfilesRequest{Name: "bía"}, want: []string{"Bia"}},
		{name: "WithAPartOfAName", in: &onboardingv1.ListProfilesRequest{Query: "ngé"}, want: []string{"Ângela"}},
		{name: "WithTwoLetters", in: &onboardingv1.ListProfilesRequest{Query: "ÍA"}, want: []string{"Bia"}},
		{name: "WithAPartThatIsActive", in: &onboardingv1.ListProfilesRequest{Query: "na", State: "active"}, want: []string{"Ana"}},
		{name: "WithSignsOfAPattern", in: &onboardingv1.ListProfilesRequest{Query: "n_%"}, want: []string{"Ben_%"}},
		{name: "WithTheLastDigits", in: &onboardingv1.ListProfilesRequest{Query: active.Phone[5:8] + "-" + active.Phone[8:]}, want: []string{"Ana"}},
		{name: "WithTheNumberAsItIsDialled", in: &onboardingv1.ListProfilesRequest{Query: "00 " + active.Phone[1:]}, want: []string{"Ana"}},
		{name: "SignsOfAPatternAreLetters", in: &onboardingv1.ListProfilesRequest{Name: "ben_%"}, want: []string{"Ben_%"}},
		{name: "SignsOfAPatternMatchNothingElse", in: &onboardingv1.ListProfilesRequest{Name: "%"}},
		{name: "None", in: &onboardingv1.ListProfilesRequest{State: "none"}, want: []string{"Dora", "Ângela"}},
		{name: "Active", in: &onboardingv1.ListProfilesRequest{State: "active"}, want: []string{"Ben_%", "Ana"}},
		{name: "ActivePageByPage", in: &onboardingv1.ListProfilesRequest{State: "active", PageSize: 1}, want: []string{"Ben_%", "Ana"}},
		{name: "Stopped", in: &onboardingv1.ListProfilesRequest{State: "stopped"}, want: []string{"ANABEL"}},
		{name: "Closed", in: &onboardingv1.ListProfilesRequest{State: "closed"}, want: []string{"Bia"}},
		{name: "Undeliverable", in: &onboardingv1.ListProfilesRequest{State: "undeliverable"}, want: []string{"Cid"}},
		{name: "Stuck", in: &onboardingv1.ListProfilesRequest{State: "stuck"}},
		{name: "Parked", in: &onboardingv1.ListProfilesRequest{State: "parked"}, want: []string{"Cid"}},
		{name: "Held", in: &onboardingv1.ListProfilesRequest{State: "held"}, want: []string{"Dora"}},
		{name: "ByNameAndState", in: &onboardingv1.ListProfilesRequest{State: "active", Name: "b"}, want: []string{"Ben_%"}},
		{name: "HeldAndNeverActivated", in: &onboardingv1.ListProfilesRequest{State: "none", Held: true}, want: []string{"Dora"}},
		{name: "HeldAndActive", in: &onboardingv1.ListProfilesRequest{State: "active", Held: true}},
		{name: "OptedOut", in: &onboardingv1.ListProfilesRequest{OptedOut: true}, want: []string{"ANABEL"}},
		{name: "OptedOutOfAName", in: &onboardingv1.ListProfilesRequest{OptedOut: true, Name: "b"}},
		{name: "ByLanguage", in: &onboardingv1.ListProfilesRequest{Locale: "PT-br"}, want: []string{"Dora"}},
		{
			name: "ByLanguageAndState", in: &onboardingv1.ListProfilesRequest{Locale: "en", State: "active", PageSize: 1},
			want: []string{"Ben_%", "Ana"},
		},
		{name: "ByIDsOfWhichOneIsUnknown", in: &onboardingv1.ListProfilesRequest{ProfileId: []string{active.ID, onboardingtest.NewID(), held.ID}}, want: []string{"Dora", "Ana"}},
		{name: "ByIDAndState", in: &onboardingv1.ListProfilesRequest{ProfileId: []string{active.ID, held.ID}, State: "active"}, want: []string{"Ana"}},
		{name: "ByPhoneAndAnotherState", in: &onboardingv1.ListProfilesRequest{State: "stopped", Phone: active.Phone}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, b.lists(tt.in))
		})
	}
	t.Run("EachSaysWhereThePersonStands", func(t *testing.T) {
		t.Parallel()
		out, err := onboardingtest.Ask(b.Bundle, b.Current().Server.ListProfiles, &onboardingv1.ListProfilesRequest{})
		require.NoError(t, err)
		stands := map[string]string{}
		for _, p := range out.GetProfiles() {
			stands[p.GetFirstName()] = p.GetState().GetStatus() + " " + p.GetState().GetStateToken()
			require.Equal(t, p.GetState().GetStatus() == "none", p.GetState().GetSessionId() == "")
			require.Equal(t, p.GetFirstName() == "ANABEL", p.GetState().GetOptedOutAt() != nil)
			one, err := onboardingtest.Ask(b.Bundle, b.Current().Server.GetProfile, &onboardingv1.GetProfileRequest{ProfileId: p.GetProfileId()})
			require.NoError(t, err)
			one.GetProfile().Fields = nil // a list leaves them out
			require.True(t, proto.Equal(p, one.GetProfile()))
		}
		opening, burst := " "+string(session.AwaitingOpeningResponse), " "+string(session.AwaitingBurst)
		require.Equal(t, map[string]string{
			"Dora": "none ", "Cid": "undeliverable" + burst, "Ben_%": "active" + opening, "Bia": "closed" + opening, "ANABEL": "stopped" + opening,
			"Ana": "active" + opening, "Ângela": "none ",
		}, stands)
	})
	for name, in := range map[string]*onboardingv1.ListProfilesRequest{
		"a national phone": {Phone: "11987654321"}, "a state that is none": {State: "away"}, "a language that we do not speak": {Locale: "fr"}, "a name of spaces": {Name: "  "},
		"a part without a letter or a digit": {Query: "+ ()"}, "a part of zeros": {Query: "0000000"},
		"a name that cannot be seen": {Name: "a\x00"}, "a page too large": {PageSize: 501}, "a token that is not ours": {PageToken: "x"},
		"an id that is none": {ProfileId: []string{"ana"}}, "too many of them": {ProfileId: slices.Repeat([]string{active.ID}, 101)},
	} {
		_, err := onboardingtest.Ask(b.Bundle, b.Current().Server.ListProfiles, in)
		refusal, _ := rpc.ErrorFrom(onboarding.Answer(err))
		require.Equal(t, codes.InvalidArgument, refusal.Code, name)
	}
}
