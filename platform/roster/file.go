package roster

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
)

// maxRow bounds what is read for one row: a quote that is never closed would make a row of all that follows.
const maxRow = 64 << 10

// The columns of a file of people.
const (
	ColumnPhone     = "phone"
	ColumnFirstName = "first_name"
	ColumnLocale    = "locale"
	ColumnTimeZone  = "time_zone"
)

// File reads people from CSV as spreadsheets write it: separated by commas, semicolons, tabs or bars, with Excel's "sep=" line, in
// UTF-8 or UTF-16, with any line end, the columns in any order and among others. It reads a row at a time, so a file may have any size.
type File struct {
	Ignored []string // columns of other names

	bytes *rowBytes
	rows  *csv.Reader
	at    map[string]int // the place of each column
	width int            // how many columns the first line names
	last  int            // the line of the row that was read last

	skipped int // lines before the header
}

// Row is one person, or what is wrong with the row.
type Row struct {
	Line   int
	Person Person   // in its stored form; of a column that is empty or not there, its default
	Given  []string // the columns that say something
	Wrong  []Refusal
}

// Differing returns the columns that say something else than the person who has the phone.
func (r Row) Differing(there Person) (columns []string) {
	for _, column := range r.Given {
		said := map[string][2]string{
			ColumnFirstName: {r.Person.FirstName, there.FirstName},
			ColumnLocale:    {r.Person.Locale, there.Locale},
			ColumnTimeZone:  {r.Person.TimeZone, there.TimeZone},
		}[column]
		if said[0] != said[1] {
			columns = append(columns, column)
		}
	}
	return columns
}

// Refusal is a line that is not taken, and why. It never quotes the line.
type Refusal struct {
	Line   int
	Column string // empty when it is about the whole line
	Reason string
}

// Read reads the first line of a file, which names the columns; columns has the file's own names of them, by ours.
func Read(from io.Reader, columns map[string]string) (*File, error) {
	// Excel writes "Unicode text" in UTF-16; without a mark it is UTF-8, and what is neither is refused by its line.
	plain := transform.NewReader(from, unicode.BOMOverride(encoding.Nop.NewDecoder()))
	source := bufio.NewReaderSize(&lineEnds{from: bufio.NewReader(plain)}, maxRow)
	first, err := source.Peek(maxRow)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	f := &File{bytes: &rowBytes{from: source}, at: map[string]int{}}
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
func (f *File) place(names []string, columns map[string]string) error {
	for i, name := range names {
		column := columnOf(name, columns)
		if column == "" {
			if strings.TrimSpace(name) != "" {
				f.Ignored = append(f.Ignored, Clipped(strings.TrimSpace(name)))
			}
			continue
		}
		if _, twice := f.at[column]; twice {
			return &ColumnError{Column: column, Twice: true}
		}
		f.at[column] = i
	}
	for _, needed := range []string{ColumnPhone, ColumnFirstName} {
		if _, there := f.at[needed]; !there {
			return &ColumnError{Column: needed}
		}
	}
	return nil
}

// ColumnError reports a column that the first line does not name, or names twice.
type ColumnError struct {
	Column string
	Twice  bool
}

// Error implements error.
func (e *ColumnError) Error() string {
	if e.Twice {
		return "the column " + e.Column + " is there twice"
	}
	return "the column " + e.Column + " is missing"
}

// spellings are the names that lists of people give their columns, without capitals, spaces and marks.
var spellings = map[string]string{
	"phone": ColumnPhone, "phonenumber": ColumnPhone, "mobile": ColumnPhone, "mobilephone": ColumnPhone,
	"mobilenumber": ColumnPhone, "cell": ColumnPhone,
	"cellphone": ColumnPhone, "tel": ColumnPhone, "telephone": ColumnPhone, "whatsapp": ColumnPhone, "msisdn": ColumnPhone,
	"telefone": ColumnPhone, "celular": ColumnPhone, "numero": ColumnPhone, "fone": ColumnPhone, "telefono": ColumnPhone,
	"movil": ColumnPhone,

	"firstname": ColumnFirstName, "givenname": ColumnFirstName, "name": ColumnFirstName, "nome": ColumnFirstName,
	"primeironome": ColumnFirstName, "nombre": ColumnFirstName, "prenom": ColumnFirstName,

	"locale": ColumnLocale, "language": ColumnLocale, "lang": ColumnLocale, "idioma": ColumnLocale, "lingua": ColumnLocale,

	"timezone": ColumnTimeZone, "tz": ColumnTimeZone, "zone": ColumnTimeZone, "fusohorario": ColumnTimeZone, "fuso": ColumnTimeZone,
	"zonahoraria": ColumnTimeZone,
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

// Next returns the next row that is not empty; io.EOF after the last. Any other error ends the file: what follows cannot be told apart.
func (f *File) Next() (Row, error) {
	for {
		f.bytes.row = 0
		fields, err := f.rows.Read()
		parse, malformed := errors.AsType[*csv.ParseError](err)
		switch {
		case errors.Is(err, errLongRow):
			return Row{}, fmt.Errorf("a row after line %d is over %d KiB: a quote may not be closed", f.last, maxRow>>10)
		case slices.ContainsFunc(fields, f.swallows):
			begins, _ := f.rows.FieldPos(0)
			begins += f.skipped
			return quoted(begins, begins+strings.Count(strings.Join(fields, ""), "\n")), nil
		case malformed:
			return quoted(parse.StartLine+f.skipped, parse.Line+f.skipped), nil
		case err != nil:
			return Row{}, err
		case strings.TrimSpace(strings.Join(fields, "")) == "": // spreadsheets write such rows behind the last
			continue
		}
		if len(fields) < f.width || strings.TrimSpace(strings.Join(fields[f.width:], "")) != "" {
			line, _ := f.rows.FieldPos(0)
			line += f.skipped
			reason := fmt.Sprintf("it has %d columns, and the first line %d", len(fields), f.width)
			return Row{Line: line, Wrong: []Refusal{{Line: line, Reason: reason}}}, nil
		}
		return f.read(fields), nil
	}
}

// swallows reports whether a quote that was not closed has made other rows a part of a field: an address or a note may have line ends and
// separators, and a phone between these is a row.
func (f *File) swallows(field string) bool {
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
func quoted(first, last int) Row {
	reason := "a quote stands where none may"
	if last > first {
		reason = fmt.Sprintf(
			"a quote that begins here is not closed on its line: lines %d to %d are read as one, and none of them is taken", first, last)
	}
	return Row{Line: first, Wrong: []Refusal{{Line: first, Reason: reason}}}
}

// read holds a row to the rules of a profile, which are onboarding's own.
func (f *File) read(fields []string) Row {
	f.last, _ = f.rows.FieldPos(0)
	f.last += f.skipped
	r := Row{Line: f.last}
	said := map[string]string{}
	for _, name := range []string{ColumnPhone, ColumnFirstName, ColumnLocale, ColumnTimeZone} {
		i, there := f.at[name]
		if !there {
			continue
		}
		if !utf8.ValidString(fields[i]) { // else it would be stored with other letters
			r.Wrong = append(r.Wrong, Refusal{r.Line, name, "it is not UTF-8; save the file as CSV UTF-8"})
			continue
		}
		if said[name] = strings.TrimSpace(fields[i]); said[name] != "" {
			r.Given = append(r.Given, name)
		}
	}
	if len(r.Wrong) > 0 {
		return r
	}
	var err error
	r.Person, err = Normalise(Person{
		Phone: said[ColumnPhone], FirstName: said[ColumnFirstName], Locale: said[ColumnLocale], TimeZone: said[ColumnTimeZone],
	})
	if err != nil {
		r.Wrong = Refusals(r.Line, err.Error())
	}
	return r
}

// Refusals returns the problems that onboarding names in an error, each of which begins with its field.
func Refusals(line int, problems string) (refused []Refusal) {
	for problem := range strings.SplitSeq(strings.TrimPrefix(problems, ErrInvalid.Error()+": "), "; ") {
		column := ""
		for _, known := range []string{ColumnPhone, ColumnFirstName, ColumnLocale, ColumnTimeZone} {
			if strings.HasPrefix(problem, known) {
				column = known
			}
		}
		refused = append(refused, Refusal{line, column, problem})
	}
	return refused
}

// Clipped returns a name as an error may quote it.
func Clipped(name string) string {
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
