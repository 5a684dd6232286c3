package console

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

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

	Shown    flowShown
	Drawing  drawing
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
	if err := group.Wait(); err != nil {
		return page{}, err
	}
	var err error
	if shown.Shown, err = readFlow(files); err == nil && shown.Against != "" {
		var before flowShown
		if before, err = readFlow(older); err == nil {
			shown.Shown.compare(before)
		}
	}
	shown.Drawing = draw(shown.Shown)
	return page{Name: "flow", Title: "flows.title", Body: shown}, err
}

// compare marks what another version has otherwise, and keeps what is not there any more.
func (f *flowShown) compare(before flowShown) {
	for _, lang := range before.Langs {
		if !slices.Contains(f.Langs, lang) {
			f.Langs = append(f.Langs, lang)
		}
	}
	had := map[string]flowStep{}
	for _, s := range before.Steps {
		had[s.ID] = s
	}
	for i, s := range f.Steps {
		old, was := had[s.ID]
		delete(had, s.ID)
		switch {
		case !was:
			f.Steps[i].Change = "new"
		case old.source != s.source:
			f.Steps[i].Change = "changed"
		}
		for _, c := range s.Copies {
			at := slices.IndexFunc(old.Copies, func(o flowCopy) bool { return word(o.When) == word(c.When) })
			if at < 0 {
				continue
			}
			for _, lang := range f.Langs {
				if text := old.Copies[at].Texts[lang]; text != c.Texts[lang] {
					f.Steps[i].Change = cmp.Or(f.Steps[i].Change, "changed")
					c.Before[lang] = text
				}
			}
		}
	}
	f.Gone = slices.Sorted(maps.Keys(had))
}

// word is the condition of a text without its time.
func word(when string) string {
	before, _, _ := strings.Cut(when, " ")
	return before
}
