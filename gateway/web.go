package gateway

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/klauspost/compress/gzhttp"
	"github.com/rs/cors"

	"paceline.internal/gateway/route"
	"paceline.internal/platform/config"
)

// apiMethods lists the methods that a route of /v1 may have.
var apiMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// smallestCompressed is the size from which an answer is compressed: below, it hardly gets smaller and costs the same.
const smallestCompressed = 1 << 10

// preflightSeconds is the time for which a browser may remember the answer about a route.
const preflightSeconds = 600

// forClients adds what clients of the web expect of /v1: answers are compressed for who asks for it, and pages of the origins may call it.
func forClients(origins []config.Origin, next http.Handler) (http.Handler, error) {
	compress, err := gzhttp.NewWrapper(
		gzhttp.MinSize(smallestCompressed), gzhttp.ContentTypes([]string{"application/json", "application/yaml"}), gzhttp.EnableZstd(false))
	if err != nil {
		return nil, fmt.Errorf("compression: %w", err)
	}
	return forPages(origins, compress(next)), nil
}

// forPages lets pages of the origins call from a browser. A caller is known by a bearer token, never by a cookie, so a page can do nothing
// that its own program could not.
func forPages(origins []config.Origin, next http.Handler) http.Handler {
	if len(origins) == 0 {
		return next
	}
	var allowed []string
	for _, origin := range origins {
		allowed = append(allowed, origin.String())
	}
	return cors.New(cors.Options{
		AllowedOrigins: allowed, AllowedMethods: append([]string{http.MethodHead}, apiMethods...),
		AllowedHeaders: []string{"Authorization", "Content-Type", "Last-Event-ID", headerIdempotencyKey, route.HeaderRequestID},
		ExposedHeaders: []string{route.HeaderRequestID, "Retry-After", "Allow", "Location", headerRateLimitPolicy, headerRateLimit},
		MaxAge:         preflightSeconds,
	}).Handler(next)
}

// probeKey marks a request that only asks whether there is a route for it.
type probeKey struct{}

// probed notes that a probe has found its route, and reports whether the request is one.
func probed(ctx context.Context, found bool) bool {
	route, ok := ctx.Value(probeKey{}).(*bool)
	if ok {
		*route = found
	}
	return ok
}

// allow returns the header Allow for the path of a request, https://www.rfc-editor.org/rfc/rfc9110#name-allow: the methods that the
// generated router has a route for, which it does not tell by itself.
func allow(ctx context.Context, mux *runtime.ServeMux, w http.ResponseWriter, r *http.Request) string {
	var methods []string
	for _, method := range apiMethods {
		found := false
		probe := (&http.Request{Method: method, URL: r.URL, Header: http.Header{}}).WithContext(context.WithValue(ctx, probeKey{}, &found))
		mux.ServeHTTP(w, probe) // writes nothing: a probe ends where its route is found, or is not
		if found {
			methods = append(methods, method)
		}
	}
	if slices.Contains(methods, http.MethodGet) {
		methods = append(methods, http.MethodHead)
	}
	return strings.Join(methods, ", ")
}
