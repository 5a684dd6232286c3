package handsets

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/clock"
	emulated "paceline.internal/emulators/handsets"
	"paceline.internal/emulators/qstash"
	"paceline.internal/emulators/twilio"
)

// TestPhones holds the page's side of the emulated phones to the emulators' own.
func TestPhones(t *testing.T) {
	t.Parallel()
	const number, ana = "+12025550100", "+12025550143"
	now := clock.NewSettable(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC))
	carrier, err := twilio.New(twilio.Config{Clock: now, AccountSID: "ACfeedfacefeedfacefeedfacefeedface", AuthToken: "token", Numbers: []string{number}})
	require.NoError(t, err)
	t.Cleanup(carrier.Close)
	alarms := qstash.New(qstash.Config{Clock: now})
	t.Cleanup(alarms.Close)
	server := httptest.NewServer(emulated.New(emulated.Config{Twilio: carrier, QStash: alarms, Clock: now, Number: number}).Handler())
	t.Cleanup(server.Close)
	phones := New(server.URL, "", nil)
	t.Cleanup(phones.client.CloseIdleConnections)
	_, err = carrier.Receive(t.Context(), ana, number, "STOP")
	require.NoError(t, err)

	for _, choice := range Choices(Faults{}) {
		for _, word := range choice.Words {
			var f Faults
			switch choice.Name {
			case "sends":
				f.Sends = word
			case "handset":
				f.Handset = word
			case "receipts":
				f.Receipts = word
			case "replies":
				f.Replies = word
			case "alarms":
				f.Alarms = word
			}
			require.NoError(t, phones.change(t.Context(), f), "the emulators do not know %s of %s", word, choice.Name)
			got, err := phones.show(t.Context(), ana)
			require.NoError(t, err)
			require.Equal(t, f, got.Faults)
		}
	}
	require.ErrorIs(t, phones.change(t.Context(), Faults{Sends: "sideways"}), errHandsets)
	got, err := phones.show(t.Context(), ana)
	require.NoError(t, err)
	require.True(t, got.Handsets[0].Stopped)
	require.Len(t, got.Handsets[0].Messages, 2)
	require.True(t, now.Now().Equal(got.Now))

	server.Close()
	_, err = phones.show(t.Context(), ana)
	require.ErrorIs(t, err, errHandsets)
}
