package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// flowMoveCommand moves sessions to another version of their flow.
type flowMoveCommand struct {
	apiFlags

	Flow   string            `arg:"" help:"The name of the flow."`
	From   string            `required:"" help:"The version that the sessions are on; paceline flow list FLOW lists them."`
	To     string            `required:"" help:"The version that they are to be on."`
	Step   map[string]string `required:"" help:"A step at which they wait, and its new one, such as ask=ask_again. May be given again."`
	DryRun bool              `help:"Only count the sessions that would be moved."`
}

// flowMoved is the answer of /v1. int64 is a string there.
type flowMoved struct {
	Moved     int  `json:"moved,string"`
	Busy      int  `json:"busy,string"`
	Unmapped  int  `json:"unmapped,string"`
	Elsewhere int  `json:"elsewhere,string"`
	More      bool `json:"more"`
}

// Run moves page after page until none is left.
func (c *flowMoveCommand) Run(ctx context.Context, t terminal) error {
	in := map[string]any{"from_version": c.From, "to_version": c.To, "steps": c.Step, "dry_run": c.DryRun}
	moved, done := 0, flowMoved{More: true}
	for done.More {
		done = flowMoved{}
		if err := c.call(ctx, t, http.MethodPost, "/v1/flows/"+url.PathEscape(c.Flow)+":move", in, &done); err != nil {
			if moved == 0 {
				return err
			}
			return fmt.Errorf("%d sessions were moved; run the command again for the others: %w", moved, err)
		}
		moved += done.Moved
	}
	verb := "moved"
	if c.DryRun {
		verb = "would be moved"
	}
	fmt.Fprintf(t.out, "%s: %d\n", verb, moved)
	for _, left := range []struct {
		n    int
		text string
	}{
		{done.Busy, "stay, because a reply is being worked on; run the command again"},
		{done.Unmapped, "stay, because they wait at another step"},
		{done.Elsewhere, "stay, because they wait for no reply"},
	} {
		if left.n > 0 {
			fmt.Fprintf(t.out, "%s: %d\n", left.text, left.n)
		}
	}
	return nil
}
