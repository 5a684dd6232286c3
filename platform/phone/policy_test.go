package phone_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/config"
	"paceline.internal/platform/phone"
)

// costly are numbers that exist and are not meant to be texted, each with its kind.
var costly = map[string]phone.Kind{
	"+19002345678": phone.Premium, "+449098790123": phone.Premium, "+33891123456": phone.Premium, "+34803123456": phone.Premium,
	"+448431234567": phone.Premium, "+443331234567": phone.Company, "+447012345678": phone.Personal, "+15002345678": phone.Personal,
	"+447640123456": phone.Pager, "+870773123456": phone.International, "+881612345678": phone.International,
	"+882161234567": phone.International, "+883510012345678": phone.International, "+979123456789": phone.International,
	"+80012345678": phone.International,
}

func load(t *testing.T, environ map[string]string) phone.Policy {
	t.Helper()
	var p phone.Policy
	require.NoError(t, config.Load(environ, &p))
	return p
}

func TestNumbersThatCostMoreAreRefusedUnlessTheirKindIsAllowed(t *testing.T) {
	t.Parallel()
	for e164, kind := range costly {
		parsed, err := phone.Parse(e164)
		require.NoError(t, err, e164)
		require.Equal(t, e164, parsed)
		country, err := load(t, nil).Check(e164)
		require.ErrorIs(t, err, phone.ErrRefused, e164)
		require.ErrorContains(t, err, "SMS_NUMBER_TYPES, allow "+string(kind))
		require.NotContains(t, err.Error(), e164)
		again, err := load(t, map[string]string{"SMS_NUMBER_TYPES": "pager, " + string(kind)}).Check(e164)
		require.NoError(t, err, e164)
		require.Equal(t, country, again)
	}
}

func TestNumbersOfPhonesAreAllowedByCountry(t *testing.T) {
	t.Parallel()
	for e164, country := range map[string]string{
		"+14155550123": "US", "+5511987654321": "BR", "+447400123456": "GB", "+447797712345": "JE", "+18095551234": "DO",
		"+4930123456": "DE", "+18005551234": "US", "+15551234567": "US", // the last one is not assigned (any more)
	} {
		found, err := load(t, nil).Check(e164)
		require.NoError(t, err, e164)
		require.Equal(t, country, found)
		_, err = load(t, map[string]string{"SMS_COUNTRIES": "fr," + country}).Check(e164)
		require.NoError(t, err, e164)
		_, err = load(t, map[string]string{"SMS_COUNTRIES": "FR"}).Check(e164)
		require.ErrorIs(t, err, phone.ErrRefused, e164)
		require.ErrorContains(t, err, "SMS_COUNTRIES")
	}
	_, err := load(t, map[string]string{"SMS_COUNTRIES": "US", "SMS_NUMBER_TYPES": "international"}).Check("+881612345678")
	require.NoError(t, err, "what is allowed by its kind is of no country")
	_, err = load(t, map[string]string{"SMS_COUNTRIES": "US"}).Check("+9991234567")
	require.ErrorIs(t, err, phone.ErrRefused, "its country is not known")
}

func TestSettingsOfThePolicyAreRead(t *testing.T) {
	t.Parallel()
	for variable, value := range map[string]string{"SMS_COUNTRIES": "US,Brazil", "SMS_NUMBER_TYPES": "satellite"} {
		require.ErrorContains(t, config.Load(map[string]string{variable: value}, new(phone.Policy)), variable+" is malformed: it must list ")
	}
}

func BenchmarkCheck(b *testing.B) {
	p := phone.Policy{Countries: phone.Countries{"US"}}
	for b.Loop() {
		if _, err := p.Check("+14155550123"); err != nil {
			b.Fatal(err)
		}
	}
}
