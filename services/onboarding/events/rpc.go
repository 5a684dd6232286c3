package events

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
	"paceline.internal/services/onboarding/request"
)

// RPC serves EventService.
type RPC struct {
	onboardingv1.UnimplementedEventServiceServer

	Store   *Store
	Hub     *Hub
	Courier *Courier
	Wake    func() // of deliveries
	Now     func() time.Time
}

// ListEvents reads the log.
func (s *RPC) ListEvents(ctx context.Context, in *onboardingv1.ListEventsRequest) (*onboardingv1.ListEventsResponse, error) {
	types, err := wantedTypes(in.GetAfter(), in.GetTypes())
	if err != nil {
		return nil, err
	}
	limit := int(in.GetPageSize())
	switch {
	case limit < 0 || limit > request.MaxPage:
		return nil, request.Invalid("page_size must be 0 to %d", request.MaxPage)
	case limit == 0:
		limit = request.DefaultPage
	}
	found, next, err := s.Store.Read(ctx, request.Org(ctx), in.GetAfter(), types, limit)
	if err != nil {
		return nil, logError(err)
	}
	out := &onboardingv1.ListEventsResponse{NextAfter: next}
	for _, e := range found {
		shown, err := logged(e)
		if err != nil {
			return nil, err
		}
		out.Events = append(out.Events, shown)
	}
	return out, nil
}

// StreamEvents follows the log.
func (s *RPC) StreamEvents(
	in *onboardingv1.StreamEventsRequest, stream grpc.ServerStreamingServer[onboardingv1.StreamEventsResponse],
) error {
	ctx := stream.Context()
	types, err := wantedTypes(in.GetAfter(), in.GetTypes())
	if err != nil {
		return err
	}
	leave, err := s.Hub.Open(request.Org(ctx))
	if err != nil {
		return err
	}
	defer leave()
	after := in.GetAfter()
	if in.After == nil {
		if err := s.Hub.Read(ctx, func() (err error) { after, err = s.Store.LastSeq(ctx); return err }); err != nil {
			return err
		}
	}
	first := &onboardingv1.StreamEventsResponse{}
	for {
		changed := s.Hub.Changed()
		var found []Event
		next := after
		err := s.Hub.Read(ctx, func() (err error) {
			found, next, err = s.Store.Read(ctx, request.Org(ctx), after, types, request.MaxPage)
			return err
		})
		if err != nil {
			return logError(err)
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
				return err
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
			return err
		}
	}
}

// wantedTypes reads which part of the log is asked for. In a query, types may be separated by commas, too.
func wantedTypes(after int64, types []string) ([]string, error) {
	if after < 0 {
		return nil, request.Invalid("after must be 0 or a seq")
	}
	if len(types) == 0 {
		return []string{}, nil
	}
	types = strings.Split(strings.Join(types, ","), ",")
	return types, checkTypes(types)
}

func checkTypes(types []string) error {
	for _, t := range types {
		if !slices.Contains(Types(), t) {
			return request.Invalid("types: there is no %q; the types are %s", shorten(t), strings.Join(Types(), ", "))
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

func logged(e Event) (*onboardingv1.Event, error) {
	data := &structpb.Struct{}
	if err := data.UnmarshalJSON(e.Data); err != nil {
		return nil, fmt.Errorf("read an event: %w", err)
	}
	return &onboardingv1.Event{
		Specversion: "1.0", Id: e.ID, Source: e.Source(), Type: e.Type, Subject: e.Subject, Time: timestamppb.New(e.Time), Seq: e.Seq,
		Causationid: e.CausationID, Data: data,
	}, nil
}

// logError says of a log that does not go back so far where to go on.
func logError(err error) error {
	if deleted, ok := errors.AsType[*DeletedError](err); ok {
		return request.Refuse(codes.OutOfRange, onboardingv1.Reason_REASON_EVENTS_DELETED,
			fmt.Sprintf("events up to %[1]d are not kept any more: read the state of people anew, then go on with after=%[1]d", deleted.UpTo), 0)
	}
	if errors.Is(err, ErrAhead) {
		return request.Invalid("%s", err.Error())
	}
	return err
}

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

// ListEventDeliveries lists deliveries.
func (s *RPC) ListEventDeliveries(
	ctx context.Context, in *onboardingv1.ListEventDeliveriesRequest,
) (*onboardingv1.ListEventDeliveriesResponse, error) {
	of := []string{"", queue.StatusPending, queue.StatusProcessing, queue.StatusCompleted, queue.StatusFailed}
	if !slices.Contains(of, in.GetStatus()) {
		return nil, request.Invalid("status must be pending, processing, completed or failed")
	}
	wanted, before, err := request.Page(in)
	if err != nil {
		return nil, err
	}
	found, err := s.Store.Deliveries().List(ctx, queue.Filter{
		OrgID:  request.Org(ctx),
		Status: in.GetStatus(), Before: before, Limit: wanted + 1,
	})
	if err != nil {
		return nil, err
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
func (s *RPC) ReplayEventDelivery(
	ctx context.Context, in *onboardingv1.ReplayEventDeliveryRequest,
) (*onboardingv1.ReplayEventDeliveryResponse, error) {
	if err := request.ID("delivery_id", in.GetDeliveryId()); err != nil {
		return nil, err
	}
	r, err := s.Store.ReplayDelivery(ctx, request.Org(ctx), in.GetDeliveryId(), s.Now())
	if status, ok := errors.AsType[*queue.StatusError](err); ok {
		return nil, request.Refuse(codes.FailedPrecondition, onboardingv1.Reason_REASON_DELIVERY_STATUS, status.Error(), 0)
	}
	if err != nil {
		return nil, err
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
		NextAttemptAt: request.StampOf(r.DueAt), ErrorMessage: r.ErrorMessage, CreatedAt: timestamppb.New(r.CreatedAt),
		ProcessedAt: request.StampOf(r.ProcessedAt),
	}
}
