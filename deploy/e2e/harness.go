// Package e2e is the staging harness: it plays one person's onboarding against a running deployment, through the doors that it has in
// production, and checks what came of it. It enters by activation and by signed callbacks, and looks through /v1; of queues, alarms and
// databases it knows nothing.
package e2e

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"paceline.internal/deploy/operator"
	"paceline.internal/platform/process"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/session"
)

// Harness plays against one deployment.
type Harness struct {
	Config Config
	Now    func() time.Time
	Rest   process.Rest
	Tell   func(line string) // what happens, as it happens
	// Told hears of every check as it is made.
	Told func(Check)
	// Patience bounds the wait for a text. Default 60 s (S0-49).
	Patience time.Duration
}

const (
	// callTimeout bounds one call to the deployment, in which it may call Twilio.
	callTimeout = 30 * time.Second
	// momentPatience bounds one outage of a deployment.
	momentPatience = 20 * time.Second
	// look is the interval between two questions to a deployment.
	look            = 250 * time.Millisecond
	defaultPatience = 60 * time.Second
	// tolerance is by how much a pause may be shorter than the flow says: 6 s of 8 (S0-49).
	tolerance = 2 * time.Second
)

// Run plays the conversation as often as it is told, each time from a clean baseline. The error is of something that the harness
// cannot go on without; a promise that was broken is in the report.
func (h Harness) Run(ctx context.Context, runs int) (Report, error) {
	flow, err := h.Config.flow()
	if err != nil {
		return Report{}, err
	}
	token, err := h.Config.token(h.Now())
	if err != nil {
		return Report{}, err
	}
	h.Patience = cmp.Or(h.Patience, defaultPatience)
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	client := &http.Client{Timeout: callTimeout, Transport: &patient{
		base: transport, now: h.Now, rest: h.Rest, patience: min(h.Patience, momentPatience), tell: h.Tell,
	}}
	defer transport.CloseIdleConnections()
	report := Report{Mode: h.Config.Mode, Kept: true, Differences: []string{}}
	for n := range runs {
		h.Tell(fmt.Sprintf("run %d of %d, QStash %s", n+1, runs, h.Config.Mode))
		c := &conversation{
			h: h, flow: flow, api: &operator.Client{BaseURL: h.Config.origin(), Token: token, HTTP: client},
			vendors: &vendors{cfg: h.Config, http: client, now: h.Now},
		}
		err := c.play(ctx)
		report.Runs = append(report.Runs, c.run)
		report.Kept = report.Kept && err == nil && c.run.kept()
		if err != nil {
			return report, err
		}
	}
	for n, run := range report.Runs[1:] {
		if !slices.Equal(run.Trace, report.Runs[0].Trace) {
			report.Kept = false
			report.Differences = append(report.Differences, fmt.Sprintf("run %d: %q, run 1: %q", n+2, run.Trace, report.Runs[0].Trace))
		}
	}
	return report, nil
}

// place is a position in the burst: what the session waits for, and which step is next.
type place struct {
	token session.Token
	next  session.StepID
}

func (p place) String() string {
	if p.next == "" {
		return string(p.token)
	}
	return string(p.token) + ", next " + string(p.next)
}

// placesOf are the places of the burst in their order: before the first step, and after each.
func placesOf(own session.Flow) []place {
	script := own.Script()
	all := []place{{token: session.AwaitingBurst, next: own.First().ID}}
	for _, s := range own.Steps() {
		at := flow.State{Step: string(s.ID), Phase: flow.Due}
		move := session.AfterStep(script, session.Record{}, flow.Person{}, at, time.Time{}, time.Time{}, time.Time{})
		all = append(all, place{token: move.Token, next: move.NextStep})
	}
	return all
}
