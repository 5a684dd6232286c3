package telemetry_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
)

// The spans that a conversation consists of.
const (
	spanReply   = "onboarding.reply"
	spanStep    = "onboarding.step"
	spanAlarm   = "onboarding.alarm"
	spanPublish = "qstash.publish"
	spanWebhook = "POST /api/onboarding/step"
	spanInbound = "POST /api/webhooks/twilio/inbound"
	spanStatus  = "POST /api/webhooks/twilio/status"
	spanReceipt = "messaging.receipt"
)

func TestTrace(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	c := conversation(t)
	byID, of := map[string]*traces.Span{}, map[string][]*traces.Span{}
	for _, s := range c.spans {
		byID[string(s.GetSpanId())] = s
		if hex.EncodeToString(s.GetTraceId()) == traceOf(c.session) {
			of[s.GetName()] = append(of[s.GetName()], s)
		}
	}
	// way returns the origin of a span, from its root down, of the names above and the send.
	way := func(s *traces.Span) (names []string) {
		for ; s != nil; s = byID[string(s.GetParentSpanId())] {
			switch {
			case strings.HasPrefix(s.GetName(), "onboarding."), strings.HasPrefix(s.GetName(), "POST /"), s.GetName() == spanPublish:
				names = append([]string{s.GetName()}, names...)
			case strings.HasSuffix(s.GetName(), "/Send") && s.GetKind() == traces.Span_SPAN_KIND_SERVER:
				names = append([]string{"send"}, names...)
			}
		}
		return names
	}

	t.Run("OneTraceHasTheWholeConversation", func(t *testing.T) {
		t.Parallel()
		for name, want := range map[string]int{
			"onboarding.opening": 1, spanReply: 3, spanStep: 4, spanAlarm: 4, spanPublish: 4, spanReceipt: 12,
		} {
			require.Len(t, of[name], want, "%s", name)
		}
		for _, s := range c.spans {
			if s.GetName() == spanReceipt || s.GetName() == spanStep {
				require.Contains(t, []string{traceOf(c.session), traceOf(c.goal)}, hex.EncodeToString(s.GetTraceId()), "%s", describe(s))
			}
		}
	})

	t.Run("FromTheReplyThroughEachAlarmToTheSend", func(t *testing.T) {
		t.Parallel()
		ways := map[string]int{}
		for name, spans := range of {
			for _, s := range spans {
				if strings.HasSuffix(name, "/Send") && s.GetKind() == traces.Span_SPAN_KIND_SERVER {
					ways[strings.Join(way(s), " > ")]++
				}
			}
		}
		round := strings.Join([]string{spanAlarm, spanPublish, spanStep}, " > ")
		want, burst := map[string]int{"onboarding.opening > send": 1, spanReply + " > send": 1}, spanReply
		for range 4 {
			burst += " > " + round
			want[burst+" > send"] = 1
		}
		require.Equal(t, want, ways)
	})

	t.Run("EachRequestOfQStashIsLinkedToThePublishThatAskedForIt", func(t *testing.T) {
		t.Parallel()
		linked := map[string]bool{}
		for _, s := range c.spans {
			for _, link := range s.GetLinks() {
				if from := byID[string(link.GetSpanId())]; s.GetName() == spanWebhook && from != nil {
					require.NotEqual(t, traceOf(c.session), hex.EncodeToString(s.GetTraceId()), "the request is not verified yet when its span begins")
					linked[describe(from)] = true
					alarm := way(from)
					require.Equal(t, []string{spanAlarm, spanPublish}, alarm[len(alarm)-2:])
				}
			}
		}
		require.Len(t, linked, 4)
	})

	t.Run("EachReceiptIsLinkedToTheCallbackThatBroughtIt", func(t *testing.T) {
		t.Parallel()
		for _, receipt := range of[spanReceipt] {
			require.Len(t, receipt.GetLinks(), 1)
			from := byID[string(receipt.GetLinks()[0].GetSpanId())]
			require.NotNil(t, from)
			require.Equal(t, []string{spanStatus}, way(from))
		}
	})

	t.Run("TheWebhookOfAReplyIsLinkedBothWays", func(t *testing.T) {
		t.Parallel()
		back := map[string]bool{}
		for _, s := range c.spans {
			for _, link := range s.GetLinks() {
				if s.GetName() != spanReply {
					back[string(link.GetSpanId())] = true
				}
			}
		}
		for _, reply := range of[spanReply] {
			require.Empty(t, reply.GetParentSpanId(), "it begins here")
			require.Len(t, reply.GetLinks(), 1)
			require.True(t, back[string(reply.GetSpanId())])
			from := byID[string(reply.GetLinks()[0].GetSpanId())]
			require.NotNil(t, from)
			require.Equal(t, []string{spanInbound}, way(from))
		}
	})

	t.Run("NothingPersonalIsInAnySpan", func(t *testing.T) {
		t.Parallel()
		for _, s := range c.spans {
			for _, personal := range []string{strings.TrimPrefix(phone, "+"), name, "Delighted"} {
				require.NotContains(t, s.String(), personal)
			}
		}
	})
}
