package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	messagingapi "paceline.internal/gateway/gen/paceline/messaging/v1"
	onboardingapi "paceline.internal/gateway/gen/paceline/onboarding/v1"
	"paceline.internal/gateway/route"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// apiTimeout bounds one call of /v1. Activation sends a message, so it contains a call to Twilio.
const apiTimeout = 20 * time.Second

// newAPI serves /v1: the generated handlers with strict JSON, over connections that hold the caller to the rules.
func newAPI(ctx context.Context, onboarding, messaging grpc.ClientConnInterface) (http.Handler, error) {
	nothing := func(string) (string, bool) { return "", false }
	var mux *runtime.ServeMux
	mux = runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, strictJSON()),
		runtime.WithMiddlewares(func(next runtime.HandlerFunc) runtime.HandlerFunc { return routed(mux, next) }),
		runtime.WithForwardResponseOption(sayAttached), runtime.WithForwardResponseOption(sayCreated),
		runtime.WithErrorHandler(answerAPI),
		runtime.WithRoutingErrorHandler(answerUnrouted),
		// A service's metadata is not for the caller.
		runtime.WithOutgoingHeaderMatcher(nothing),
		runtime.WithOutgoingTrailerMatcher(nothing),
	)
	rules, err := rulesOf(slices.Concat(onboardingServices, messagingServices))
	queue := withOpenHours{messaging, onboardingv1.NewOnboardingServiceClient(onboarding)}
	err = errors.Join(err,
		onboardingapi.RegisterOnboardingServiceHandlerClient(ctx, mux,
			onboardingv1.NewOnboardingServiceClient(guarded{conn: onboarding, rules: rules})),
		onboardingapi.RegisterWebhookJobServiceHandlerClient(ctx, mux,
			onboardingv1.NewWebhookJobServiceClient(guarded{conn: onboarding, rules: rules})),
		onboardingapi.RegisterEngagementServiceHandlerClient(ctx, mux,
			onboardingv1.NewEngagementServiceClient(guarded{conn: onboarding, rules: rules})),
		onboardingapi.RegisterEventServiceHandlerClient(ctx, mux,
			onboardingv1.NewEventServiceClient(guarded{conn: onboarding, rules: rules})),
		onboardingapi.RegisterFlowServiceHandlerClient(ctx, mux,
			onboardingv1.NewFlowServiceClient(guarded{conn: onboarding, rules: rules})),
		onboardingapi.RegisterRunServiceHandlerClient(ctx, mux,
			onboardingv1.NewRunServiceClient(guarded{conn: onboarding, rules: rules})),
		onboardingapi.RegisterGoalServiceHandlerClient(ctx, mux,
			onboardingv1.NewGoalServiceClient(guarded{conn: onboarding, rules: rules})),
		onboardingapi.RegisterTicketServiceHandlerClient(ctx, mux,
			onboardingv1.NewTicketServiceClient(guarded{conn: onboarding, rules: rules})),
		onboardingapi.RegisterOrganisationServiceHandlerClient(ctx, mux,
			onboardingv1.NewOrganisationServiceClient(guarded{conn: onboarding, rules: rules})),
		onboardingapi.RegisterAPIKeyServiceHandlerClient(ctx, mux,
			onboardingv1.NewAPIKeyServiceClient(guarded{conn: onboarding, rules: rules})),
		messagingapi.RegisterMessagingServiceHandlerClient(ctx, mux,
			messagingv1.NewMessagingServiceClient(guarded{conn: messaging, rules: rules})),
		messagingapi.RegisterOutboundServiceHandlerClient(ctx, mux,
			messagingv1.NewOutboundServiceClient(guarded{conn: queue, rules: rules})),
		messagingapi.RegisterSenderServiceHandlerClient(ctx, mux,
			messagingv1.NewSenderServiceClient(guarded{conn: messaging, rules: rules})),
	)
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	return strictRequest(mux), nil
}

// pathFlows takes the files of a flow, in every language of it; so does its :check. The :start of a flow and the :add of a run take people.
const (
	pathFlows = "/v1/flows"
	pathRuns  = "/v1/runs"
)

// maxFlows bounds a body with the files of a flow, or with 10,000 people. A service takes half of it, and JSON writes some signs in two.
const maxFlows = 512 << 10

func maxBody(path string) int64 {
	list := strings.HasPrefix(path, pathFlows+"/") && strings.HasSuffix(path, ":start") ||
		strings.HasPrefix(path, pathRuns+"/") && strings.HasSuffix(path, ":add")
	if strings.TrimSuffix(path, ":check") == pathFlows || list {
		return maxFlows
	}
	return route.MaxBody
}

// strictRequest passes on what the generated handlers may see: a body of bounded size that says it is JSON, and no
// header but that, for they heed more of the headers (Grpc-Timeout, Grpc-Metadata-*, X-HTTP-Method-Override, TE) than a
// caller should steer. Idempotency-Key goes by the context.
func strictRequest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), apiTimeout)
		defer cancel()
		route.EventFrom(ctx).At(r, "/v1")
		if strings.HasSuffix(r.URL.Path, "/") { // the router takes /v1/profiles/ for a profile without an id
			answerNoRoute(ctx, w, http.StatusNotFound)
			return
		}
		body, err := route.ReadUpTo(w, r, maxBody(r.URL.Path))
		if err != nil {
			httpStatus, why := route.Unreadable(err)
			route.WriteError(ctx, w, httpStatus, why)
			return
		}
		if len(body) > 0 && !jsonBody(r.Header.Get("Content-Type")) {
			route.WriteError(ctx, w, http.StatusUnsupportedMediaType,
				route.Refuse(codes.InvalidArgument, route.ReasonMediaType, "a body must be sent with Content-Type: application/json"))
			return
		}
		if coding := r.Header.Get("Content-Encoding"); len(body) > 0 && coding != "" && !strings.EqualFold(coding, "identity") {
			w.Header().Set("Accept-Encoding", "identity") // https://www.rfc-editor.org/rfc/rfc9110#name-415-unsupported-media-type
			route.WriteError(ctx, w, http.StatusUnsupportedMediaType,
				route.Refuse(codes.InvalidArgument, route.ReasonMediaType,
					"a body must not be compressed; send it as plain JSON, without Content-Encoding"))
			return
		}
		if !utf8.ValidString(r.URL.Path) { // no field of a message could hold it
			answerNoRoute(ctx, w, http.StatusBadRequest)
			return
		}
		ctx, misnamed := withIdempotencyKey(ctx, r)
		if misnamed != nil {
			route.WriteError(ctx, w, http.StatusBadRequest, misnamed)
			return
		}
		clean := r.Clone(context.WithValue(ctx, queryKey{}, r.URL.RawQuery))
		if r.Method == http.MethodHead { // the server leaves out the body of what a GET is answered
			clean.Method = http.MethodGet
		}
		if clean.Method != http.MethodGet && clean.Method != http.MethodDelete && r.URL.RawQuery != "" { // the generated code ignores it
			refusal := route.Refuse(codes.InvalidArgument, route.ReasonInvalid, "only a GET or a DELETE takes a query")
			route.WriteError(ctx, w, http.StatusBadRequest, refusal)
			return
		}
		clean.Header = http.Header{"Content-Type": {"application/json"}}
		clean.Body = io.NopCloser(bytes.NewReader(body))
		clean.RemoteAddr, clean.Host = "", ""
		next.ServeHTTP(w, clean)
	})
}

// jsonBody reports whether a body may be read as JSON. The type that curl -d
// sends by default and an absent type count too: no other kind of body is taken here, and a request is authenticated by a bearer
// token, not by a cookie.
func jsonBody(contentType string) bool {
	if contentType == "" {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && (mediaType == "application/json" || mediaType == "application/x-www-form-urlencoded")
}

// routed names the matched route for the log and the span.
func routed(mux *runtime.ServeMux, next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		pattern, ok := runtime.HTTPPattern(r.Context())
		// The router takes a verb that the method has no route for as a part of the id before it.
		stray := ok && pattern.Verb() == "" && strings.Contains(path.Base(r.URL.Path), ":")
		if probed(r.Context(), !stray) {
			return
		}
		if ok {
			route.EventFrom(r.Context()).At(r, strings.ReplaceAll(pattern.String(), "=*}", "}"))
		}
		if stray {
			answerOtherMethod(mux, w, r)
			return
		}
		next(w, r, params)
	}
}

// answerAPI writes a failed call.
func answerAPI(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, _ *http.Request, err error) {
	route.EventFrom(ctx).Cause(err)
	answer := route.Public(err)
	route.WriteError(ctx, w, runtime.HTTPStatusFromCode(answer.Code), answer)
}

// answerUnrouted is answerNoRoute of the generated router.
func answerUnrouted(
	ctx context.Context, mux *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, httpStatus int,
) {
	if probed(ctx, false) {
		return
	}
	if httpStatus == http.StatusMethodNotAllowed {
		answerOtherMethod(mux, w, r.WithContext(ctx))
		return
	}
	answerNoRoute(ctx, w, httpStatus)
}

// answerOtherMethod answers a path that other methods have a route for, or none.
func answerOtherMethod(mux *runtime.ServeMux, w http.ResponseWriter, r *http.Request) {
	allowed := allow(r.Context(), mux, w, r)
	if allowed == "" {
		answerNoRoute(r.Context(), w, http.StatusNotFound)
		return
	}
	w.Header().Set("Allow", allowed)
	answerNoRoute(r.Context(), w, http.StatusMethodNotAllowed)
}

// answerNoRoute answers an unknown path or method.
func answerNoRoute(ctx context.Context, w http.ResponseWriter, httpStatus int) {
	switch httpStatus {
	case http.StatusMethodNotAllowed:
		route.WriteError(ctx, w, httpStatus,
			route.Refuse(codes.Unimplemented, route.ReasonMethod, "this route has no such method; see /openapi.yaml"))
	case http.StatusNotFound:
		route.WriteError(ctx, w, httpStatus, route.Refuse(codes.NotFound, route.ReasonNoRoute, "there is no such route; see /openapi.yaml"))
	default:
		route.WriteError(ctx, w, httpStatus, route.Refuse(codes.InvalidArgument, route.ReasonInvalid, "the path cannot be read"))
	}
}

// queryKey holds the raw query of the request until the call, where the request's fields are known.
type queryKey struct{}

// guarded is a connection on which every call is held to the rules of /v1.
type guarded struct {
	conn  grpc.ClientConnInterface
	rules map[string]rpc.Rule
}

// Invoke implements grpc.ClientConnInterface.
func (g guarded) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	route.EventFrom(ctx).Add(slog.String("rpc", method))
	request, ok := args.(proto.Message)
	principal, known := rpc.PrincipalFrom(ctx)
	if !ok || !known {
		return status.Error(codes.Internal, "a call without a principal: "+method)
	}
	if err := checkQuery(ctx, request); err != nil {
		return err
	}
	rule, ok := g.rules[method]
	if !ok {
		return status.Error(codes.Internal, "no rule for "+method)
	}
	if err := permit(rule, principal, request); err != nil {
		return err
	}
	if err := takeIdempotencyKey(ctx, rule, request); err != nil {
		return err
	}
	// All that a service may know of the caller is the principal and the request id, which the connection adds.
	return withField(g.conn.Invoke(metadata.NewOutgoingContext(ctx, metadata.MD{}), method, args, reply, opts...), request)
}

// NewStream implements grpc.ClientConnInterface. No route of /v1 streams.
func (g guarded) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "no route streams")
}

// checkQuery refuses a query parameter that is no field of the request, or that comes twice: the generated code drops
// the one and takes the last of the other, and a filter that is silently dropped shows too much.
func checkQuery(ctx context.Context, request proto.Message) error {
	raw, _ := ctx.Value(queryKey{}).(string)
	query, err := url.ParseQuery(raw)
	if err != nil {
		return route.Refuse(codes.InvalidArgument, route.ReasonInvalid, "the query cannot be read")
	}
	fields := request.ProtoReflect().Descriptor().Fields()
	for name, values := range query {
		var problem string
		switch field := fields.ByTextName(name); {
		case field == nil:
			problem = fmt.Sprintf("the query has an unknown parameter %q", name)
		case len(values) > 1 && !field.IsList():
			problem = "the query has " + name + " more than once"
		case !utf8.ValidString(strings.Join(values, "")):
			problem = "the query has text in " + name + " that is not UTF-8"
		default:
			continue
		}
		e := route.Refuse(codes.InvalidArgument, route.ReasonInvalid, problem)
		e.Meta = map[string]string{route.MetaField: strings.ToValidUTF8(name, "")}
		return e
	}
	return nil
}

// strict is JSON in proto field names, zero values written out, where unknown and repeated fields are errors.
type strict struct{ *runtime.JSONPb }

func strictJSON() runtime.Marshaler {
	return strict{&runtime.JSONPb{
		MarshalOptions:   protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true},
		UnmarshalOptions: protojson.UnmarshalOptions{DiscardUnknown: false},
	}}
}

// NewDecoder replaces the embedded one, which reads the first JSON value and leaves what trails it. An empty body is an
// empty message: the verbs need none.
func (s strict) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		body, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))) == 0 {
			return io.EOF // which the generated code takes for an empty message
		}
		message, ok := v.(proto.Message)
		if !ok { // a route of http.yaml with one field of the request as its body; there is none
			return fmt.Errorf("cannot decode into %T", v)
		}
		return route.DecodeBody(body, message)
	})
}
