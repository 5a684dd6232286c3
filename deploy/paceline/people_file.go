package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"

	"paceline.internal/services/onboarding/people"
)

// maxRow bounds what is read for one row: a quote that is never closed would make a row of all that follows.
const maxRow = 64 << 10

// The columns of a file of people.
const (
	columnPhone     = "phone"
	columnFirstName = "first_name"
	columnLocale    = "locale"
	columnTimeZone  = "time_zone"
)

// peopleFile reads people from CSV as spreadsheets write it: separated by commas, semicolons, tabs or bars, with Excel's "sep=" line, in
// UTF-8 or UTF-16, with any line end, the columns in any order and among others. It reads a row at a time, so a file may have any size.
type peopleFile struct {
	bytes *rowBytes
	rows  *csv.Reader
	at    map[string]int // the place of each column
	width int            // how many columns the first line names
	last  int            // the line of the row that was read last

	skipped int      // lines before the header
	ignored []string // columns of other names
}

// row is one person, or what is wrong with the row.
type row struct {
	line   int
	person people.Person // in its stored form; of a column that is empty or not there, its default
	given  []string      // the columns that say something
	wrong  []refusal
}

// refusal is a line that is not taken, and why. It never quotes the line.
type refusal struct {
	line   int
	column string // empty when it is about the whole line
	reason string
}

// readPeople reads the first line, which names the columns; columns has the file's own names of them, by ours.
func readPeople(from io.Reader, columns map[string]string) (*peopleFile, error) {
	// Excel writes "Unicode text" in UTF-16; without a mark it is UTF-8, and what is neither is refused by its line.
	plain := transform.NewReader(from, unicode.BOMOverride(encoding.Nop.NewDecoder()))
	source := bufio.NewReaderSize(&lineEnds{from: bufio.NewReader(plain)}, maxRow)
	first, err := source.Peek(maxRow)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	f := &peopleFile{bytes: &rowBytes{from: source}, at: map[string]int{}}
	header, _, _ := bytes.Cut(first, []byte("\n"))
	if mark, said := bytes.CutPrefix(bytes.TrimSpace(bytes.Trim(header, `"`)), []byte("sep=")); said { // Excel's own line
		if _, err := source.Discard(min(len(header)+1, len(first))); err != nil {
			return nil, err
		}
		f.skipped, header = 1, mark
	}
	f.rows = csv.NewReader(f.bytes)
	f.rows.Comma = separator(header)
	names, err := f.rows.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty; its first line must name the columns: phone, first_name, locale, time_zone")
	}
	if err != nil {
		return nil, fmt.Errorf("the first line, which must name the columns, cannot be read: %w", err)
	}
	if err := f.place(names, columns); err != nil {
		return nil, err
	}
	f.rows.FieldsPerRecord, f.width = -1, len(names) // counted in next, for spreadsheets write empty columns behind the last
	f.last = 1 + f.skipped
	return f, nil
}

// separator returns what separates the names of a header, or what Excel says that it is.
func separator(header []byte) rune {
	best, most := ',', 0
	for _, mark := range ",;\t|" {
		if n := bytes.Count(header, []byte(string(mark))); n > most {
			best, most = mark, n
		}
	}
	return best
}

// place finds the columns by their names. Those of other names are left out of account.
func (f *peopleFile) place(names []string, columns map[string]string) error {
	for i, name := range names {
		column := columnOf(name, columns)
		if column == "" {
			if strings.TrimSpace(name) != "" {
				f.ignored = append(f.ignored, clipped(strings.TrimSpace(name)))
			}
			continue
		}
		if _, twice := f.at[column]; twice {
			return fmt.Errorf("the column %s is there twice; name the one that is meant with --columns", column)
		}
		f.at[column] = i
	}
	for _, needed := range []string{columnPhone, columnFirstName} {
		if _, there := f.at[needed]; !there {
			return fmt.Errorf("the column %s is missing; if it has another name, say so with --columns %s=NAME", needed, needed)
		}
	}
	return nil
}

// spellings are the names that lists of people give their columns, without capitals, spaces and marks.
var spellings = map[string]string{
	"phone": columnPhone, "phonenumber": columnPhone, "mobile": columnPhone, "mobilephone": columnPhone,
	"mobilenumber": columnPhone, "cell": columnPhone,
	"cellphone": columnPhone, "tel": columnPhone, "telephone": columnPhone, "whatsapp": columnPhone, "msisdn": columnPhone,
	"telefone": columnPhone, "celular": columnPhone, "numero": columnPhone, "fone": columnPhone, "telefono": columnPhone,
	"movil": columnPhone,

	"firstname": columnFirstName, "givenname": columnFirstName, "name": columnFirstName, "nome": columnFirstName,
	"primeironome": columnFirstName, "nombre": columnFirstName, "prenom": columnFirstName,

	"locale": columnLocale, "language": columnLocale, "lang": columnLocale, "idioma": columnLocale, "lingua": columnLocale,

	"timezone": columnTimeZone, "tz": columnTimeZone, "zone": columnTimeZone, "fusohorario": columnTimeZone, "fuso": columnTimeZone,
	"zonahoraria": columnTimeZone,
}

// columnOf returns our name of a column; empty for another one. A name that --columns gives stands for that column alone.
func columnOf(name string, columns map[string]string) string {
	for ours, theirs := range columns {
		if strings.EqualFold(strings.TrimSpace(name), strings.TrimSpace(theirs)) {
			return ours
		}
	}
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, strings.ToLower(norm.NFD.String(name))) // without accents, spaces and marks
	if ours := spellings[plain]; columns[ours] == "" {
		return ours
	}
	return ""
}

// lineEnds reads the line ends of old spreadsheets, a lone CR, as \n.
type lineEnds struct{ from *bufio.Reader }

// Read implements io.Reader.
func (l *lineEnds) Read(p []byte) (int, error) {
	n, err := l.from.Read(p)
	for i := range n {
		if p[i] != '\r' {
			continue
		}
		next := byte(0)
		if i+1 < n {
			next = p[i+1]
		} else if ahead, peekErr := l.from.Peek(1); peekErr == nil {
			next = ahead[0]
		}
		if next != '\n' {
			p[i] = '\n'
		}
	}
	return n, err
}

// next is the next row that is not empty; io.EOF after the last. Any other error ends the file: what follows cannot be told apart.
func (f *peopleFile) next() (row, error) {
	for {
		f.bytes.row = 0
		fields, err := f.rows.Read()
		parse, malformed := errors.AsType[*csv.ParseError](err)
		switch {
		case errors.Is(err, errLongRow):
			return row{}, fmt.Errorf("a row after line %d is over %d KiB: a quote may not be closed", f.last, maxRow>>10)
		case slices.ContainsFunc(fields, f.swallows):
			begins, _ := f.rows.FieldPos(0)
			begins += f.skipped
			return quoted(begins, begins+strings.Count(strings.Join(fields, ""), "\n")), nil
		case malformed:
			return quoted(parse.StartLine+f.skipped, parse.Line+f.skipped), nil
		case err != nil:
			return row{}, err
		case strings.TrimSpace(strings.Join(fields, "")) == "": // spreadsheets write such rows behind the last
			continue
		}
		if len(fields) < f.width || strings.TrimSpace(strings.Join(fields[f.width:], "")) != "" {
			line, _ := f.rows.FieldPos(0)
			line += f.skipped
			reason := fmt.Sprintf("it has %d columns, and the first line %d", len(fields), f.width)
			return row{line: line, wrong: []refusal{{line: line, reason: reason}}}, nil
		}
		return f.read(fields), nil
	}
}

// swallows reports whether a quote that was not closed has made other rows a part of a field: an address or a note may have line ends and
// separators, and a phone between these is a row.
func (f *peopleFile) swallows(field string) bool {
	if !strings.Contains(field, "\n") || !strings.ContainsRune(field, f.rows.Comma) {
		return false
	}
	between := strings.FieldsFunc(field, func(r rune) bool { return r == '\n' || r == f.rows.Comma })
	return slices.ContainsFunc(between, func(part string) bool {
		digits := strings.Trim(strings.Map(func(r rune) rune {
			if strings.ContainsRune(" -().\u00a0", r) {
				return -1
			}
			return r
		}, part), "\"'")
		digits, international := strings.CutPrefix(digits, "+")
		const shortest, national = 7, 10
		return strings.Trim(digits, "0123456789") == "" && (len(digits) >= national || international && len(digits) >= shortest)
	})
}

// quoted are lines that a quote has made one row of.
func quoted(first, last int) row {
	reason := "a quote stands where none may"
	if last > first {
		reason = fmt.Sprintf(
			"a quote that begins here is not closed on its line: lines %d to %d are read as one, and none of them is taken", first, last)
	}
	return row{line: first, wrong: []refusal{{line: first, reason: reason}}}
}

// read holds a row to the rules of a profile, which are onboarding's own.
func (f *peopleFile) read(fields []string) row {
	f.last, _ = f.rows.FieldPos(0)
	f.last += f.skipped
	r := row{line: f.last}
	said := map[string]string{}
	for _, name := range []string{columnPhone, columnFirstName, columnLocale, columnTimeZone} {
		i, there := f.at[name]
		if !there {
			continue
		}
		if !utf8.ValidString(fields[i]) { // else it would be stored with other letters
			r.wrong = append(r.wrong, refusal{r.line, name, "it is not UTF-8; save the file as CSV UTF-8"})
			continue
		}
		if said[name] = strings.TrimSpace(fields[i]); said[name] != "" {
			r.given = append(r.given, name)
		}
	}
	if len(r.wrong) > 0 {
		return r
	}
	var err error
	r.person, err = people.Normalise(people.Person{
		Phone: said[columnPhone], FirstName: said[columnFirstName], Locale: said[columnLocale], TimeZone: said[columnTimeZone],
	})
	if err != nil {
		r.wrong = refusalsOf(r.line, withoutPrefix(err.Error()))
	}
	return r
}

func withoutPrefix(problems string) string {
	return strings.TrimPrefix(problems, people.ErrInvalid.Error()+": ")
}

// refusalsOf are the problems that onboarding names, each of which begins with its field.
func refusalsOf(line int, problems string) (refused []refusal) {
	for problem := range strings.SplitSeq(problems, "; ") {
		column := ""
		for _, known := range []string{columnPhone, columnFirstName, columnLocale, columnTimeZone} {
			if strings.HasPrefix(problem, known) {
				column = known
			}
		}
		refused = append(refused, refusal{line, column, problem})
	}
	return refused
}

// clipped is a name as an error may quote it.
func clipped(name string) string {
	const most = 40
	return strings.ToValidUTF8(name[:min(len(name), most)], "?")
}

var errLongRow = errors.New("the row is too long")

// rowBytes counts what is read since a row began.
type rowBytes struct {
	from io.Reader
	row  int
}

// Read implements io.Reader.
func (b *rowBytes) Read(p []byte) (int, error) {
	if b.row > maxRow {
		return 0, errLongRow
	}
	n, err := b.from.Read(p)
	b.row += n
	return n, err
}
