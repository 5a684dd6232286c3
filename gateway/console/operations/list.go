package operations

import (
	"bytes"
	"crypto/rand"
	"encoding/csv"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// newKey returns an idempotency key for a form.
func newKey() string { return rand.Text() }

// chosenFile returns the file of a form, or what was pasted in its place.
func chosenFile(r *http.Request) ([]byte, error) {
	file, _, err := r.FormFile("file")
	if errors.Is(err, http.ErrMissingFile) || errors.Is(err, http.ErrNotMultipart) {
		return []byte(r.Form.Get("list")), nil
	}
	if err != nil {
		return nil, errForm
	}
	text, err := io.ReadAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, errForm
	}
	if len(text) == 0 {
		text = []byte(r.Form.Get("list"))
	}
	return text, nil
}

// errNotCSV refuses a list that cannot be read.
var errNotCSV = status.Error(codes.InvalidArgument,
	"the list cannot be read; save it as CSV UTF-8, with one phone or id a line or a column profile_id or phone")

// listed reads the people of a form: the column profile_id or phone of a CSV file, or without either in its first line the first column.
func listed(r *http.Request) (people []string, err error) {
	text, err := chosenFile(r)
	if err != nil {
		return nil, err
	}
	if text, _, err = transform.Bytes(unicode.BOMOverride(encoding.Nop.NewDecoder()), text); err != nil { // as a spreadsheet writes it
		return nil, errNotCSV
	}
	rows := csv.NewReader(bytes.NewReader(text))
	rows.FieldsPerRecord, rows.LazyQuotes, rows.Comma = -1, true, separator(text)
	at := 0
	for first := true; ; first = false {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return people, nil
		}
		if err != nil || !validCells(row) {
			return nil, errNotCSV
		}
		if first {
			if column := columnOf(row); column >= 0 {
				at = column
				continue
			}
		}
		if at < len(row) && strings.TrimSpace(row[at]) != "" {
			people = append(people, strings.TrimSpace(row[at]))
		}
	}
}

// separator returns what separates the cells of a list.
func separator(text []byte) rune {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	for _, mark := range []rune{';', '\t'} {
		if bytes.ContainsRune(first, mark) {
			return mark
		}
	}
	return ','
}

func validCells(row []string) bool {
	return !slices.ContainsFunc(row, func(cell string) bool { return strings.ToValidUTF8(cell, "") != cell })
}

// columnOf returns the place of the people in a first line that names the columns; -1 for another line.
func columnOf(row []string) int {
	for _, name := range []string{"profile_id", "phone"} {
		if at := slices.IndexFunc(row, func(cell string) bool { return strings.EqualFold(strings.TrimSpace(cell), name) }); at >= 0 {
			return at
		}
	}
	return -1
}

func lines(people []string) string { return strings.Join(people, "\n") }

// localTime is the form in which a browser writes an instant.
const localTime = "2006-01-02T15:04"

// errCollected refuses a consent record without its time.
var errCollected = status.Error(codes.InvalidArgument, "say when these people agreed, or leave all three fields of the consent empty")

// consentOf reads how the people of a run agreed; nil where nothing is said.
func (p *Pages) consentOf(shown newRunPage, r *http.Request) (*onboardingv1.ConsentRecord, error) {
	if shown.Source == "" && shown.Words == "" && shown.Collected == "" {
		return nil, nil //nolint:nilnil // nothing is said
	}
	collected, err := time.ParseInLocation(localTime, shown.Collected, p.Zone(r))
	if err != nil {
		return nil, errCollected
	}
	return &onboardingv1.ConsentRecord{Source: shown.Source, WordsShown: shown.Words, CollectedAt: timestamppb.New(collected)}, nil
}

// refusedInput returns a refusal that the page shows next to the form; nil for another error.
func refusedInput(err error) error {
	refusals := []codes.Code{
		codes.InvalidArgument, codes.FailedPrecondition, codes.ResourceExhausted, codes.NotFound, codes.AlreadyExists,
	}
	if slices.Contains(refusals, status.Code(err)) {
		return err
	}
	return nil
}
