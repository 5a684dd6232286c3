package rpc

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"paceline.internal/platform/telemetry"
)

const (
	// renewBefore is the time before its end at which a cached token is replaced, so that none expires on its way.
	renewBefore = time.Minute
	// maxCachedTokens bounds the cache; signing is cheap, so a full cache is simply emptied.
	maxCachedTokens = 1024
)

// ClientConfig holds the settings of Dial.
type ClientConfig struct {
	Target         string // host:port, or any other gRPC target
	Tokens         *Tokens
	Caller         Principal // who calls, unless WithPrincipal says otherwise
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	TLS            *tls.Config                                 // nil for plain text, see LoadTLS
	Timeout        time.Duration                               // most that a call may take, its retries included; DefaultTimeout when 0
	Dial           func(ctx context.Context) (net.Conn, error) // of a target in this process; default: over the network
	// Services lists the services that are called, as "package.Service". Their methods' rules say which of the calls are tried up to three
	// times when the server is unavailable; calls of a service that is not named never are.
	Services []string
}

// Dial makes the one client of an upstream, which calls all its replicas in turn: every address that the name of the target has. It
// connects in the background; the owner closes it.
//
// Every call gets a timeout, a fresh token, the trace and the request id of its context. A stream has no timeout; it ends with its token,
// after StreamLife at the latest.
func Dial(cfg ClientConfig) (*grpc.ClientConn, error) {
	if cfg.Tokens == nil || cfg.TracerProvider == nil || cfg.MeterProvider == nil {
		return nil, errors.New("rpc client: Tokens, TracerProvider and MeterProvider are required")
	}
	if err := cfg.Caller.Validate(); err != nil {
		return nil, fmt.Errorf("rpc client: caller: %w", err)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	retries, err := retryConfig(cfg.Services)
	if err != nil {
		return nil, fmt.Errorf("rpc client: %w", err)
	}
	replicas := newProber(authority(cfg.Target), cfg.TLS, cfg.Dial)
	return grpc.NewClient(cfg.Target,
		grpc.WithContextDialer(replicas.dial),
		grpc.WithTransportCredentials(transport(cfg.TLS)),
		grpc.WithPerRPCCredentials(&bearerTokens{tokens: cfg.Tokens, caller: cfg.Caller, minted: map[Principal]minted{}}),
		grpc.WithNoProxy(), // HTTPS_PROXY is for the vendors; our own processes are never behind it
		grpc.WithDefaultServiceConfig(retries),
		grpc.WithDisableServiceConfig(), // the DNS must not decide about our retries
		grpc.WithStatsHandler(otelgrpc.NewClientHandler(
			otelgrpc.WithTracerProvider(cfg.TracerProvider),
			otelgrpc.WithMeterProvider(cfg.MeterProvider),
			otelgrpc.WithPropagators(telemetry.Propagator()),
		)),
		grpc.WithUnaryInterceptor(bound(cfg.Timeout)),
		grpc.WithStreamInterceptor(lasting),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: connectTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: keepaliveTime, Timeout: keepaliveTimeout, PermitWithoutStream: true,
		}),
	)
}

// authority returns the name of a target, which its certificate is for.
func authority(target string) string { return target[strings.LastIndex(target, "/")+1:] }

// reconnect tells a client how to come back to a service that was away. gRPC's own pauses grow to two minutes: so long would a
// service that has long been back would go uncalled.
var reconnect = backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}

// connectTimeout bounds one try to connect.
const connectTimeout = 5 * time.Second

// reconnectWait is the time that a call waits for a connection that is broken. One on our network is made within a few milliseconds; of a
// service that is away every call costs that much more.
const reconnectWait = 250 * time.Millisecond

// reconnects has a broken connection made again at once, rather than after the pause that gRPC is in, and waits for it: the first call
// after a service has come back finds it. trying tells whether another call does so already.
func reconnects(ctx context.Context, conn *grpc.ClientConn, trying *atomic.Bool) {
	if conn.GetState() != connectivity.TransientFailure {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reconnectWait)
	defer cancel()
	if trying.CompareAndSwap(false, true) {
		defer trying.Store(false)
		conn.ResetConnectBackoff()
	}
	conn.WaitForStateChange(ctx, connectivity.TransientFailure)
}

// bound gives a call its timeout, which an earlier deadline of the context overrides, and its request id.
func bound(timeout time.Duration) grpc.UnaryClientInterceptor {
	trying := new(atomic.Bool)
	return func(
		ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		reconnects(ctx, conn, trying)
		return invoke(withRequestID(ctx), method, request, reply, conn, opts...)
	}
}

type streamKey struct{}

// lasting gives a stream its request id, and a token that lives as long as a stream may.
func lasting(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return open(context.WithValue(withRequestID(ctx), streamKey{}, true), desc, conn, method, opts...)
}

func withRequestID(ctx context.Context) context.Context {
	id := telemetry.RequestID(ctx)
	if id == "" {
		id = newRequestID()
	}
	return metadata.AppendToOutgoingContext(ctx, requestIDHeader, id)
}

// bearerTokens puts a token on every call. It does not insist on TLS: inside one machine or one encrypted network the
// operator may go without, and the tokens live for minutes.
type bearerTokens struct {
	tokens *Tokens
	caller Principal

	mu     sync.Mutex
	minted map[Principal]minted
}

type minted struct {
	header string
	renew  time.Time
}

func (b *bearerTokens) RequireTransportSecurity() bool { return false }

func (b *bearerTokens) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	caller, ok := ctx.Value(actsAsKey{}).(Principal)
	if !ok {
		caller = b.caller
	}
	if ctx.Value(streamKey{}) != nil {
		token, err := b.tokens.Mint(caller, StreamLife)
		return map[string]string{"authorization": "Bearer " + token}, err
	}
	header, err := b.header(caller)
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": header}, nil
}

// header is the cached token of the caller while it has time left, else a new one.
func (b *bearerTokens) header(caller Principal) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.tokens.now()
	if cached, ok := b.minted[caller]; ok && now.Before(cached.renew) {
		return cached.header, nil
	}
	token, err := b.tokens.Mint(caller, DefaultTokenTTL)
	if err != nil {
		return "", err
	}
	if len(b.minted) >= maxCachedTokens {
		clear(b.minted)
	}
	fresh := minted{header: "Bearer " + token, renew: now.Add(DefaultTokenTTL - renewBefore)}
	b.minted[caller] = fresh
	return fresh.header, nil
}

// retryConfig is gRPC's service config for the methods that may be repeated. The throttle stops retrying altogether while more
// than about one call in ten fails, so that retries do not keep a struggling server down.
func retryConfig(services []string) (string, error) {
	type name struct {
		Service string `json:"service"`
		Method  string `json:"method"`
	}
	var names []name
	for _, service := range services {
		rules, err := Rules(service)
		if err != nil {
			return "", err
		}
		for _, full := range slices.Sorted(maps.Keys(rules)) {
			if rules[full].Retry {
				names = append(names, name{service, strings.TrimPrefix(full, "/"+service+"/")})
			}
		}
	}
	inTurn := []any{map[string]any{replicasPolicy: map[string]any{}}}
	if len(names) == 0 {
		encoded, err := json.Marshal(map[string]any{"loadBalancingConfig": inTurn})
		return string(encoded), err
	}
	encoded, err := json.Marshal(map[string]any{
		"loadBalancingConfig": inTurn,
		"methodConfig": []any{map[string]any{
			"name": names,
			"retryPolicy": map[string]any{
				"maxAttempts": 3, "initialBackoff": "0.05s", "maxBackoff": "0.5s", "backoffMultiplier": 3,
				"retryableStatusCodes": []string{"UNAVAILABLE"},
			},
		}},
		"retryThrottling": map[string]any{"maxTokens": 100, "tokenRatio": 0.1},
	})
	return string(encoded), err
}
