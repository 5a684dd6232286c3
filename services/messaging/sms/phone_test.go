package sms_test

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/sms"
)

func TestParsePhone(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		raw  string
		want string
	}{
		{name: "E164", raw: "+14155550123", want: "+14155550123"},
		{name: "SpacesAndMarks", raw: "  +1 (415) 555-0123 ", want: "+14155550123"},
		{name: "BrazilianMobile", raw: "+55 11 98765-4388", want: "+5511987654388"},
		{name: "TrunkZeroInParentheses", raw: "+44 (0)20 7946 0958", want: "+442079460958"},
		{name: "ThreeDigitCountryCode", raw: "+351 912 345 678", want: "+351912345678"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			phone, err := sms.ParsePhone(tt.raw)
			require.NoError(t, err)
			require.Equal(t, tt.want, phone.String())
			require.False(t, phone.IsZero())
		})
	}
}

func TestParsePhoneRefusesAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		raw  string
		want string
	}{
		{name: "Empty", raw: "", want: "with + and the country code"},
		{name: "NationalFormat", raw: "(415) 555-0123", want: "with + and the country code"},
		{name: "InternationalPrefixInsteadOfPlus", raw: "0014155550123", want: "with + and the country code"},
		{name: "Letters", raw: "+1800FLOWERS", want: "use only digits"},
		{name: "Extension", raw: "+14155550123x5", want: "use only digits"},
		{name: "SecondPlus", raw: "+1+4155550123", want: "use only digits"},
		{name: "NoSuchCountry", raw: "+999123456789", want: "no country has this code"},
		{name: "CountryCodeAlone", raw: "+55", want: "too few or too many digits"},
		{name: "TooShort", raw: "+1415555", want: "too few or too many digits"},
		{name: "TooLong", raw: "+141555501234567890", want: "too few or too many digits"},
		{name: "AreaCodeThatDoesNotExist", raw: "+15551234567", want: "check the area code"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			phone, err := sms.ParsePhone(tt.raw)
			require.ErrorIs(t, err, sms.ErrPhone)
			require.ErrorContains(t, err, tt.want)
			require.True(t, phone.IsZero())
			if digits := strings.TrimLeft(tt.raw, "+"); len(digits) > 3 {
				require.NotContains(t, err.Error(), digits, "an error text must not carry the number")
			}
		})
	}
}

func TestStoredPhone(t *testing.T) {
	t.Parallel()

	t.Run("ReadsNumbersThatThePlanNoLongerKnows", func(t *testing.T) {
		t.Parallel()
		phone, err := sms.StoredPhone("+15551234567")
		require.NoError(t, err)
		require.Equal(t, "+15551234567", phone.String())
	})

	t.Run("RefusesWhatIsNotE164", func(t *testing.T) {
		t.Parallel()
		for _, stored := range []string{"", "+", "14155550123", "+1 415", "+0415555012", "+123456", "+1234567890123456", "+1415555012a"} {
			_, err := sms.StoredPhone(stored)
			require.ErrorIs(t, err, sms.ErrPhone, "%q", stored)
		}
	})
}

func TestPhoneIsMaskedInLogs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		e164 string
		want string
	}{
		{name: "OneDigitCountryCode", e164: "+14155550123", want: "+1*****23"},
		{name: "TwoDigitCountryCode", e164: "+5511987654388", want: "+55*****88"},
		{name: "ThreeDigitCountryCode", e164: "+351912345678", want: "+351*****78"},
		{name: "UnassignedCountryCode", e164: "+9991234567", want: "+999*****67"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			phone, err := sms.StoredPhone(tt.e164)
			require.NoError(t, err)
			var logged bytes.Buffer
			slog.New(slog.NewJSONHandler(&logged, nil)).Info("sent", "to", phone)
			require.Contains(t, logged.String(), `"to":"`+tt.want+`"`)
			require.NotContains(t, logged.String(), tt.e164)
		})
	}

	t.Run("NoNumberLogsAsNothing", func(t *testing.T) {
		t.Parallel()
		require.Empty(t, sms.Phone{}.LogValue().String())
	})
}

func FuzzParsePhone(f *testing.F) {
	for _, seed := range []string{"+14155550123", "+55 (11) 98765-4388", "+44 (0)20 7946 0958", "4155550123", "+", "+1800FLOWERS", "+1\x00415"} {
		f.Add(seed)
	}
	e164 := regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)
	f.Fuzz(func(t *testing.T, raw string) {
		phone, err := sms.ParsePhone(raw)
		if err != nil {
			require.ErrorIs(t, err, sms.ErrPhone)
			require.True(t, phone.IsZero())
			return
		}
		require.Regexp(t, e164, phone.String())
		stored, err := sms.StoredPhone(phone.String())
		require.NoError(t, err)
		require.Equal(t, phone, stored)
		require.NotContains(t, phone.LogValue().String(), phone.String()[4:])
	})
}
