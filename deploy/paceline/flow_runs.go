package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/google/uuid"
)

// flowStartCommand starts a flow for many people.
type flowStartCommand struct {
	apiFlags

	Flow   string `arg:"" help:"The published flow."`
	People string `xor:"who" required:"" type:"existingfile" help:"File with an id or a phone on each line, or CSV with one of these columns."`
	Filter string `xor:"who" required:"" help:"A condition in CEL over the people, such as person.fields.plan == 'gold'; true is everybody."`
	DryRun bool   `help:"Only count who would be started, and who would not and why."`
	Paused bool   `help:"Leave the run paused: paceline flow resume starts it."`
	Key    string `help:"The idempotency key of the run: the same command again finds the run and adds who is missing. Default: a new run."`
}

// Help returns the text of --help after the first line.
func (c *flowStartCommand) Help() string {
	return "It makes a run, sent at the sender's rate; paceline flow runs shows its progress. A phone without a profile is left out: " +
		"paceline profiles import enrols people. It takes the token of an operator or of an app, as paceline events does."
}

// The forms of runs in /v1, as far as they are shown. int64 is a string there.
type (
	flowRun struct {
		ID     string `json:"run_id"`
		Flow   string `json:"flow"`
		Status string `json:"status"`
		Reason string `json:"reason"`
		At     string `json:"created_at"`
		Counts *struct {
			People    int            `json:"people,string"`
			Waiting   int            `json:"waiting,string"`
			Started   int            `json:"started,string"`
			LeftOut   map[string]any `json:"left_out"`
			Filtering bool           `json:"filtering"`
		} `json:"counts"`
	}
	unknownPeople struct {
		Counts map[string]any `json:"counts"`
	}
	runPreview struct {
		People    int `json:"people,string"`
		Segments  int `json:"segments,string"`
		Quiet     int `json:"quiet,string"`
		Languages []struct {
			Language string `json:"language"`
			People   int    `json:"people,string"`
			Segments int    `json:"segments,string"`
		} `json:"languages"`
		LeftOut  map[string]any `json:"left_out"`
		Complete bool           `json:"complete"`
	}
)

// pageOfRun bounds the people of one request.
const pageOfRun = 10_000

// Run makes the run, paused until all of its people are in it.
func (c *flowStartCommand) Run(ctx context.Context, t terminal) error {
	list, err := c.list()
	if err != nil {
		return err
	}
	if c.DryRun {
		return c.preview(ctx, t, list)
	}
	key := c.Key
	if key == "" {
		key = uuid.NewString()
	}
	in := map[string]any{"idempotency_key": key, "paused": true}
	pages := slices.Collect(slices.Chunk(list, pageOfRun))
	if c.Filter != "" {
		in["filter"] = c.Filter
	} else {
		in["people"] = pages[0]
		pages = pages[1:]
	}
	var made struct {
		Run       flowRun       `json:"run"`
		Unknown   unknownPeople `json:"unknown"`
		Duplicate bool          `json:"duplicate"`
	}
	if err := c.call(ctx, t, http.MethodPost, "/v1/flows/"+url.PathEscape(c.Flow)+":start", in, &made); err != nil {
		return fmt.Errorf("run the command again with --key %s, so that nobody is started twice: %w", key, err)
	}
	left := map[string]int{}
	count(left, made.Unknown.Counts)
	for i, page := range pages {
		var added struct {
			Unknown unknownPeople `json:"unknown"`
		}
		if err := c.call(ctx, t, http.MethodPost, "/v1/runs/"+made.Run.ID+":add", map[string]any{"people": page}, &added); err != nil {
			return fmt.Errorf("page %d of %d was not added; run the command again with --key %s, or paceline flow cancel %s: %w",
				i+2, len(pages)+1, key, made.Run.ID, err)
		}
		count(left, added.Unknown.Counts)
	}
	if !c.Paused {
		if err := switchRun(ctx, t, c.apiFlags, made.Run.ID, "resume", io.Discard); err != nil {
			return fmt.Errorf("run %s may not go on yet; see paceline flow runs, then paceline flow resume: %w", made.Run.ID, err)
		}
	}
	fmt.Fprintf(t.out, "run %s of %s; paceline flow runs %s shows how far it is\n", made.Run.ID, c.Flow, made.Run.ID)
	for _, reason := range slices.Sorted(maps.Keys(left)) {
		fmt.Fprintf(t.out, "not in it: %s %d\n", reason, left[reason])
	}
	return nil
}

// count adds counts as /v1 writes them.
func count(into map[string]int, counts map[string]any) {
	for reason, n := range counts {
		var of int
		if _, err := fmt.Sscan(fmt.Sprint(n), &of); err == nil {
			into[reason] += of
		}
	}
}

// preview counts, page by page.
func (c *flowStartCommand) preview(ctx context.Context, t terminal, list []string) error {
	all, left, shares := runPreview{Complete: true}, map[string]int{}, map[string][2]int{}
	pages := slices.Collect(slices.Chunk(list, pageOfRun))
	if c.Filter != "" {
		pages = [][]string{nil}
	}
	for _, page := range pages {
		in := map[string]any{"dry_run": true}
		if c.Filter != "" {
			in["filter"] = c.Filter
		} else {
			in["people"] = page
		}
		var said struct {
			Preview runPreview `json:"preview"`
		}
		if err := c.call(ctx, t, http.MethodPost, "/v1/flows/"+url.PathEscape(c.Flow)+":start", in, &said); err != nil {
			return err
		}
		p := said.Preview
		all.People, all.Segments, all.Quiet = all.People+p.People, all.Segments+p.Segments, all.Quiet+p.Quiet
		all.Complete = all.Complete && p.Complete
		count(left, p.LeftOut)
		for _, l := range p.Languages {
			shares[l.Language] = [2]int{shares[l.Language][0] + l.People, shares[l.Language][1] + l.Segments}
		}
	}
	fmt.Fprintf(t.out, "people %d, segments of the first text at most %d, in quiet hours now %d\n", all.People, all.Segments, all.Quiet)
	for _, language := range slices.Sorted(maps.Keys(shares)) {
		fmt.Fprintf(t.out, "  %s: people %d, segments %d\n", language, shares[language][0], shares[language][1])
	}
	for _, reason := range slices.Sorted(maps.Keys(left)) {
		fmt.Fprintf(t.out, "left out: %s %d\n", reason, left[reason])
	}
	if !all.Complete {
		fmt.Fprintln(t.out, "not everybody was looked at: there are too many people for a dry run")
	}
	return nil
}

// list reads the file of people; nil with a filter.
func (c *flowStartCommand) list() ([]string, error) {
	if c.People == "" {
		return nil, nil
	}
	file, err := os.Open(c.People)
	if err != nil {
		return nil, err
	}
	list, err := readList(file)
	err = errors.Join(err, file.Close())
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%s has no people", c.People)
	}
	return list, err
}

// maxHeader bounds the first line of a list.
const maxHeader = 4096

// readList reads the column profile_id or phone of a CSV file, with commas or semicolons. Without such a column in the first line it reads
// the first column.
func readList(from io.Reader) (list []string, err error) {
	whole := bufio.NewReader(from)
	begin, _ := whole.Peek(maxHeader) // a shorter file ends before; Read returns any other error
	line, _, _ := strings.Cut(string(begin), "\n")
	rows := csv.NewReader(whole)
	rows.FieldsPerRecord, rows.LazyQuotes = -1, true
	if strings.Count(line, ";") > strings.Count(line, ",") {
		rows.Comma = ';'
	}
	at := 0
	for first := true; ; first = false {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		if first {
			row[0] = strings.TrimPrefix(row[0], "\ufeff")
			named := func(name string) func(string) bool {
				return func(cell string) bool { return strings.EqualFold(strings.TrimSpace(cell), name) }
			}
			if at = slices.IndexFunc(row, named("profile_id")); at < 0 {
				at = slices.IndexFunc(row, named("phone"))
			}
			if at >= 0 {
				continue
			}
			if at = 0; !strings.ContainsAny(row[0], "0123456789") { // an id or a phone has some
				return nil, fmt.Errorf("the first line %.60q names no column profile_id or phone; give one of them that name", strings.TrimSpace(line))
			}
		}
		if at < len(row) && strings.TrimSpace(row[at]) != "" {
			list = append(list, strings.TrimSpace(row[at]))
		}
	}
}

// flowRunsCommand lists runs, or shows one.
type flowRunsCommand struct {
	apiFlags

	ID string `arg:"" optional:"" name:"run" help:"Show this run."`
}

// Run prints a line for each, and of one the counts.
func (c *flowRunsCommand) Run(ctx context.Context, t terminal) error {
	if c.ID != "" {
		var got struct {
			Run flowRun `json:"run"`
		}
		if err := c.call(ctx, t, http.MethodGet, "/v1/runs/"+url.PathEscape(c.ID), nil, &got); err != nil {
			return err
		}
		return got.Run.show(t.out)
	}
	var listed struct {
		Runs []flowRun `json:"runs"`
	}
	if err := c.call(ctx, t, http.MethodGet, "/v1/runs", nil, &listed); err != nil {
		return err
	}
	table := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	for _, r := range listed.Runs {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", r.ID, r.Flow, r.At, r.Status, r.Reason)
	}
	return table.Flush()
}

func (r flowRun) show(out io.Writer) error {
	fmt.Fprintf(out, "run %s of %s: %s %s\n", r.ID, r.Flow, r.Status, r.Reason)
	if r.Counts == nil {
		return nil
	}
	more := ""
	if r.Counts.Filtering {
		more = ", and the filter is still asked"
	}
	_, err := fmt.Fprintf(out, "people %d, waiting %d, started %d%s\n", r.Counts.People, r.Counts.Waiting, r.Counts.Started, more)
	left := map[string]int{}
	count(left, r.Counts.LeftOut)
	for _, reason := range slices.Sorted(maps.Keys(left)) {
		_, wrong := fmt.Fprintf(out, "left out: %s %d\n", reason, left[reason])
		err = errors.Join(err, wrong)
	}
	return err
}

// switchRun pauses, resumes or cancels a run.
func switchRun(ctx context.Context, t terminal, api apiFlags, id, verb string, out io.Writer) error {
	var got struct {
		Run flowRun `json:"run"`
	}
	if err := api.call(ctx, t, http.MethodPost, "/v1/runs/"+url.PathEscape(id)+":"+verb, map[string]any{}, &got); err != nil {
		return err
	}
	return got.Run.show(out)
}

// runArg names a run.
type runArg struct {
	apiFlags

	ID string `arg:"" name:"run" help:"The run; paceline flow runs lists them."`
}

type flowPauseCommand struct{ runArg }

// Run pauses the run.
func (c *flowPauseCommand) Run(ctx context.Context, t terminal) error {
	return switchRun(ctx, t, c.apiFlags, c.ID, "pause", t.out)
}

type flowResumeCommand struct{ runArg }

// Run resumes the run.
func (c *flowResumeCommand) Run(ctx context.Context, t terminal) error {
	return switchRun(ctx, t, c.apiFlags, c.ID, "resume", t.out)
}

type flowCancelCommand struct{ runArg }

// Run cancels the run.
func (c *flowCancelCommand) Run(ctx context.Context, t terminal) error {
	return switchRun(ctx, t, c.apiFlags, c.ID, "cancel", t.out)
}
