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

	"paceline.internal/services/onboarding/conversation"
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

// peopleFile reads people from CSV as spreadsheets write it: with or without a byte order mark, with either line end, parted by commas or
// by semicolons, the columns in any order. It reads a row at a time, so a file may have any size.
type peopleFile struct {
	bytes *rowBytes
	rows  *csv.Reader
	at    map[string]int // the place of each column
	last  int            // the line of the row that was read last
}

// row is one person, or what is wrong with the row.
type row struct {
	line   int
	person conversation.Person // in its stored form; of a column that is empty or not there, its default
	given  []string            // the columns that say something
	wrong  []refusal
}

// refusal is a line that is not taken, and why. It never quotes the line.
type refusal struct {
	line   int
	column string // empty when it is about the whole line
	reason string
}

// readPeople reads the first line, which names the columns.
func readPeople(from io.Reader) (*peopleFile, error) {
	source := bufio.NewReaderSize(from, maxRow)
	if err := skipMark(source); err != nil {
		return nil, err
	}
	first, err := source.Peek(maxRow)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	f := &peopleFile{bytes: &rowBytes{from: source}, at: map[string]int{}}
	f.rows = csv.NewReader(f.bytes)
	if header, _, _ := bytes.Cut(first, []byte("\n")); bytes.ContainsRune(header, ';') { // no column has one in its name
		f.rows.Comma = ';'
	}
	names, err := f.rows.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty; its first line must name the columns: phone, first_name, locale, time_zone")
	}
	if err != nil {
		return nil, fmt.Errorf("the first line, which must name the columns, cannot be read: %w", err)
	}
	for i, name := range names {
		name = strings.ToLower(strings.TrimSpace(name))
		_, twice := f.at[name]
		switch {
		case !slices.Contains([]string{columnPhone, columnFirstName, columnLocale, columnTimeZone}, name):
			return nil, fmt.Errorf("column %d is %q; the columns are phone, first_name, locale and time_zone", i+1, clipped(name))
		case twice:
			return nil, fmt.Errorf("the column %s is there twice", name)
		}
		f.at[name] = i
	}
	f.last = 1
	for _, needed := range []string{columnPhone, columnFirstName} {
		if _, there := f.at[needed]; !there {
			return nil, fmt.Errorf("the column %s is missing", needed)
		}
	}
	return f, nil
}

// skipMark drops the byte order mark of UTF-8, and refuses those of UTF-16.
func skipMark(source *bufio.Reader) error {
	mark, err := source.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case bytes.HasPrefix(mark, []byte("\xef\xbb\xbf")):
		_, err = source.Discard(3)
		return err
	case bytes.HasPrefix(mark, []byte("\xff\xfe")), bytes.HasPrefix(mark, []byte("\xfe\xff")):
		return errors.New("the file is UTF-16; save it as CSV UTF-8")
	}
	return nil
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
			return quoted(begins, begins+strings.Count(strings.Join(fields, ""), "\n")), nil
		case malformed && errors.Is(err, csv.ErrFieldCount):
			if strings.Join(fields, "") == "" {
				continue
			}
			reason := fmt.Sprintf("it has %d columns, and the first line %d", len(fields), len(f.at))
			return row{line: parse.Line, wrong: []refusal{{line: parse.Line, reason: reason}}}, nil
		case malformed:
			return quoted(parse.StartLine, parse.Line), nil
		case err != nil:
			return row{}, err
		case strings.TrimSpace(strings.Join(fields, "")) == "": // spreadsheets write such rows behind the last
			continue
		}
		return f.read(fields), nil
	}
}

// swallows reports whether a field holds more than itself: a name may have a line end, and what has a separator behind it is another row.
func (f *peopleFile) swallows(field string) bool {
	_, after, broken := strings.Cut(field, "\n")
	return broken && strings.ContainsRune(after, f.rows.Comma)
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
	r.person, err = conversation.Normalise(conversation.Person{
		Phone: said[columnPhone], FirstName: said[columnFirstName], Locale: said[columnLocale], TimeZone: said[columnTimeZone],
	})
	if err != nil {
		r.wrong = refusalsOf(r.line, withoutPrefix(err.Error()))
	}
	return r
}

func withoutPrefix(problems string) string {
	return strings.TrimPrefix(problems, conversation.ErrInvalid.Error()+": ")
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
