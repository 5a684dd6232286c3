package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/operator"
	"paceline.internal/platform/roster"
)

// write puts a file of people into a folder of the test's own.
func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "people.csv")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func refusedOf(t *testing.T, people string) string {
	t.Helper()
	content, err := os.ReadFile(people + ".refused.csv")
	require.NoError(t, err)
	return string(content)
}

func TestColumnsOfAnImport(t *testing.T) {
	t.Parallel()
	err := run(t.Context(), []string{"profiles", "import", write(t, "phone,mobile,first_name\n")}, terminal{out: io.Discard})
	require.ErrorContains(t, err, "the column phone is there twice; name the one that is meant with --columns")
	err = run(t.Context(), []string{"profiles", "import", "profiles_test.go", "--columns", "email=x"}, terminal{out: io.Discard})
	require.ErrorContains(t, err, "--columns: email is none of phone, first_name, locale and time_zone")
}

func TestImport(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	t.Run("PeopleOfAFileAreInARealStackOnceAndTheRestIsReported", func(t *testing.T) {
		t.Parallel()
		data := dataFolder(t)
		up := startUp(t, data)
		gateway := parseCurl(t, strings.ReplaceAll(up.lines[0], "$TOKEN", up.token)).URL
		people := write(t, "\xef\xbb\xbffirst_name;phone;locale;time_zone\r\n"+
			"Ana;+12025550143;en;America/New_York\r\nBo;+1 202 555 0144;;\r\nCy;12345;en;\r\n\"Di\r\nane\";+12025550145;pt-br;\r\n;;;\r\nAna;+12025550143;en;\r\n")
		environ := map[string]string{"PATH": os.Getenv("PATH")}
		importing := func(args ...string) (string, error) {
			var out bytes.Buffer
			err := run(t.Context(), append([]string{"profiles", "import", people, "--url", "http://" + gateway.Host, "--data", data}, args...), terminal{out: &out, environ: environ})
			return out.String(), err
		}

		said, err := importing()
		require.ErrorContains(t, err, "lines that were not taken: 1; see "+people+".refused.csv")
		require.Equal(t, "line 2: +12*******43, Ana, en, America/New_York\nline 3: +12*******44, Bo, en, a guessed time zone\n"+
			"line 4 is refused: phone: write it in international format, with + and the country code, such as +14155550123\n"+
			"line 5: +12*******45, Di ane, pt-BR, a guessed time zone\n"+people+": people: 3; lines that repeat a phone: 1; refused lines: 1.\n"+
			"3 new, 1 the same, 0 changed: the phone has a profile or an earlier line with other data, which stays as it is; 1 refused.\n"+
			"Nothing was written; --yes creates the new ones.\n", said)
		const refused = "line,column,reason\n4,phone,\"phone: write it in international format, with + and the country code, such as +14155550123\"\n"
		require.Equal(t, refused, refusedOf(t, people))

		said, err = importing("--yes")
		require.ErrorContains(t, err, "lines that were not taken: 1")
		require.Contains(t, said, "3 created, 1 there already, 1 not taken.\n")
		require.Equal(t, refused, refusedOf(t, people))

		said, err = importing()
		require.ErrorContains(t, err, "lines that were not taken: 1")
		require.Contains(t, said, "0 new, 4 the same, 0 changed")
		said, err = importing("--yes")
		require.ErrorContains(t, err, "lines that were not taken: 1")
		require.Contains(t, said, "0 created, 4 there already, 1 not taken.\n", "it may be run again")

		require.NoError(t, os.WriteFile(people, []byte("phone,first_name,locale,time_zone\n+12025550144,Bob,en,\n+12025550145,Di ane,en,Europe/Lisbon\n+12025550146,Eve,en,\n+12025550146,Eva,en,\n"), 0o600))
		said, err = importing("--parallel", "1")
		require.ErrorContains(t, err, "lines that were not taken: 3")
		require.Contains(t, said, "1 new, 0 the same, 3 changed: ")
		foreseen := refusedOf(t, people)
		said, err = importing("--yes", "--parallel", "1")
		require.ErrorContains(t, err, "lines that were not taken: 3")
		require.Contains(t, said, "1 created, 0 there already, 3 not taken.\n")
		require.Equal(t, foreseen, refusedOf(t, people), "the preview has said it all")
		require.Equal(t, "line,column,reason\n2,first_name,\"exists: the phone has a profile with another first_name, which is left as it is\"\n"+
			"3,locale,\"exists: the phone has a profile with another locale, which is left as it is\"\n"+
			"3,time_zone,\"exists: the phone has a profile with another time_zone, which is left as it is\"\n"+
			"5,first_name,\"exists: the phone has a profile with another first_name, which is left as it is\"\n", refusedOf(t, people))

		_, err = importing("--report", people)
		require.ErrorContains(t, err, "--report must be another file")
		up.stop(t, syscall.SIGTERM)
	})

	// fake is a gateway that gives its answers in their order, and the last one from then on.
	type reply struct {
		status     int
		retryAfter string
		body       string
	}
	fake := func(t *testing.T, replies ...reply) (i *importing, people func(rows int) func(func(roster.Row) error) error, waits func() []time.Duration) {
		t.Helper()
		var mu sync.Mutex
		asked, waited := 0, []time.Duration{}
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil || !json.Valid(body) {
				http.Error(w, "no JSON", http.StatusBadRequest)
				return
			}
			mu.Lock()
			reply := replies[min(asked, len(replies)-1)]
			asked++
			mu.Unlock()
			if reply.retryAfter != "" {
				w.Header().Set("Retry-After", reply.retryAfter)
			}
			w.WriteHeader(reply.status)
			_, _ = io.WriteString(w, reply.body)
		}))
		t.Cleanup(web.Close)
		i = &importing{
			api: operator.Client{BaseURL: web.URL, Token: "t", HTTP: web.Client()}, parallel: 3, refused: &refusals{}, bar: progress(io.Discard, -1),
			rest: func(ctx context.Context, d time.Duration, _ <-chan struct{}) bool {
				mu.Lock()
				defer mu.Unlock()
				waited = append(waited, d)
				return ctx.Err() == nil
			},
		}
		people = func(rows int) func(func(roster.Row) error) error {
			return func(do func(roster.Row) error) error {
				for n := range rows {
					if err := do(roster.Row{Line: n + 2, Person: roster.Person{Phone: fmt.Sprint("+1202555", n)}}); err != nil {
						return err
					}
				}
				return nil
			}
		}
		return i, people, func() []time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return waited
		}
	}
	created := reply{status: http.StatusCreated, body: `{"created":true,"profile":{}}`}

	t.Run("RetryAfterIsWaitedForAndThenTheSamePersonIsSentAgain", func(t *testing.T) {
		t.Parallel()
		i, people, waits := fake(t, reply{status: 429, retryAfter: "7"}, reply{status: 503, retryAfter: "3600"}, reply{status: 502}, created)
		require.NoError(t, i.run(t.Context(), people(1)))
		require.Equal(t, []time.Duration{7 * time.Second, time.Minute, time.Second}, waits(), "no longer than a minute, and longer with every try")
		require.Equal(t, int64(1), i.created.Load())
	})

	t.Run("AGatewayThatNeverAnswersEndsIt", func(t *testing.T) {
		t.Parallel()
		i, people, waits := fake(t, reply{status: 503})
		err := i.run(t.Context(), people(1_000))
		require.ErrorContains(t, err, "run it again to go on")
		require.LessOrEqual(t, len(waits()), 3*tries, "three at a time, and the others are not tried")
	})

	t.Run("ATokenThatIsNotAcceptedEndsItAtOnce", func(t *testing.T) {
		t.Parallel()
		i, people, waits := fake(t, reply{status: 401, body: `{"message":"the token has expired"}`})
		require.ErrorContains(t, i.run(t.Context(), people(1_000)), "the token is not accepted: the token has expired")
		require.Empty(t, waits())
	})

	t.Run("WhatTheGatewayRefusesIsReportedAndTheOthersAreTaken", func(t *testing.T) {
		t.Parallel()
		i, people, _ := fake(t, reply{status: 400, body: `{"message":"invalid profile: first_name: has a letter that no text can have"}`}, created)
		i.parallel = 1
		require.NoError(t, i.run(t.Context(), people(5)))
		require.Equal(t, int64(4), i.created.Load())
		require.Equal(t, 1, i.refused.lines)
	})

	t.Run("CtrlCEndsIt", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		i, people, _ := fake(t, reply{status: 503})
		i.rest = func(context.Context, time.Duration, <-chan struct{}) bool {
			cancel(errors.New("interrupted"))
			return false
		}
		require.ErrorContains(t, i.run(ctx, people(1_000)), "interrupted")
	})
}

func TestMasked(t *testing.T) {
	t.Parallel()
	require.Equal(t, "+55*********88", masked("+5511999998888"))
	require.Equal(t, "****", masked("+123"))
}
