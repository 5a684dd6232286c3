package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"paceline.internal/platform/rpc"
)

// libraryWords matches words of Go and its libraries, which no caller should read. Quoted text is the caller's.
var libraryWords = regexp.MustCompile(`strconv|[Uu]nmarshal|invalid character|proto:|json:|syntax error|unexpected EOF|runtime error|\bnil\b|goroutine|0x[0-9a-f]{6}`)

var quoted = regexp.MustCompile(`"(\\.|[^"\\])*"`)

// requireOneShape holds an answer that is no success to the one shape of errors.
func requireOneShape(t *testing.T, w *httptest.ResponseRecorder, what string) {
	t.Helper()
	require.Less(t, w.Code, http.StatusInternalServerError, "%s: %s", what, w.Body)
	if w.Code < http.StatusBadRequest {
		return
	}
	require.Equal(t, "application/json", w.Header().Get("Content-Type"), what)
	var answer map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), what)
	router, err := description()
	require.NoError(t, err)
	require.NoError(t, router.failure.VisitJSON(answer), "%s: %s", what, w.Body)
	message, _ := answer["message"].(string)
	require.NotRegexp(t, libraryWords, quoted.ReplaceAllString(message, ""), what)
}

// ask sends a request with the path as it is written.
func ask(t *testing.T, to http.Handler, as, method, target string, header http.Header, body []byte) *httptest.ResponseRecorder {
	t.Helper()
	w, request := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway/", bytes.NewReader(body))
	request.Method, request.RequestURI = method, target
	parsed, err := url.ParseRequestURI(target)
	if err != nil {
		t.Skip("the server of net/http answers it")
	}
	request.URL = parsed
	request.Header = header
	request.Header.Set("Authorization", as)
	to.ServeHTTP(w, request)
	return w
}

// paths lists the paths of all routes of /v1, with ids in them, in order; it leaves out routes that stream.
func paths(t testing.TB) (all []string) {
	t.Helper()
	for _, o := range routes(t) {
		path := parameter.ReplaceAllString(strings.ReplaceAll(o.Path, "{phone}", phone), otherProfile)
		if !slices.Contains(all, path) {
			all = append(all, path)
		}
	}
	slices.Sort(all)
	return all
}

// TestRoutesAnswerInOneShape asks every path of /v1 in the ways that a router, a proxy or a client may get wrong.
func TestRoutesAnswerInOneShape(t *testing.T) {
	t.Parallel()
	b := setup(t)
	methods := map[string][]string{}
	for _, o := range routes(t) {
		path := parameter.ReplaceAllString(strings.ReplaceAll(o.Path, "{phone}", phone), otherProfile)
		methods[path] = append(methods[path], o.Method)
	}
	gzipped := http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}
	for path, allowed := range methods {
		t.Run(strings.ReplaceAll(path, "/", " "), func(t *testing.T) {
			t.Parallel()
			as := bearer(t, "operator")
			if strings.HasPrefix(path, "/v1/organisations") {
				as = bearer(t, "platform")
			}
			answers := func(want int, method, target string, header http.Header, body string) *httptest.ResponseRecorder {
				w := ask(t, b.handler, as, method, target, header, []byte(body))
				require.Equal(t, want, w.Code, "%s %s: %s", method, target, w.Body)
				requireOneShape(t, w, method+" "+target)
				return w
			}
			for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "BREW"} {
				served := slices.Contains(allowed, method) || method == "HEAD" && slices.Contains(allowed, "GET")
				if served {
					continue
				}
				w := answers(http.StatusMethodNotAllowed, method, path, http.Header{}, "")
				for _, method := range allowed {
					require.Contains(t, w.Header().Get("Allow"), method)
				}
			}
			json := http.Header{"Content-Type": {"application/json"}}
			answers(http.StatusNotFound, allowed[0], path+"/", json.Clone(), "")
			answers(http.StatusNotFound, allowed[0], "/v1%2f"+path[len("/v1/"):], json.Clone(), "")
			if allowed[0] == "GET" || allowed[0] == "DELETE" {
				return
			}
			answers(http.StatusUnsupportedMediaType, allowed[0], path, gzipped.Clone(), "{}")
			answers(http.StatusUnsupportedMediaType, allowed[0], path, http.Header{"Content-Type": {"text/xml"}}, "{}")
			answers(http.StatusBadRequest, allowed[0], path, json.Clone(), "\x1f\x8b\x08")
			answers(http.StatusBadRequest, allowed[0], path, json.Clone(), `{"\ud800":1}`)
			require.Less(t, ask(t, b.handler, as, allowed[0], path, json.Clone(), []byte("\ufeff{}")).Code, http.StatusMultipleChoices)
		})
	}
}

// answering is a service that answers every call with an empty message.
type answering struct{ grpc.ClientConnInterface }

func (answering) Invoke(context.Context, string, any, any, ...grpc.CallOption) error { return nil }

// unguarded is /v1 of an operator, without tokens and the network.
func unguarded(f *testing.F) http.Handler {
	f.Helper()
	api, err := newAPI(f.Context(), answering{}, answering{})
	require.NoError(f, err)
	api, err = forClients(nil, api)
	require.NoError(f, err)
	return cleanOnly(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.ServeHTTP(w, r.WithContext(rpc.WithPrincipal(r.Context(), rpc.Principal{Subject: "ada", OrgID: orgID, Role: rpc.RoleOperator})))
	}))
}

// FuzzRoutes asks any route of /v1 anything. The services answer everything, so no answer may be a 5xx, and each refusal has the one shape.
func FuzzRoutes(f *testing.F) {
	f.Add(uint8(0), "GET", "", "page_size=x", "application/json", "", []byte(nil))
	f.Add(uint8(3), "POST", "/", "", "application/json", "gzip", []byte("{}"))
	f.Add(uint8(7), "PATCH", "%2f", "a=%zz", "text/plain", "", []byte(`{"a":"\ud800"}`))
	f.Add(uint8(9), "POST", ":x", "", "", "", []byte("\ufeff{\"phone\":{}}"))
	api, all := unguarded(f), paths(f)
	f.Fuzz(func(t *testing.T, route uint8, method, suffix, query, contentType, encoding string, body []byte) {
		target := all[int(route)%len(all)] + suffix
		if query != "" {
			target += "?" + query
		}
		header := http.Header{"Content-Type": {contentType}, "Content-Encoding": {encoding}}
		requireOneShape(t, ask(t, api, "", method, target, header, body), method+" "+target)
	})
}
