package qstash_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/platform/qstash"
)

func item01Authentication(t *testing.T) {
	t.Parallel()
	const unsigned = "/v2/publish/http://127.0.0.1:1/never"
	cases := []struct {
		name, path, authorization string
		want                      int
	}{
		{name: "Bearer", path: "/v2/keys", authorization: "Bearer " + emulator.DevToken, want: 200},
		{name: "QueryParameter", path: "/v2/keys?qstash_token=" + emulator.DevToken, want: 200},
		{name: "Missing", path: "/v2/keys", want: 401},
		{name: "WrongToken", path: "/v2/keys", authorization: "Bearer wrong", want: 401},
		{name: "OtherScheme", path: "/v2/keys", authorization: "Basic " + emulator.DevToken, want: 401},
		{name: "PublishWithoutToken", path: unsigned, want: 401},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			method := http.MethodGet
			if c.path == unsigned {
				method = http.MethodPost
			}
			status, answer := r.raw(method, c.path, map[string]string{"Authorization": c.authorization}, "")
			require.Equal(t, c.want, status)
			if c.want == 401 {
				require.NotEmpty(t, answer["error"])
			}
			require.Empty(t, r.emulator.Record().Of(emulator.Published))
		})
	}

	t.Run("TokenInTheQueryDoesNotReachTheDestination", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		path := "/v2/publish/" + r.dest.url + "/hook?a=1&qstash_token=" + emulator.DevToken + "&upstash-retries=0&b=2"
		status, _ := r.raw(http.MethodPost, path, map[string]string{"Authorization": ""}, "")
		require.Equal(t, 200, status)
		r.idle()
		require.Equal(t, "/hook?a=1&b=2", r.dest.only(t).uri)
	})
}

func item02DestinationArrivesVerbatim(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, uri string }{
		{name: "Plain", uri: "/hook"},
		{name: "Query", uri: "/hook?x=1&y=2"},
		{name: "EncodedSlash", uri: "/a%2Fb/c"},
		{name: "EncodedSpaceInQuery", uri: "/hook?name=a%20b+c"},
		{name: "DoubledSlash", uri: "/a//b"},
		{name: "DotSegments", uri: "/a/../b/./c"},
		{name: "URLInTheQuery", uri: "/hook?next=https://example.com/x"},
		{name: "TrailingSlash", uri: "/hook/"},
		{name: "BareQuestionMark", uri: "/hook?"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			m := r.message("a")
			m.Destination = r.dest.url + c.uri
			r.publish(m)
			r.idle()
			require.Equal(t, c.uri, r.dest.only(t).uri)
			require.Equal(t, m.Destination, r.emulator.Record().Of(emulator.Published)[0].URL)
		})
	}
}

func item03InvalidScheme(t *testing.T) {
	t.Parallel()
	for name, destination := range map[string]string{
		"NoScheme": "example.com/hook", "OtherScheme": "ftp://example.com/hook",
		"PathInTheConfiguredURL": "v2/publish/https://example.com/hook",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			status, answer := r.raw(http.MethodPost, "/v2/publish/"+destination, nil, "")
			require.Equal(t, 400, status)
			require.Contains(t, answer["error"], "endpoint has invalid scheme, add http:// or https://")
		})
	}
}

func item04BodyAndContentType(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, contentType string
		body              []byte
	}{
		{name: "JSON", contentType: "application/json; charset=utf-8", body: []byte("{ \"a\" : 1 }\n")},
		{name: "Empty", contentType: "text/plain"},
		{name: "Binary", contentType: "application/octet-stream", body: []byte{0, 255, 13, 10, 0x80}},
		{name: "NoContentType", body: []byte("plain")},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			m := r.message("a")
			m.Body, m.ContentType = c.body, c.contentType
			r.publish(m)
			r.idle()
			got := r.dest.only(t)
			require.Equal(t, string(c.body), string(got.body))
			require.Equal(t, c.contentType, got.header.Get("Content-Type"))
		})
	}
}

func item05ForwardedHeaders(t *testing.T) {
	t.Parallel()
	r := setup(t)
	m := r.message("a")
	m.ForwardHeaders = map[string]string{"X-Org": "o1", "Traceparent": "00-abc", "Upstash-Message-Id": "forged"}
	receipt := r.publish(m)
	r.idle()

	got := r.dest.only(t)
	require.Equal(t, "o1", got.header.Get("X-Org"))
	require.Equal(t, "00-abc", got.header.Get("Traceparent"))
	require.Equal(t, []string{receipt.MessageID}, got.header.Values(qstash.HeaderMessageID))
	require.Empty(t, got.header.Get("Authorization"), "our own token is not forwarded")
	require.Empty(t, got.header.Get(qstash.HeaderDeduplicationID))
	require.Equal(t, "Upstash-QStash", got.header.Get("User-Agent"))
	require.Equal(t, "EU-CENTRAL-1", got.header.Get(qstash.HeaderRegion))
	require.Equal(t, "127.0.0.1", got.header.Get(qstash.HeaderCallerIP))

	_, _ = r.rawPublish(map[string]string{"Upstash-Forward-Authorization": "Bearer theirs", "X-Private": "no"})
	r.idle()
	second := r.dest.received()[1]
	require.Equal(t, "Bearer theirs", second.header.Get("Authorization"), "one that is asked for is")
	require.Empty(t, second.header.Get("X-Private"))
}

func item06Method(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			status, _ := r.rawPublish(map[string]string{"Upstash-Method": method})
			require.Equal(t, 200, status)
			r.idle()
			require.Equal(t, method, r.dest.only(t).method)
		})
	}
	t.Run("Unknown", func(t *testing.T) {
		t.Parallel()
		status, _ := setup(t).rawPublish(map[string]string{"Upstash-Method": "BREW"})
		require.Equal(t, 400, status)
	})
	t.Run("DefaultsToPOST", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		r.publish(r.message("a"))
		r.idle()
		require.Equal(t, "POST", r.dest.only(t).method)
	})
}

func item07DelayGrammar(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]time.Duration{
		"0s": 0, "8s": 8 * time.Second, "2m": 2 * time.Minute, "3h": 3 * time.Hour, "4d": 96 * time.Hour,
		"1d10h30m": 34*time.Hour + 30*time.Minute, "1h1s": time.Hour + time.Second,
	} {
		t.Run(raw, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			status, _ := r.rawPublish(map[string]string{"Upstash-Delay": raw})
			require.Equal(t, 200, status)
			r.run(want - time.Second)
			if want > 0 {
				require.Empty(t, r.dest.received())
				r.run(time.Second)
			}
			require.Len(t, r.dest.received(), 1)
			require.Equal(t, []time.Duration{want}, r.attempts())
		})
	}
	for _, raw := range []string{"8", "s", "1.5s", "8 s", "-1s", "8w", "8S", "8s!", "99999999999s", "999999999d", "366d"} {
		t.Run("Rejects_"+raw, func(t *testing.T) {
			t.Parallel()
			status, answer := setup(t).rawPublish(map[string]string{"Upstash-Delay": raw})
			require.Equal(t, 400, status)
			require.NotEmpty(t, answer["error"])
		})
	}
}

func item08NotBefore(t *testing.T) {
	t.Parallel()
	unix := func(d time.Duration) string { return strconv.FormatInt(start.Add(d).Unix(), 10) }
	cases := []struct {
		name, notBefore, delay string
		want                   time.Duration
	}{
		{name: "UnixSeconds", notBefore: unix(90 * time.Second), want: 90 * time.Second},
		{name: "WinsOverDelay", notBefore: unix(5 * time.Second), delay: "1h", want: 5 * time.Second},
		{name: "PastIsNow", notBefore: unix(-time.Hour), want: 0},
		{name: "PastWinsOverDelayToo", notBefore: unix(-time.Hour), delay: "1h", want: 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			status, _ := r.rawPublish(map[string]string{"Upstash-Not-Before": c.notBefore, "Upstash-Delay": c.delay})
			require.Equal(t, 200, status)
			r.run(2 * time.Hour)
			require.Equal(t, []time.Duration{c.want}, r.attempts())
		})
	}
	t.Run("Garbage", func(t *testing.T) {
		t.Parallel()
		status, _ := setup(t).rawPublish(map[string]string{"Upstash-Not-Before": "tomorrow"})
		require.Equal(t, 400, status)
	})
}
