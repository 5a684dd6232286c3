package inbound

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/people"
)

// receipts answers every receipt with the same error.
type receipts struct {
	carrier

	err error
}

func (r receipts) RecordStatus(context.Context, KapsoStatus) (bool, error) {
	return r.err == nil, r.err
}

// strangers is a store that knows none of the phones.
type strangers struct{ store }

func (strangers) Conversation(context.Context, string, string) (conversation.View, error) {
	return conversation.View{}, nil
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	handle := func(err error, event, payload string) error {
		now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		c := New(Config{Carrier: receipts{err: err}, Store: strangers{}, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
		handler, ok := c.Handlers()[event]
		require.True(t, ok, event)
		return handler(t.Context(), queue.Job{EventType: event, Payload: []byte(payload), CreatedAt: now})
	}
	const status = `{"message_id":"wamid.1","status":"delivered","error_code":0,"phone_number_id":"1","at":"2"}`

	t.Run("S2_28_EveryEventOfKapsoHasItsHandler", func(t *testing.T) {
		t.Parallel()
		for _, event := range []string{"sent", "delivered", "read", "failed"} {
			require.NoError(t, handle(nil, "kapso.message."+event, status))
		}
		require.Contains(t, New(Config{}).Handlers(), "kapso.message.received", "as every message of a person")
		require.NoError(t, handle(nil, "kapso.phone_number.created", `{"phone_number_id":"1","anything":"new"}`))
	})
	t.Run("S2_36_APayloadThatIsNoneFailsAtOnce", func(t *testing.T) {
		t.Parallel()
		for _, payload := range []string{`[]`, `{}`, `{"message_id":"wamid.1"}`, `{"message_id":1,"status":"sent"}`} {
			var permanent *queue.Permanent
			require.ErrorAs(t, handle(nil, "kapso.message.failed", payload), &permanent)
		}
	})
	t.Run("S2_24_25_ASurveysAnswerHasATypedHandler", func(t *testing.T) {
		t.Parallel()
		for _, payload := range []string{
			`{"score":9,"feedback":"Great service!"}`, `{"score":0}`, `{"score":10,"feedback":"","phone_number_id":"1","anything":{"new":1}}`,
		} {
			require.NoError(t, handle(nil, "kapso.survey.response", payload))
		}
		for _, payload := range []string{`[]`, `{}`, `{"feedback":"x"}`, `{"score":"9"}`, `{"score":11}`, `{"score":-1}`, `{"score":9.5}`, `{"score":9,"feedback":1}`} {
			var permanent *queue.Permanent
			require.ErrorAs(t, handle(nil, "kapso.survey.response", payload), &permanent, payload)
		}
	})
	t.Run("S2_25_MessagingThatCannotBeReachedIsWaitedFor", func(t *testing.T) {
		t.Parallel()
		var snooze *queue.Snooze
		require.ErrorAs(t, handle(people.ErrUnavailable, "kapso.message.sent", status), &snooze)
		defect := errors.New("a defect")
		require.ErrorIs(t, handle(defect, "kapso.message.sent", status), defect)
	})
	t.Run("S2_36_WhatTheLawAsksIsForAnOperator", func(t *testing.T) {
		t.Parallel()
		for _, topic := range []string{"customers/data_request", "customers/redact", "shop/redact"} {
			var permanent *queue.Permanent
			err := handle(nil, "shopify."+topic, `{"body":{"customer":{"email":"a@example.com"}}}`)
			require.ErrorAs(t, err, &permanent)
			require.ErrorContains(t, err, "needs an operator")
		}
		for _, topic := range []string{"customers/data_request", "customers/redact"} {
			err := handle(nil, "shopify."+topic, `{"body":{"customer":{"phone":"+1 202 555 0143"}}}`)
			require.ErrorContains(t, err, "needs an operator: no profile has the customer's phone", "but texts may be here all the same")
		}
		require.NoError(t, handle(nil, "shopify.app/uninstalled", `{"topic":"app/uninstalled","shop_domain":"x","webhook_id":"1","body":{}}`))
	})
}
