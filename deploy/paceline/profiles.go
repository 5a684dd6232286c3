package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"paceline.internal/deploy/operator"
	"paceline.internal/platform/process"
	"paceline.internal/platform/roster"
)

// profilesCommand groups the commands for many people at once.
type profilesCommand struct {
	Import importCommand `cmd:"" help:"Enrol the people of a CSV file, once it was shown what would come of it."`
}

// importCommand enrols the people of a file.
type importCommand struct {
	apiFlags

	File     string            `arg:"" type:"existingfile" help:"CSV; the first line names the columns: phone, first_name, locale, time_zone."`
	Columns  map[string]string `placeholder:"OURS=THEIRS" help:"What the file calls a column: phone=Handy;first_name=Vorname."`
	Yes      bool              `help:"Create them. Without it the file is only examined."`
	Report   string            `placeholder:"FILE" help:"Where the lines that were not taken go. Default: FILE.refused.csv."`
	Parallel int               `default:"8" help:"How many are created at the same time."`

	ignored []string // the file's columns that are not read
}

// Help returns the text of --help after the first line.
func (c *importCommand) Help() string {
	return `The columns may be in any order and beside others; locale and time_zone may be left out. Usual names of them are known, such as
Phone Number, Celular or Nome; --columns says others. Commas, semicolons, tabs or bars; UTF-8, or UTF-16 with a mark.

Without --yes nothing is changed: the file is held to the rules of a profile, the gateway is asked who is there, and it is counted what
--yes would do with the lines: new, the same, changed (the phone is there with other data), refused; the report has the numbers of the
last two. With --yes each person is created who is not there yet. A phone that is there already is left as it is, and is reported when
the file says something else.
So it may be run again at any time, also after it was broken off. No person is activated.

PACELINE_API_TOKEN is a token of an operator or an app; without it one is signed with API_JWT_SECRET, or the secrets of paceline up.
The exit code is 0 only if every line was taken.`
}

// Run shows what would come of the file, and with --yes creates the people.
func (c *importCommand) Run(ctx context.Context, t terminal) (err error) {
	if c.Parallel < 1 || c.Parallel > maxParallel {
		return fmt.Errorf("--parallel must be 1 to %d", maxParallel)
	}
	for ours := range c.Columns {
		if !slices.Contains([]string{roster.ColumnPhone, roster.ColumnFirstName, roster.ColumnLocale, roster.ColumnTimeZone}, ours) {
			return fmt.Errorf("--columns: %s is none of phone, first_name, locale and time_zone", roster.Clipped(ours))
		}
	}
	path := c.Report
	if path == "" {
		path = c.File + ".refused.csv"
	}
	refused, err := openRefusals(path, c.File)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, refused.close()) }()
	good, repeated, err := c.preview(t.out)
	if err != nil {
		return err
	}
	if err := c.send(ctx, t, good, repeated, refused); err != nil {
		return err
	}
	return c.verdict(refused)
}

func (c *importCommand) verdict(refused *refusals) error {
	if refused.lines == 0 {
		return nil
	}
	return fmt.Errorf("lines that were not taken: %d; see %s", refused.lines, refused.path)
}

// A preview shows so many rows, and at most so many columns that it does not read and lines that are refused.
const shown, most = 3, 10

// preview reads the file, shows how it is understood, and returns how many rows can be sent and which phones are in several.
func (c *importCommand) preview(out io.Writer) (good int, repeated func(phone string) bool, err error) {
	refused, seed, seen := 0, maphash.MakeSeed(), map[uint64]bool{} // by phone, whether it is repeated: a file may have millions
	err = c.each(func(r roster.Row) error {
		if len(r.Wrong) > 0 {
			if refused++; refused > most {
				return nil
			}
			_, err := fmt.Fprintf(out, "line %d is refused: %s\n", r.Line, r.Wrong[0].Reason)
			return err
		}
		phone := maphash.String(seed, r.Person.Phone)
		_, seen[phone] = seen[phone]
		if good++; good > shown {
			return nil
		}
		p := r.Person
		zone := cmp.Or(p.TimeZone, "a guessed time zone")
		_, err := fmt.Fprintf(out, "line %d: %s, %s, %s, %s\n", r.Line, masked(p.Phone), p.FirstName, p.Locale, zone)
		return err
	})
	if err == nil && len(c.ignored) > 0 {
		_, err = fmt.Fprintf(out, "columns that are not read: %s\n", strings.Join(c.ignored, ", "))
	}
	if err == nil {
		_, err = fmt.Fprintf(out, "%s: people: %d; lines that repeat a phone: %d; refused lines: %d.\n",
			c.File, len(seen), good-len(seen), refused)
	}
	return good, func(phone string) bool { return seen[maphash.String(seed, phone)] }, err
}

// each hands over the rows of the file, one after the other.
func (c *importCommand) each(do func(roster.Row) error) (err error) {
	file, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	people, err := roster.Read(file, c.Columns)
	if column, ok := errors.AsType[*roster.ColumnError](err); ok {
		advice := "if it has another name, say so with --columns " + column.Column + "=NAME"
		if column.Twice {
			advice = "name the one that is meant with --columns"
		}
		err = fmt.Errorf("%w; %s", err, advice)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	if c.ignored = people.Ignored; len(c.ignored) > most {
		c.ignored = append(c.ignored[:most:most], "...")
	}
	for {
		r, err := people.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.File, err)
		}
		if err := do(r); err != nil {
			return err
		}
	}
}

// send sends the rows that can be sent, or in a preview asks which of them exist, and reports the result of each.
func (c *importCommand) send(ctx context.Context, t terminal, good int, repeated func(phone string) bool, refused *refusals) error {
	where, token, err := c.reach(ctx, t)
	if err != nil {
		return err
	}
	pool := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: c.Parallel}
	defer pool.CloseIdleConnections()
	i := &importing{
		api: operator.Client{
			BaseURL: strings.TrimSuffix(where.String(), "/"), Token: token, HTTP: &http.Client{Transport: pool, Timeout: 30 * time.Second},
		},
		rest: process.RestOnMachineClock, parallel: c.Parallel, refused: refused, bar: progress(t.out, good),
	}
	if !c.Yes {
		i.repeated, i.planned = repeated, map[string]operator.Person{}
	}
	err = i.run(ctx, c.each)
	var told error
	others := i.others.Load()
	same, wrong := i.known.Load()-others, int64(refused.lines)-others
	if c.Yes {
		_, told = fmt.Fprintf(t.out, "%d created, %d there already, %d not taken.\n", i.created.Load(), same, refused.lines)
	} else {
		_, told = fmt.Fprintf(t.out, "%d new, %d the same, %d changed: the phone has a profile or an earlier line with other data, which stays "+
			"as it is; %d refused.\nNothing was written; --yes creates the new ones.\n", i.created.Load(), same, others, wrong)
	}
	if ctx.Err() != nil {
		err = errors.New("broken off; run it again to go on")
	}
	return errors.Join(err, told)
}

// progress is a bar on a terminal, and nothing anywhere else.
func progress(out io.Writer, total int) *progressbar.ProgressBar {
	file, ok := out.(*os.File)
	return progressbar.NewOptions(total,
		progressbar.OptionSetWriter(out), progressbar.OptionSetVisibility(ok && term.IsTerminal(int(file.Fd()))),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("people"),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
	)
}

// masked shows where a phone is from and its last two digits.
func masked(phone string) string {
	const before, after = 3, 2
	if len(phone) <= before+after {
		return strings.Repeat("*", len(phone))
	}
	return phone[:before] + strings.Repeat("*", len(phone)-before-after) + phone[len(phone)-after:]
}

// refusals are the lines that were not taken, in a file; where there is none they are only counted.
type refusals struct {
	lines int // that have one or more
	path  string

	mu   sync.Mutex
	file *os.File
	rows *csv.Writer
}

// openRefusals makes the file, or empties that of an earlier run.
func openRefusals(path, people string) (*refusals, error) {
	if there, err := os.Stat(path); err == nil {
		if source, err := os.Stat(people); err != nil || os.SameFile(there, source) {
			return nil, errors.Join(err, errors.New("--report must be another file than the people's"))
		}
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the report: %w", err)
	}
	r := &refusals{path: path, file: file, rows: csv.NewWriter(file)}
	return r, r.rows.Write([]string{"line", "column", "reason"})
}

// add reports what is wrong with one line.
func (r *refusals) add(wrong ...roster.Refusal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines++
	if r.rows == nil {
		return nil
	}
	for _, w := range wrong {
		if err := r.rows.Write([]string{strconv.Itoa(w.Line), w.Column, w.Reason}); err != nil {
			return fmt.Errorf("the report: %w", err)
		}
	}
	return nil
}

func (r *refusals) close() error {
	r.rows.Flush()
	return errors.Join(r.rows.Error(), r.file.Close())
}
