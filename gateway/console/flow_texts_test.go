package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

func TestTextsOfAFlowAreDraftedThenPublished(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	draft := func(revision int64, texts ...*onboardingv1.FlowText) *onboardingv1.FlowDraft {
		return &onboardingv1.FlowDraft{
			Version: &onboardingv1.FlowVersion{Flow: "nps", Version: "0123456789abcdef", Current: true}, Revision: revision, Texts: texts,
		}
	}
	english := &onboardingv1.FlowText{Language: "en", Key: "HELLO", Step: "hello", Text: "Hi {first_name|you}", Shown: "Hi you", Segments: 1}
	ours := &onboardingv1.FlowText{Language: "pt-BR", Key: "HELLO", Step: "hello", Text: "Oi", Shown: "Oi", Segments: 1}
	s.says("GetFlowDraft", &onboardingv1.GetFlowDraftResponse{Draft: draft(0, english, ours)})
	_, page := b.page(root + "/flows/nps/texts?language=pt-BR")
	require.Regexp(t, `(?s)name="text.HELLO"[^>]*>Oi</textarea>.*<bdi>Hi \{first_name\|you\}</bdi>`, page, "the first language stands below")
	require.Contains(t, page, "Nothing is changed.")
	require.NotContains(t, page, "texts/publish")

	published := "Oi"
	changed := &onboardingv1.FlowText{
		Language: "pt-BR", Key: "HELLO", Step: "hello", Text: "Olá\ntudo bem?", Published: &published, Shown: "Olá tudo bem?", Segments: 1,
		MostSegments: 3, Problems: []string{"takes 3 segments with the longest values in it; at most 2 are allowed"},
	}
	s.says("SaveFlowDraft", &onboardingv1.SaveFlowDraftResponse{Draft: draft(7, english, changed)})
	form := url.Values{
		"version": {hidden(t, page, "version")}, "revision": {hidden(t, page, "revision")}, "language": {hidden(t, page, "language")},
		"text.HELLO": {" Olá\r\ntudo bem? "}, "was.HELLO": {hidden(t, page, "was.HELLO")},
	}
	page = b.said(root+"/flows/nps/texts", form)
	asked := calls[*onboardingv1.SaveFlowDraftRequest](s, "SaveFlowDraft")
	require.Equal(t, map[string]string{"HELLO": "Olá\ntudo bem?"}, asked[0].GetTexts())
	require.Equal(t, []any{"nps", "0123456789abcdef", "pt-BR"}, []any{asked[0].GetFlow(), asked[0].GetVersion(), asked[0].GetLanguage()})
	require.Contains(t, page, "The draft is saved.")
	require.Contains(t, page, "takes 3 segments")
	require.Contains(t, page, "<del dir=\"auto\">Oi</del>")
	require.NotContains(t, page, "texts/publish", "what is wrong cannot be published")

	s.refuses("SaveFlowDraft", codes.FailedPrecondition, "somebody else has saved the draft or published the flow since")
	page = b.said(root+"/flows/nps/texts", form)
	require.Contains(t, page, "somebody else has saved")
	require.Regexp(t, `(?s)>Olá\ntudo bem\?</textarea>.*The draft has now: <bdi>Oi</bdi>`, page, "and what was typed is kept")

	changed.Problems = nil
	s.says("GetFlowDraft", &onboardingv1.GetFlowDraftResponse{Draft: draft(7, english, changed)})
	_, page = b.page(root + "/flows/nps/texts?language=pt-BR")
	require.Contains(t, page, `form="texts" name="then" value="publish"`)
	s.says("GetCurrentFlow", &onboardingv1.GetCurrentFlowResponse{
		Version: &onboardingv1.FlowVersion{Flow: "nps", Version: "0123456789abcdef", Current: true}, Files: example(t, "nps"),
	})
	unchanged := url.Values{"revision": {"7"}, "then": {"publish"}, "text.HELLO": {changed.GetText()}, "was.HELLO": {changed.GetText()}}
	require.Contains(t, b.said(root+"/flows/nps/texts", unchanged), "The texts are published.")
	require.Equal(t, int64(7), calls[*onboardingv1.PublishFlowDraftRequest](s, "PublishFlowDraft")[0].GetRevision())
	require.Len(t, calls[*onboardingv1.SaveFlowDraftRequest](s, "SaveFlowDraft"), 2, "nothing more was typed")
	require.Regexp(t, `texts/drop">.*name="revision" value="7"`, page)
	require.Contains(t, b.said(root+"/flows/nps/texts/drop", url.Values{"revision": {"7"}}), "The draft is gone.")
	require.Equal(t, int64(7), calls[*onboardingv1.DeleteFlowDraftRequest](s, "DeleteFlowDraft")[0].GetRevision())

	files := example(t, "nps")
	s.says("GetFlowVersion", &onboardingv1.GetFlowVersionResponse{
		Version: &onboardingv1.FlowVersion{Flow: "nps", Version: "older"}, Files: files,
	})
	_, page = b.page(root + "/flows/nps?version=older")
	require.Contains(t, page, `action="/console/flows/nps/rollback"`)
	require.Contains(t, b.said(root+"/flows/nps/rollback", url.Values{"version": {"older"}}), "This version is current again.")
	require.Equal(t, files, calls[*onboardingv1.PublishFlowRequest](s, "PublishFlow")[0].GetFiles())
}

func TestSavingTextsKeepsThoseOfAnotherWriter(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	text := func(key, text string) *onboardingv1.FlowText {
		return &onboardingv1.FlowText{Language: "en", Key: key, Step: "hello", Text: text, Shown: text, Segments: 1}
	}
	holds := func(outdated bool, revision int64, texts ...*onboardingv1.FlowText) {
		d := &onboardingv1.FlowDraft{
			Version: &onboardingv1.FlowVersion{Flow: "nps", Version: "1", Current: true}, Revision: revision, Outdated: outdated, Texts: texts,
		}
		s.says("GetFlowDraft", &onboardingv1.GetFlowDraftResponse{Draft: d})
		s.says("SaveFlowDraft", &onboardingv1.SaveFlowDraftResponse{Draft: d})
	}
	posts := func(page, hello, bye string) (again string) {
		form := url.Values{"version": {"1"}, "language": {"en"}, "text.HELLO": {hello}, "text.BYE": {bye}}
		for _, name := range []string{"revision", "was.HELLO", "was.BYE"} {
			form.Set(name, hidden(t, page, name))
		}
		if strings.Contains(page, `name="kept"`) {
			form.Set("kept", hidden(t, page, "kept"))
		}
		return b.said(root+"/flows/nps/texts", form)
	}
	sent := func() map[string]string {
		asked := calls[*onboardingv1.SaveFlowDraftRequest](s, "SaveFlowDraft")
		return asked[len(asked)-1].GetTexts()
	}

	holds(false, 1, text("HELLO", "Hi"), text("BYE", "Bye"))
	_, page := b.page(root + "/flows/nps/texts")
	posts(page, "Hi", "Bye")
	require.Empty(t, calls[*onboardingv1.SaveFlowDraftRequest](s, "SaveFlowDraft"), "nothing was typed")

	holds(false, 2, text("HELLO", "Hi"), text("BYE", "Farewell")) // by a colleague
	s.refuses("SaveFlowDraft", codes.FailedPrecondition, "somebody else has saved the draft")
	page = posts(page, "Hello", "Bye")
	require.Equal(t, "2", hidden(t, page, "revision"))
	require.Regexp(t, `(?s)>Hello</textarea>.*>Farewell</textarea>`, page)
	holds(false, 3, text("HELLO", "Hello"), text("BYE", "Farewell"))
	posts(page, "Hello", "Farewell")
	require.Equal(t, map[string]string{"HELLO": "Hello"}, sent())

	published, mine := "Hey", text("HELLO", "Hello")
	mine.Published = &published
	holds(true, 3, mine, text("BYE", "Farewell"))
	_, page = b.page(root + "/flows/nps/texts")
	posts(page, "Hello", "Farewell")
	require.Equal(t, map[string]string{"HELLO": "Hello"}, sent(), "to save an outdated draft once more keeps its texts")
}

func TestToPublishTextsSavesWhatWasTypedFirst(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	published := "Hi"
	text := &onboardingv1.FlowText{Language: "en", Key: "HELLO", Step: "hello", Text: "Hello", Published: &published, Shown: "Hello", Segments: 1}
	draft := &onboardingv1.FlowDraft{
		Version: &onboardingv1.FlowVersion{Flow: "nps", Version: "1", Current: true}, Revision: 3, Texts: []*onboardingv1.FlowText{text},
	}
	s.says("GetFlowDraft", &onboardingv1.GetFlowDraftResponse{Draft: draft})
	form := url.Values{
		"version": {"1"}, "revision": {"3"}, "language": {"en"}, "was.HELLO": {"Hello"}, "text.HELLO": {"Hello you"}, "then": {"publish"},
	}
	wrong := proto.CloneOf(draft)
	wrong.Revision, wrong.Texts[0].Text, wrong.Texts[0].Problems = 4, "Hello you", []string{"is too long"}
	s.says("SaveFlowDraft", &onboardingv1.SaveFlowDraftResponse{Draft: wrong})
	page := b.said(root+"/flows/nps/texts", form)
	require.Contains(t, page, "The draft is saved.")
	require.Contains(t, page, "is too long")
	require.Empty(t, calls[*onboardingv1.PublishFlowDraftRequest](s, "PublishFlowDraft"))

	saved := proto.CloneOf(wrong)
	saved.Revision, saved.Texts[0].Problems = 5, nil
	s.says("SaveFlowDraft", &onboardingv1.SaveFlowDraftResponse{Draft: saved})
	s.refuses("PublishFlowDraft", codes.FailedPrecondition, "somebody else has saved")
	page = b.said(root+"/flows/nps/texts", form)
	require.Regexp(t, `(?s)somebody else has saved.*>Hello you</textarea>`, page)

	s.says("PublishFlowDraft", &onboardingv1.PublishFlowDraftResponse{})
	require.Contains(t, b.said(root+"/flows/nps/texts", form), "The texts are published.")
	asked := calls[*onboardingv1.PublishFlowDraftRequest](s, "PublishFlowDraft")
	require.Equal(t, int64(5), asked[len(asked)-1].GetRevision(), "what was typed is in what is published")
}

func TestTextsOfFlowsAreForOperators(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "user")
	httpStatus, _ := b.page(root + "/flows/nps/texts")
	require.Equal(t, http.StatusForbidden, httpStatus)
	for _, path := range []string{"/texts", "/texts/drop", "/rollback"} {
		require.Equal(t, http.StatusForbidden, b.post(root+"/flows/nps"+path, url.Values{"revision": {"1"}}).StatusCode, path)
	}
	require.Empty(t, s.asked)
}
