package stack_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// described is a transport that refuses an answer of the gateway which /openapi.yaml does not have. The gateway's golden cases hold its
// own part to the description; here the real answers of the services are held to it.
type described struct{ *http.Transport }

var description = sync.OnceValues(func() (routers.Router, error) { //nolint:gochecknoglobals // read once
	text, err := os.ReadFile("../../gateway/gen/openapi.yaml")
	if err != nil {
		return nil, err
	}
	document, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	nothingElse := false
	for _, schema := range document.Components.Schemas {
		if schema.Value.Type.Is("object") && schema.Value.AdditionalProperties.Has == nil {
			schema.Value.AdditionalProperties.Has = &nothingElse
		}
	}
	document.Servers = nil // else only requests to them have a route
	return gorillamux.NewRouter(document)
})

// RoundTrip implements http.RoundTripper.
func (d described) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := d.Transport.RoundTrip(request)
	if err != nil || !strings.HasPrefix(request.URL.Path, "/v1/") || response.Header.Get("Content-Type") != "application/json" {
		return response, err
	}
	router, err := description()
	if err != nil {
		return nil, errors.Join(err, response.Body.Close())
	}
	route, _, err := router.FindRoute(request)
	if err != nil { // there is no such route
		return response, nil //nolint:nilerr // nothing is said of it
	}
	answer, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(answer))
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: request, Route: route},
		Status:                 response.StatusCode, Header: response.Header, Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if err := openapi3filter.ValidateResponse(context.WithoutCancel(request.Context()), out.SetBodyBytes(answer)); err != nil {
		return nil, fmt.Errorf("/openapi.yaml has no such answer: %w", err)
	}
	return response, nil
}
