package main

import (
	"bytes"
	"cmp"
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
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/operator"
	"paceline.internal/platform/hours"
	profiles "paceline.internal/services/onboarding/people"
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

func TestReadPeople(t *testing.T) {
	t.Parallel()
	const ana, badPhone = "+12025550143", "phone: write it in international format, with + and the country code, such as +14155550123"

	for _, tt := range []struct{ name, file, want string }{
		{"CommasAndAllColumns", "phone,first_name,locale,time_zone\n" + ana + ",Ana,pt-BR,America/Sao_Paulo\n", "2 +12025550143 Ana pt-BR America/Sao_Paulo"},
		{"SemicolonsAMarkAndCRLF", "\xef\xbb\xbffirst_name;phone\r\n\"Ana; Bo\";" + ana + "\r\n", "2 +12025550143 Ana; Bo en guessed"},
		{"AnyOrderAnyCaseAndSpaces", " Time_Zone ,PHONE,First_Name\n,+1 (202) 555-0143, Ana \n", "2 +12025550143 Ana en guessed"},
		{"NoLineEndAtTheEnd", "phone,first_name\n" + ana + ",Ana", "2 +12025550143 Ana en guessed"},
		{"EmptyRowsAreNoPeople", "phone,first_name\n\n,\n , \n" + ana + ",Ana\n,,,\n", "5 +12025550143 Ana en guessed"},
		{"AllThatIsWrongOfARow", "phone,first_name,locale,time_zone\n2025550143,,fr,Mars\n", "2 phone: " + badPhone +
			" | 2 first_name: first_name must be 1 to 60 printable characters without braces, a letter among them | 2 locale: locale must be one of en, pt-BR" +
			" | 2 time_zone: " + hours.ErrPlace.Error()},
		{"APhoneAsSpreadsheetsSpoilIt", "phone,first_name\n1.20255E+10,Ana\n", `2 phone: phone: use only digits after the +, without letters or an extension: "E" (U+0045) is in the way`},
		{"ARowOfOtherLengthAndGoesOn", "phone,first_name\n" + ana + "\n" + ana + ",Ana\n", "2 : it has 1 columns, and the first line 2 | 3 +12025550143 Ana en guessed"},
		{"AStrayQuoteAndGoesOn", "phone,first_name\n" + ana + ",A\"na\n" + ana + ",Ana\n", "2 : a quote stands where none may | 3 +12025550143 Ana en guessed"},
		{
			"AQuoteThatIsNotClosedOnItsLine", "phone,first_name\n" + ana + ",\"Ana\n" + ana + ",Bo\"\n" + ana + ",\"Ana\n" + ana + ",B\"o\n" + ana + ",Ana\n",
			"2 : a quote that begins here is not closed on its line: lines 2 to 3 are read as one, and none of them is taken" +
				" | 4 : a quote that begins here is not closed on its line: lines 4 to 5 are read as one, and none of them is taken | 6 +12025550143 Ana en guessed",
		},
		{"AQuotedFieldWithSeparatorsAndLineEnds", "phone,first_name,address\n" + ana + ",Ana,\"Rua A, 5\r\nApto 2, 01310-100\r\nS\u00e3o Paulo, SP\"\n" + ana + ",\"Bo\nLi\",x\n", "2 +12025550143 Ana en guessed | 5 +12025550143 Bo Li en guessed"},
		{"NoRowThatAQuoteHasSwallowed", "first_name,phone,note\n\"Ana," + ana + "\nBo\"," + ana + ",\n\"Cy\"," + ana + ",\"a, b\"\n", "2 : a quote that begins here is not closed on its line: lines 2 to 3 are read as one, and none of them is taken | 4 +12025550143 Cy en guessed"},
		{"EmptyColumnsBehindARow", "phone,first_name\n" + ana + ",Ana,, ,\n" + ana + ",Bo,,x\n" + ana + "\n", "2 +12025550143 Ana en guessed | 3 : it has 4 columns, and the first line 2 | 4 : it has 1 columns, and the first line 2"},
		{"LettersOfAnotherEncoding", "phone,first_name\n" + ana + ",Jo\xe3o\n", "2 first_name: it is not UTF-8; save the file as CSV UTF-8"},
		{"NothingOfAnEmptyFile", "", "! the file is empty"},
		{"OtherColumnsBeside", "email,Phone Number,Nome,VIP\na@b.c," + ana + ",Ana,yes\n", "2 +12025550143 Ana en guessed"},
		{"HeadersOfOtherLists", "Celular;Primeiro Nome;Idioma;Fuso Hor\u00e1rio\n" + ana + ";Ana;pt_BR;america/sao_paulo\n", "2 +12025550143 Ana pt-BR America/Sao_Paulo"},
		{"Tabs", "phone\tfirst name\n" + ana + "\tAna, B.\n", "2 +12025550143 Ana, B. en guessed"},
		{"Bars", "MOBILE|First-Name\n" + ana + "|Ana\n", "2 +12025550143 Ana en guessed"},
		{"ExcelsFirstLine", "sep=;\r\nphone;first_name\r\n" + ana + ";Ana\r\n2;\r\n", "3 +12025550143 Ana en guessed | 4 phone: " + badPhone +
			" | 4 first_name: first_name must be 1 to 60 printable characters without braces, a letter among them"},
		{"ExcelsUnicodeText", utf16le("phone\tfirst_name\r\n" + ana + "\tJos\u00e9\r\n"), "2 +12025550143 Jos\u00e9 en guessed"},
		{"LineEndsOfOldSpreadsheets", "phone,first_name\r" + ana + ",Ana\r", "2 +12025550143 Ana en guessed"},
		{"EmptyColumnsBehind", "phone,first_name,,\n" + ana + ",Ana,,\n", "2 +12025550143 Ana en guessed"},
		{"NoColumnTwice", "phone,first_name,Phone\n", "! the column phone is there twice"},
		{"NothingWithoutANeededColumn", "first_name\n", "! the column phone is missing"},
		{"NotTheRestAsOneRow", "phone,first_name\n" + ana + ",\"Ana\n" + strings.Repeat(ana+",Bo\n", 10_000), "! a row after line 1 is over 64 KiB"},
		{"NoFirstLineWithoutEnd", strings.Repeat("phone", 100_000), "! the first line, which must name the columns, cannot be read"},
	} {
		t.Run("Reads"+tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			people, err := readPeople(strings.NewReader(tt.file), nil)
			for err == nil {
				var r row
				if r, err = people.next(); err != nil {
					break
				}
				for _, w := range r.wrong {
					got = append(got, fmt.Sprintf("%d %s: %s", w.line, w.column, w.reason))
				}
				if len(r.wrong) == 0 {
					zone := cmp.Or(r.person.TimeZone, "guessed")
					got = append(got, fmt.Sprint(r.line, " ", r.person.Phone, " ", r.person.FirstName, " ", r.person.Locale, " ", zone))
				}
			}
			if problem, fatal := strings.CutPrefix(tt.want, "! "); fatal {
				require.ErrorContains(t, err, problem)
				return
			}
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, tt.want, strings.Join(got, " | "))
		})
	}
}

func TestColumnsOfAnImport(t *testing.T) {
	t.Parallel()
	columns := map[string]string{"phone": "handy", "first_name": "Vorname"}
	people, err := readPeople(strings.NewReader("Handy,Vorname,phone,Ort\n+12025550143,Ana,1,Ulm\n"), columns)
	require.NoError(t, err)
	r, err := people.next()
	require.NoError(t, err)
	require.Empty(t, r.wrong)
	require.Equal(t, "+12025550143", r.person.Phone)
	require.Equal(t, []string{"phone", "Ort"}, people.ignored, "the name that is given counts, and no other")
	_, err = readPeople(strings.NewReader("phone,mobile,first_name\n"), nil)
	require.ErrorContains(t, err, "the column phone is there twice; name the one that is meant with --columns")
	err = run(t.Context(), []string{"profiles", "import", "profiles_test.go", "--columns", "email=x"}, terminal{out: io.Discard})
	require.ErrorContains(t, err, "--columns: email is none of phone, first_name, locale and time_zone")
}

// utf16le is a text as Excel saves it, with the mark.
func utf16le(text string) string {
	out := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(text)) {
		out = append(out, byte(unit), byte(unit>>8))
	}
	return string(out)
}

func FuzzReadPeople(f *testing.F) {
	f.Fuzz(func(t *testing.T, file []byte) {
		people, err := readPeople(bytes.NewReader(file), nil)
		if err != nil {
			return
		}
		last := 1
		for {
			r, err := people.next()
			if err != nil {
				return
			}
			require.Greater(t, r.line, last, "every row has a line of its own")
			last = r.line
			require.Equal(t, len(r.wrong) > 0, r.person.Phone == "", "a row is taken or refused")
			for _, w := range r.wrong {
				require.NotEmpty(t, w.reason)
				require.Equal(t, r.line, w.line)
			}
		}
	})
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
			"3 new, 1 the same, 0 changed: the phone has a profile with other data, which stays as it is; 1 refused.\n"+
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
		require.Contains(t, said, "1 created, 3 there already, 3 not taken.\n")
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
	fake := func(t *testing.T, replies ...reply) (i *importing, people func(rows int) func(func(row) error) error, waits func() []time.Duration) {
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
		people = func(rows int) func(func(row) error) error {
			return func(do func(row) error) error {
				for n := range rows {
					if err := do(row{line: n + 2, person: profiles.Person{Phone: fmt.Sprint("+1202555", n)}}); err != nil {
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
