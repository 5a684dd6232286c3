package operations

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	runsShown = 50
	// maxListed bounds the people of a list, as one StartRun does.
	maxListed = 10_000
)

// runsPage is the data of pages/runs.html.
type runsPage struct {
	Runs []*onboardingv1.Run
	Next string // the address of the next page; empty on the last
}

// runs lists runs, newest first. One that goes on has its counts too: there are at most 20 of these.
func (p *Pages) runs(r *http.Request) (Page, error) {
	out, err := p.Runs.ListRuns(r.Context(), &onboardingv1.ListRunsRequest{PageSize: runsShown, PageToken: r.Form.Get("page")})
	shown := runsPage{Runs: out.GetRuns()}
	if token := out.GetNextPageToken(); token != "" {
		shown.Next = p.Root + "/runs?" + url.Values{"page": {token}}.Encode()
	}
	return Page{"runs", "runs.title", shown}, err
}

// leftOut counts the people who are left out for a reason.
type leftOut struct {
	Reason string
	People int64
}

// reasons sorts the counts of those who are left out, the most first.
func reasons(counts map[string]int64) (all []leftOut) {
	for reason, people := range counts {
		all = append(all, leftOut{reason, people})
	}
	slices.SortFunc(all, func(a, b leftOut) int {
		return cmp.Or(cmp.Compare(b.People, a.People), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

// runPage is the data of pages/run.html.
type runPage struct {
	*onboardingv1.Run

	LeftOut []leftOut
	Without int64 // all who were left out
}

// Settled counts those who were started or left out.
func (p runPage) Settled() int64 { return p.GetCounts().GetPeople() - p.GetCounts().GetWaiting() }

// Open reports whether the run can still be changed.
func (p runPage) Open() bool { return p.GetStatus() == "running" || p.GetStatus() == "paused" }

// run shows how far a run is.
func (p *Pages) run(r *http.Request) (Page, error) {
	out, err := p.Runs.GetRun(r.Context(), &onboardingv1.GetRunRequest{RunId: r.PathValue("run")})
	shown := runPage{Run: out.GetRun(), LeftOut: reasons(out.GetRun().GetCounts().GetLeftOut())}
	for _, of := range shown.LeftOut {
		shown.Without += of.People
	}
	return Page{"run", "runs.one", shown}, err
}

// changeRun pauses a run, has it go on, or ends it.
func (p *Pages) changeRun(r *http.Request) (Notice, error) {
	id, deed := r.PathValue("run"), r.PathValue("deed")
	do, ok := map[string]func(ctx context.Context) error{
		"pause": func(ctx context.Context) error {
			_, err := p.Runs.PauseRun(ctx, &onboardingv1.PauseRunRequest{RunId: id})
			return err
		},
		"resume": func(ctx context.Context) error {
			_, err := p.Runs.ResumeRun(ctx, &onboardingv1.ResumeRunRequest{RunId: id})
			return err
		},
		"cancel": func(ctx context.Context) error {
			_, err := p.Runs.CancelRun(ctx, &onboardingv1.CancelRunRequest{RunId: id})
			return err
		},
	}[deed]
	if !ok {
		return Notice{}, errForm
	}
	return said("runs." + deed + ".done"), do(r.Context())
}

// newRunPage is the data of pages/run_new.html: the form, and what the run would do once it was asked.
type newRunPage struct {
	Flows        []*onboardingv1.FlowVersion
	Flow, Filter string
	List         string // ids and phones, one a line
	Listed       int
	Source       string // of the consent record; empty for none
	Words        string
	Collected    string

	Preview *onboardingv1.RunPreview // nil before it was asked
	LeftOut []leftOut
	Key     string // of the run that the form starts, so that a second press starts no second one
	Refused error  // why it cannot be previewed; nil when it can
}

// newRun shows the form of a run.
func (p *Pages) newRun(r *http.Request) (Page, error) {
	shown := newRunPage{Flow: r.Form.Get("flow")}
	err := p.publishedFlows(r.Context(), &shown)
	return Page{"run_new", "runs.new", shown}, err
}

func (p *Pages) publishedFlows(ctx context.Context, shown *newRunPage) error {
	out, err := p.Flows.ListFlows(ctx, &onboardingv1.ListFlowsRequest{})
	shown.Flows = out.GetFlows()
	return err
}

// errNoPeople, errTooMany and errBoth refuse the people of a form.
var (
	errNoPeople = status.Error(codes.InvalidArgument, "choose a file, paste phones or ids, or write a condition")
	errBoth     = status.Error(codes.InvalidArgument, "give a list or a condition, and not both")
	errTooMany  = status.Error(codes.InvalidArgument,
		"a list has at most 10000 people here; paceline flow start takes a file of any length")
)

// asked reads the form of a run.
func (p *Pages) asked(r *http.Request) (in *onboardingv1.StartRunRequest, shown newRunPage, err error) {
	shown = newRunPage{
		Flow: r.Form.Get("flow"), Filter: r.Form.Get("filter"), Source: r.Form.Get("source"), Words: r.Form.Get("words"),
		Collected: r.Form.Get("collected_at"), Key: r.Form.Get("key"),
	}
	in = &onboardingv1.StartRunRequest{Flow: shown.Flow, Filter: shown.Filter}
	if in.People, err = listed(r); err != nil {
		return in, shown, err
	}
	shown.List, shown.Listed = lines(in.GetPeople()), len(in.GetPeople())
	switch {
	case len(in.GetPeople()) > maxListed:
		return in, shown, errTooMany
	case len(in.GetPeople()) == 0 && in.GetFilter() == "":
		return in, shown, errNoPeople
	case len(in.GetPeople()) > 0 && in.GetFilter() != "":
		return in, shown, errBoth
	}
	in.Consent, err = p.consentOf(shown, r)
	return in, shown, err
}

// previewRun counts the people that a run would start, and starts nobody.
func (p *Pages) previewRun(r *http.Request) (Page, error) {
	in, shown, err := p.asked(r)
	if err == nil {
		in.DryRun = true
		var out *onboardingv1.StartRunResponse
		out, err = p.Runs.StartRun(r.Context(), in)
		shown.Preview, shown.LeftOut = out.GetPreview(), reasons(out.GetPreview().GetLeftOut())
		shown.Key = newKey()
	}
	if shown.Refused = refusedInput(err); shown.Refused == nil && err != nil {
		return Page{}, err
	}
	if shown.Refused != nil {
		shown.Preview = nil
	}
	err = p.publishedFlows(r.Context(), &shown)
	return Page{"run_new", "runs.new", shown}, err
}

// startRun starts what was previewed.
func (p *Pages) startRun(r *http.Request) (Notice, error) {
	in, shown, err := p.asked(r)
	if shown.Key == "" {
		return Notice{}, errForm
	}
	if err != nil {
		return Notice{}, err
	}
	in.IdempotencyKey = "console:" + shown.Key
	out, err := p.Runs.StartRun(r.Context(), in)
	if err != nil {
		return Notice{}, err
	}
	n := said("runs.started")
	if out.GetDuplicate() {
		n = said("runs.started.already")
	}
	n.To = p.Root + "/runs/" + out.GetRun().GetRunId()
	return n, nil
}
