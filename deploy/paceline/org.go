package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"paceline.internal/deploy/operator"
)

// orgCommand has the organisations of a deployment.
type orgCommand struct {
	Create  orgCreateCommand  `cmd:"" help:"Make an organisation, and print its id."`
	List    orgListCommand    `cmd:"" help:"List the organisations."`
	Key     orgKeyCommand     `cmd:"" help:"Make the first operator's key of an organisation, and print it."`
	Suspend orgSuspendCommand `cmd:"" help:"Have nothing sent for an organisation; STOP and HELP are answered."`
	Resume  orgResumeCommand  `cmd:"" help:"Have an organisation go on that is suspended, or has ended and is not erased."`
	Move    orgMoveCommand    `cmd:"" help:"Move an organisation to another deployment, while both serve."`
	End     orgEndCommand     `cmd:"" help:"Refuse an organisation's callers, and erase it after the grace period."`
}

// Help returns the text of --help after the first line.
func (c *orgCommand) Help() string {
	return "PACELINE_API_TOKEN is a token with the role platform; without it one is signed with API_JWT_SECRET, or the secrets of paceline up."
}

// platformFlags tell a command how to reach /v1 as the platform.
type platformFlags struct{ apiFlags }

func (f platformFlags) client(ctx context.Context, t terminal) (*operator.Client, error) {
	where, token, err := f.reachAs(ctx, t, tokenCommand{Role: "platform", Subject: "platform"})
	if err != nil {
		return nil, err
	}
	return clientOf(where, token), nil
}

// call posts to the route of an organisation, and prints how the organisation is then.
func (f platformFlags) call(ctx context.Context, t terminal, id, verb string, body map[string]string) error {
	client, err := f.client(ctx, t)
	if err != nil {
		return err
	}
	var answer struct{ Organisation organisationJSON }
	if err := client.Call(ctx, http.MethodPost, "/v1/organisations/"+url.PathEscape(id)+":"+verb, body, &answer); err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.out, "%s: %s\n", answer.Organisation.Name, answer.Organisation.state())
	return err
}

// organisationJSON is an organisation as /v1 shows it.
type organisationJSON struct {
	ID         string     `json:"org_id"`
	Name       string     `json:"name"`
	Status     string     `json:"status"`
	ChangesTo  string     `json:"changes_to"`
	Reason     string     `json:"reason"`
	EraseAfter *time.Time `json:"erase_after"`
	ErasedAt   *time.Time `json:"erased_at"`
}

// state says in words how an organisation is.
func (o organisationJSON) state() string {
	said := o.Status
	if o.ChangesTo != "" {
		said += ", becomes " + o.ChangesTo
	}
	switch {
	case o.ErasedAt != nil:
		said += ", erased " + o.ErasedAt.UTC().Format(time.RFC3339)
	case o.EraseAfter != nil:
		said += ", is erased after " + o.EraseAfter.UTC().Format(time.RFC3339)
	}
	if o.Reason != "" {
		said += " (" + o.Reason + ")"
	}
	return said
}

// orgCreateCommand makes an organisation.
type orgCreateCommand struct {
	platformFlags

	Name string `arg:"" help:"What it is called."`
	ID   string `help:"The UUID that its tokens and rows have already. Default: a new one."`
}

// Run prints the id alone.
func (c *orgCreateCommand) Run(ctx context.Context, t terminal) error {
	client, err := c.client(ctx, t)
	if err != nil {
		return err
	}
	var made struct{ Organisation organisationJSON }
	err = client.Call(ctx, http.MethodPost, "/v1/organisations", map[string]string{"name": c.Name, "org_id": c.ID}, &made)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.out, made.Organisation.ID)
	return err
}

// orgListCommand lists organisations.
type orgListCommand struct{ platformFlags }

// Run prints a line for each.
func (c *orgListCommand) Run(ctx context.Context, t terminal) error {
	client, err := c.client(ctx, t)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	for token := ""; ; {
		var page struct {
			Organisations []organisationJSON
			Next          string `json:"next_page_token"`
		}
		err := client.Call(ctx, http.MethodGet, "/v1/organisations?page_size=500&page_token="+url.QueryEscape(token), nil, &page)
		if err != nil {
			return err
		}
		for _, o := range page.Organisations {
			fmt.Fprintf(table, "%s\t%s\t%s\n", o.ID, o.Name, o.state())
		}
		if token = page.Next; token == "" {
			return table.Flush()
		}
	}
}

// orgKeyCommand makes the first key.
type orgKeyCommand struct {
	platformFlags

	ID   string `arg:"" help:"The organisation."`
	Name string `arg:"" help:"What the key is for."`
}

// Run prints the key alone.
func (c *orgKeyCommand) Run(ctx context.Context, t terminal) error {
	client, err := c.client(ctx, t)
	if err != nil {
		return err
	}
	var made struct{ Key string }
	path := "/v1/organisations/" + url.PathEscape(c.ID) + "/api_keys"
	if err := client.Call(ctx, http.MethodPost, path, map[string]string{"name": c.Name}, &made); err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.out, made.Key)
	return err
}

// orgSuspendCommand suspends.
type orgSuspendCommand struct {
	platformFlags

	ID     string `arg:"" help:"The organisation."`
	Reason string `required:"" help:"Why; its operators read it."`
}

// Run suspends it.
func (c *orgSuspendCommand) Run(ctx context.Context, t terminal) error {
	return c.call(ctx, t, c.ID, "suspend", map[string]string{"reason": c.Reason})
}

// orgResumeCommand resumes.
type orgResumeCommand struct {
	platformFlags

	ID string `arg:"" help:"The organisation."`
}

// Run resumes it.
func (c *orgResumeCommand) Run(ctx context.Context, t terminal) error {
	return c.call(ctx, t, c.ID, "resume", map[string]string{})
}

// orgEndCommand ends.
type orgEndCommand struct {
	platformFlags

	ID     string `arg:"" help:"The organisation."`
	Reason string `required:"" help:"Why."`
}

// Run ends it.
func (c *orgEndCommand) Run(ctx context.Context, t terminal) error {
	return c.call(ctx, t, c.ID, "end", map[string]string{"reason": c.Reason})
}
