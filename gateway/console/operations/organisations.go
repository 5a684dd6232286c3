package operations

import (
	"net/http"
	"net/url"
	"strings"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const organisationsShown = 50

// organisationsPage is the data of pages/organisations.html.
type organisationsPage struct {
	Organisations []*onboardingv1.Organisation
	Next          string // the address of the next page; empty on the last
}

// organisations lists those of the deployment, for those who run it.
func (p *Pages) organisations(r *http.Request) (Page, error) {
	out, err := p.Organisations.ListOrganisations(r.Context(), &onboardingv1.ListOrganisationsRequest{
		PageSize: organisationsShown, PageToken: r.Form.Get("page"),
	})
	if err != nil {
		return Page{}, err
	}
	shown := organisationsPage{Organisations: out.GetOrganisations()}
	if token := out.GetNextPageToken(); token != "" {
		shown.Next = p.Root + "/organisations?" + url.Values{"page": {token}}.Encode()
	}
	return Page{"organisations", "orgs.title", shown}, nil
}

// organisation shows one of them.
func (p *Pages) organisation(r *http.Request) (Page, error) {
	out, err := p.Organisations.GetOrganisation(r.Context(), &onboardingv1.GetOrganisationRequest{OrgId: r.PathValue("org")})
	return Page{"organisation", "orgs.one", out.GetOrganisation()}, err
}

// makeOrganisation makes one.
func (p *Pages) makeOrganisation(r *http.Request) (Notice, error) {
	made, err := p.Organisations.CreateOrganisation(r.Context(), &onboardingv1.CreateOrganisationRequest{
		Name: strings.TrimSpace(r.Form.Get("name")), OrgId: strings.TrimSpace(r.Form.Get("org_id")),
	})
	if err != nil {
		return Notice{Typed: typed(r, "name", "org_id")}, err
	}
	n := said("orgs.made")
	if !made.GetCreated() {
		n.Key = "orgs.there"
	}
	n.To = p.Root + "/organisations/" + made.GetOrganisation().GetOrgId()
	return n, nil
}

// changeOrganisation does one thing with an organisation.
func (p *Pages) changeOrganisation(r *http.Request) (Notice, error) {
	ctx, id, deed := r.Context(), r.PathValue("org"), r.PathValue("deed")
	reason := strings.TrimSpace(r.Form.Get("reason"))
	kept := Notice{Typed: typed(r, "reason")}
	var err error
	switch deed {
	case "suspend":
		_, err = p.Organisations.SuspendOrganisation(ctx, &onboardingv1.SuspendOrganisationRequest{OrgId: id, Reason: reason})
	case "resume":
		_, err = p.Organisations.ResumeOrganisation(ctx, &onboardingv1.ResumeOrganisationRequest{OrgId: id})
	case "end":
		got, err := p.Organisations.GetOrganisation(ctx, &onboardingv1.GetOrganisationRequest{OrgId: id})
		if err != nil {
			return kept, err
		}
		if strings.TrimSpace(r.Form.Get("confirm")) != got.GetOrganisation().GetName() {
			kept.Key, kept.Bad = "orgs.unconfirmed", true
			return kept, nil
		}
		if _, err := p.Organisations.EndOrganisation(ctx, &onboardingv1.EndOrganisationRequest{OrgId: id, Reason: reason}); err != nil {
			return kept, err
		}
	case "key":
		name := strings.TrimSpace(r.Form.Get("name"))
		made, err := p.Organisations.CreateFirstKey(ctx, &onboardingv1.CreateFirstKeyRequest{OrgId: id, Name: name})
		if err != nil {
			return Notice{Typed: typed(r, "name")}, err
		}
		n := said("orgs.key.done")
		n.Secret = made.GetKey()
		return n, nil
	default:
		return Notice{}, errForm
	}
	if err != nil {
		return kept, err
	}
	return said("orgs." + deed + ".done"), nil
}
