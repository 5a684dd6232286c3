package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

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
		return nil, invalid("after", "after must be 0 or a seq")
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
			return invalid("types", "types: there is no %q; the types are %s", shorten(t), strings.Join(Types(), ", "))
		}
	}
	return nil
}

// shorten cuts what is quoted of a caller's text.
func shorten(text string) string { return strings.ToValidUTF8(text[:min(len(text), 60)], "") }

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
		return invalid("after", "%s", err.Error())
	}
	return err
}

// invalid refuses a field by its name: the gateway adds that to the answers of calls, but not to those of streams.
func invalid(field, format string, args ...any) error {
	return &rpc.Error{
		Code: codes.InvalidArgument, Reason: onboardingv1.Reason_REASON_INVALID.String(), Domain: request.Domain,
		Message: fmt.Sprintf(format, args...), Meta: map[string]string{"field": field},
	}
}
