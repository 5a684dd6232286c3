// Package flows has the pages of the flows: their list, one of them drawn with its funnel and texts, and the built-in conversation.
package flows

import (
	"net/http"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/gateway/console/drawing"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// Pages are the pages, over the services that they read.
type Pages struct {
	Onboarding onboardingv1.OnboardingServiceClient
	Flows      onboardingv1.FlowServiceClient
}

// ListPage is the data of pages/flows.html.
type ListPage struct{ Flows []*onboardingv1.FlowVersion }

// List lists the current version of each published flow.
func (p *Pages) List(r *http.Request) (ListPage, error) {
	out, err := p.Flows.ListFlows(r.Context(), &onboardingv1.ListFlowsRequest{})
	return ListPage{out.GetFlows()}, err
}

// versionsShown bounds the versions of a flow that are listed, the newest.
const versionsShown = 50

// Page is the data of pages/flow.html: a version of a flow, drawn and in words.
type Page struct {
	*onboardingv1.FlowVersion

	Shown    drawing.Flow
	Drawing  drawing.Layout
	Funnel   funnel
	Versions []*onboardingv1.FlowVersion
	Against  string // the version that this one is compared with; empty for none
}

// Show shows a version of a flow, the current one by default.
func (p *Pages) Show(r *http.Request) (Page, error) {
	name := r.PathValue("flow")
	shown := Page{Against: r.Form.Get("against")}
	var files, older map[string]string
	group, ctx := errgroup.WithContext(r.Context())
	read := func(version string) (*onboardingv1.FlowVersion, map[string]string, error) {
		if version == "" {
			out, err := p.Flows.GetCurrentFlow(ctx, &onboardingv1.GetCurrentFlowRequest{Flow: name})
			return out.GetVersion(), out.GetFiles(), err
		}
		out, err := p.Flows.GetFlowVersion(ctx, &onboardingv1.GetFlowVersionRequest{Flow: name, Version: version})
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
		out, err := p.Flows.ListFlowVersions(ctx, &onboardingv1.ListFlowVersionsRequest{Flow: name, PageSize: versionsShown})
		shown.Versions = out.GetVersions()
		return err
	})
	group.Go(func() (err error) {
		shown.Funnel, err = p.funnel(ctx, name)
		return err
	})
	if err := group.Wait(); err != nil {
		return Page{}, err
	}
	var err error
	if shown.Shown, err = drawing.Read(files); err == nil && shown.Against != "" {
		var before drawing.Flow
		if before, err = drawing.Read(older); err == nil {
			shown.Shown.Compare(before)
		}
	}
	if err != nil {
		return Page{}, status.Error(codes.Internal, err.Error())
	}
	shown.Drawing = drawing.Draw(shown.Shown, shown.Funnel.counts)
	return shown, nil
}
