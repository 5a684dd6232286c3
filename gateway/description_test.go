package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/rpc"
)

// description is /openapi.yaml, read strictly: an answer with a field that it does not have breaks it, though clients are told to expect some.
var description = sync.OnceValues(func() (described, error) { //nolint:gochecknoglobals // read once
	document, err := openapi3.NewLoader().LoadFromData(openAPI)
	if err != nil {
		return described{}, err
	}
	if err := document.Validate(context.Background()); err != nil {
		return described{}, err
	}
	openapi3.DefineStringFormatValidator("uuid", openapi3.NewRegexpFormatValidator(openapi3.FormatOfStringForUUIDOfRFC9562))
	openapi3.DefineStringFormatValidator("uri", openapi3.NewCallbackValidator(func(text string) error {
		_, err := url.ParseRequestURI(text)
		return err
	}))
	openapi3filter.RegisterBodyDecoder("application/yaml", openapi3filter.PlainBodyDecoder)
	nothingElse := false
	for _, schema := range document.Components.Schemas {
		if schema.Value.Type.Is("object") && schema.Value.AdditionalProperties.Has == nil {
			schema.Value.AdditionalProperties.Has = &nothingElse
		}
	}
	document.Servers = nil // else only requests to them have a route
	router, err := gorillamux.NewRouter(document)
	return described{Router: router, failure: document.Components.Schemas["Error"].Value}, err
})

// described are the routes of the description, and its one shape of errors.
type described struct {
	routers.Router
	failure *openapi3.Schema
}

// asDescribed holds an exchange to the description: a request that was done is one that it allows, and each answer is one that it has.
// Callbacks are not in it; of any other path that it does not have nothing comes but an error of its shape.
func asDescribed(t *testing.T, request *http.Request, body []byte, lenient bool, status int, header http.Header, answer []byte) {
	t.Helper()
	router, err := description()
	require.NoError(t, err)
	route, parameters, err := router.FindRoute(request)
	if err != nil && strings.HasPrefix(request.URL.Path, "/api/") {
		return
	}
	if err != nil {
		require.GreaterOrEqual(t, status, http.StatusBadRequest, "%s %s is not described", request.Method, request.URL.Path)
		var failure any
		require.NoError(t, json.Unmarshal(answer, &failure))
		require.NoError(t, router.failure.VisitJSON(failure, openapi3.MultiErrors()))
		return
	}
	for name, value := range parameters {
		parameters[name], err = url.PathUnescape(value)
		require.NoError(t, err)
	}
	request = request.Clone(t.Context())
	request.Body = io.NopCloser(bytes.NewReader(body))
	options := &openapi3filter.Options{
		AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, MultiError: true,
	}
	in := &openapi3filter.RequestValidationInput{Request: request, PathParams: parameters, Route: route, Options: options}
	if status < http.StatusBadRequest && len(body) > 0 {
		request.Header.Set("Content-Type", "application/json") // which the gateway takes it for, whatever curl says
	}
	if status < http.StatusBadRequest && !lenient {
		require.NoError(t, openapi3filter.ValidateRequest(t.Context(), in), "the description has no such request")
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: status, Header: header, Options: options}
	require.NoError(t, openapi3filter.ValidateResponse(t.Context(), out.SetBodyBytes(answer)), "the description has no such answer")
}

// operations returns the operations of the description by id: GET /v1/profiles/{profile_id} is getProfile.
func operations(t testing.TB) map[string]*routers.Route {
	t.Helper()
	document, err := openapi3.NewLoader().LoadFromData(openAPI)
	require.NoError(t, err)
	found := map[string]*routers.Route{}
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			found[operation.OperationID] = &routers.Route{Path: path, Method: method, Operation: operation}
		}
	}
	require.NotEmpty(t, found)
	return found
}

// rpcOf is the method behind an operation, as Service/Method.
func rpcOf(o *routers.Route) string {
	id := o.Operation.OperationID
	return o.Operation.Tags[0] + "Service/" + strings.ToUpper(id[:1]) + id[1:]
}

// TestDescription is about what the golden cases cannot say, which are each held to the description.
func TestDescription(t *testing.T) {
	t.Parallel()

	t.Run("EveryOperationHasGoldenCases", func(t *testing.T) {
		t.Parallel()
		router, err := description()
		require.NoError(t, err)
		done, refused := map[string]bool{}, map[string]bool{}
		files, err := filepath.Glob("testdata/*.yaml")
		require.NoError(t, err)
		for _, file := range files {
			for _, c := range readGolden(t, file) {
				request, err := http.NewRequestWithContext(t.Context(), c.Request.Method, c.Request.Path, nil)
				require.NoError(t, err)
				route, _, err := router.FindRoute(request)
				if err != nil {
					continue
				}
				done[route.Operation.OperationID] = done[route.Operation.OperationID] || c.Want.Status < http.StatusMultipleChoices
				refused[route.Operation.OperationID] = refused[route.Operation.OperationID] || c.Want.Status/100 == 4
			}
		}
		for id, o := range operations(t) {
			if !strings.HasPrefix(o.Path, "/v1/") || streams(o) { // a stream has no answer to compare: event_stream_test.go, devices_test.go
				continue
			}
			require.True(t, done[id], "%s has no golden case that succeeds", id)
			require.True(t, refused[id], "%s has no golden case that is refused", id)
		}
	})

	t.Run("TheSchemaOfFlowsIsTheOneThatTheyAreReadBy", func(t *testing.T) {
		t.Parallel()
		read, err := os.ReadFile("../services/onboarding/flow/flow.schema.json")
		require.NoError(t, err)
		require.Equal(t, string(read), string(flowSchema), "cp services/onboarding/flow/flow.schema.json gateway")
	})

	t.Run("OperationsHaveThePlainNamesOfTheirMethods", func(t *testing.T) {
		t.Parallel()
		for id := range operations(t) {
			require.Regexp(t, `^[a-z]+([A-Z][a-z]+)+(API)?$`, id)
			require.NotContains(t, id, "Service")
		}
	})

	t.Run("EveryOperationIsRefusedAsDescribed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for id, o := range operations(t) {
			if strings.HasPrefix(o.Path, "/v1/") && !streams(o) {
				t.Run(id, func(t *testing.T) {
					t.Parallel()
					b.refusals(t, o)
				})
			}
		}
	})
}

// streams reports whether an operation answers with a stream.
func streams(o *routers.Route) bool {
	success := o.Operation.Responses.Status(http.StatusOK)
	return o.Operation.Responses.Status(http.StatusSwitchingProtocols) != nil || success != nil && success.Value.Content["text/event-stream"] != nil
}

// refusals provokes each error that the description has of an operation.
func (b *bench) refusals(t *testing.T, o *routers.Route) {
	t.Helper()
	path := parameter.ReplaceAllString(strings.ReplaceAll(o.Path, "{phone}", phone), otherProfile)
	answers := map[string]codes.Code{ // of the service
		"403": codes.PermissionDenied, "404": codes.NotFound, "409": codes.AlreadyExists, "429": codes.ResourceExhausted,
		"499": codes.Canceled, "500": codes.Internal, "503": codes.Unavailable, "504": codes.DeadlineExceeded,
	}
	for status := range o.Operation.Responses.Map() {
		if status < "400" {
			continue
		}
		body, query, as, contentType := "", "", bearer(t, "operator"), "application/json"
		if strings.HasPrefix(o.Path, "/v1/organisations") {
			as = bearer(t, "platform")
		}
		if o.Operation.RequestBody != nil {
			body = "{}"
		}
		switch status {
		case "400":
			if query = "?nothing=1"; body != "" {
				body, query = `{"nothing":1}`, ""
			}
		case "401":
			as = ""
		case "413":
			body = strings.Repeat(" ", int(maxBody(o.Path))+1)
		case "415":
			body, contentType = "{}", "text/plain"
		default:
			code, known := answers[status]
			require.True(t, known, "say how to provoke a %s", status)
			b.services.on(rpcOf(o), func(context.Context) (json.RawMessage, error) {
				return nil, &rpc.Error{Code: code, Reason: "REASON_OF_A_TEST", Domain: "paceline.test", Message: "no", RetryAfter: time.Second}
			})
		}
		request, err := http.NewRequestWithContext(t.Context(), o.Method, b.url+path+query, strings.NewReader(body))
		require.NoError(t, err)
		request.Header = http.Header{"Authorization": {as}, "Content-Type": {contentType}}
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		answer, err := io.ReadAll(response.Body)
		require.NoError(t, errors.Join(err, response.Body.Close()))
		require.Equal(t, status, strconv.Itoa(response.StatusCode), "%s", answer)
		asDescribed(t, request, []byte(body), false, response.StatusCode, response.Header, answer)
	}
}
