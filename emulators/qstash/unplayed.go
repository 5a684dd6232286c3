package qstash

import (
	"net/http"
	"slices"
	"strings"

	api "paceline.internal/platform/qstash"
)

// notPlayed refuses what QStash has and this emulator has not. It is never ignored: a caller that relies on it must learn so here.
func notPlayed(what string) error {
	return &refusal{status: http.StatusNotImplemented, text: "this emulator does not play " + what}
}

// unplayedPaths are the parts of the API that are not played. They are told by the raw path, before a ServeMux cleans one that ends in a
// URL.
func unplayedPaths() []struct{ prefix, what string } {
	return []struct{ prefix, what string }{
		{"/v2/enqueue", "queues"},
		{"/v2/queues", "queues"},
		{"/v2/schedules", "schedules"},
		{"/v2/topics", "URL groups"},
		{"/v2/flowControl", "flow control"},
		{"/v2/globalParallelism", "flow control"},
		{"/v2/workflows", "workflows"},
		{"/llm", "/llm"},
	}
}

// playedPath refuses a request for a part of the API that is not played.
func playedPath(path string) error {
	for _, unplayed := range unplayedPaths() {
		if below, ok := strings.CutPrefix(path, unplayed.prefix); ok && (below == "" || below[0] == '/') {
			return notPlayed(unplayed.what)
		}
	}
	return nil
}

// headerNames are the headers of a message; each callback has those of settings, under its own prefix.
var (
	settingsHeaders = []string{api.HeaderMethod, api.HeaderRetries, api.HeaderRetryDelay, api.HeaderTimeout}
	messageHeaders  = []string{
		api.HeaderDelay, api.HeaderNotBefore, api.HeaderDeduplicationID, api.HeaderContentBasedDedup, api.HeaderLabel, api.HeaderCallback,
		api.HeaderFailureCallback,
		"Upstash-Callback-Delay", "Upstash-Failure-Callback-Delay", // QStash itself refuses these two
	}
)

const (
	headerPrefix    = "Upstash-"
	telemetryPrefix = "Upstash-Telemetry-" // what an SDK says of itself
)

// playedHeaders refuses a message with a header of QStash's that is not played.
func playedHeaders(h http.Header) error {
	for name := range h {
		if !strings.HasPrefix(name, headerPrefix) || strings.HasPrefix(name, telemetryPrefix) || ofMessage(name) {
			continue
		}
		if strings.HasPrefix(name, "Upstash-Flow-Control-") {
			return notPlayed("flow control")
		}
		return notPlayed(name)
	}
	if strings.Contains(h.Get(api.HeaderLabel), ",") || len(h.Values(api.HeaderLabel)) > 1 {
		return notPlayed("several labels")
	}
	return nil
}

func ofMessage(name string) bool {
	if slices.ContainsFunc(messageHeaders, func(played string) bool { return strings.EqualFold(played, name) }) {
		return true
	}
	for _, prefix := range []string{api.HeaderFailureCallbackPrefix, api.HeaderCallbackPrefix, headerPrefix} {
		own, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		if strings.HasPrefix(own, "Forward-") || slices.ContainsFunc(settingsHeaders, func(played string) bool {
			return strings.EqualFold(played, headerPrefix+own)
		}) {
			return true
		}
	}
	return false
}

// plain lets a call through that has no parameters but those named, no header of a message, and no body. The token may be in the query.
func plain(r *http.Request, parameters []string) error {
	for name := range r.Header {
		if strings.HasPrefix(name, headerPrefix) && !strings.HasPrefix(name, telemetryPrefix) {
			return notPlayed(name + " here")
		}
	}
	for name := range r.URL.Query() {
		if name != tokenParameter && !slices.Contains(parameters, name) {
			return notPlayed("the filter " + name)
		}
	}
	if r.ContentLength != 0 {
		return notPlayed("a body here; name the filters in the query")
	}
	return nil
}
