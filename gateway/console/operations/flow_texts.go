package operations

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// flowTextsPage is the data of pages/flow_texts.html: the texts of a flow in one language, as its draft has them.
type flowTextsPage struct {
	*onboardingv1.FlowDraft

	Flow     string
	Language string
	Langs    []string
	Lines    []textLine
	Changed  int // texts that the draft changes, in all languages
	Wrong    int // those that cannot be published
	Saved    bool
	Refused  error // why what was typed was not saved, or the draft not published; nil when it was

	Published bool // the draft is the current version now
}

// textLine is a text with that of the flow's first language.
type textLine struct {
	*onboardingv1.FlowText

	Typed string // what stands in the field
	First string // in the flow's first language; empty on its own page
}

// textField is the name of the field of a text.
func textField(key string) string { return "text." + key }

// typedText returns what was typed into the field of a text; false for a field that is as the page was drawn.
func typedText(form url.Values, key string) (string, bool) {
	text, given := form[textField(key)]
	was, drawn := form["was."+key]
	if !given || drawn && asTyped(text[0]) == asTyped(was[0]) {
		return "", false
	}
	return asTyped(text[0]), true
}

// flowTexts shows the texts of a flow in the language that was asked for, by default its first one.
func (p *Pages) flowTexts(r *http.Request) (Page, error) {
	out, err := p.Flows.GetFlowDraft(r.Context(), &onboardingv1.GetFlowDraftRequest{Flow: r.PathValue("flow")})
	if err != nil {
		return Page{}, err
	}
	return Page{"flow_texts", "texts.title", textsOf(r, out.GetDraft(), nil)}, nil
}

// textsOf draws a draft, with what was typed where that was refused.
func textsOf(r *http.Request, d *onboardingv1.FlowDraft, refused error) flowTextsPage {
	shown := flowTextsPage{FlowDraft: d, Flow: r.PathValue("flow"), Language: r.Form.Get("language"), Refused: refused}
	first := map[string]string{}
	for _, text := range d.GetTexts() {
		if !slices.Contains(shown.Langs, text.GetLanguage()) {
			shown.Langs = append(shown.Langs, text.GetLanguage())
		}
		if text.GetLanguage() == shown.Langs[0] {
			first[text.GetKey()] = text.GetText()
		}
		if text.Published != nil {
			shown.Changed++
		}
		if len(text.GetProblems()) > 0 {
			shown.Wrong++
		}
	}
	if !slices.Contains(shown.Langs, shown.Language) && len(shown.Langs) > 0 {
		shown.Language = shown.Langs[0]
	}
	for _, text := range d.GetTexts() {
		if text.GetLanguage() != shown.Language {
			continue
		}
		line := textLine{FlowText: text, Typed: text.GetText()}
		if shown.Language != shown.Langs[0] {
			line.First = first[text.GetKey()]
		}
		if text, is := typedText(r.Form, text.GetKey()); is && refused != nil {
			line.Typed = text
		}
		shown.Lines = append(shown.Lines, line)
	}
	return shown
}

// asTyped returns the text of a field. Browsers end lines as HTTP does.
func asTyped(text string) string { return strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n")) }

// saveTexts saves what was typed into the draft, and no more: another text may have changed since the page was drawn. Of an outdated draft
// the page has "kept" name its texts, which are saved for the version that is current now. What is refused stays in the form. The button
// that publishes sends the same form, so the texts of the form are published.
func (p *Pages) saveTexts(r *http.Request) (Page, error) {
	in := &onboardingv1.SaveFlowDraftRequest{
		Flow: r.PathValue("flow"), Version: r.Form.Get("version"), Language: r.Form.Get("language"), Texts: map[string]string{},
	}
	var err error
	if in.Revision, err = revisionOf(r); err != nil {
		return Page{}, err
	}
	for field, values := range r.Form {
		key, is := strings.CutPrefix(field, textField(""))
		if _, changed := typedText(r.Form, key); is && (changed || slices.Contains(r.Form["kept"], key)) {
			in.Texts[key] = asTyped(values[0])
		}
	}
	revision, publish := in.GetRevision(), r.Form.Get("then") == "publish"
	var drawn flowTextsPage
	if len(in.GetTexts()) > 0 {
		saved, err := p.Flows.SaveFlowDraft(r.Context(), in)
		if err != nil {
			return p.refusedTexts(r, err)
		}
		drawn, revision = textsOf(r, saved.GetDraft(), nil), saved.GetDraft().GetRevision()
		drawn.Saved = true
	}
	if publish && drawn.Wrong == 0 {
		return p.publishTexts(r, revision)
	}
	if !drawn.Saved {
		return p.flowTexts(r)
	}
	return Page{"flow_texts", "texts.title", drawn}, nil
}

// publishTexts publishes the draft of a revision.
func (p *Pages) publishTexts(r *http.Request, revision int64) (Page, error) {
	in := &onboardingv1.PublishFlowDraftRequest{Flow: r.PathValue("flow"), Revision: revision}
	if _, err := p.Flows.PublishFlowDraft(r.Context(), in); err != nil {
		return p.refusedTexts(r, err)
	}
	out, err := p.Flows.GetFlowDraft(r.Context(), &onboardingv1.GetFlowDraftRequest{Flow: in.GetFlow()})
	if err != nil {
		return Page{}, err
	}
	drawn := textsOf(r, out.GetDraft(), nil)
	drawn.Published = true
	return Page{"flow_texts", "texts.title", drawn}, nil
}

// refusedTexts draws the draft as it is now, with what was typed and why it was refused. It returns any other error.
func (p *Pages) refusedTexts(r *http.Request, err error) (Page, error) {
	refused := refusedInput(err)
	if refused == nil {
		return Page{}, err
	}
	out, err := p.Flows.GetFlowDraft(r.Context(), &onboardingv1.GetFlowDraftRequest{Flow: r.PathValue("flow")})
	if err != nil {
		return Page{}, err
	}
	return Page{"flow_texts", "texts.title", textsOf(r, out.GetDraft(), refused)}, nil
}

// dropTexts ends the draft that was shown.
func (p *Pages) dropTexts(r *http.Request) (Notice, error) {
	flow := r.PathValue("flow")
	revision, err := revisionOf(r)
	if err != nil {
		return Notice{}, err
	}
	_, err = p.Flows.DeleteFlowDraft(r.Context(), &onboardingv1.DeleteFlowDraftRequest{Flow: flow, Revision: revision})
	return Notice{Key: "texts.dropped", To: p.Root + "/flows/" + flow}, err
}

// rollBack publishes a version of a flow again.
func (p *Pages) rollBack(r *http.Request) (Notice, error) {
	flow := r.PathValue("flow")
	out, err := p.Flows.GetFlowVersion(r.Context(), &onboardingv1.GetFlowVersionRequest{Flow: flow, Version: r.Form.Get("version")})
	if err == nil {
		_, err = p.Flows.PublishFlow(r.Context(), &onboardingv1.PublishFlowRequest{Files: out.GetFiles()})
	}
	return Notice{Key: "flows.rolled_back", To: p.Root + "/flows/" + flow}, err
}

// revisionOf returns the revision of the draft that a form was drawn for.
func revisionOf(r *http.Request) (int64, error) {
	revision, err := strconv.ParseInt(r.Form.Get("revision"), 10, 64)
	if err != nil {
		return 0, errForm
	}
	return revision, nil
}
