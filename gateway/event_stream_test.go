package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/gateway/stream"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

type eventStreamServer = grpc.ServerStreamingServer[onboardingv1.StreamEventsResponse]

// tellEvents is onboarding's side of a stream of events.
func (s *services) tellEvents(_ any, stream grpc.ServerStream) error {
	in := new(onboardingv1.StreamEventsRequest)
	if err := stream.RecvMsg(in); err != nil {
		return err
	}
	s.mu.Lock()
	tell := s.tell
	s.mu.Unlock()
	return tell(in, &grpc.GenericServerStream[onboardingv1.StreamEventsRequest, onboardingv1.StreamEventsResponse]{ServerStream: stream})
}

// tells sets what onboarding does with a stream.
func (s *services) tells(do func(*onboardingv1.StreamEventsRequest, eventStreamServer) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell = do
}

func eventOf(seq int64) *onboardingv1.StreamEventsResponse {
	data, _ := structpb.NewStruct(map[string]any{"session_id": ownProfile}) // of strings
	return &onboardingv1.StreamEventsResponse{Event: &onboardingv1.Event{
		Specversion: "1.0", Id: otherProfile, Source: "/paceline/orgs/" + orgID, Type: "session.advanced", Subject: ownProfile,
		Time: timestamppb.New(noon()), Seq: seq, Causationid: "message:1", Data: data,
	}}
}

// follows opens the stream of events.
func (b *bench) follows(t *testing.T, ctx context.Context, query, token string, header http.Header) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+stream.PathEvents+query, nil)
	require.NoError(t, err)
	if header != nil {
		req.Header = header
	}
	req.Header.Set("Authorization", token)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() }) // some are broken off
	return resp
}

func TestEventStream(t *testing.T) {
	t.Parallel()
	t.Run("EachEventIsAFrameWithItsNumberAndAReaderComesBackWithIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		asked := make(chan *onboardingv1.StreamEventsRequest, 1)
		b.services.tells(func(in *onboardingv1.StreamEventsRequest, stream eventStreamServer) error {
			asked <- in
			principal, _ := rpc.PrincipalFrom(stream.Context())
			if principal.Subject != "shop" || principal.OrgID != orgID {
				return &rpc.Error{Code: codes.PermissionDenied}
			}
			if err := stream.Send(&onboardingv1.StreamEventsResponse{}); err != nil {
				return err
			}
			if err := stream.Send(eventOf(in.GetAfter() + 1)); err != nil {
				return err
			}
			return &rpc.Error{Code: codes.Unavailable, Message: "the process ends"}
		})
		resp := b.follows(t, t.Context(), "?types=session.advanced,goal.failed&types=goal.started&after=3", bearer(t, "app"), http.Header{"Last-Event-Id": {"41"}})
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
		require.Equal(t, "no", resp.Header.Get("X-Accel-Buffering"))
		in := <-asked
		require.Equal(t, int64(41), in.GetAfter(), "where the reader was comes before where it once began")
		require.Equal(t, []string{"session.advanced", "goal.failed", "goal.started"}, in.GetTypes())
		var lines []string
		for scanner := bufio.NewScanner(resp.Body); scanner.Scan(); {
			lines = append(lines, scanner.Text())
		}
		require.Len(t, lines, 6)
		require.Equal(t, []string{": events", "", "id: 42", "event: session.advanced"}, lines[:4])
		var e map[string]any
		require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(lines[4], "data: ")), &e))
		require.Equal(t, map[string]any{
			"specversion": "1.0", "id": otherProfile, "source": "/paceline/orgs/" + orgID, "type": "session.advanced", "subject": ownProfile,
			"time": "2026-03-04T12:00:00Z", "seq": "42", "causationid": "message:1", "data": map[string]any{"session_id": ownProfile},
		}, e)
	})

	t.Run("WhatIsNoStreamIsAnsweredAsAnyOtherCall", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.services.tells(func(*onboardingv1.StreamEventsRequest, eventStreamServer) error {
			return &rpc.Error{Code: codes.OutOfRange, Reason: "REASON_EVENTS_DELETED", Domain: "paceline.onboarding.v1", Message: "go on with after=7"}
		})
		for query, want := range map[string]int{
			"?after=1": http.StatusBadRequest, "?after=x": http.StatusBadRequest, "?after=-1": http.StatusBadRequest,
			"?after=1&after=2": http.StatusBadRequest, "?since=1": http.StatusBadRequest, "?%zz": http.StatusBadRequest,
		} {
			resp := b.follows(t, t.Context(), query, bearer(t, "operator"), nil)
			require.Equal(t, want, resp.StatusCode, query)
			require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
		}
		require.Equal(t, http.StatusForbidden, b.follows(t, t.Context(), "", bearer(t, "user"), nil).StatusCode)
		require.Equal(t, http.StatusUnauthorized, b.follows(t, t.Context(), "", "", nil).StatusCode)
	})

	t.Run("ItEndsWithItsTokenItsReaderAndTheProcess", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ended := make(chan struct{}, 1)
		b.services.tells(func(_ *onboardingv1.StreamEventsRequest, stream eventStreamServer) error {
			if err := stream.Send(&onboardingv1.StreamEventsResponse{}); err != nil {
				return err
			}
			<-stream.Context().Done()
			ended <- struct{}{}
			return nil
		})
		short := "Bearer " + sign(t, jwt.SigningMethodHS256, []byte(jwtSecret), jwt.MapClaims{
			"sub": "ada", "org_id": orgID, "role": "operator", "exp": noon().Add(3 * time.Second).Unix(),
		})
		atEnd := func(resp *http.Response) {
			for scanner := bufio.NewScanner(resp.Body); scanner.Scan(); {
			}
			<-ended
		}
		atEnd(b.follows(t, t.Context(), "", short, nil))

		ctx, leave := context.WithCancel(t.Context())
		b.follows(t, ctx, "", bearer(t, "operator"), nil)
		leave()
		<-ended

		resp := b.follows(t, t.Context(), "", bearer(t, "operator"), nil)
		require.NoError(t, b.gateway.events.Drain(t.Context()))
		atEnd(resp)
		require.Equal(t, http.StatusServiceUnavailable, b.follows(t, t.Context(), "", bearer(t, "operator"), nil).StatusCode)
	})
}
