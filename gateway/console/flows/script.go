package flows

import (
	"net/http"
	"slices"
	"strings"
	"time"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// ScriptPage is the data of pages/script.html: what is sent and when, and every text.
type ScriptPage struct {
	Version, CopyVersion string
	Locales              []string
	Flow                 []scriptStep
	Others               []scriptText // of engagement and of goals, by key
}

// scriptStep is a text of the flow and when it comes.
type scriptStep struct {
	When  string // key of the words: at activation, in answer to a yes, after a delay
	ID    string
	Delay time.Duration
	After time.Duration // for so long at most it waits for the one before it to be delivered; zero is not at all
	Text  scriptText
}

// scriptText is a text in each language.
type scriptText struct {
	Key   string
	Words []*onboardingv1.CopyText
}

// Script shows the built-in flow and the texts.
func (p *Pages) Script(r *http.Request) (ScriptPage, error) {
	out, err := p.Onboarding.GetFlow(r.Context(), &onboardingv1.GetFlowRequest{})
	if err != nil {
		return ScriptPage{}, err
	}
	shown := ScriptPage{Version: out.GetVersion(), CopyVersion: out.GetCopyVersion()}
	texts := map[string]scriptText{}
	var keys []string
	for _, text := range out.GetTexts() {
		t, seen := texts[text.GetTextKey()]
		if !seen {
			keys = append(keys, text.GetTextKey())
		}
		texts[text.GetTextKey()] = scriptText{Key: text.GetTextKey(), Words: append(t.Words, text)}
		if !slices.Contains(shown.Locales, text.GetLocale()) {
			shown.Locales = append(shown.Locales, text.GetLocale())
		}
	}
	shown.Flow = []scriptStep{
		{When: "script.opening", Text: texts["ONBOARDING_OPENING"]}, {When: "script.explanation", Text: texts["ONBOARDING_EXPLANATION"]},
	}
	for i, step := range out.GetSteps() {
		s := scriptStep{
			When: "script.step", ID: step.GetStepId(), Delay: step.GetDelay().AsDuration(), After: step.GetAfterDelivery().AsDuration(),
			Text: texts[step.GetTextKey()],
		}
		if i == 0 {
			s.When = "script.first"
		}
		shown.Flow = append(shown.Flow, s)
	}
	shown.Flow = append(shown.Flow, scriptStep{When: "script.later", Text: texts["ONBOARDING_LATER"]})
	for _, key := range keys {
		if !strings.HasPrefix(key, "ONBOARDING_") {
			shown.Others = append(shown.Others, texts[key])
		}
	}
	return shown, nil
}
