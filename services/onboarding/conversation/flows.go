package conversation

import (
	"context"
	"fmt"
	"time"

	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/session"
)

// flowOf returns the flow of a session: the deployment's own conversation, or the version of a published flow that it began with.
func (c *Service) flowOf(ctx context.Context, r session.Record) (*flow.Flow, error) {
	if r.Flow == "" {
		return c.Flow.Script(), nil
	}
	return nil, fmt.Errorf("flow %s", r.Flow)
}

// begins returns the flow of a session whose first text is to be sent, and its position.
func (c *Service) begins(ctx context.Context, v View) (*flow.Flow, flow.State, error) {
	f, err := c.flowOf(ctx, v.Session)
	if err != nil {
		return nil, flow.State{}, err
	}
	return f, f.Next(flow.State{}, v.person(), flow.Began{}).State, nil
}

// render returns a text as a person gets it. The texts of the deployment's own conversation stand in the catalog.
func (c *Service) render(f *flow.Flow, v View, text session.TextKey) (body string, err error) {
	if v.Session.Flow == "" {
		body, err = c.Catalog.Render(v.Session.CopyVersion, v.Locale, string(text), v.FirstName)
	} else {
		body, err = f.Render(string(text), v.Locale, v.FirstName, v.Fields)
	}
	if err != nil {
		return "", fmt.Errorf("render %s: %w", text, err)
	}
	return body, nil
}

// person returns the facts that conditions and texts may use.
func (v View) person() flow.Person {
	return flow.Person{FirstName: v.FirstName, Locale: v.Locale, TimeZone: v.zone().String(), Fields: v.Fields}
}

// zone is the person's time zone.
func (v View) zone() *time.Location {
	if v.Session.Quiet.Zone == nil {
		return time.UTC
	}
	return v.Session.Quiet.Zone
}
