package events

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/request"
)

// CreateEventSubscription begins a subscription.
func (s *RPC) CreateEventSubscription(
	ctx context.Context, in *onboardingv1.CreateEventSubscriptionRequest,
) (*onboardingv1.CreateEventSubscriptionResponse, error) {
	if err := s.checkSubscriber(in.GetUrl(), in.GetTypes()); err != nil {
		return nil, err
	}
	for _, word := range in.GetInclude() {
		if word != "body" {
			return nil, request.Invalid("include may hold body")
		}
	}
	made, err := s.Store.Subscribe(ctx, Subscription{
		OrgID: request.Org(ctx), URL: in.GetUrl(), Types: once(in.GetTypes()), Body: len(in.GetInclude()) > 0,
		Secret: NewSecret(), CreatedAt: s.Now(),
	})
	if err != nil {
		return nil, err
	}
	return &onboardingv1.CreateEventSubscriptionResponse{Subscription: subscription(made), Secret: ShowSecret(made.Secret)}, nil
}

func (s *RPC) checkSubscriber(url string, types []string) error {
	if err := s.Courier.CheckURL(url); err != nil {
		return request.Invalid("%v", err)
	}
	return checkTypes(types)
}

// once are types, each once and never nil.
func once(types []string) []string {
	kept := []string{}
	for _, t := range types {
		if !slices.Contains(kept, t) {
			kept = append(kept, t)
		}
	}
	return kept
}

// ListEventSubscriptions lists the organisation's subscriptions.
func (s *RPC) ListEventSubscriptions(
	ctx context.Context, _ *onboardingv1.ListEventSubscriptionsRequest,
) (*onboardingv1.ListEventSubscriptionsResponse, error) {
	found, err := s.Store.Subscriptions(ctx, request.Org(ctx))
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ListEventSubscriptionsResponse{}
	for _, f := range found {
		out.Subscriptions = append(out.Subscriptions, subscription(f))
	}
	return out, nil
}

// find reads a subscription of the caller's organisation.
func (s *RPC) find(ctx context.Context, id string) (Subscription, error) {
	if err := request.ID("subscription_id", id); err != nil {
		return Subscription{}, err
	}
	found, err := s.Store.Subscription(ctx, id)
	if err == nil && found.OrgID != request.Org(ctx) {
		err = ErrNoSubscription
	}
	if err != nil {
		return found, err
	}
	return found, nil
}

// GetEventSubscription reads a subscription.
func (s *RPC) GetEventSubscription(
	ctx context.Context, in *onboardingv1.GetEventSubscriptionRequest,
) (*onboardingv1.GetEventSubscriptionResponse, error) {
	found, err := s.find(ctx, in.GetSubscriptionId())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.GetEventSubscriptionResponse{Subscription: subscription(found)}, nil
}

// UpdateEventSubscription sets fields anew.
func (s *RPC) UpdateEventSubscription(
	ctx context.Context, in *onboardingv1.UpdateEventSubscriptionRequest,
) (*onboardingv1.UpdateEventSubscriptionResponse, error) {
	found, err := s.find(ctx, in.GetSubscriptionId())
	if err != nil {
		return nil, err
	}
	change := SubscriptionChange{URL: in.Url, Body: in.IncludeBody}
	if in.GetTypes() != nil {
		change.Types = once(in.GetTypes().GetTypes())
	}
	url := found.URL
	if change.URL != nil {
		url = *change.URL
	}
	if err := s.checkSubscriber(url, change.Types); err != nil {
		return nil, err
	}
	if found, err = s.Store.Change(ctx, request.Org(ctx), found.ID, change, s.Now()); err != nil {
		return nil, err
	}
	return &onboardingv1.UpdateEventSubscriptionResponse{Subscription: subscription(found)}, nil
}

// DeleteEventSubscription ends a subscription.
func (s *RPC) DeleteEventSubscription(
	ctx context.Context, in *onboardingv1.DeleteEventSubscriptionRequest,
) (*onboardingv1.DeleteEventSubscriptionResponse, error) {
	if err := request.ID("subscription_id", in.GetSubscriptionId()); err != nil {
		return nil, err
	}
	if err := s.Store.Unsubscribe(ctx, request.Org(ctx), in.GetSubscriptionId()); err != nil {
		return nil, err
	}
	return &onboardingv1.DeleteEventSubscriptionResponse{}, nil
}

// PauseEventSubscription pauses a subscription; one that is paused stays so, with its reason.
func (s *RPC) PauseEventSubscription(
	ctx context.Context, in *onboardingv1.PauseEventSubscriptionRequest,
) (*onboardingv1.PauseEventSubscriptionResponse, error) {
	found, err := s.find(ctx, in.GetSubscriptionId())
	if err != nil {
		return nil, err
	}
	if _, err := s.Store.Pause(ctx, found.ID, PausedByHand, s.Now()); err != nil {
		return nil, err
	}
	if found, err = s.find(ctx, found.ID); err != nil {
		return nil, err
	}
	return &onboardingv1.PauseEventSubscriptionResponse{Subscription: subscription(found)}, nil
}

// ResumeEventSubscription goes on with a subscription.
func (s *RPC) ResumeEventSubscription(
	ctx context.Context, in *onboardingv1.ResumeEventSubscriptionRequest,
) (*onboardingv1.ResumeEventSubscriptionResponse, error) {
	found, err := s.find(ctx, in.GetSubscriptionId())
	if err != nil {
		return nil, err
	}
	resumed, missed, err := s.Store.Resume(ctx, request.Org(ctx), found.ID, s.Now())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.ResumeEventSubscriptionResponse{Subscription: subscription(resumed), Missed: missed}, nil
}

// RotateEventSubscriptionSecret makes a new secret.
func (s *RPC) RotateEventSubscriptionSecret(
	ctx context.Context, in *onboardingv1.RotateEventSubscriptionSecretRequest,
) (*onboardingv1.RotateEventSubscriptionSecretResponse, error) {
	if err := request.ID("subscription_id", in.GetSubscriptionId()); err != nil {
		return nil, err
	}
	secret, now := NewSecret(), s.Now()
	if err := s.Store.Rotate(ctx, request.Org(ctx), in.GetSubscriptionId(), secret, now.Add(OldSecretLife), now); err != nil {
		return nil, err
	}
	return &onboardingv1.RotateEventSubscriptionSecretResponse{Secret: ShowSecret(secret)}, nil
}

func subscription(s Subscription) *onboardingv1.EventSubscription {
	out := &onboardingv1.EventSubscription{
		SubscriptionId: s.ID, Url: s.URL, Types: s.Types, Status: string(s.Status), PausedReason: s.PausedReason, CursorSeq: s.Cursor,
		FailingSince: request.Stamp(s.FailingSince), CreatedAt: timestamppb.New(s.CreatedAt), UpdatedAt: timestamppb.New(s.UpdatedAt),
	}
	if s.Body {
		out.Include = []string{"body"}
	}
	return out
}
