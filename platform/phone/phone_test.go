package phone_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/nyaruka/phonenumbers"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/platform/phone"
)

// each calls do with every character of some Unicode tables.
func each(do func(r rune), tables ...*unicode.RangeTable) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if unicode.In(r, tables...) {
			do(r)
		}
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	const want = "+14155550123"

	t.Run("SpacesDashesBracketsQuotesAndInvisibleMarksAreDropped", func(t *testing.T) {
		t.Parallel()
		each(func(r rune) {
			for _, raw := range []string{"+1 415" + string(r) + "5550123", string(r) + "+14155550123" + string(r), "+" + string(r) + "14155550123"} {
				got, err := phone.Parse(raw)
				require.NoError(t, err, "U+%04X", r)
				require.Equal(t, want, got, "U+%04X", r)
			}
		}, unicode.Zs, unicode.Zl, unicode.Zp, unicode.Pd, unicode.Ps, unicode.Pe, unicode.Pi, unicode.Pf, unicode.Cf, unicode.Mn)
	})

	t.Run("DigitsOfEveryScriptAreRead", func(t *testing.T) {
		t.Parallel()
		var zeros []rune
		n := 0
		each(func(r rune) {
			if n%10 == 0 {
				zeros = append(zeros, r)
			}
			n++
		}, unicode.Nd)
		require.Greater(t, len(zeros), 50)
		for _, zero := range zeros {
			raw := strings.Map(func(r rune) rune {
				if r >= '0' && r <= '9' {
					return zero + r - '0'
				}
				return r
			}, "+1 415-555-0123")
			got, err := phone.Parse(raw)
			require.NoError(t, err, "U+%04X", zero)
			require.Equal(t, want, got, "U+%04X", zero)
		}
	})

	t.Run("LettersAndOtherMarksAreRefusedByName", func(t *testing.T) {
		t.Parallel()
		each(func(r rune) {
			for _, read := range []func(string) (string, error){phone.Parse, phone.Read} {
				_, err := read("+1415555" + string(r) + "0123")
				var refusal *phone.Refusal
				require.ErrorAs(t, err, &refusal, "U+%04X", r)
				require.Equal(t, r, refusal.Mark)
				require.NotContains(t, err.Error(), "415555")
			}
		}, unicode.L, unicode.Sc, unicode.So, unicode.No)
	})

	for name, raw := range map[string]string{
		"NonBreakingHyphen": "+1 (415) 555‑0123", "EnDash": "+1 (415) 555–0123", "Minus": "+1−415−555−0123",
		"Embedding": "\u202a+14155550123\u202c", "Isolate": "\u2066+1 415 555 0123\u2069", "ZeroWidth": "+14155550123\u200b", "SoftHyphen": "+1415\u00ad5550123",
		"FullWidth": "＋１４１５５５５０１２３", "ArabicIndic": "+١٤١٥٥٥٥٠١٢٣", "Dots": "+1·415·555·0123", "Bullets": "+1•415•555•0123",
		"Tel": "tel:+1-415-555-0123", "TelInCapitals": " TEL:+14155550123", "WhatsApp": "whatsapp:+14155550123", "Quoted": `"+14155550123"`,
		"ApostropheOfASpreadsheet": "'+14155550123", "Tab": "+1\t4155550123\n", "ByteOrderMark": "\ufeff+14155550123", "Keycaps": "+1\ufe0f\u20e34155550123",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, read := range []func(string) (string, error){phone.Parse, phone.Read} {
				got, err := read(raw)
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
		})
	}

	for name, tt := range map[string]struct {
		raw    string
		reason phone.Reason
		want   string
	}{
		"Empty": {"", phone.NoPlus, "with + and the country code"}, "National": {"(415) 555-0123", phone.NoPlus, "with +"},
		"Prefix00": {"0014155550123", phone.NoPlus, "with +"}, "PlusAlone": {"+", phone.WrongLength, "too few"},
		"SecondPlus": {"+1+4155550123", phone.Mark, `"+" (U+002B)`}, "Extension": {"+14155550123x5", phone.Letters, `"x" (U+0078)`},
		"TelExtension": {"tel:+14155550123;ext=5", phone.Letters, `";" (U+003B)`}, "Hash": {"+14155550123#5", phone.Letters, `"#"`},
		"TwoNumbers": {"+14155550123 / +14155550124", phone.Mark, `"+"`}, "Control": {"+1415\u00005550123", phone.Mark, "the invisible U+0000"},
		"Currency": {"+1415$5550123", phone.Mark, `"$" (U+0024)`}, "Scientific": {"+1.4155E+10", phone.Letters, `"E"`},
		"UnknownCountry": {"+999123456789", phone.UnknownCountry, "no country"}, "TooLong": {"+141555501234", phone.WrongLength, "too few or too many"},
		"NotAssigned": {"+15551234567", phone.NotAssigned, "PHONE_EXTRA_PREFIXES"},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			t.Parallel()
			_, err := phone.Parse(tt.raw)
			var refusal *phone.Refusal
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, tt.reason, refusal.Reason)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestOneHandsetHasOneForm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, old, want string }{
		{"Brazil", "+55 11 8765-4321", "+5511987654321"},
		{"BrazilOtherCode", "+558188887777", "+5581988887777"},
		{"Mexico", "+521 55 1234 5678", "+525512345678"},
		{"Argentina", "+54 11 2345-6789", "+5491123456789"},
		{"ArgentinaWith15", "+54 9 11 2345 6789", "+5491123456789"},
		{"Benin", "+229 97 12 34 56", "+2290197123456"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, read := range []func(string) (string, error){phone.Parse, phone.Read} {
				got, err := read(tt.old)
				require.NoError(t, err)
				require.Equal(t, tt.want, got)
			}
		})
	}
	for _, other := range []string{"+551132345678", "+525512345678", "+5511987654321", "+5491123456789", "+14155550123", "+12295550123", "+5215555"} {
		require.Equal(t, other, phone.Canonical(other), "it is in its form")
	}
}

func TestStoredFormsOfAllPlans(t *testing.T) {
	t.Parallel()
	types := []phonenumbers.PhoneNumberType{phonenumbers.MOBILE, phonenumbers.FIXED_LINE, phonenumbers.FIXED_LINE_OR_MOBILE, phonenumbers.TOLL_FREE, phonenumbers.VOIP}
	seen := 0
	for region := range phonenumbers.GetSupportedRegions() {
		for _, kind := range types {
			number := phonenumbers.GetExampleNumberForType(region, kind)
			if number == nil || !phonenumbers.IsValidNumber(number) {
				continue
			}
			seen++
			e164 := phonenumbers.Format(number, phonenumbers.E164)
			want, err := phone.Parse(e164)
			require.NoError(t, err, "%s %v", region, kind)
			again, err := phone.Parse(want)
			require.NoError(t, err)
			require.Equal(t, want, again, "%s: a stored form stays", region)
			for _, raw := range []string{
				phonenumbers.Format(number, phonenumbers.INTERNATIONAL), "\u202a" + e164 + "\u202c",
				strings.ReplaceAll(phonenumbers.Format(number, phonenumbers.INTERNATIONAL), " ", "\u00a0"),
				strings.ReplaceAll(phonenumbers.Format(number, phonenumbers.RFC3966), "-", "–"),
			} {
				got, err := phone.Parse(raw)
				require.NoError(t, err, "%s %q", region, raw)
				require.Equal(t, want, got, "%s %q", region, raw)
				got, err = phone.Read(raw)
				require.NoError(t, err)
				require.Equal(t, want, got, "%s %q: found by what it is stored under", region, raw)
			}
		}
	}
	require.Greater(t, seen, 500)
}

func TestAllow(t *testing.T) { //nolint:paralleltest // what is allowed is the process's
	const unknown = "+18612345678"
	_, err := phone.Parse("+15551234567")
	require.Error(t, err)
	var prefixes phone.Prefixes
	require.NoError(t, prefixes.UnmarshalText([]byte("+1555, +1861")))
	phone.Allow(prefixes)
	t.Cleanup(func() { phone.Allow(nil) })
	for _, raw := range []string{"+1 (555) 123-4567", unknown} {
		_, err := phone.Parse(raw)
		require.NoError(t, err)
	}
	_, err = phone.Parse("+1555123456")
	require.ErrorContains(t, err, "too few", "its length must be possible")
	for _, wrong := range []string{"1861", "+", "+0861", "+1x", "+12345678901"} {
		require.Error(t, new(phone.Prefixes).UnmarshalText([]byte(wrong)))
	}
}

func FuzzParse(f *testing.F) {
	f.Add("tel:+1 (415) 555‑0123")
	f.Add("+٥3070000000")
	f.Add("+٥٥0170000000")
	f.Add("\u202a+٥٥ 11 8765-4321\u202c")
	f.Fuzz(func(t *testing.T, raw string) {
		e164, err := phone.Parse(raw)
		if err != nil {
			return
		}
		again, err := phone.Parse(e164)
		require.NoError(t, err)
		require.Equal(t, e164, again)
		read, err := phone.Read(raw)
		require.NoError(t, err)
		require.Equal(t, e164, read)
	})
}

func TestCanonicalIsIdempotent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e164 := "+" + rapid.StringMatching(`(55|52|521|54|549|229|1|44)[0-9]{6,11}`).Draw(t, "digits")
		once := phone.Canonical(e164)
		require.Equal(t, once, phone.Canonical(once))
	})
}
