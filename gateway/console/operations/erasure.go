package operations

import (
	"net/http"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// Export returns everything that is kept about a person, as a file.
func (p *Pages) Export(r *http.Request) (body []byte, err error) {
	out, err := p.Onboarding.ExportProfile(r.Context(), &onboardingv1.ExportProfileRequest{ProfileId: r.PathValue("id")})
	if err != nil {
		return nil, err
	}
	return protojson.MarshalOptions{Multiline: true}.Marshal(out.GetDocument())
}

// erasurePage is the data of pages/erasure.html.
type erasurePage struct{ *onboardingv1.Erasure }

// erasure shows how far an erasure is, and what is kept to prove it.
func (p *Pages) erasure(r *http.Request) (Page, error) {
	out, err := p.Onboarding.GetErasure(r.Context(), &onboardingv1.GetErasureRequest{ProfileId: r.PathValue("id")})
	return Page{"erasure", "erasure.title", erasurePage{out.GetErasure()}}, err
}

const lastDigits = 4

// confirms reports whether words name a person: the last four digits of their number, or their name.
func confirms(words string, who *onboardingv1.Profile) bool {
	words = strings.TrimSpace(words)
	phone := who.GetPhone()
	return words != "" && (strings.EqualFold(words, who.GetFirstName()) || len(phone) > lastDigits && words == phone[len(phone)-lastDigits:])
}

// erase has a person erased. The words of the form keep the wrong person from it; an erasure that goes on already is not asked twice.
func (p *Pages) erase(r *http.Request) (Notice, error) {
	id := r.PathValue("id")
	got, err := p.Onboarding.GetProfile(r.Context(), &onboardingv1.GetProfileRequest{ProfileId: id})
	if err != nil {
		return Notice{}, err
	}
	if !confirms(r.Form.Get("confirm"), got.GetProfile()) {
		return Notice{Key: "erasure.unconfirmed", Bad: true, To: p.Root + "/people/" + id + "#erase"}, nil
	}
	if _, err := p.Onboarding.EraseProfile(r.Context(), &onboardingv1.EraseProfileRequest{ProfileId: id}); err != nil {
		return Notice{}, err
	}
	n := said("erasure.asked")
	n.To = p.Root + "/people/" + id + "/erasure"
	return n, nil
}

// holdLegally keeps a person's data from being erased.
func (p *Pages) holdLegally(r *http.Request) (Notice, error) {
	_, err := p.Onboarding.SetLegalHold(r.Context(), &onboardingv1.SetLegalHoldRequest{
		ProfileId: r.PathValue("id"), Reason: strings.TrimSpace(r.Form.Get("reason")),
	})
	return said("legal_hold.set"), err
}

// liftLegalHold lets a person's data be erased again.
func (p *Pages) liftLegalHold(r *http.Request) (Notice, error) {
	_, err := p.Onboarding.LiftLegalHold(r.Context(), &onboardingv1.LiftLegalHoldRequest{ProfileId: r.PathValue("id")})
	return said("legal_hold.lifted"), err
}
