package qstash_test

import (
	"encoding/base64"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/qstash"
)

func TestDecodeFailure(t *testing.T) {
	t.Parallel()
	// As in https://upstash.com/docs/qstash/features/callbacks, shortened: quoted times, a source header as text.
	const documented = `{"status":503,"header":{"Retry-After":["5"]},"body":"ZG93bg==","retried":5,"maxRetries":5,
		"dlqId":"1725323658779-0","sourceMessageId":"msg_1","topicName":"","endpointName":"","url":"https://p.example/hook",
		"method":"POST","sourceHeader":{"content-type":"application/json","Upstash-Label":["a","b"]},"sourceBody":"eyJhIjoxfQ==",
		"notBefore":"1795176000000","createdAt":"1795176000123","scheduleId":"","callerIP":"192.0.2.1"}`
	want := qstash.Failure{
		SourceMessageID: "msg_1", DeadLetterID: "1725323658779-0", URL: "https://p.example/hook",
		SourceHeader: http.Header{"Content-Type": {"application/json"}, "Upstash-Label": {"a", "b"}},
		SourceBody:   []byte(`{"a":1}`),
		Status:       503, Header: http.Header{"Retry-After": {"5"}}, Body: []byte("down"),
		Retried: 5, MaxRetries: 5, CreatedAt: time.UnixMilli(1795176000123).UTC(),
	}

	t.Run("AsDocumented", func(t *testing.T) {
		t.Parallel()
		got, err := qstash.DecodeFailure([]byte(documented))
		require.NoError(t, err)
		require.Equal(t, want, got)
	})

	tolerated := []struct {
		name, body string
		want       qstash.Failure
	}{
		{name: "OnlyTheID", body: `{"sourceMessageId":"m"}`, want: qstash.Failure{}},
		{name: "NumbersAsText", body: `{"sourceMessageId":"m","status":"404","retried":"2","maxRetries":"3"}`, want: qstash.Failure{Status: 404, Retried: 2, MaxRetries: 3}},
		{name: "Nulls", body: `{"sourceMessageId":"m","status":null,"header":null,"body":null,"retried":"","sourceBody":null}`, want: qstash.Failure{}},
		{name: "CutAnswer", body: `{"sourceMessageId":"m","body":"ZG93bg=="}`, want: qstash.Failure{Body: []byte("down")}},
		{name: "CutAnswerAnywhere", body: `{"sourceMessageId":"m","body":"ZG93bmZhb"}`, want: qstash.Failure{Body: []byte("downfa")}},
	}
	for _, c := range tolerated {
		t.Run("Tolerates"+c.name, func(t *testing.T) {
			t.Parallel()
			got, err := qstash.DecodeFailure([]byte(c.body))
			require.NoError(t, err)
			require.Equal(t, "m", got.SourceMessageID)
			require.Equal(t, string(c.want.Body), string(got.Body))
			require.Equal(t, []int{c.want.Status, c.want.Retried, c.want.MaxRetries}, []int{got.Status, got.Retried, got.MaxRetries})
			require.Empty(t, got.SourceBody)
		})
	}

	for name, body := range map[string]string{
		"Empty": ``, "NoObject": `[]`, "NoID": `{"status":500}`, "IDIsNumber": `{"sourceMessageId":1}`,
		"NegativeCount": `{"sourceMessageId":"m","retried":-1}`, "Fraction": `{"sourceMessageId":"m","retried":1.5}`,
		"HugeTime":     `{"sourceMessageId":"m","createdAt":99999999999999999999}`,
		"CutSource":    `{"sourceMessageId":"m","sourceBody":"ZG93bmZhb"}`,
		"HeaderNumber": `{"sourceMessageId":"m","sourceHeader":{"A":1}}`, "HeaderList": `{"sourceMessageId":"m","header":[]}`,
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			t.Parallel()
			_, err := qstash.DecodeFailure([]byte(body))
			require.Error(t, err)
		})
	}
}

func FuzzDecodeFailure(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := qstash.DecodeFailure(body)
		if err != nil {
			return
		}
		require.NotEmpty(t, got.SourceMessageID)
		require.GreaterOrEqual(t, got.Status, 0)
		require.GreaterOrEqual(t, got.Retried, 0)
		require.GreaterOrEqual(t, got.MaxRetries, 0)
		require.False(t, got.CreatedAt.Before(time.UnixMilli(0)))
		for name := range got.SourceHeader {
			require.Equal(t, http.CanonicalHeaderKey(name), name)
		}
		// What was decoded is at most what was there.
		require.LessOrEqual(t, base64.StdEncoding.EncodedLen(len(got.SourceBody)), len(body)+4)
	})
}
