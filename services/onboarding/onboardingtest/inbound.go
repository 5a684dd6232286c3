package onboardingtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"paceline.internal/platform/queue"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// DeadLetters lists dead letters as an operator.
func (b *Bundle) DeadLetters(in *onboardingv1.ListDeadLettersRequest) []*onboardingv1.DeadLetter {
	b.T.Helper()
	var found []*onboardingv1.DeadLetter
	for {
		out, err := Ask(b, b.Current().Server.ListDeadLetters, in)
		require.NoError(b.T, err)
		found = append(found, out.GetDeadLetters()...)
		if in.PageToken = out.GetNextPageToken(); in.GetPageToken() == "" {
			return found
		}
	}
}

// Replay replays a dead letter as an operator.
func (b *Bundle) Replay(deadLetter *onboardingv1.DeadLetter) *onboardingv1.ReplayDeadLetterResponse {
	b.T.Helper()
	out, err := Ask(b, b.Current().Server.ReplayDeadLetter, &onboardingv1.ReplayDeadLetterRequest{DeadLetterId: deadLetter.GetDeadLetterId()})
	require.NoError(b.T, err)
	require.Equal(b.T, out.GetAlarmSet(), out.GetSkipReason() == "")
	return out
}

// GivesUp has QStash report a dead letter: by default for the step that is due in r.
func (b *Bundle) GivesUp(r session.Record, body []byte) *onboardingv1.DeadLetter {
	b.T.Helper()
	if body == nil {
		var err error
		body, err = session.NewStepPayload(r.ProfileID, r.ID, r.NextStep).Encode()
		require.NoError(b.T, err)
	}
	n := b.Serial.Add(1)
	_, err := b.Current().Server.RecordStepFailure(b.T.Context(), &onboardingv1.RecordStepFailureRequest{
		SourceMessageId: fmt.Sprintf("msg_%d", n), DlqId: fmt.Sprintf("%d-0", n), DeliveryId: fmt.Sprintf("msg_failure_%d", n), SourceBody: body,
		Status: 503, Body: []byte("later"), Retried: 5,
	})
	require.NoError(b.T, err)
	return b.DeadLetters(&onboardingv1.ListDeadLettersRequest{})[0]
}

// Job returns the id of the one open job.
func (b *Bundle) Job() (id string) {
	b.T.Helper()
	require.NoError(b.T, b.Pool.QueryRow(b.T.Context(), `select id::text from webhook_jobs where status in ('pending', 'processing')`).Scan(&id))
	return id
}

// Cancels cancels a job as an operator.
func (b *Bundle) Cancels(id string) error {
	row, err := b.Current().Inbound.Cancel(b.T.Context(), OrgID, id)
	if err == nil {
		require.Equal(b.T, queue.StatusCancelled, row.Status)
	}
	return err
}

// SweepEvery is the interval of the inbound sweep in tests.
const SweepEvery = 5 * time.Minute

// Measured gives a process new metrics, and returns their reader.
func (b *Bundle) Measured(p *Running) *sdkmetric.ManualReader {
	b.T.Helper()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	b.T.Cleanup(func() { require.NoError(b.T, provider.Shutdown(context.WithoutCancel(b.T.Context()))) })
	var err error
	p.Inbound.Metrics, err = inbound.NewMetrics(provider.Meter("test"))
	require.NoError(b.T, err)
	return reader
}

// Sweep has the current process sweep for missed texts until the present.
func (b *Bundle) Sweep() *sdkmetric.ManualReader {
	b.T.Helper()
	service := b.Current().Inbound
	metrics := b.Measured(b.Current())
	for more := true; more; {
		var err error
		more, err = service.SweepInbound(b.T.Context(), SweepEvery)
		require.NoError(b.T, err)
	}
	return metrics
}

// Unheard adds a text that Twilio has but does not post to us.
func (b *Bundle) Unheard(p people.Profile, body string) *messagingv1.InboundText {
	return b.Messaging.Hear(&messagingv1.InboundText{
		TwilioSid: fmt.Sprintf("SM%032d", b.Serial.Add(1)), From: p.Phone, To: Ours, Body: body, Segments: 1,
	}, b.Clock.Now())
}

// Counted sums the points of a counter that have an attribute.
func Counted(t *testing.T, reader *sdkmetric.ManualReader, name, key, value string) (n int64) {
	t.Helper()
	var got metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &got))
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			for i := 0; ok && m.Name == name && i < len(sum.DataPoints); i++ {
				if v, has := sum.DataPoints[i].Attributes.Value(attribute.Key(key)); key == "" || has && v.AsString() == value {
					n += sum.DataPoints[i].Value
				}
			}
		}
	}
	return n
}

// Play has a cause happen to a person in a process with these ports until it succeeds, then once more in a healthy one.
func (b *Bundle) Play(p *Ports, person people.Profile, causeOf func(people.Profile) func() error) {
	b.T.Helper()
	b.Serve(b.Start(p))
	cause := causeOf(person)
	for try := 1; cause() != nil; try++ {
		require.Less(b.T, try, 5)
	}
	b.Quiet()
	b.Serve(b.Start(b.Healthy()))
	require.NoError(b.T, cause())
	b.Quiet()
	require.Zero(b.T, b.Count(`select count(*) from webhook_jobs where status = 'failed'`))
}
