package route

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

func TestUnreadableRequestsNameTheField(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"firstName":"A"}`:         `unknown field "firstName"; did you mean first_name?`,
		`{"nope":1}`:                `unknown field "nope"`,
		`{"phone":1}`:               "phone must be a string of whole Unicode characters",
		`{"phone":"\ud800"}`:        "phone must be a string of whole Unicode characters",
		`{"phone":"a","phone":"b"}`: "phone is given twice",
		`[]`:                        "the body must be a JSON object",
		`{} {}`:                     "the body must be one whole JSON object",
		`{"phone":`:                 "the body must be one whole JSON object",
		"\x1f\x8b\x08":              "the body is compressed; send it as plain JSON",
		"\xff\xfe{\x00}\x00":        "the body must be JSON in UTF-8",
	} {
		err := DecodeBody([]byte(body), &onboardingv1.CreateProfileRequest{})
		require.Error(t, err, body)
		require.Equal(t, want, unread(err.Error()).Message, body)
	}
	require.NoError(t, DecodeBody([]byte("\ufeff{\"phone\":\"+1\"}"), &onboardingv1.CreateProfileRequest{}), "a byte order mark is no fault")
	for text, want := range map[string]string{
		`parsing field "page_size": strconv.ParseInt: parsing "abc": invalid syntax`: "page_size must be a whole number in the range of the field",
		`parsing field "held": strconv.ParseBool: parsing "yes": invalid syntax`:     "held must be true or false",
		`anything else strconv`: "the query or the path cannot be read; see /openapi.yaml",
	} {
		require.Equal(t, want, unread(text).Message)
	}
}

func FuzzUnreadableBodies(f *testing.F) {
	f.Add([]byte(`{"phone":"\ud800","consent":{"source":[1]}}`))
	f.Add([]byte(`{"consent":{"collected_at":"x"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		err := DecodeBody(body, &onboardingv1.CreateProfileRequest{})
		if err == nil {
			return
		}
		if e := unread(err.Error()); len(e.Meta) > 0 && !strings.HasPrefix(e.Message, "unknown field") { // which are the caller's words
			require.False(t, goWords.MatchString(e.Message))
		}
	})
}
