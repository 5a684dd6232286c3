// Package console is the web pages of Paceline under /console. They tell an operator whether everything is right, what happened and why,
// and what waits for the operator; a person sees their own goals and preferences. The console has no power that /v1 lacks: every page is
// drawn from the same RPCs, as the reader who signed in, and every action is one of them.
//
// A page is a view: a file NAME.go, here or in the package of its subject (flows, handsets, operations), with what it asks for and
// pages/NAME.html with how it looks, its words in words/*.json, and a line in Console.pages. An action is a POST that answers with a notice
// on the page it came from. Reading works without JavaScript.
package console

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/gateway/console/flows"
	"paceline.internal/gateway/console/handsets"
	"paceline.internal/gateway/console/operations"
	"paceline.internal/gateway/console/signin"
	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// root is the path of the console.
const root = signin.Root

// Services are the services that the pages read. Their connection holds each call to the rules of /v1.
type Services struct {
	Onboarding onboardingv1.OnboardingServiceClient
	Jobs       onboardingv1.WebhookJobServiceClient
	Engagement onboardingv1.EngagementServiceClient
	Goals      onboardingv1.GoalServiceClient
	Events     onboardingv1.EventServiceClient
	Tickets    onboardingv1.TicketServiceClient
	Flows      onboardingv1.FlowServiceClient
	Runs       onboardingv1.RunServiceClient
	Keys       onboardingv1.APIKeyServiceClient
	Senders    messagingv1.SenderServiceClient
	Messaging  messagingv1.MessagingServiceClient
	Outbound   messagingv1.OutboundServiceClient

	Organisations onboardingv1.OrganisationServiceClient // for those who run the deployment
}

// Health is the state of one process.
type Health struct {
	Name string
	Err  error // nil when it is ready
}

// Config has the settings and the services of a Console.
type Config struct {
	Services Services
	// Still refuses somebody who has signed in and is not accepted any more. An *rpc.Error is shown; any other leads to the sign-in.
	Still func(ctx context.Context, who rpc.Principal) error
	// Authenticate reads a bearer token as /v1 does; its errors are shown.
	Authenticate func(ctx context.Context, token string) (who rpc.Principal, expires time.Time, err error)
	// Wait counts an attempt to sign in, and says how long its client has to wait first; zero when it may be made.
	Wait   func(ctx context.Context) time.Duration
	Client func(ctx context.Context) string    // the address that a request comes from
	Named  func(r *http.Request, route string) // names the route of a request in logs and metrics
	Health func(ctx context.Context) []Health  // asks the processes, within a bound
	// Follow returns the events from now on; closed when ctx ends or the process stops. A person gets none, for they may not read any.
	Follow func(ctx context.Context) (<-chan *onboardingv1.Event, error)

	Key    config.Secret // CONSOLE_KEY
	OIDC   signin.OIDC
	Origin config.Origin // PUBLIC_BASE_URL: where the provider sends people back to
	Links  *signin.Links // nil but in `paceline up`
	// Handsets is the origin of an emulated Twilio, which gives its phones a page; zero where Twilio is real. PhonesOf has the number that
	// they text.
	Handsets config.Origin
	PhonesOf string
	Log      *slog.Logger
	Now      func() time.Time
}

// Console serves the pages.
type Console struct {
	services Services
	health   func(ctx context.Context) []Health
	follow   func(ctx context.Context) (<-chan *onboardingv1.Event, error)
	named    func(r *http.Request, route string)
	now      func() time.Time
	log      *slog.Logger
	looks    *looks
	door     *signin.Door
	handsets *handsets.Phones // nil where Twilio is real
	handler  http.Handler

	operations *operations.Pages
	flows      *flows.Pages
}

// New returns the console.
func New(cfg Config) (*Console, error) {
	drawn, err := newLooks()
	if err != nil {
		return nil, err
	}
	c := &Console{
		services: cfg.Services, health: cfg.Health, follow: cfg.Follow, named: cfg.Named, now: cfg.Now, log: cfg.Log, looks: drawn,
	}
	c.operations, c.flows = c.operate(), &flows.Pages{Onboarding: cfg.Services.Onboarding, Flows: cfg.Services.Flows}
	if !cfg.Handsets.IsZero() {
		c.handsets = handsets.New(cfg.Handsets.String(), cfg.PhonesOf, cfg.Services.Onboarding)
	}
	c.door, err = signin.New(signin.Config{
		Authenticate: cfg.Authenticate, Still: cfg.Still, Fail: c.fail, Wait: cfg.Wait, Client: cfg.Client, Show: c.showSignIn,
		Key: cfg.Key, OIDC: cfg.OIDC, Origin: cfg.Origin, Links: cfg.Links, Log: cfg.Log, Now: cfg.Now,
	})
	if err != nil {
		return nil, err
	}
	compress, err := gzhttp.NewWrapper(gzhttp.MinSize(1<<10), gzhttp.EnableZstd(false))
	if err != nil {
		return nil, err
	}
	all := http.NewServeMux()
	all.Handle("/", compress(http.NewCrossOriginProtection().Handler(c.routes())))
	all.Handle("GET "+root+"/live", c.door.Known(c.naming(root+"/live", c.live))) // not compressed: news is not to wait for more
	c.handler = all
	return c, nil
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "+
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	c.handler.ServeHTTP(w, r)
}

// view draws a page. An error of an RPC is shown on the error page.
type view func(r *http.Request) (page, error)

// action changes something, and says what it did. An error is said in its place.
type action func(r *http.Request) (notice, error)

// route is a page and who sees it: an operator, a platform operator, or every reader who signed in.
type route struct {
	path     string
	view     view
	anyRole  bool
	platform bool
	most     int64 // bytes of its form; 0 for maxForm
}

// deedRoute is an action and who may ask for it; what the RPC allows is another matter.
type deedRoute struct {
	path     string
	action   action
	anyRole  bool
	platform bool
	most     int64
}

// role is the one that a page is for; empty for every reader.
func role(anyRole, platform bool) rpc.Role {
	switch {
	case anyRole:
		return ""
	case platform:
		return rpc.RolePlatform
	}
	return rpc.RoleOperator
}

// pages are all views.
func (c *Console) pages() []route {
	all := []route{
		{path: root, view: c.home, anyRole: true},
		{path: root + "/inbox", view: c.inbox},
		{path: root + "/inbox/{ticket}", view: c.inbox},
		{path: root + "/replies", view: c.replies},
		{path: root + "/people", view: c.people},
		{path: root + "/people/{id}", view: c.person},
		{path: root + "/why/{kind}/{id}", view: c.why, anyRole: true},
		{path: root + "/needs", view: c.needs},
		{path: root + "/needs/resume", view: c.resumable},
		{path: root + "/needs/messages/{id}", view: c.evidence},
		{path: root + "/do", view: c.review},
		{path: root + "/queues", view: c.queues},
		{path: root + "/queues/jobs/{id}", view: c.job},
		{path: root + "/goals", view: c.goals, anyRole: true},
		{path: root + "/me", view: c.me, anyRole: true},
		{path: root + "/engagement", view: c.engagement},
		{path: root + "/flow", view: drawn("script", "script.title", c.flows.Script)},
		{path: root + "/flows", view: drawn("flows", "flows.title", c.flows.List)},
		{path: root + "/flows/{flow}", view: drawn("flow", "flows.title", c.flows.Show)},
		{path: root + "/ledger", view: c.ledger},
		{path: root + "/audit", view: c.audit},
	}
	if c.handsets != nil {
		all = append(all, route{path: root + "/handsets", view: drawn("handsets", "handsets.title", c.handsets.Show)})
	}
	return all
}

// begins leads a platform operator to the organisations, and has next serve the first page of everybody else.
func (c *Console) begins(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if signin.SessionFrom(r.Context()).Role == rpc.RolePlatform {
			http.Redirect(w, r, root+"/organisations", http.StatusSeeOther)
			return
		}
		next(w, r)
	}
}

// home is the first page: a person's own goals, or how everything stands.
func (c *Console) home(r *http.Request) (page, error) {
	if signin.SessionFrom(r.Context()).Role == rpc.RoleUser {
		return c.goals(r)
	}
	return c.overview(r)
}

// actions are all that a page may ask for.
func (c *Console) actions() []deedRoute {
	all := []deedRoute{
		{path: root + "/people", action: c.enrol},
		{path: root + "/people/{id}/{deed}", action: c.personDeed},
		{path: root + "/people/{id}/ticket", action: c.openByHand},
		{path: root + "/inbox/{ticket}/assign", action: c.assign},
		{path: root + "/inbox/{ticket}/close", action: c.closeTicket},
		{path: root + "/inbox/{ticket}/answer", action: c.answer},
		{path: root + "/replies", action: c.saveReply},
		{path: root + "/replies/delete", action: c.deleteReply},
		{path: root + "/people/{id}/goals", action: c.scheduleGoal},
		{path: root + "/people/{id}/consent", action: c.recordConsent},
		{path: root + "/needs/resume", action: c.resumeAll},
		{path: root + "/needs/messages/{id}", action: c.resolve},
		{path: root + "/do", action: c.do},
		{path: root + "/scheduling/pause", action: c.pauseScheduling},
		{path: root + "/scheduling/resume", action: c.resumeScheduling},
		{path: root + "/goals/{id}/cancel", action: c.cancelGoal, anyRole: true},
		{path: root + "/goals/{id}/reschedule", action: c.rescheduleGoal, anyRole: true},
		{path: root + "/goals/{id}/undo", action: c.undoGoal, anyRole: true},
		{path: root + "/me/{preference}", action: c.prefer, anyRole: true},
	}
	if c.handsets != nil {
		all = append(all,
			deedRoute{path: root + "/handsets/write", action: saying(c.handsets.Write)},
			deedRoute{path: root + "/handsets/faults", action: saying(c.handsets.Break)})
	}
	return all
}

func (c *Console) routes() http.Handler {
	mux, inside := http.NewServeMux(), http.NewServeMux()
	for _, p := range c.pages() {
		serve := c.serveView(p)
		if p.path == root {
			serve = c.begins(serve)
		}
		inside.HandleFunc("GET "+p.path, c.naming(p.path, serve))
	}
	for _, a := range c.actions() {
		inside.HandleFunc("POST "+a.path, c.naming(a.path, c.serveAction(a)))
	}
	c.addOperations(inside)
	inside.HandleFunc("GET "+root+"/ledger/export", c.naming(root+"/ledger/export", c.exportLedger))
	inside.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c.named(r, root)
		c.fail(w, r, status.Error(codes.NotFound, "there is no such page"))
	})
	mux.HandleFunc("GET "+root+"/{$}", func(w http.ResponseWriter, r *http.Request) {
		c.named(r, root)
		http.Redirect(w, r, root, http.StatusMovedPermanently)
	})
	mux.HandleFunc("GET "+root+"/assets/{name}", c.naming(root+"/assets", c.looks.serveAsset))
	c.door.Routes(mux)
	mux.Handle("/", c.door.Known(inside))
	mux.Handle(root, c.door.Known(inside)) // named itself, or the mux leads it to the one with a slash, which leads here
	return mux
}

func (c *Console) naming(route string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c.named(r, route)
		next(w, r)
	}
}
