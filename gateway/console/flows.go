package console

import (
	"net/http"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/gateway/console/drawing"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// flowsPage is the data of pages/flows.html.
type flowsPage struct{ Flows []*onboardingv1.FlowVersion }

// flows lists the current version of each published flow.
func (c *Console) flows(r *http.Request) (page, error) {
	out, err := c.services.Flows.ListFlows(r.Context(), &onboardingv1.ListFlowsRequest{})
	return page{Name: "flows", Title: "flows.title", Body: flowsPage{out.GetFlows()}}, err
}

// versionsShown bounds the versions of a flow that are listed, the newest.
const versionsShown = 50

// flowPage is the data of pages/flow.html: a version of a flow, drawn and in words.
type flowPage struct {
	*onboardingv1.FlowVersion

	Shown    drawing.Flow
	Drawing  drawing.Layout
	Funnel   funnel
	Versions []*onboardingv1.FlowVersion
	Against  string // the version that this one is compared with; empty for none
}

// flow shows a version of a flow, the current one by default.
func (c *Console) flow(r *http.Request) (page, error) {
	name := r.PathValue("flow")
	shown := flowPage{Against: r.Form.Get("against")}
	var files, older map[string]string
	group, ctx := errgroup.WithContext(r.Context())
	read := func(version string) (*onboardingv1.FlowVersion, map[string]string, error) {
		if version == "" {
			out, err := c.services.Flows.GetCurrentFlow(ctx, &onboardingv1.GetCurrentFlowRequest{Flow: name})
			return out.GetVersion(), out.GetFiles(), err
		}
		out, err := c.services.Flows.GetFlowVersion(ctx, &onboardingv1.GetFlowVersionRequest{Flow: name, Version: version})
		return out.GetVersion(), out.GetFiles(), err
	}
	group.Go(func() (err error) {
		shown.FlowVersion, files, err = read(r.Form.Get("version"))
		return err
	})
	if shown.Against != "" {
		group.Go(func() (err error) {
			_, older, err = read(shown.Against)
			return err
		})
	}
	group.Go(func() error {
		out, err := c.services.Flows.ListFlowVersions(ctx, &onboardingv1.ListFlowVersionsRequest{Flow: name, PageSize: versionsShown})
		shown.Versions = out.GetVersions()
		return err
	})
	group.Go(func() (err error) {
		shown.Funnel, err = c.funnel(ctx, name)
		return err
	})
	if err := group.Wait(); err != nil {
		return page{}, err
	}
	var err error
	if shown.Shown, err = drawing.Read(files); err == nil && shown.Against != "" {
		var before drawing.Flow
		if before, err = drawing.Read(older); err == nil {
			shown.Shown.Compare(before)
		}
	}
	if err != nil {
		return page{}, status.Error(codes.Internal, err.Error())
	}
	shown.Drawing = drawing.Draw(shown.Shown, shown.Funnel.counts)
	return page{Name: "flow", Title: "flows.title", Body: shown}, nil
}
