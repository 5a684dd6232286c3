package rpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	methodv1 "paceline.internal/proto/gen/paceline/method/v1"
)

const (
	org    = "00000000-0000-7000-8000-000000000001"
	echo   = "/paceline.test.v1.EchoService/Echo"   // for services and users; may be repeated
	once   = "/paceline.test.v1.EchoService/Once"   // the same, and may not be repeated
	talk   = "/paceline.test.v1.EchoService/Talk"   // a stream, for the same
	closed = "/paceline.test.v1.ClosedService/Echo" // its proto does not say who may call it
)

func service() rpc.Principal { return rpc.Principal{Subject: "onboarding", Role: rpc.RoleService} }

func user() rpc.Principal {
	return rpc.Principal{Subject: "0190b1f0-0000-7000-8000-000000000002", OrgID: org, Role: rpc.RoleUser}
}

type handler func(ctx context.Context, text string) (string, error)

// TestMain describes the two services, as generated code would.
func TestMain(m *testing.M) {
	// Many tests wait for a deadline, so more of them run at once than there are cores.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	text := (*wrapperspb.StringValue)(nil).ProtoReflect().Descriptor()
	method := func(name string, rule *methodv1.Method) *descriptorpb.MethodDescriptorProto {
		options := &descriptorpb.MethodOptions{}
		if rule != nil {
			proto.SetExtension(options, methodv1.E_Method, rule)
		}
		message := new("." + string(text.FullName()))
		return &descriptorpb.MethodDescriptorProto{Name: &name, InputType: message, OutputType: message, Options: options}
	}
	callers := []methodv1.Caller{methodv1.Caller_CALLER_ONBOARDING, methodv1.Caller_CALLER_USER}
	keptCallers := append(callers, methodv1.Caller_CALLER_OPERATOR, methodv1.Caller_CALLER_APP) //nolint:gocritic // it is another list
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("paceline/test/v1/echo.proto"), Package: new("paceline.test.v1"), Syntax: new("proto3"),
		Dependency: []string{text.ParentFile().Path()},
		Service: []*descriptorpb.ServiceDescriptorProto{
			{Name: new("EchoService"), Method: []*descriptorpb.MethodDescriptorProto{
				method("Echo", &methodv1.Method{Callers: callers, Retry: true, Audit: methodv1.Audit_AUDIT_NONE}),
				method("Once", &methodv1.Method{Callers: callers, Audit: methodv1.Audit_AUDIT_NONE}),
				method("Talk", &methodv1.Method{Callers: callers, Audit: methodv1.Audit_AUDIT_CHANGE}),
			}},
			{Name: new("KeptService"), Method: []*descriptorpb.MethodDescriptorProto{
				method("Change", &methodv1.Method{Callers: keptCallers, Audit: methodv1.Audit_AUDIT_CHANGE}),
				method("Read", &methodv1.Method{Callers: keptCallers, Audit: methodv1.Audit_AUDIT_READ}),
				method("Nothing", &methodv1.Method{Callers: keptCallers, Audit: methodv1.Audit_AUDIT_NONE}),
			}},
			{Name: new("ClosedService"), Method: []*descriptorpb.MethodDescriptorProto{
				method("Echo", nil), method("WithoutCallers", &methodv1.Method{Retry: true}),
				method("ForAnUnknownCaller", &methodv1.Method{Callers: []methodv1.Caller{99}}),
				method("Unkept", &methodv1.Method{Callers: callers}),
				method("KeptOfServices", &methodv1.Method{Callers: callers[:1], Audit: methodv1.Audit_AUDIT_CHANGE}),
			}},
		},
	}, protoregistry.GlobalFiles)
	if err := errors.Join(err, protoregistry.GlobalFiles.RegisterFile(file)); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// echoService is a service without generated code. Its methods answer what the handler says. read counts requests.
func echoService(read *atomic.Int64, name string, methods ...string) *grpc.ServiceDesc {
	method := func(full string) func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
		return func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			read.Add(1)
			request := new(wrapperspb.StringValue)
			if err := decode(request); err != nil {
				return nil, err
			}
			return intercept(ctx, request, &grpc.UnaryServerInfo{Server: srv, FullMethod: full}, func(ctx context.Context, _ any) (any, error) {
				handle, ok := srv.(handler)
				if !ok {
					return nil, fmt.Errorf("registered with a %T", srv)
				}
				text, err := handle(ctx, request.GetValue())
				return wrapperspb.String(text), err
			})
		}
	}
	service := &grpc.ServiceDesc{ServiceName: "paceline.test.v1." + name, HandlerType: new(any)}
	for _, m := range methods {
		service.Methods = append(service.Methods, grpc.MethodDesc{MethodName: m, Handler: method("/" + service.ServiceName + "/" + m)})
	}
	return service
}

// bench is an echo server with its telemetry, listening.
type bench struct {
	*rpc.Server

	t      *testing.T
	addr   string
	tel    *telemetry.Telemetry
	tokens *rpc.Tokens
	read   atomic.Int64 // requests, or that they were begun
	mu     sync.Mutex
	out    bytes.Buffer
}

func setup(t *testing.T, handle handler, adjust ...func(*rpc.ServerConfig)) *bench {
	t.Helper()
	b := &bench{t: t, tokens: tokens(t)}
	var err error
	b.tel, err = telemetry.New(t.Context(), telemetry.Options{Service: "test", Output: b, Registry: telemetry.NewRegistry()})
	require.NoError(t, err)
	b.tel.Tracer = sdktrace.NewTracerProvider() // one that records, although there is no endpoint
	cfg := rpc.ServerConfig{
		Tokens: b.tokens, Log: b.tel.Log,
		TracerProvider: b.tel.Tracer, MeterProvider: b.tel.Meter, Keep: new(shelf).keep,
	}
	for _, a := range adjust {
		a(&cfg)
	}
	b.Server, err = rpc.NewServer(cfg)
	require.NoError(t, err)
	service := echoService(&b.read, "EchoService", "Echo", "Once")
	service.Streams = []grpc.StreamDesc{{StreamName: "Talk", Handler: conversation, ServerStreams: true, ClientStreams: true}}
	b.RegisterService(service, handle)
	b.RegisterService(echoService(&b.read, "ClosedService", "Echo"), handle)
	b.RegisterService(echoService(&b.read, "KeptService", "Change", "Read", "Nothing"), handle)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b.addr = listener.Addr().String()
	go func() { _ = b.Serve(listener) }()
	t.Cleanup(func() {
		b.Stop()
		require.NoError(t, b.tel.Shutdown(context.WithoutCancel(t.Context())))
	})
	return b
}

// conversation answers each message of a stream with what the handler says; to "much" it talks until it cannot.
func conversation(srv any, s grpc.ServerStream) error {
	handle, ok := srv.(handler)
	if !ok {
		return fmt.Errorf("registered with a %T", srv)
	}
	for {
		request := new(wrapperspb.StringValue)
		if err := s.RecvMsg(request); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		text, err := handle(s.Context(), request.GetValue())
		if err != nil {
			return err
		}
		for more := true; more; more = request.GetValue() == "much" {
			if err := s.SendMsg(wrapperspb.String(text)); err != nil {
				return err
			}
		}
	}
}

func tokens(t *testing.T) *rpc.Tokens {
	t.Helper()
	now := time.Now
	made, err := rpc.NewTokens(rpc.Keys{Shared: config.NewSecret("0123456789abcdef0123456789abcdef")}, now)
	require.NoError(t, err)
	return made
}

// Write takes the log lines.
func (b *bench) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(line)
}

// lines stops the server, so that everything has been logged, and returns the log.
func (b *bench) lines() []map[string]any {
	b.t.Helper()
	b.GracefulStop()
	b.mu.Lock()
	defer b.mu.Unlock()
	var lines []map[string]any
	for line := range bytes.Lines(b.out.Bytes()) {
		var fields map[string]any
		require.NoError(b.t, json.Unmarshal(line, &fields))
		lines = append(lines, fields)
	}
	return lines
}

// line is the only one there is.
func (b *bench) line() map[string]any {
	b.t.Helper()
	lines := b.lines()
	require.Len(b.t, lines, 1, "one line per call")
	return lines[0]
}

func (b *bench) dial(adjust ...func(*rpc.ClientConfig)) *grpc.ClientConn {
	b.t.Helper()
	cfg := rpc.ClientConfig{
		Target: b.addr, Tokens: b.tokens, Caller: service(), TracerProvider: b.tel.Tracer, MeterProvider: b.tel.Meter,
	}
	for _, a := range adjust {
		a(&cfg)
	}
	conn, err := rpc.Dial(cfg)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { require.NoError(b.t, conn.Close()) })
	return conn
}

// plain is a connection without our client chain.
func (b *bench) plain() *grpc.ClientConn {
	b.t.Helper()
	conn, err := grpc.NewClient(b.addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	require.NoError(b.t, err)
	b.t.Cleanup(func() { require.NoError(b.t, conn.Close()) })
	return conn
}

func call(ctx context.Context, conn *grpc.ClientConn, method, text string) (string, error) {
	answer := new(wrapperspb.StringValue)
	err := conn.Invoke(ctx, method, wrapperspb.String(text), answer)
	return answer.GetValue(), err
}

func repeat(_ context.Context, text string) (string, error) { return text, nil }
