package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/queue"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/events"
	"paceline.internal/services/onboarding/postgres"
)

// Events serves EventService.
type Events struct {
	onboardingv1.UnimplementedEventServiceServer

	Store   *postgres.Events
	Hub     *events.Hub
	Courier *events.Courier
	Wake    func() // of deliveries
	Now     func() time.Time
}

// ListEvents reads the log.
func (s *Events) ListEvents(ctx context.Context, in *onboardingv1.ListEventsRequest) (*onboardingv1.ListEventsResponse, error) {
	types, err := wantedTypes(in.GetAfter(), in.GetTypes())
	if err != nil {
		return nil, err
	}
	limit := int(in.GetPageSize())
	switch {
	case limit < 0 || limit > maxPage:
		return nil, invalid("page_size must be 0 to %d", maxPage)
	case limit == 0:
		limit = defaultPage
	}
	found, next, err := s.Store.Read(ctx, org(ctx), in.GetAfter(), types, limit)
	if err != nil {
		return nil, answerEvents(err)
	}
	out := &onboardingv1.ListEventsResponse{NextAfter: next}
	for _, e := range found {
		shown, err := logged(e)
		if err != nil {
			return nil, answer(err)
		}
		out.Events = append(out.Events, shown)
	}
	return out, nil
}

// StreamEvents follows the log.
func (s *Events) StreamEvents(
	in *onboardingv1.StreamEventsRequest, stream grpc.ServerStreamingServer[onboardingv1.StreamEventsResponse],
) error {
	ctx := stream.Context()
	types, err := wantedTypes(in.GetAfter(), in.GetTypes())
	if err != nil {
		return err
	}
	leave, err := s.Hub.Open(org(ctx))
	if err != nil {
		return answer(err)
	}
	defer leave()
	after := in.GetAfter()
	if in.After == nil {
		if err := s.Hub.Read(ctx, func() (err error) { after, err = s.Store.LastSeq(ctx); return err }); err != nil {
			return answer(err)
		}
	}
	first := &onboardingv1.StreamEventsResponse{}
	for {
		changed := s.Hub.Changed()
		var found []events.Event
		next := after
		err := s.Hub.Read(ctx, func() (err error) {
			found, next, err = s.Store.Read(ctx, org(ctx), after, types, maxPage)
			return err
		})
		if err != nil {
			return answerEvents(err)
		}
		if first != nil { // the caller's after is good
			if err := stream.Send(first); err != nil {
				return err
			}
			first = nil
		}
		for _, e := range found {
			shown, err := logged(e)
			if err != nil {
				return answer(err)
			}
			if err := stream.Send(&onboardingv1.StreamEventsResponse{Event: shown}); err != nil {
				return err
			}
		}
		if moved := next > after; moved {
			after = next
			if len(found) > 0 {
				continue // there may be more
			}
		}
		if err := s.Hub.Wait(ctx, changed); err != nil {
			return answer(err)
		}
	}
}

// wantedTypes reads which part of the log is asked for. In a query, types may be parted by commas, too.
func wantedTypes(after int64, types []string) ([]string, error) {
	if after < 0 {
		return nil, invalid("after must be 0 or a seq")
	}
	if len(types) == 0 {
		return []string{}, nil
	}
	types = strings.Split(strings.Join(types, ","), ",")
	return types, checkTypes(types)
}

func checkTypes(types []string) error {
	for _, t := range types {
		if !slices.Contains(events.Types(), t) {
			return invalid("types: there is no %q; the types are %s", shorten(t), strings.Join(events.Types(), ", "))
		}
	}
	return nil
}

// shorten cuts what is quoted of a caller's text.
func shorten(text string) string { return strings.ToValidUTF8(text[:min(len(text), 60)], "") }

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

func logged(e events.Event) (*onboardingv1.Event, error) {
	data := &structpb.Struct{}
	if err := data.UnmarshalJSON(e.Data); err != nil {
		return nil, fmt.Errorf("read an event: %w", err)
	}
	return &onboardingv1.Event{
		Specversion: "1.0", Id: e.ID, Source: e.Source(), Type: e.Type, Subject: e.Subject, Time: timestamppb.New(e.Time), Seq: e.Seq,
		Causationid: e.CausationID, Data: data,
	}, nil
}

// answerEvents says of a log that does not go back so far where to go on.
func answerEvents(err error) error {
	if deleted, ok := errors.AsType[*events.DeletedError](err); ok {
		return refuse(codes.OutOfRange, onboardingv1.Reason_REASON_EVENTS_DELETED,
			fmt.Sprintf("events up to %[1]d are not kept any more: read the state of people anew, then go on with after=%[1]d", deleted.UpTo), 0)
	}
	if errors.Is(err, events.ErrAhead) {
		return invalid("%s", err.Error())
	}
	return answer(err)
}

// CreateEventSubscription begins a subscription.
func (s *Events) CreateEventSubscription(
	ctx context.Context, in *onboardingv1.CreateEventSubscriptionRequest,
) (*onboardingv1.CreateEventSubscriptionResponse, error) {
	if err := s.checkSubscriber(in.GetUrl(), in.GetTypes()); err != nil {
		return nil, err
	}
	for _, word := range in.GetInclude() {
		if word != "body" {
			return nil, invalid("include may hold body")
		}
	}
	made, err := s.Store.Subscribe(ctx, events.Subscription{
		OrgID: org(ctx), URL: in.GetUrl(), Types: once(in.GetTypes()), Body: len(in.GetInclude()) > 0,
		Secret: events.NewSecret(), CreatedAt: s.Now(),
	})
	if err != nil {
		return nil, answer(err)
	}
	return &onboardingv1.CreateEventSubscriptionResponse{Subscription: subscription(made), Secret: events.ShowSecret(made.Secret)}, nil
}

func (s *Events) checkSubscriber(url string, types []string) error {
	if err := s.Courier.CheckURL(url); err != nil {
		return invalid("%v", err)
	}
	return checkTypes(types)
}

// ListEventSubscriptions lists the organisation's subscriptions.
func (s *Events) ListEventSubscriptions(
	ctx context.Context, _ *onboardingv1.ListEventSubscriptionsRequest,
) (*onboardingv1.ListEventSubscriptionsResponse, error) {
	found, err := s.Store.Subscriptions(ctx, org(ctx))
	if err != nil {
		return nil, answer(err)
	}
	out := &onboardingv1.ListEventSubscriptionsResponse{}
	for _, f := range found {
		out.Subscriptions = append(out.Subscriptions, subscription(f))
	}
	return out, nil
}

// find reads a subscription of the caller's organisation.
func (s *Events) find(ctx context.Context, id string) (events.Subscription, error) {
	if err := validID("subscription_id", id); err != nil {
		return events.Subscription{}, err
	}
	found, err := s.Store.Subscription(ctx, id)
	if err == nil && found.OrgID != org(ctx) {
		err = events.ErrNoSubscription
	}
	if err != nil {
		return found, answer(err)
	}
	return found, nil
}

// GetEventSubscription reads a subscription.
func (s *Events) GetEventSubscription(
	ctx context.Context, in *onboardingv1.GetEventSubscriptionRequest,
) (*onboardingv1.GetEventSubscriptionResponse, error) {
	found, err := s.find(ctx, in.GetSubscriptionId())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.GetEventSubscriptionResponse{Subscription: subscription(found)}, nil
}

// UpdateEventSubscription sets fields anew.
func (s *Events) UpdateEventSubscription(
	ctx context.Context, in *onboardingv1.UpdateEventSubscriptionRequest,
) (*onboardingv1.UpdateEventSubscriptionResponse, error) {
	found, err := s.find(ctx, in.GetSubscriptionId())
	if err != nil {
		return nil, err
	}
	change := postgres.SubscriptionChange{URL: in.Url, Body: in.IncludeBody}
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
	if found, err = s.Store.Change(ctx, org(ctx), found.ID, change, s.Now()); err != nil {
		return nil, answer(err)
	}
	return &onboardingv1.UpdateEventSubscriptionResponse{Subscription: subscription(found)}, nil
}

// DeleteEventSubscription ends a subscription.
func (s *Events) DeleteEventSubscription(
	ctx context.Context, in *onboardingv1.DeleteEventSubscriptionRequest,
) (*onboardingv1.DeleteEventSubscriptionResponse, error) {
	if err := validID("subscription_id", in.GetSubscriptionId()); err != nil {
		return nil, err
	}
	if err := s.Store.Unsubscribe(ctx, org(ctx), in.GetSubscriptionId()); err != nil {
		return nil, answer(err)
	}
	return &onboardingv1.DeleteEventSubscriptionResponse{}, nil
}

// PauseEventSubscription pauses a subscription; one that is paused stays so, with its reason.
func (s *Events) PauseEventSubscription(
	ctx context.Context, in *onboardingv1.PauseEventSubscriptionRequest,
) (*onboardingv1.PauseEventSubscriptionResponse, error) {
	found, err := s.find(ctx, in.GetSubscriptionId())
	if err != nil {
		return nil, err
	}
	if _, err := s.Store.Pause(ctx, found.ID, events.PausedByHand, s.Now()); err != nil {
		return nil, answer(err)
	}
	if found, err = s.find(ctx, found.ID); err != nil {
		return nil, err
	}
	return &onboardingv1.PauseEventSubscriptionResponse{Subscription: subscription(found)}, nil
}

// ResumeEventSubscription goes on with a subscription.
func (s *Events) ResumeEventSubscription(
	ctx context.Context, in *onboardingv1.ResumeEventSubscriptionRequest,
) (*onboardingv1.ResumeEventSubscriptionResponse, error) {
	found, err := s.find(ctx, in.GetSubscriptionId())
	if err != nil {
		return nil, err
	}
	resumed, missed, err := s.Store.Resume(ctx, org(ctx), found.ID, s.Now())
	if err != nil {
		return nil, answer(err)
	}
	return &onboardingv1.ResumeEventSubscriptionResponse{Subscription: subscription(resumed), Missed: missed}, nil
}

// RotateEventSubscriptionSecret makes a new secret.
func (s *Events) RotateEventSubscriptionSecret(
	ctx context.Context, in *onboardingv1.RotateEventSubscriptionSecretRequest,
) (*onboardingv1.RotateEventSubscriptionSecretResponse, error) {
	if err := validID("subscription_id", in.GetSubscriptionId()); err != nil {
		return nil, err
	}
	secret, now := events.NewSecret(), s.Now()
	if err := s.Store.Rotate(ctx, org(ctx), in.GetSubscriptionId(), secret, now.Add(events.OldSecretLife), now); err != nil {
		return nil, answer(err)
	}
	return &onboardingv1.RotateEventSubscriptionSecretResponse{Secret: events.ShowSecret(secret)}, nil
}

func subscription(s events.Subscription) *onboardingv1.EventSubscription {
	out := &onboardingv1.EventSubscription{
		SubscriptionId: s.ID, Url: s.URL, Types: s.Types, Status: string(s.Status), PausedReason: s.PausedReason, CursorSeq: s.Cursor,
		FailingSince: orAbsent(s.FailingSince), CreatedAt: timestamppb.New(s.CreatedAt), UpdatedAt: timestamppb.New(s.UpdatedAt),
	}
	if s.Body {
		out.Include = []string{"body"}
	}
	return out
}

// ListEventDeliveries lists deliveries.
func (s *Events) ListEventDeliveries(
	ctx context.Context, in *onboardingv1.ListEventDeliveriesRequest,
) (*onboardingv1.ListEventDeliveriesResponse, error) {
	of := []string{"", queue.StatusPending, queue.StatusProcessing, queue.StatusCompleted, queue.StatusFailed}
	if !slices.Contains(of, in.GetStatus()) {
		return nil, invalid("status must be pending, processing, completed or failed")
	}
	wanted, before, err := page(in)
	if err != nil {
		return nil, err
	}
	found, err := s.Store.Deliveries().List(ctx, queue.Filter{OrgID: org(ctx), Status: in.GetStatus(), Before: before, Limit: wanted + 1})
	if err != nil {
		return nil, answer(err)
	}
	out := &onboardingv1.ListEventDeliveriesResponse{}
	if len(found) > wanted {
		found = found[:wanted]
		out.NextPageToken = rpc.NextPage(in, found[wanted-1].ID)
	}
	for _, r := range found {
		out.Deliveries = append(out.Deliveries, delivery(r))
	}
	return out, nil
}

// ReplayEventDelivery makes a failed delivery due again.
func (s *Events) ReplayEventDelivery(
	ctx context.Context, in *onboardingv1.ReplayEventDeliveryRequest,
) (*onboardingv1.ReplayEventDeliveryResponse, error) {
	if err := validID("delivery_id", in.GetDeliveryId()); err != nil {
		return nil, err
	}
	r, err := s.Store.ReplayDelivery(ctx, org(ctx), in.GetDeliveryId(), s.Now())
	if status, ok := errors.AsType[*queue.StatusError](err); ok {
		return nil, refuse(codes.FailedPrecondition, onboardingv1.Reason_REASON_DELIVERY_STATUS, status.Error(), 0)
	}
	if err != nil {
		return nil, answer(err)
	}
	s.Wake()
	return &onboardingv1.ReplayEventDeliveryResponse{Delivery: delivery(r)}, nil
}

func delivery(r queue.Row) *onboardingv1.EventDelivery {
	_, eventID, _ := strings.Cut(r.Key, ":")
	seq, _ := strconv.ParseInt(r.Extra[1], 10, 64) // a bigint
	return &onboardingv1.EventDelivery{
		DeliveryId: r.ID, SubscriptionId: r.Extra[0], EventId: eventID, Type: r.Extra[2], Seq: seq, Status: r.Status,
		Attempts: int32(r.Attempts), MaxAttempts: int32(r.MaxAttempts), //nolint:gosec // both are integers of Postgres
		NextAttemptAt: moment(r.DueAt), ErrorMessage: r.ErrorMessage, CreatedAt: timestamppb.New(r.CreatedAt), ProcessedAt: moment(r.ProcessedAt),
	}
}
