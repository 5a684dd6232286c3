package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/stats"

	"paceline.internal/platform/telemetry"
)

const (
	// DefaultTimeout is the deadline of a call that brings none, on either side.
	DefaultTimeout = 10 * time.Second

	// keepaliveTime is the time for which a silent connection goes unchecked. A server bans clients that ask more often than its
	// policy allows, so the policy is looser than what our clients do.
	keepaliveTime    = 30 * time.Second
	keepaliveTimeout = 10 * time.Second
	keepalivePolicy  = 10 * time.Second

	// connectionAge is the age at which a caller is asked to connect anew, which a balancer of connections sends to any replica: else all
	// callers would stay with the replicas that were there first. Calls in flight get connectionGrace to end, longer than any has.
	connectionAge   = 5 * time.Minute
	connectionGrace = StreamLife + time.Minute

	// maxStreams bounds what one client connection may have in flight. The gateway has one to each service for all the callbacks
	// that it works on: with fewer streams a storm of alarms would keep the texts out.
	maxStreams = 4096

	// maxRequest is the largest message of a server that does not say otherwise.
	maxRequest = 64 << 10
	// maxHeaders, streamWindow and connectTimeout bound what is held of a caller before the token is looked at. By default gRPC
	// takes 16 MiB of headers, lets the windows of a fast sender grow to 16 MiB, and waits two minutes for a handshake.
	maxHeaders       = 32 << 10
	streamWindow     = 64 << 10
	connectionWindow = 1 << 20
)

// ServerConfig holds the settings of NewServer.
type ServerConfig struct {
	Tokens         *Tokens
	Log            *slog.Logger
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	TLS            *tls.Config // nil for plain text, see LoadTLS
	// Scope gives the context of a call whatever follows from who makes it, once that is known; may be nil.
	Scope func(ctx context.Context, caller Principal) context.Context
	// Keep keeps the calls that their methods' protos name; CheckRules reports that it is missing.
	Keep Keep
	// Answer makes of a handler's error what its caller gets, and returns an error that it does not know as it is; may be nil.
	Answer  func(err error) error
	Timeout time.Duration // of a call that brings no deadline; DefaultTimeout when 0
	// Database reports why what needs the database cannot be done now; it is asked by HealthDatabase. Nil for a server without one.
	Database func(ctx context.Context) error
	// MaxRequest is the largest message in bytes, 64 KiB when 0. Callers have shown a token before it is read.
	MaxRequest int
}

// Server is a gRPC server with its chain, health and reflection.
type Server struct {
	*grpc.Server

	Health  *health.Server  // to be switched by process.GRPCServer
	rules   map[string]Rule // of every registered method; health and reflection are open to all and have none
	kept    *keeper
	unruled error // the methods without a rule in their proto
}

// streamWorkers goroutines serve calls one after the other, so that the stack of each is grown once, and not for each call. More calls than
// that, and those while streams take all of them, have a new goroutine each.
const streamWorkers = 64

// NewServer builds the chain, outermost first: trace, metrics, log, recover, deadline, authenticate, scope, seal; only then the
// message is read, and the call kept that has to be. So a panic, a refusal and a call that comes too late are each traced, counted and
// logged, once.
func NewServer(cfg ServerConfig) (*Server, error) {
	if cfg.Tokens == nil || cfg.Log == nil || cfg.TracerProvider == nil || cfg.MeterProvider == nil {
		return nil, errors.New("rpc server: Tokens, Log, TracerProvider and MeterProvider are required")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.MaxRequest == 0 {
		cfg.MaxRequest = maxRequest
	}
	count, err := metrics(cfg.MeterProvider)
	if err != nil {
		return nil, fmt.Errorf("rpc server: %w", err)
	}
	now := time.Now // latencies and deadlines are the machine's, whatever clock the product runs on
	outer := []layer{count, log(cfg.Log, now), recoverPanic}
	rules := map[string]Rule{}
	inner := []layer{authenticate(cfg.Tokens, rules), scoped(cfg.Scope), seal}
	kept := &keeper{rules: rules, keep: cfg.Keep, answer: cfg.Answer}
	s := &Server{
		Server: grpc.NewServer(
			grpc.NumStreamWorkers(streamWorkers),
			grpc.Creds(transport(cfg.TLS)),
			grpc.StatsHandler(otelgrpc.NewServerHandler(
				otelgrpc.WithTracerProvider(cfg.TracerProvider),
				otelgrpc.WithMeterProvider(cfg.MeterProvider),
				otelgrpc.WithPropagators(telemetry.Propagator()),
				otelgrpc.WithFilter(func(call *stats.RPCTagInfo) bool { return !public(call.FullMethodName) }),
			)),
			grpc.UnaryInterceptor(unary(slices.Concat(outer, []layer{deadline(cfg.Timeout, now)}, inner)...)),
			// Streams may last: they get no deadline but the end of their token.
			grpc.StreamInterceptor(stream(kept, slices.Concat(outer, inner[:1], []layer{mortal(cfg.Tokens.now)}, inner[1:])...)),
			grpc.MaxConcurrentStreams(maxStreams),
			grpc.InTapHandle(endable),
			grpc.ConnectionTimeout(connectTimeout),
			grpc.StaticStreamWindowSize(streamWindow),
			grpc.StaticConnWindowSize(connectionWindow),
			grpc.MaxRecvMsgSize(cfg.MaxRequest),
			grpc.MaxHeaderListSize(maxHeaders),
			grpc.KeepaliveParams(keepalive.ServerParameters{
				Time: keepaliveTime, Timeout: keepaliveTimeout, MaxConnectionAge: connectionAge, MaxConnectionAgeGrace: connectionGrace,
			}),
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepalivePolicy, PermitWithoutStream: true}),
		),
		Health: health.NewServer(),
		rules:  rules,
		kept:   kept,
	}
	healthpb.RegisterHealthServer(s, &healthServer{Server: s.Health, database: cfg.Database, now: now, asking: make(chan struct{}, 1)})
	reflection.Register(s)
	return s, nil
}

// CheckRules reports every registered method with a proto that does not say who may call it and whether that is kept, and calls that are to
// be kept and cannot be. It is for the end of the wiring: no caller can call such a method, and that should stop the start rather than fail
// the first call.
func (s *Server) CheckRules() error {
	unkept := slices.ContainsFunc(slices.Collect(maps.Values(s.rules)), func(r Rule) bool { return slices.ContainsFunc(Roles(), r.Kept) })
	if unkept && s.kept.keep == nil {
		return errors.Join(s.unruled, errors.New("rpc server: calls are to be kept, and there is no Keep"))
	}
	return s.unruled
}

// public methods tell nothing about a person and must work for probes and for grpcurl.
func public(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.v1.Health/") || strings.HasPrefix(method, "/grpc.reflection.")
}

func transport(cfg *tls.Config) credentials.TransportCredentials {
	if cfg == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(cfg)
}
