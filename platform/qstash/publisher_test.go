package qstash_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"pgregory.net/rapid"

	"paceline.internal/platform/qstash"
)

const (
	origin    = "https://paceline.example"
	label     = "onboarding-step"
	sessionID = "01900000-0000-7000-8000-0000000000b1"
	rawID     = "onboarding-" + sessionID + "-onboarding_message_2-1"
)

// Two kinds of alarm, each with its own failure path.
var (
	step = qstash.Route{Path: "/api/onboarding/step", FailurePath: "/api/onboarding/step/failed", Label: label}
	goal = qstash.Route{Path: "/api/goals/execute", FailurePath: "/api/goals/execute/failed", Label: "goal"}
)

func start() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

func hashKey() []byte { return []byte("a key for hashes of 32 bytes or more") }

// hashed is the hash of rawID, made without the code under test.
func hashed() string {
	mac := hmac.New(sha256.New, hashKey())
	mac.Write([]byte(rawID))
	return hex.EncodeToString(mac.Sum(nil))[:16]
}

// desk is a publisher in front of a QStash that answers as told.
type desk struct {
	*qstash.Publisher

	got   []*http.Request
	log   bytes.Buffer
	spans *tracetest.InMemoryExporter
}

func publisherConfig(client *qstash.Client) qstash.PublisherConfig {
	return qstash.PublisherConfig{
		Client: client, Origin: origin, Routes: []qstash.Route{step, goal}, HashKey: hashKey(), Log: slog.New(slog.DiscardHandler), Now: start,
	}
}

func newDesk(t *testing.T, answer http.HandlerFunc) *desk {
	t.Helper()
	d := &desk{spans: tracetest.NewInMemoryExporter()}
	client := setup(t, func(w http.ResponseWriter, r *http.Request) {
		d.got = append(d.got, r)
		answer(w, r)
	})
	cfg := publisherConfig(client)
	cfg.Log = slog.New(slog.NewJSONHandler(&d.log, nil))
	cfg.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(d.spans))
	var err error
	d.Publisher, err = qstash.NewPublisher(cfg)
	require.NoError(t, err)
	return d
}

func accepted(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte(`{"messageId":"msg_1"}`))
}

func job(t *testing.T) qstash.Job {
	t.Helper()
	id, err := qstash.NewDedupID("onboarding", sessionID, "onboarding_message_2", "1")
	require.NoError(t, err)
	return qstash.Job{Route: step, DedupID: id, Body: []byte(`{}`), Due: start().Add(8 * time.Second)}
}

func TestNewPublisher(t *testing.T) {
	t.Parallel()
	client, err := qstash.New(qstash.Config{Token: token})
	require.NoError(t, err)

	t.Run("S1_31_IsMadeOfAWholeConfiguration", func(t *testing.T) {
		t.Parallel()
		_, err := qstash.NewPublisher(publisherConfig(client))
		require.NoError(t, err)
	})

	for _, tc := range []struct {
		name   string
		change func(*qstash.PublisherConfig)
		want   string
	}{
		{name: "NoClient", change: func(c *qstash.PublisherConfig) { c.Client = nil }, want: "needs a client"},
		{name: "NoOrigin", change: func(c *qstash.PublisherConfig) { c.Origin = "" }, want: "needs the origin"},
		{name: "OriginWithAPath", change: func(c *qstash.PublisherConfig) { c.Origin = origin + "/x" }, want: "bare origin"},
		{name: "NoClock", change: func(c *qstash.PublisherConfig) { c.Now = nil }, want: "a log and a clock"},
		{name: "NoLog", change: func(c *qstash.PublisherConfig) { c.Log = nil }, want: "a log and a clock"},
		{name: "NoRoutes", change: func(c *qstash.PublisherConfig) { c.Routes = nil }, want: "needs a route"},
		{name: "S1_31_BlankLabel", change: func(c *qstash.PublisherConfig) { c.Routes[1].Label = "" }, want: "label of a route"},
		{name: "S1_31_TwoLabelsInOne", change: func(c *qstash.PublisherConfig) { c.Routes[1].Label = "goal,other" }, want: "label of a route"},
		{name: "NoHashKey", change: func(c *qstash.PublisherConfig) { c.HashKey = nil }, want: "under 32 bytes"},
		{name: "ShortHashKey", change: func(c *qstash.PublisherConfig) { c.HashKey = make([]byte, 31) }, want: "under 32 bytes"},
		{name: "NegativeRetries", change: func(c *qstash.PublisherConfig) {
			c.Policy = qstash.Policy{Retries: -1, RetryDelay: "1", Timeout: time.Second}
		}, want: "0 to 20 retries"},
		{name: "NoFailurePath", change: func(c *qstash.PublisherConfig) { c.Routes[1].FailurePath = "" }, want: "at our own origin"},
		{name: "S1_31_FailurePathElsewhere", change: func(c *qstash.PublisherConfig) { c.Routes[1].FailurePath = "//evil.example/x" }, want: "at our own origin"},
	} {
		t.Run(tc.name+"IsRefused", func(t *testing.T) {
			t.Parallel()
			cfg := publisherConfig(client)
			tc.change(&cfg)
			_, err := qstash.NewPublisher(cfg)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestPublisher(t *testing.T) {
	t.Parallel()

	t.Run("S1_07_S1_08_S1_09_EveryJobGetsThePolicy", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, accepted)
		receipt, err := d.Publish(t.Context(), job(t))
		require.NoError(t, err)
		require.Equal(t, qstash.Receipt{MessageID: "msg_1"}, receipt)
		require.Len(t, d.got, 1)
		require.Equal(t, "/v2/publish/"+origin+"/api/onboarding/step", d.got[0].RequestURI)
		for name, want := range map[string]string{
			"Content-Type":                                            "application/json",
			qstash.HeaderRetries:                                      "5",
			qstash.HeaderRetryDelay:                                   "10000 * pow(2, retried)",
			qstash.HeaderTimeout:                                      "30s",
			qstash.HeaderDelay:                                        "8s",
			qstash.HeaderLabel:                                        label,
			qstash.HeaderDeduplicationID:                              rawID,
			qstash.HeaderFailureCallback:                              origin + "/api/onboarding/step/failed",
			"Upstash-Forward-Paceline-Max-Retries":                    "5",
			"Upstash-Forward-Paceline-Dedup-Hash":                     hashed(),
			"Upstash-Failure-Callback-Retries":                        "5",
			"Upstash-Failure-Callback-Retry-Delay":                    "10000 * pow(2, retried)",
			"Upstash-Failure-Callback-Timeout":                        "30s",
			"Upstash-Failure-Callback-Forward-Paceline-Max-Retries":   "5",
			"Upstash-Failure-Callback-Forward-Paceline-Dedup-Hash":    hashed(),
			qstash.HeaderForwardPrefix + qstash.HeaderDeduplicationID: "",
		} {
			require.Equal(t, want, d.got[0].Header.Get(name), name)
		}
	})

	t.Run("S1_09_AJobMayAskForAnotherPolicy", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, accepted)
		j := job(t)
		j.Policy = qstash.Policy{Retries: 0, RetryDelay: "1000", Timeout: 5 * time.Second}
		_, err := d.Publish(t.Context(), j)
		require.NoError(t, err)
		header := d.got[0].Header
		require.Equal(t, []string{"0", "1000", "5s", "0"}, []string{
			header.Get(qstash.HeaderRetries), header.Get(qstash.HeaderRetryDelay), header.Get(qstash.HeaderTimeout),
			header.Get(qstash.HeaderForwardPrefix + qstash.HeaderMaxRetries),
		})
		require.Equal(t, "5", header.Get("Upstash-Failure-Callback-Retries"), "the news of the failure is not given up as soon")
		require.Equal(t, "5", header.Get("Upstash-Failure-Callback-Forward-Paceline-Max-Retries"))
	})

	t.Run("AJobOfAnotherRouteHasAFailurePathOfItsOwn", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, accepted)
		j := job(t)
		j.Route = goal
		_, err := d.Publish(t.Context(), j)
		require.NoError(t, err)
		require.Equal(t, "/v2/publish/"+origin+"/api/goals/execute", d.got[0].RequestURI)
		require.Equal(t, origin+"/api/goals/execute/failed", d.got[0].Header.Get(qstash.HeaderFailureCallback))
		require.Equal(t, "goal", d.got[0].Header.Get(qstash.HeaderLabel))
	})

	t.Run("ItSaysWhenItWasDueAndWhatTraceItIsIn", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, accepted)
		_, err := d.Publish(t.Context(), job(t))
		require.NoError(t, err)
		header, span := d.got[0].Header, d.spans.GetSpans()[0].SpanContext
		require.Equal(t, start().Add(8*time.Second).UTC().Format("2006-01-02T15:04:05.000Z"), header.Get("Upstash-Forward-Paceline-Due"))
		parent := "00-" + span.TraceID().String() + "-" + span.SpanID().String() + "-01"
		require.Equal(t, parent, header.Get("Upstash-Forward-Traceparent"))
		require.Equal(t, parent, header.Get("Upstash-Failure-Callback-Forward-Traceparent"))
	})

	t.Run("AJobThatIsOverdueIsDueNow", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, accepted)
		j := job(t)
		j.Due = start().Add(-time.Hour)
		_, err := d.Publish(t.Context(), j)
		require.NoError(t, err)
		require.Empty(t, d.got[0].Header.Get(qstash.HeaderDelay))
	})

	t.Run("S1_03_ADuplicateIsVisible", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte(`{"messageId":"msg_1","deduplicated":true}`))
		})
		receipt, err := d.Publish(t.Context(), job(t))
		require.NoError(t, err)
		require.Equal(t, qstash.Receipt{MessageID: "msg_1", Deduplicated: true}, receipt)
		require.Contains(t, d.log.String(), `"deduplicated":true`)
		require.True(t, attributes(d.spans.GetSpans()[0].Attributes)["qstash.deduplicated"].AsBool())
	})
}

func TestPublisherTells(t *testing.T) {
	t.Parallel()

	t.Run("S1_16_S1_32_TellsOfThePublishWithTheHashOfItsId", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, accepted)
		_, err := d.Publish(t.Context(), job(t))
		require.NoError(t, err)
		require.Len(t, d.spans.GetSpans(), 1)
		span := d.spans.GetSpans()[0]
		require.Equal(t, "qstash.publish", span.Name)
		require.Equal(t, trace.SpanKindProducer, span.SpanKind)
		require.Equal(t, map[attribute.Key]attribute.Value{
			"qstash.label": attribute.StringValue(label), "qstash.path": attribute.StringValue("/api/onboarding/step"),
			"qstash.max_retries": attribute.IntValue(5), "qstash.dedup_id": attribute.StringValue(hashed()),
			"qstash.message_id": attribute.StringValue("msg_1"), "qstash.deduplicated": attribute.BoolValue(false),
		}, attributes(span.Attributes))
		require.Len(t, span.Events, 1)
		require.Equal(t, "qstash.publish.scheduled", span.Events[0].Name)
		require.Equal(t, int64(8000), attributes(span.Events[0].Attributes)["qstash.delay_ms"].AsInt64())

		var line map[string]any
		require.NoError(t, json.Unmarshal(d.log.Bytes(), &line), "one line")
		delete(line, "time")
		require.Equal(t, map[string]any{
			"level": "INFO", "msg": "qstash.publish.scheduled", "label": label, "path": "/api/onboarding/step", "qstash_message_id": "msg_1",
			"dedup_id": hashed(), "deduplicated": false, "delay_ms": 8000.0, "retries": 5.0,
		}, line)
		require.NotContains(t, d.said(), sessionID)
	})

	t.Run("S1_32_AFailedPublishIsAnErrorOnTheSpanAndNothingScheduled", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"what is ` + rawID + `?"}`))
		})
		_, err := d.Publish(t.Context(), job(t))
		require.Error(t, err)
		span := d.spans.GetSpans()[0]
		require.Equal(t, sdktrace.Status{Code: codes.Error, Description: "status 400"}, span.Status)
		require.Empty(t, span.Events)
		require.Empty(t, d.log.String())
		require.NotContains(t, d.said(), sessionID, "QStash's own words are not on the span either")
	})

	t.Run("NoAnswerIsAnErrorOnTheSpan", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, accepted)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := d.Publish(ctx, job(t))
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, "no answer", d.spans.GetSpans()[0].Status.Description)
	})
}

func TestPublisherRefuses(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		name   string
		change func(*qstash.Job)
		want   string
	}{
		{name: "S1_01_NoDeduplicationId", change: func(j *qstash.Job) { j.DedupID = qstash.DedupID{} }, want: "deduplication id is missing"},
		{name: "S1_31_BlankLabel", change: func(j *qstash.Job) { j.Route.Label = "" }, want: "the route is none of"},
		{name: "S1_31_UnknownLabel", change: func(j *qstash.Job) { j.Route.Label = "onboarding-stop" }, want: "the route is none of"},
		{name: "S1_31_PathElsewhere", change: func(j *qstash.Job) { j.Route.Path = "https://evil.example/api" }, want: "the route is none of"},
		{name: "S1_31_FailurePathOfAnotherRoute", change: func(j *qstash.Job) { j.Route.FailurePath = goal.FailurePath }, want: "the route is none of"},
		{name: "NegativeRetries", change: func(j *qstash.Job) { j.Policy = qstash.DefaultPolicy(); j.Policy.Retries = -1 }, want: "0 to 20 retries"},
		{name: "BlankRetryDelay", change: func(j *qstash.Job) { j.Policy = qstash.DefaultPolicy(); j.Policy.RetryDelay = " " }, want: "a retry delay"},
		{name: "NegativeTimeout", change: func(j *qstash.Job) { j.Policy = qstash.DefaultPolicy(); j.Policy.Timeout = -time.Second }, want: "a timeout of a second"},
	} {
		t.Run(tc.name+"IsRefusedAndNothingIsPublished", func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, accepted)
			j := job(t)
			tc.change(&j)
			_, err := d.Publish(t.Context(), j)
			require.ErrorIs(t, err, qstash.ErrInvalid)
			require.ErrorContains(t, err, tc.want)
			require.Empty(t, d.got)
		})
	}
}

// said is everything that log and spans tell.
func (d *desk) said() string {
	said := d.log.String()
	for _, span := range d.spans.GetSpans() {
		said += span.Name + span.Status.Description
		attrs := span.Attributes
		for _, event := range span.Events {
			said += event.Name
			attrs = append(attrs, event.Attributes...)
		}
		for _, a := range attrs {
			said += " " + string(a.Key) + "=" + a.Value.String()
		}
	}
	return said
}

func attributes(of []attribute.KeyValue) map[attribute.Key]attribute.Value {
	found := map[attribute.Key]attribute.Value{}
	for _, a := range of {
		found[a.Key] = a.Value
	}
	return found
}

func TestDedupID(t *testing.T) {
	t.Parallel()

	t.Run("S1_01_IsJobAndResource", func(t *testing.T) {
		t.Parallel()
		id, err := qstash.NewDedupID("memory_sync", sessionID)
		require.NoError(t, err)
		require.Equal(t, "memory_sync-"+sessionID, id.String())
	})

	t.Run("S1_37_AnotherVersionIsAnotherId", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, rawID, job(t).DedupID.String())
		again, err := qstash.NewDedupID("onboarding", sessionID, "onboarding_message_2", "2")
		require.NoError(t, err)
		require.NotEqual(t, rawID, again.String())
	})

	for _, tc := range []struct {
		name  string
		parts []string
	}{
		{name: "BlankJob", parts: []string{"", "r"}},
		{name: "BlankResource", parts: []string{"job", ""}},
		{name: "SpaceForAResource", parts: []string{"job", " "}},
		{name: "BlankVersion", parts: []string{"job", "r", ""}},
		{name: "ColonInTheJob", parts: []string{"a:b", "r"}},
		{name: "ColonInTheResource", parts: []string{"job", "a:b"}},
		{name: "HyphenInTheJob", parts: []string{"a-b", "r"}},
		{name: "HyphenInAVersion", parts: []string{"job", "r", "a-b"}},
		{name: "OverLong", parts: []string{"job", strings.Repeat("r", 300)}},
	} {
		t.Run("S1_01_"+tc.name+"IsRefused", func(t *testing.T) {
			t.Parallel()
			_, err := qstash.NewDedupID(tc.parts[0], tc.parts[1], tc.parts[2:]...)
			require.ErrorIs(t, err, qstash.ErrInvalid)
		})
	}

	t.Run("S1_02_TimeIsInItOnlyOnRequest", func(t *testing.T) {
		t.Parallel()
		id := job(t).DedupID
		bucket := func(at time.Time) string {
			in, err := id.InBucket(at, time.Hour)
			require.NoError(t, err)
			return in.String()
		}
		require.Equal(t, rawID+"-t"+strconv.FormatInt(start().Unix()/3600, 10), bucket(start()))
		require.Equal(t, bucket(start()), bucket(start().Add(time.Hour-time.Second)))
		require.NotEqual(t, bucket(start()), bucket(start().Add(time.Hour)))
		require.Equal(t, rawID, id.String(), "the id itself has none")
		for _, window := range []time.Duration{0, -time.Hour, time.Millisecond, 1500 * time.Millisecond} {
			_, err := id.InBucket(start(), window)
			require.ErrorIs(t, err, qstash.ErrInvalid)
		}
		_, err := qstash.DedupID{}.InBucket(start(), time.Hour)
		require.ErrorIs(t, err, qstash.ErrInvalid)
	})

	t.Run("S1_01_S1_37_DifferentOperationsNeverShareAnId", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			word, resource := rapid.StringMatching(`[a-c_]{1,3}`), rapid.StringMatching(`[a-c-]{1,4}`)
			n := rapid.IntRange(0, 2).Draw(t, "versions")
			draw := func(name string) []string {
				parts := []string{word.Draw(t, name), resource.Draw(t, name)}
				for range n {
					parts = append(parts, word.Draw(t, name))
				}
				return parts
			}
			a, b := draw("a"), draw("b")
			x, err := qstash.NewDedupID(a[0], a[1], a[2:]...)
			require.NoError(t, err)
			y, err := qstash.NewDedupID(b[0], b[1], b[2:]...)
			require.NoError(t, err)
			require.Equal(t, strings.Join(a, "\x00") == strings.Join(b, "\x00"), x == y)
		})
	})
}

func TestPath(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, path string
		want       bool
	}{
		{name: "Plain", path: "/api/onboarding/step", want: true},
		{name: "Root", path: "/", want: true},
		{name: "Query", path: "/api/jobs?kind=a&n=1", want: true},
		{name: "Escaped", path: "/api/a%20b", want: true},
		{name: "DotsInAName", path: "/api/..a/b..", want: true},
		{name: "Empty", path: ""},
		{name: "Relative", path: "api/onboarding/step"},
		{name: "TwoSlashes", path: "//evil.example/api"},
		{name: "ThreeSlashes", path: "///evil.example"},
		{name: "SlashBackslash", path: `/\evil.example`},
		{name: "AbsoluteURL", path: "https://evil.example/api"},
		{name: "OurOwnURL", path: origin + "/api"},
		{name: "UserPart", path: "@evil.example/api"},
		{name: "Dot", path: "/api/./step"},
		{name: "DotDot", path: "/api/../admin"},
		{name: "DotDotAtTheEnd", path: "/api/.."},
		{name: "EscapedDotDot", path: "/api/%2e%2e/admin"},
		{name: "HalfEscapedDotDot", path: "/api/.%2E/admin"},
		{name: "EscapedSlash", path: "/api%2fadmin"},
		{name: "EscapedSlashesAndDots", path: "/api%2f..%2fadmin"},
		{name: "EscapedBackslash", path: "/api/%5cevil"},
		{name: "DoubleSlashInside", path: "/api//step"},
		{name: "Fragment", path: "/api#step"},
		{name: "EmptyQuery", path: "/api?"},
		{name: "Space", path: "/api/a b"},
		{name: "Newline", path: "/api\r\nHost: evil"},
		{name: "Tab", path: "/\t/evil.example"},
		{name: "NotASCII", path: "/api/é"},
		{name: "BrokenEscape", path: "/api/%zz"},
	} {
		t.Run("S1_31_"+tc.name, func(t *testing.T) {
			t.Parallel()
			called := step
			called.Path = tc.path
			uri, err := publishTo(t, called)
			if tc.want {
				require.NoError(t, err)
				require.Equal(t, "/v2/publish/"+origin+tc.path, uri)
				return
			}
			require.ErrorIs(t, err, qstash.ErrInvalid)
			told := step
			told.FailurePath = tc.path
			_, err = publishTo(t, told)
			require.ErrorIs(t, err, qstash.ErrInvalid)
		})
	}
}

// publishTo publishes a job of a route that may be refused, and returns what QStash is asked for.
func publishTo(t *testing.T, route qstash.Route) (uri string, err error) {
	t.Helper()
	client, err := qstash.New(qstash.Config{Token: token, HTTPClient: &http.Client{Transport: carriedBy(func(r *http.Request) (*http.Response, error) {
		uri = r.URL.RequestURI()
		return answered(), nil
	})}})
	require.NoError(t, err)
	cfg := publisherConfig(client)
	cfg.Routes = []qstash.Route{route}
	publisher, err := qstash.NewPublisher(cfg)
	if err != nil {
		return "", err
	}
	j := job(t)
	j.Route = route
	_, err = publisher.Publish(t.Context(), j)
	require.NoError(t, err, "what the publisher was made with can be published")
	return uri, nil
}

// FuzzPath holds the publisher to its promise: whatever path it takes is called at our origin, and by nothing else's rules
// for dots, slashes and escapes anywhere else.
func FuzzPath(f *testing.F) {
	f.Fuzz(func(t *testing.T, path string) {
		uri, err := publishTo(t, qstash.Route{Path: path, FailurePath: path, Label: label})
		if err != nil {
			require.ErrorIs(t, err, qstash.ErrInvalid)
			return
		}
		require.Equal(t, "/v2/publish/"+origin+path, uri)
		called, err := url.Parse(origin + path)
		require.NoError(t, err)
		require.Equal(t, "paceline.example", called.Host)
		require.Nil(t, called.User)
		require.Empty(t, called.Fragment)
		joined, err := url.Parse(origin + "/somewhere/else")
		require.NoError(t, err)
		joined, err = joined.Parse(path)
		require.NoError(t, err)
		require.Equal(t, origin+path, joined.String())
		decoded, err := url.PathUnescape(strings.ReplaceAll(called.EscapedPath(), `\`, "/"))
		require.NoError(t, err)
		require.Equal(t, called.JoinPath().Path, decoded, "nothing is left to clean")
		require.NotContains(t, decoded, "//")
		require.NotContains(t, decoded, `\`)
	})
}

// FuzzDedupID holds the constructor to what QStash and we rely on.
func FuzzDedupID(f *testing.F) {
	f.Fuzz(func(t *testing.T, job, resource, version string) {
		id, err := qstash.NewDedupID(job, resource, version)
		if err != nil {
			require.ErrorIs(t, err, qstash.ErrInvalid)
			require.Zero(t, id)
			return
		}
		require.Equal(t, job+"-"+resource+"-"+version, id.String())
		require.Regexp(t, `^[A-Za-z0-9._-]{5,256}$`, id.String())
	})
}
