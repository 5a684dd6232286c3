package main

import (
	"bytes"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/process"
	"paceline.internal/platform/qstash"
)

func TestDoctor(t *testing.T) {
	t.Parallel()

	t.Run("S0_06_SaysWhatIsMissingByService", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		require.ErrorIs(t, run(t.Context(), []string{"doctor"}, terminal{out: &out}), process.ErrUnwell)
		require.Regexp(t, `(?s)\Agateway\nfailed  PUBLIC_BASE_URL is missing .*\nonboarding\n.*failed  QSTASH_TOKEN   is missing .*\nmessaging\n.*\ntogether\n`, out.String())
	})

	t.Run("SpeaksToMachines", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		require.ErrorIs(t, run(t.Context(), []string{"doctor", "--json"}, terminal{out: &out}), process.ErrUnwell)
		var findings process.Findings
		require.NoError(t, json.Unmarshal(out.Bytes(), &findings))
		require.NotEmpty(t, findings)
	})
}

func TestDoctorOfSignatures(t *testing.T) {
	t.Parallel()
	const origin, step = "https://texts.example.com", "/api/onboarding/step"
	environ := map[string]string{
		"PUBLIC_BASE_URL": origin + "/", "QSTASH_CURRENT_SIGNING_KEY": "sig_1", "QSTASH_NEXT_SIGNING_KEY": "sig_2", "TWILIO_AUTH_TOKEN": "token",
	}
	body := filepath.Join(t.TempDir(), "body")
	require.NoError(t, os.WriteFile(body, []byte("MessageSid=SM1"), 0o600))
	byQStash, err := qstash.Sign("sig_1", "http://texts.example.com"+step, []byte("MessageSid=SM1"), time.Now())
	require.NoError(t, err)
	byTwilio := twilio.Sign("token", origin+step, url.Values{"MessageSid": {"SM1"}})

	for name, tt := range map[string]struct {
		args []string
		want string // printed
		err  string // none is a good signature
	}{
		"NamesTheSchemeThatDiffers": {
			args: []string{"-H", "Upstash-Signature: " + byQStash}, err: errSignature.Error(),
			want: "scheme     signed \"http\", checked \"https\"\n           to mend: PUBLIC_BASE_URL must have the scheme",
		},
		"SaysThatAllIsGood": {args: []string{"-H", "X-Twilio-Signature: " + byTwilio}, want: "good: this is Twilio's signature"},
		"TellsOfAURLThatWasNotSigned": {
			args: []string{"-H", "X-Twilio-Signature: " + byTwilio, "--url", "http://10.0.0.7:8080" + step},
			want: "for https://texts.example.com/api/onboarding/step and this body\nwarning: --url begins with http://10.0.0.7:8080, which was not signed",
		},
		"SpeaksToMachines":       {args: []string{"-H", "X-Twilio-Signature: " + byTwilio, "--json"}, want: `"good": true`},
		"WantsTheSignature":      {args: []string{"-H", "Host: a"}, err: "neither Upstash-Signature nor X-Twilio-Signature"},
		"WantsHeadersAsTheyCame": {args: []string{"-H", "nonsense"}, err: "must be 'Name: value'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := run(t.Context(), append([]string{"doctor", "signature", "--url", step, "--body", body}, tt.args...), terminal{out: &out, environ: environ})
			if tt.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.err)
			}
			require.Contains(t, out.String(), tt.want)
			require.NotContains(t, out.String(), "sig_1")
		})
	}
}
