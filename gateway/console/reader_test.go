package console

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/gateway/console/signin"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

func TestTheReadersChoice(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, zone, want, unknown string
		kept                      bool
	}{
		{name: "AnIANAZone", zone: "America/Sao_Paulo", want: "America/Sao_Paulo", kept: true},
		{name: "NoZone", want: "Europe/Lisbon"},
		{name: "TheMachinesOwn", zone: "Local", want: "Europe/Lisbon", unknown: "Local"},
		{name: "NoFile", zone: "../etc/passwd", want: "Europe/Lisbon", unknown: "../etc/passwd"},
		{name: "TooLong", zone: strings.Repeat("A", 99), want: "Europe/Lisbon", unknown: strings.Repeat("A", 64)},
	} {
		for _, secure := range []bool{false, true} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				c := signin.Cookies{Secure: secure, Now: time.Now}
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, root+"?zone="+tc.zone, http.NoBody)
				r.AddCookie(c.Cookie(purposeZone, "Europe/Lisbon", time.Hour))
				answer := httptest.NewRecorder()
				got := readerOf(c, answer, r)
				require.Equal(t, tc.want, got.Zone)
				require.Equal(t, tc.unknown, got.Unknown)
				set := answer.Result().Cookies()
				require.Equal(t, tc.kept, len(set) == 1)
				if tc.kept {
					require.Equal(t, secure, set[0].Secure)
					require.Equal(t, secure, strings.HasPrefix(set[0].Name, "__Host-"))
				}
			})
		}
	}
	c, answer := signin.Cookies{Secure: true}, httptest.NewRecorder()
	require.Equal(t, "pt-BR", readerOf(c, answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, root+"?lang=pt-BR", http.NoBody)).Lang)
	require.True(t, answer.Result().Cookies()[0].Secure)
}

func TestTheChoiceKeepsTheQuery(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, root+"/do?lang=en&deed=b&back=/x&deed=a&zone=UTC", http.NoBody)
	require.Equal(t, []field{{"back", "/x"}, {"deed", "b"}, {"deed", "a"}}, kept(r))
}

func TestWhatAServiceSaysIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	said := saidBy(status.Error(codes.InvalidArgument, "x"+strings.Repeat("ã", maxSaid)))
	require.True(t, utf8.ValidString(said))
	require.Len(t, said, maxSaid-1)
}

func TestPreferencesHaveWords(t *testing.T) {
	t.Parallel()
	for _, values := range []*onboardingv1.Preferences{
		{Reminders: "on", Tips: "on", Destination: "individual"}, {Reminders: "off", Tips: "off", Destination: "group"},
	} {
		for _, p := range preferencesOf(values, true) {
			key := "me." + p.Name
			require.True(t, known(key) && known(key+".what") && known(key+"."+p.Value), key)
			require.True(t, known(key+".to_"+p.Other) && known(key+".to_"+p.Other+"_what"), key)
		}
	}
	require.Empty(t, preferencesOf(&onboardingv1.Preferences{Destination: "individual"}, false)[2].Other, "there is nothing to choose")
}

func TestKindsOfWhichThereAreMoreAreNamed(t *testing.T) {
	t.Parallel()
	f := frame{reader: readerOf(signin.Cookies{}, httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, root, http.NoBody))}
	require.Equal(t, "More than 50 failed jobs: only the newest are shown. Deal with these, and the next appear.", f.T("needs.more", mostOfOne, f.T("needs.job.many")))
}
