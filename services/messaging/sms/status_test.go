package sms_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/services/messaging/sms"
)

func TestParseProviderStatus(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		wire string
		want sms.Status
	}{
		{name: "Accepted", wire: "accepted", want: sms.Accepted},
		{name: "ScheduledIsAccepted", wire: "scheduled", want: sms.Accepted},
		{name: "Queued", wire: "queued", want: sms.Queued},
		{name: "SendingIsQueuedBecauseOurOwnSendingMeansAnAttempt", wire: "sending", want: sms.Queued},
		{name: "Sent", wire: "sent", want: sms.Sent},
		{name: "PartiallyDeliveredIsSent", wire: "partially_delivered", want: sms.Sent},
		{name: "Failed", wire: "failed", want: sms.Failed},
		{name: "CanceledIsFailed", wire: "canceled", want: sms.Failed},
		{name: "Undelivered", wire: "undelivered", want: sms.Undelivered},
		{name: "Delivered", wire: "delivered", want: sms.Delivered},
		{name: "ReadIsDelivered", wire: "read", want: sms.Delivered},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := sms.ParseProviderStatus(tt.wire)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}

	t.Run("UnknownWordIsAnError", func(t *testing.T) {
		t.Parallel()
		for _, wire := range []string{"", "Delivered", "received", "receiving", "unknown", "teleported"} {
			_, err := sms.ParseProviderStatus(wire)
			require.ErrorIs(t, err, sms.ErrStatus, "%q", wire)
		}
	})
}

func TestParseStatus(t *testing.T) {
	t.Parallel()
	for _, want := range sms.Statuses() {
		got, err := sms.ParseStatus(string(want))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := sms.ParseStatus("scheduled")
	require.ErrorIs(t, err, sms.ErrStatus)
}

func TestFinal(t *testing.T) {
	t.Parallel()
	var final []sms.Status
	for _, s := range sms.Statuses() {
		if s.Final() {
			final = append(final, s)
		}
	}
	require.Equal(t, []sms.Status{sms.Failed, sms.Undelivered, sms.Delivered, sms.Received}, final)
}

func TestMergeReceipt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		current  sms.Status
		received sms.Status
		want     sms.Status
	}{
		{name: "AdvancesInTheNormalOrder", current: sms.Sent, received: sms.Delivered, want: sms.Delivered},
		{name: "LateReceiptChangesNothing", current: sms.Delivered, received: sms.Sent, want: sms.Delivered},
		{name: "DeliveryAfterTheCarrierGaveUpWins", current: sms.Undelivered, received: sms.Delivered, want: sms.Delivered},
		{name: "GivingUpAfterDeliveryDoesNot", current: sms.Delivered, received: sms.Failed, want: sms.Delivered},
		{name: "FirstReceiptSettlesALostAnswer", current: sms.Unknown, received: sms.Queued, want: sms.Queued},
		{name: "ReceiptBeforeTheAnswer", current: sms.Sending, received: sms.Sent, want: sms.Sent},
		{name: "ReceiptRefutesARejection", current: sms.Rejected, received: sms.Sent, want: sms.Sent},
		{name: "ReceiptSettlesWhatWasParked", current: sms.Parked, received: sms.Queued, want: sms.Queued},
		{name: "ReceiptRefutesWhatWasGivenUp", current: sms.GivenUp, received: sms.Accepted, want: sms.Accepted},
		{name: "AnswerAfterTheReceiptDoesNotRegress", current: sms.Sent, received: sms.Accepted, want: sms.Sent},
		{name: "InboundNeverChanges", current: sms.Received, received: sms.Delivered, want: sms.Received},
		{name: "NonsenseIsIgnored", current: sms.Accepted, received: "teleported", want: sms.Accepted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, sms.MergeReceipt(tt.current, tt.received))
		})
	}
}

func TestMergeReceiptIsALattice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		status := rapid.SampledFrom(sms.Statuses())
		start := status.Draw(t, "start")
		receipts := rapid.SliceOfN(status, 1, 12).Draw(t, "receipts")
		again := rapid.SliceOf(rapid.SampledFrom(receipts)).Draw(t, "repeated")
		shuffled := rapid.Permutation(append(again, receipts...)).Draw(t, "shuffled")

		inOrder, reordered := start, start
		for _, received := range receipts {
			before := inOrder
			inOrder = sms.MergeReceipt(inOrder, received)
			require.Equal(t, inOrder, sms.MergeReceipt(inOrder, before), "monotone: what it was never comes back")
		}
		for _, received := range shuffled {
			reordered = sms.MergeReceipt(reordered, received)
		}
		require.Equal(t, inOrder, reordered, "every permutation and duplication gives the same status")
	})
}
