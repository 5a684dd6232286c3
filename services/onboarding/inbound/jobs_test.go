package inbound

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/queue"
)

type purchase struct {
	ID string `json:"id"`
}

func TestTyped(t *testing.T) {
	t.Parallel()
	errHandled := errors.New("handled")
	for _, tt := range []struct {
		name      string
		payload   string
		permanent bool
	}{
		{name: "S2_24_25_HandlerGetsThePayloadDecoded", payload: `{"id":"o1"}`},
		{name: "S2_36_PayloadOfAnotherTypeIsAPermanentFailure", payload: `{"id":1}`, permanent: true},
		{name: "S2_36_UnknownFieldIsAPermanentFailure", payload: `{"id":"o1","more":true}`, permanent: true},
		{name: "S2_36_SomethingBehindThePayloadIsAPermanentFailure", payload: `{"id":"o1"} {}`, permanent: true},
		{name: "S2_36_NoJSONIsAPermanentFailure", payload: `order`, permanent: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			handle := typed(func(_ context.Context, j queue.Job, o purchase) error {
				require.Equal(t, "shopify.orders.create", j.EventType)
				require.Equal(t, purchase{ID: "o1"}, o)
				return errHandled
			})
			err := handle(t.Context(), queue.Job{EventType: "shopify.orders.create", Payload: json.RawMessage(tt.payload)})
			if !tt.permanent {
				require.ErrorIs(t, err, errHandled, "and its error is what the job fails with")
				return
			}
			permanent, ok := errors.AsType[*queue.Permanent](err)
			require.True(t, ok)
			require.ErrorContains(t, permanent, "shopify.orders.create")
		})
	}
}
