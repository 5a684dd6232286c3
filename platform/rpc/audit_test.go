package rpc_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"paceline.internal/platform/rpc"
)

// shelf keeps calls in memory.
type shelf struct {
	mu     sync.Mutex
	calls  []rpc.Call
	ended  []codes.Code
	refuse error
}

func (s *shelf) keep(_ context.Context, call rpc.Call) (func(context.Context, codes.Code, rpc.About) error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return nil, s.refuse
	}
	s.calls = append(s.calls, call)
	return func(_ context.Context, outcome codes.Code, _ rpc.About) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = append(s.ended, outcome)
		return nil
	}, nil
}

func (s *shelf) kept() (calls int, ended []codes.Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls), s.ended
}

func TestKeep(t *testing.T) {
	t.Parallel()
	const of = "/paceline.test.v1.KeptService/"
	by := func(role rpc.Role) rpc.Principal {
		if role == rpc.RoleService {
			return service()
		}
		return rpc.Principal{Subject: "ada", OrgID: org, Role: role}
	}
	keeping := func(s *shelf) func(*rpc.ServerConfig) { return func(cfg *rpc.ServerConfig) { cfg.Keep = s.keep } }

	for method, kept := range map[string][]rpc.Role{
		"Change":  {rpc.RoleOperator, rpc.RoleUser, rpc.RoleApp},
		"Read":    {rpc.RoleOperator},
		"Nothing": nil,
	} {
		for _, role := range rpc.Roles() {
			if role == rpc.RolePlatform { // of no organisation; it may call none of these
				continue
			}
			t.Run(method+"By_"+string(role), func(t *testing.T) {
				t.Parallel()
				var s shelf
				before := 0
				b := setup(t, func(context.Context, string) (string, error) {
					before, _ = s.kept()
					return "", nil
				}, keeping(&s))
				_, err := call(rpc.WithPrincipal(t.Context(), by(role)), b.dial(), of+method, "x")
				require.NoError(t, err)
				want := 0
				for _, k := range kept {
					if k == role {
						want = 1
					}
				}
				calls, ended := s.kept()
				require.Equal(t, want, calls)
				require.Equal(t, want, before, "it is kept before the call is made")
				require.Len(t, ended, want)
			})
		}
	}

	t.Run("ACallThatCannotBeKeptIsNotMade", func(t *testing.T) {
		t.Parallel()
		made := false
		s := shelf{refuse: errors.New("the disk is full")}
		b := setup(t, func(context.Context, string) (string, error) { made = true; return "", nil }, keeping(&s))
		_, err := call(rpc.WithPrincipal(t.Context(), by(rpc.RoleOperator)), b.dial(), of+"Read", "x")
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.NotContains(t, err.Error(), "disk")
		require.False(t, made)
		require.Equal(t, "the disk is full", b.line()["error"])
	})

	for name, tc := range map[string]struct {
		handle handler
		want   codes.Code
	}{
		"OfAnAnswer": {handle: repeat, want: codes.OK},
		"OfARefusal": {handle: func(context.Context, string) (string, error) { return "", status.Error(codes.NotFound, "none") }, want: codes.NotFound},
		"OfAnError":  {handle: func(context.Context, string) (string, error) { return "", errors.New("broken") }, want: codes.Internal},
		"OfAPanic":   {handle: func(context.Context, string) (string, error) { panic("boom") }, want: codes.Internal},
		"OfAForeigner": {handle: func(context.Context, string) (string, error) {
			return "", errors.Join(status.Error(codes.NotFound, "theirs"))
		}, want: codes.Internal},
	} {
		t.Run("TheOutcome_"+name, func(t *testing.T) {
			t.Parallel()
			var s shelf
			b := setup(t, tc.handle, keeping(&s))
			_, err := call(rpc.WithPrincipal(t.Context(), by(rpc.RoleApp)), b.dial(), of+"Change", "x")
			require.Equal(t, tc.want, status.Code(err))
			_, ended := s.kept()
			require.Equal(t, []codes.Code{tc.want}, ended)
		})
	}

	t.Run("AStreamIsKeptOnceItsFirstMessageHasCome", func(t *testing.T) {
		t.Parallel()
		var s shelf
		b := setup(t, repeat, keeping(&s))
		stream, err := b.dial().NewStream(rpc.WithPrincipal(t.Context(), user()), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, talk)
		require.NoError(t, err)
		answer := new(wrapperspb.StringValue)
		for range 2 {
			require.NoError(t, stream.SendMsg(wrapperspb.String("x")))
			require.NoError(t, stream.RecvMsg(answer))
		}
		calls, ended := s.kept()
		require.Equal(t, 1, calls)
		require.Empty(t, ended, "it goes on")
		require.NoError(t, stream.CloseSend())
		require.Error(t, stream.RecvMsg(answer))
		b.GracefulStop()
		_, ended = s.kept()
		require.Equal(t, []codes.Code{codes.OK}, ended)
	})

	t.Run("TheCallerIsOnTheLineWithTheirAddress", func(t *testing.T) {
		t.Parallel()
		for _, tc := range []struct{ name, subject, client, wantSubject, wantClient string }{
			{name: "Direct", subject: "ada", wantSubject: "ada", wantClient: "127.0.0.1"},
			{name: "ThroughTheGateway", subject: "ada", client: "192.0.2.7", wantSubject: "ada", wantClient: "192.0.2.7"},
			{name: "WithAPhoneForAnID", subject: "+15005550006", client: "192.0.2.7", wantSubject: "+15***06", wantClient: "192.0.2.7"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				var s shelf
				b := setup(t, repeat, keeping(&s))
				caller := rpc.Principal{Subject: tc.subject, OrgID: org, Role: rpc.RoleOperator, Client: tc.client}
				_, err := call(rpc.WithPrincipal(t.Context(), caller), b.dial(), of+"Read", "x")
				require.NoError(t, err)
				caller.Client = tc.wantClient
				require.Equal(t, caller, s.calls[0].Caller)
				require.Equal(t, "paceline.test.v1.KeptService/Read", s.calls[0].Method)
				line := b.line()
				require.Equal(t, tc.wantSubject, line["subject"])
				require.Equal(t, tc.wantClient, line["client"])
			})
		}
	})
}
