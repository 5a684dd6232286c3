package onboarding_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/conversation"
)

func TestEnrolment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, tt := range []struct {
		name   string
		person conversation.Person
		want   string // what is wrong, or empty
	}{
		{name: "International", person: conversation.Person{Phone: "+55 (11) 98765-4321", FirstName: "  Ana   Maria ", Locale: "PT-br", TimeZone: "America/Sao_Paulo"}},
		{name: "S0_68_NoName", person: conversation.Person{Phone: "+5511987650001"}, want: "first_name"},
		{name: "S0_68_NameWithoutALetter", person: conversation.Person{Phone: "+5511987650001", FirstName: "12 34"}, want: "first_name"},
		{name: "S0_68_NameWhoseLettersComeTooLate", person: conversation.Person{Phone: "+5511987650001", FirstName: "12345678901234567890 Ana"}, want: "first_name"},
		{name: "S0_68_NameOfEmoji", person: conversation.Person{Phone: "+5511987650001", FirstName: "🙂🙂"}, want: "first_name"},
		{name: "NameWithBraces", person: conversation.Person{Phone: "+5511987650001", FirstName: "{first_name}"}, want: "first_name"},
		{name: "NationalPhone", person: conversation.Person{Phone: "11987654321", FirstName: "Ana"}, want: "phone"},
		{name: "UnknownLocale", person: conversation.Person{Phone: "+5511987650001", FirstName: "Ana", Locale: "fr"}, want: "locale"},
		{name: "UnknownZone", person: conversation.Person{Phone: "+5511987650001", FirstName: "Ana", TimeZone: "Local"}, want: "time_zone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, _, err := b.current().service.Enrol(t.Context(), orgID, tt.person)
			if tt.want != "" {
				require.ErrorIs(t, err, conversation.ErrInvalid)
				require.ErrorContains(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []string{"+5511987654321", "Ana Maria", "pt-BR", "America/Sao_Paulo"}, []string{p.Phone, p.FirstName, p.Locale, p.TimeZone})
		})
	}

	t.Run("EverythingThatIsWrongAtOnce", func(t *testing.T) {
		t.Parallel()
		_, _, err := b.current().service.Enrol(t.Context(), orgID, conversation.Person{Phone: "x", Locale: "fr", TimeZone: "Mars"})
		for _, field := range []string{"phone", "first_name", "locale", "time_zone"} {
			require.ErrorContains(t, err, field)
		}
	})

	t.Run("SamePhoneIsTheSameProfile", func(t *testing.T) {
		t.Parallel()
		one, _, err := b.current().service.Enrol(t.Context(), orgID, conversation.Person{Phone: "+5511987657777", FirstName: "Ana"})
		require.NoError(t, err)
		two, _, err := b.current().service.Enrol(t.Context(), orgID, conversation.Person{Phone: "+5511987657777", FirstName: "Bia"})
		require.NoError(t, err)
		require.Equal(t, one, two)
		elsewhere, _, err := b.current().service.Enrol(t.Context(), newID(), conversation.Person{Phone: "+5511987657777", FirstName: "Ana"})
		require.NoError(t, err)
		require.NotEqual(t, one.ID, elsewhere.ID)
	})
}
