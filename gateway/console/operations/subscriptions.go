package operations

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// Of the deliveries of all subscriptions the newest are read, and those of one are shown.
const (
	deliveriesRead  = 500
	deliveriesShown = 50
)

// subscriptionsPage is the data of pages/subscriptions.html.
type subscriptionsPage struct {
	Subscriptions []*onboardingv1.EventSubscription
}

// subscriptions lists the addresses that events are posted to.
func (p *Pages) subscriptions(r *http.Request) (Page, error) {
	out, err := p.Events.ListEventSubscriptions(r.Context(), &onboardingv1.ListEventSubscriptionsRequest{})
	return Page{"subscriptions", "subscriptions.title", subscriptionsPage{out.GetSubscriptions()}}, err
}

// subscriptionPage is the data of pages/subscription.html.
type subscriptionPage struct {
	*onboardingv1.EventSubscription

	Deliveries []*onboardingv1.EventDelivery
}

// WithBody reports whether the words of messages are posted too.
func (p subscriptionPage) WithBody() bool { return slices.Contains(p.GetInclude(), "body") }

// Listed returns the types, one a line.
func (p subscriptionPage) Listed() string { return lines(p.GetTypes()) }

// subscription shows one of them with its newest deliveries.
func (p *Pages) subscription(r *http.Request) (Page, error) {
	id := r.PathValue("subscription")
	got, err := p.Events.GetEventSubscription(r.Context(), &onboardingv1.GetEventSubscriptionRequest{SubscriptionId: id})
	if err != nil {
		return Page{}, err
	}
	shown := subscriptionPage{EventSubscription: got.GetSubscription()}
	out, err := p.Events.ListEventDeliveries(r.Context(), &onboardingv1.ListEventDeliveriesRequest{PageSize: deliveriesRead})
	for _, d := range out.GetDeliveries() {
		if d.GetSubscriptionId() == id && len(shown.Deliveries) < deliveriesShown {
			shown.Deliveries = append(shown.Deliveries, d)
		}
	}
	return Page{"subscription", "subscriptions.one", shown}, err
}

// typesOf reads a list of types.
func typesOf(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t' })
}

// subscribing keeps two presses of a button from two subscriptions: the RPC takes no key.
var subscribing sync.Mutex

// subscribe makes a subscription, and has its secret shown once.
func (p *Pages) subscribe(r *http.Request) (Notice, error) {
	subscribing.Lock()
	defer subscribing.Unlock()
	in := &onboardingv1.CreateEventSubscriptionRequest{Url: strings.TrimSpace(r.Form.Get("url")), Types: typesOf(r.Form.Get("types"))}
	if r.Form.Get("body") != "" {
		in.Include = []string{"body"}
	}
	there, err := p.Events.ListEventSubscriptions(r.Context(), &onboardingv1.ListEventSubscriptionsRequest{})
	if err != nil {
		return Notice{}, err
	}
	for _, s := range there.GetSubscriptions() {
		if s.GetUrl() == in.GetUrl() && slices.Equal(s.GetTypes(), in.GetTypes()) {
			return Notice{Key: "subscriptions.same", Bad: true, To: p.Root + "/subscriptions/" + s.GetSubscriptionId()}, nil
		}
	}
	made, err := p.Events.CreateEventSubscription(r.Context(), in)
	if err != nil {
		return Notice{Typed: typed(r, "url", "types")}, err
	}
	n := said("subscriptions.made")
	n.Secret, n.To = made.GetSecret(), p.Root+"/subscriptions/"+made.GetSubscription().GetSubscriptionId()
	return n, nil
}

// changeSubscription does one thing with a subscription.
func (p *Pages) changeSubscription(r *http.Request) (Notice, error) {
	id, deed := r.PathValue("subscription"), r.PathValue("deed")
	do, ok := map[string]func(ctx context.Context) (Notice, error){
		"pause": func(ctx context.Context) (Notice, error) {
			_, err := p.Events.PauseEventSubscription(ctx, &onboardingv1.PauseEventSubscriptionRequest{SubscriptionId: id})
			return said("subscriptions.pause.done"), err
		},
		"resume": func(ctx context.Context) (Notice, error) {
			out, err := p.Events.ResumeEventSubscription(ctx, &onboardingv1.ResumeEventSubscriptionRequest{SubscriptionId: id})
			if out.GetMissed() {
				return said("subscriptions.resume.missed"), err
			}
			return said("subscriptions.resume.done"), err
		},
		"rotate": func(ctx context.Context) (Notice, error) {
			out, err := p.Events.RotateEventSubscriptionSecret(ctx, &onboardingv1.RotateEventSubscriptionSecretRequest{SubscriptionId: id})
			n := said("subscriptions.rotate.done")
			n.Secret = out.GetSecret()
			return n, err
		},
		"delete": func(ctx context.Context) (Notice, error) {
			_, err := p.Events.DeleteEventSubscription(ctx, &onboardingv1.DeleteEventSubscriptionRequest{SubscriptionId: id})
			n := said("subscriptions.delete.done")
			n.To = p.Root + "/subscriptions"
			return n, err
		},
		"change": func(ctx context.Context) (Notice, error) {
			url := strings.TrimSpace(r.Form.Get("url"))
			_, err := p.Events.UpdateEventSubscription(ctx, &onboardingv1.UpdateEventSubscriptionRequest{
				SubscriptionId: id, Url: &url, Types: &onboardingv1.EventTypes{Types: typesOf(r.Form.Get("types"))},
				IncludeBody: new(r.Form.Get("body") != ""),
			})
			if err != nil {
				return Notice{Typed: typed(r, "url", "types")}, err
			}
			return said("subscriptions.change.done"), nil
		},
	}[deed]
	if !ok {
		return Notice{}, errForm
	}
	return do(r.Context())
}
