// Package operations has the pages of the console with which an operator runs an organisation: the texts of flows, runs, imports of people,
// erasure and legal holds, settings, senders, API keys, event subscriptions and devices; and those with which a platform operator has
// organisations. Each is drawn from RPCs of /v1, and each action is one of them.
package operations

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// Pages are the pages, over the services that they read.
type Pages struct {
	Onboarding onboardingv1.OnboardingServiceClient
	Flows      onboardingv1.FlowServiceClient
	Runs       onboardingv1.RunServiceClient
	Events     onboardingv1.EventServiceClient
	Goals      onboardingv1.GoalServiceClient
	Keys       onboardingv1.APIKeyServiceClient
	Senders    messagingv1.SenderServiceClient
	// Organisations is for those who run the deployment.
	Organisations onboardingv1.OrganisationServiceClient

	Root  string // the path of the console
	Now   func() time.Time
	Zone  func(r *http.Request) *time.Location
	Named func(ctx context.Context, profileIDs []string) map[string]*onboardingv1.Profile
}

// Page names a template and holds its data.
type Page struct {
	Name, Title string
	Body        any
}

// Notice is the result of an action: a key of the catalog, and the page that shows it; by default the one of the form.
type Notice struct {
	Key    string
	Bad    bool
	To     string
	Secret string            // shown once, on that page
	Typed  map[string]string // what was typed into a form that did not work, by its field
}

// View draws a page.
type View struct {
	Path string
	Draw func(r *http.Request) (Page, error)
}

// Action changes something, and returns the notice of it.
type Action struct {
	Path string
	Do   func(r *http.Request) (Notice, error)
}

// MaxForm bounds the body of a form with a list: 10,000 phones, the rows of an import, or the texts of a flow.
const MaxForm = 1 << 20

// Views are the pages that are asked for.
func (p *Pages) Views() []View {
	return []View{
		{p.Root + "/runs", p.runs},
		{p.Root + "/runs/new", p.newRun},
		{p.Root + "/runs/{run}", p.run},
		{p.Root + "/flows/{flow}/texts", p.flowTexts},
		{p.Root + "/import", p.importing},
		{p.Root + "/people/{id}/erasure", p.erasure},
		{p.Root + "/settings", p.settings},
		{p.Root + "/subscriptions", p.subscriptions},
		{p.Root + "/subscriptions/{subscription}", p.subscription},
		{p.Root + "/devices", p.devices},
		{p.Root + "/senders", p.senders},
		{p.Root + "/senders/{sender}", p.sender},
		{p.Root + "/keys", p.keys},
	}
}

// PlatformViews are the pages of those who run the deployment.
func (p *Pages) PlatformViews() []View {
	return []View{
		{p.Root + "/organisations", p.organisations},
		{p.Root + "/organisations/{org}", p.organisation},
	}
}

// PlatformActions lists the actions of those pages.
func (p *Pages) PlatformActions() []Action {
	return []Action{
		{p.Root + "/organisations", p.makeOrganisation},
		{p.Root + "/organisations/{org}/{deed}", p.changeOrganisation},
	}
}

// Lists are the pages that are drawn from a list of people or texts in the form, of at most MaxForm bytes. To send one again changes
// nothing more.
func (p *Pages) Lists() []View {
	return []View{
		{p.Root + "/runs/new", p.previewRun},
		{p.Root + "/flows/{flow}/texts", p.saveTexts},
		{p.Root + "/import", p.previewImport},
		{p.Root + "/import/do", p.importPeople},
	}
}

// Actions are all that the pages may ask for. That of a list takes MaxForm bytes.
func (p *Pages) Actions() []Action {
	return []Action{
		{p.Root + "/runs/{run}/{deed}", p.changeRun},
		{p.Root + "/flows/{flow}/texts/drop", p.dropTexts},
		{p.Root + "/flows/{flow}/rollback", p.rollBack},
		{p.Root + "/people/{id}/erase", p.erase},
		{p.Root + "/people/{id}/legal-hold", p.holdLegally},
		{p.Root + "/people/{id}/legal-hold/lift", p.liftLegalHold},
		{p.Root + "/settings", p.saveSettings},
		{p.Root + "/subscriptions", p.subscribe},
		{p.Root + "/subscriptions/{subscription}/{deed}", p.changeSubscription},
		{p.Root + "/devices/{device}/{deed}", p.changeDevice},
		{p.Root + "/senders", p.addSender},
		{p.Root + "/senders/{sender}/{deed}", p.changeSender},
		{p.Root + "/keys", p.makeKey},
		{p.Root + "/keys/{key}/revoke", p.revokeKey},
	}
}

// ListAction starts a run from the list in its form.
func (p *Pages) ListAction() Action { return Action{p.Root + "/runs", p.startRun} }

// errForm refuses a form that none of our pages has.
var errForm = status.Error(codes.InvalidArgument, "the form cannot be read; go back and try again")

func said(key string) Notice { return Notice{Key: key} }

// typed returns the values of a form in these fields, also empty ones. Those that are too long for the notice are left out of it: the page
// shows what is stored.
func typed(r *http.Request, fields ...string) map[string]string {
	kept := map[string]string{}
	for _, field := range fields {
		if r.Form.Has(field) {
			kept[field] = r.Form.Get(field)
		}
	}
	return kept
}
