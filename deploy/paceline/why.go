package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"
)

// whyCommand prints what would happen to a person now, and why.
type whyCommand struct {
	apiFlags

	Phone string `arg:"" help:"The person's number, in any international spelling."`
}

// Help returns the text of --help after the first line.
func (c *whyCommand) Help() string {
	return "The gates stand in the order in which the product asks them; docs/api.md, Explain, says what each asks. It takes an operator's " +
		"token, as paceline events does."
}

// explanationJSON is an explanation as /v1 shows it.
type explanationJSON struct {
	Outcome string `json:"outcome"`
	Next    string `json:"next"`
	Advice  string `json:"advice"`
	Gates   []struct {
		Name   string     `json:"name"`
		Passed bool       `json:"passed"`
		Fact   string     `json:"fact"`
		Since  *time.Time `json:"since"`
		Change string     `json:"change"`
	} `json:"gates"`
}

// Run looks the person up, and prints the gates.
func (c *whyCommand) Run(ctx context.Context, t terminal) error {
	var found struct {
		Profiles []struct {
			ProfileID string `json:"profile_id"`
		} `json:"profiles"`
	}
	r, err := c.request(ctx, t, "v1/profiles", url.Values{"phone": {c.Phone}})
	if err == nil {
		err = getJSON(r, &found)
	}
	if err != nil {
		return err
	}
	if len(found.Profiles) == 0 {
		return fmt.Errorf("no profile of the organisation has the phone %s", c.Phone)
	}
	var answer struct {
		SessionID   string          `json:"session_id"`
		Explanation explanationJSON `json:"explanation"`
	}
	id := found.Profiles[0].ProfileID
	if r, err = c.request(ctx, t, "v1/profiles/"+id+":explain", nil); err == nil {
		err = getJSON(r, &answer)
	}
	if err != nil {
		return err
	}
	about := "An activation of profile " + id
	if answer.SessionID != "" {
		about = "The step of session " + answer.SessionID + " of profile " + id
	}
	return answer.Explanation.write(t.out, about)
}

func (e explanationJSON) write(to io.Writer, about string) error {
	var out strings.Builder
	fmt.Fprintf(&out, "%s, now: %s\n\n", about, e.Outcome)
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, g := range e.Gates {
		mark, since := "pass", ""
		if !g.Passed {
			mark = "STOP"
		}
		if g.Since != nil {
			since = "since " + g.Since.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", mark, g.Name, g.Fact, since)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if e.Next != "" {
		fmt.Fprintf(&out, "\nNext: %s\n", e.Next)
	}
	if e.Advice != "" {
		fmt.Fprintf(&out, "\nTo change it: %s\n", e.Advice)
	}
	_, err := io.WriteString(to, out.String())
	return err
}
