package operations

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/platform/roster"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	// maxImported bounds the lines of one import: each is a call, and the browser waits for them.
	maxImported = 1000
	askedAtOnce = 8
)

// importPage is the data of pages/import.html: the form, a preview, or the result.
type importPage struct {
	Lines   []importLine // in the order of the file
	Ignored []string     // columns that are not read
	Rows    string       // the people who can be sent, for the form that sends them
	Done    bool         // they were sent
	Refused error        // why the file cannot be read; nil when it can
}

// importLine is a line of the file with its fate: new, same, changed, repeated or refused.
type importLine struct {
	importRow

	Fate   string
	Person string           // the id of who has the phone
	Wrong  []roster.Refusal // of a line that is refused
	Others []string         // the columns that differ from who has the phone
	Raw    string           // the line as the file has it, where its fields cannot be read
}

// importRow is a person of the file, as the form keeps them between the preview and the import.
type importRow struct {
	Line      int      `json:"line"`
	Phone     string   `json:"phone"`
	FirstName string   `json:"first_name"`
	Locale    string   `json:"locale"`
	TimeZone  string   `json:"time_zone"`
	Given     []string `json:"given"`
}

// Count returns how many lines have a fate.
func (p importPage) Count(fate string) (n int64) {
	for _, l := range p.Lines {
		if l.Fate == fate {
			n++
		}
	}
	return n
}

// Fates are the fates that the page counts.
func (importPage) Fates() []string { return []string{"new", "same", "changed", "repeated", "refused"} }

// importing shows the form.
func (p *Pages) importing(*http.Request) (Page, error) {
	return Page{"import", "import.title", importPage{}}, nil
}

var (
	errNoFile       = status.Error(codes.InvalidArgument, "choose a file, or paste its lines")
	errTooManyLines = status.Error(codes.InvalidArgument,
		"an import has at most 1000 lines here; paceline profiles import takes a file of any length")
)

// previewImport reads a file and asks who of it is there. It writes nothing.
func (p *Pages) previewImport(r *http.Request) (Page, error) {
	shown, err := readImport(r)
	if err == nil {
		err = p.lookUp(r.Context(), shown.Lines)
	}
	if err == nil {
		shown.Rows, err = goodRows(shown.Lines)
	}
	if shown.Refused = refusedInput(err); shown.Refused != nil {
		shown, err = importPage{Refused: shown.Refused}, nil
	}
	return Page{"import", "import.title", shown}, err
}

// readImport reads the lines of the file in a form.
func readImport(r *http.Request) (shown importPage, err error) {
	text, err := chosenFile(r)
	if err != nil {
		return shown, err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return shown, errNoFile
	}
	file, err := roster.Read(bytes.NewReader(text), nil)
	if err != nil {
		return shown, status.Error(codes.InvalidArgument, err.Error())
	}
	lines := rawLines(text)
	phones := map[string]bool{}
	for {
		row, err := file.Next()
		if errors.Is(err, io.EOF) {
			shown.Ignored = file.Ignored
			return shown, nil
		}
		if err != nil {
			return shown, status.Error(codes.InvalidArgument, err.Error())
		}
		if len(shown.Lines) == maxImported {
			return shown, errTooManyLines
		}
		line := importLine{importRow: importRow{
			Line: row.Line, Phone: row.Person.Phone, FirstName: row.Person.FirstName, Locale: row.Person.Locale,
			TimeZone: row.Person.TimeZone, Given: row.Given,
		}, Wrong: row.Wrong}
		switch {
		case len(row.Wrong) > 0:
			line.Fate = "refused"
			if line.Line >= 1 && line.Line <= len(lines) {
				line.Raw = clipped(lines[line.Line-1])
			}
		case phones[line.Phone]:
			line.Fate = "repeated"
		}
		phones[line.Phone] = true
		shown.Lines = append(shown.Lines, line)
	}
}

// rawLines returns the lines of a file, whatever its line ends.
func rawLines(text []byte) []string {
	if plain, _, err := transform.Bytes(unicode.BOMOverride(encoding.Nop.NewDecoder()), text); err == nil {
		text = plain
	}
	return strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(string(text), "\uFFFD")), "\n")
}

// clipped cuts a line that a page shows, in characters.
func clipped(line string) string {
	const most = 200
	if letters := []rune(line); len(letters) > most {
		return string(letters[:most-1]) + "…"
	}
	return line
}

// goodRows writes the lines that can be sent.
func goodRows(all []importLine) (string, error) {
	var good []importRow
	for _, l := range all {
		if l.Fate == "new" {
			good = append(good, l.importRow)
		}
	}
	text, err := json.Marshal(good)
	return string(text), err
}

// each does something with the lines that have no fate yet, some at the same time.
func each(ctx context.Context, all []importLine, do func(ctx context.Context, l *importLine) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(askedAtOnce)
	for i := range all {
		if all[i].Fate == "" {
			group.Go(func() error { return do(ctx, &all[i]) })
		}
	}
	return group.Wait()
}

// lookUp finds who of the lines is there already.
func (p *Pages) lookUp(ctx context.Context, all []importLine) error {
	return each(ctx, all, func(ctx context.Context, l *importLine) error {
		out, err := p.Onboarding.ListProfiles(ctx, &onboardingv1.ListProfilesRequest{Phone: l.Phone, PageSize: 1})
		if refusedInput(err) != nil {
			l.refuse(err)
			return nil //nolint:nilerr // the line says it
		}
		if err != nil {
			return err
		}
		if l.Fate = "new"; len(out.GetProfiles()) > 0 {
			l.found(out.GetProfiles()[0])
		}
		return nil
	})
}

// refuse has the line say why it is not taken.
func (l *importLine) refuse(err error) {
	l.Fate, l.Wrong = "refused", roster.Refusals(l.Line, status.Convert(err).Message())
}

// found compares the line with who has the phone.
func (l *importLine) found(there *onboardingv1.Profile) {
	row := roster.Row{Given: l.Given, Person: roster.Person{FirstName: l.FirstName, Locale: l.Locale, TimeZone: l.TimeZone}}
	l.Fate, l.Person = "same", there.GetProfileId()
	l.Others = row.Differing(roster.Person{FirstName: there.GetFirstName(), Locale: there.GetLocale(), TimeZone: there.GetTimeZone()})
	if len(l.Others) > 0 {
		l.Fate = "changed"
	}
}

// importPeople enrols the people of a preview. To send it again finds them there.
func (p *Pages) importPeople(r *http.Request) (Page, error) {
	var rows []importRow
	if json.NewDecoder(strings.NewReader(r.Form.Get("rows"))).Decode(&rows) != nil || len(rows) == 0 || len(rows) > maxImported {
		return Page{}, errForm
	}
	shown := importPage{Done: true, Lines: make([]importLine, len(rows))}
	for i, row := range rows {
		shown.Lines[i].importRow = row
	}
	var mu sync.Mutex
	var broken error // the first failure that is no refusal; what was written stays, and the form may be sent again
	err := each(r.Context(), shown.Lines, func(ctx context.Context, l *importLine) error {
		out, err := p.Onboarding.CreateProfile(ctx, &onboardingv1.CreateProfileRequest{
			Phone: l.Phone, FirstName: l.FirstName, Locale: l.Locale, TimeZone: l.TimeZone,
		})
		switch {
		case err != nil:
			l.refuse(err)
			if refusedInput(err) == nil {
				mu.Lock()
				broken = err
				mu.Unlock()
			}
		case out.GetCreated():
			l.Fate, l.Person = "new", out.GetProfile().GetProfileId()
		default:
			l.found(out.GetProfile())
		}
		return nil
	})
	if err == nil && broken != nil && shown.Count("refused") == int64(len(rows)) {
		err = broken // nothing was written
	}
	return Page{"import", "import.title", shown}, err
}
