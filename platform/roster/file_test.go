package roster_test

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/hours"
	"paceline.internal/platform/roster"
)

func TestReadPeople(t *testing.T) {
	t.Parallel()
	const ana, badPhone = "+12025550143", "phone: write it in international format, with + and the country code, such as +14155550123"

	for _, tt := range []struct{ name, file, want string }{
		{"CommasAndAllColumns", "phone,first_name,locale,time_zone\n" + ana + ",Ana,pt-BR,America/Sao_Paulo\n", "2 +12025550143 Ana pt-BR America/Sao_Paulo"},
		{"SemicolonsAMarkAndCRLF", "\xef\xbb\xbffirst_name;phone\r\n\"Ana; Bo\";" + ana + "\r\n", "2 +12025550143 Ana; Bo en guessed"},
		{"AnyOrderAnyCaseAndSpaces", " Time_Zone ,PHONE,First_Name\n,+1 (202) 555-0143, Ana \n", "2 +12025550143 Ana en guessed"},
		{"ANameWithAJoiner", "phone,first_name\n" + ana + ",علی\u200cرضا\n", "2 +12025550143 علی\u200cرضا en guessed"},
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
			people, err := roster.Read(strings.NewReader(tt.file), nil)
			for err == nil {
				var r roster.Row
				if r, err = people.Next(); err != nil {
					break
				}
				for _, w := range r.Wrong {
					got = append(got, fmt.Sprintf("%d %s: %s", w.Line, w.Column, w.Reason))
				}
				if len(r.Wrong) == 0 {
					zone := cmp.Or(r.Person.TimeZone, "guessed")
					got = append(got, fmt.Sprint(r.Line, " ", r.Person.Phone, " ", r.Person.FirstName, " ", r.Person.Locale, " ", zone))
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
		people, err := roster.Read(bytes.NewReader(file), nil)
		if err != nil {
			return
		}
		last := 1
		for {
			r, err := people.Next()
			if err != nil {
				return
			}
			require.Greater(t, r.Line, last, "every row has a line of its own")
			last = r.Line
			require.Equal(t, len(r.Wrong) > 0, r.Person.Phone == "", "a row is taken or refused")
			for _, w := range r.Wrong {
				require.NotEmpty(t, w.Reason)
				require.Equal(t, r.Line, w.Line)
			}
		}
	})
}

func TestColumnsAreNamed(t *testing.T) {
	t.Parallel()
	columns := map[string]string{"phone": "handy", "first_name": "Vorname"}
	people, err := roster.Read(strings.NewReader("Handy,Vorname,phone,Ort\n+12025550143,Ana,1,Ulm\n"), columns)
	require.NoError(t, err)
	r, err := people.Next()
	require.NoError(t, err)
	require.Empty(t, r.Wrong)
	require.Equal(t, "+12025550143", r.Person.Phone)
	require.Equal(t, []string{"phone", "Ort"}, people.Ignored, "the name that is given counts, and no other")
}
