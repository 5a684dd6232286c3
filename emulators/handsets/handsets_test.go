package handsets_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/clock"
	"paceline.internal/emulators/handsets"
	"paceline.internal/emulators/qstash"
	"paceline.internal/emulators/twilio"
)

const (
	number = "+12025550100"
	ana    = "+12025550143"
	bruno  = "+12025550144"
)

func TestHandsets(t *testing.T) {
	t.Parallel()

	type bundle struct {
		clock  *clock.Settable
		twilio *twilio.Emulator
	}
	setup := func(t *testing.T) (http.Handler, *bundle) {
		t.Helper()
		b := &bundle{clock: clock.NewSettable(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
		var err error
		b.twilio, err = twilio.New(twilio.Config{
			Clock: b.clock, AccountSID: "ACfeedfacefeedfacefeedfacefeedface", AuthToken: "token", Numbers: []string{number},
		})
		require.NoError(t, err)
		t.Cleanup(b.twilio.Close)
		alarms := qstash.New(qstash.Config{Clock: b.clock})
		t.Cleanup(alarms.Close)
		return handsets.New(handsets.Config{Twilio: b.twilio, QStash: alarms, Clock: b.clock, Number: number}).Handler(), b
	}
	send := func(t *testing.T, b *bundle, to, body string) *httptest.ResponseRecorder {
		t.Helper()
		form := url.Values{"To": {to}, "From": {number}, "Body": {body}}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
			"/2010-04-01/Accounts/ACfeedfacefeedfacefeedfacefeedface/Messages.json", strings.NewReader(form.Encode()))
		request.SetBasicAuth("ACfeedfacefeedfacefeedfacefeedface", "token")
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer := httptest.NewRecorder()
		b.twilio.ServeHTTP(answer, request)
		return answer
	}
	shown := func(t *testing.T, phones http.Handler, asked ...string) (shown handsets.Shown) {
		t.Helper()
		answer := httptest.NewRecorder()
		phones.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/handsets?"+url.Values{"phone": asked}.Encode(), nil))
		require.Equal(t, http.StatusOK, answer.Code)
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &shown))
		return shown
	}
	change := func(t *testing.T, phones http.Handler, faults string) *httptest.ResponseRecorder {
		t.Helper()
		answer := httptest.NewRecorder()
		phones.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/handsets/faults", strings.NewReader(faults)))
		return answer
	}

	t.Run("EachPhoneShowsWhatItGotAndSentAndNothingOfAnother", func(t *testing.T) {
		t.Parallel()
		phones, b := setup(t)
		require.Equal(t, http.StatusCreated, send(t, b, ana, "Hello").Code)
		require.Equal(t, http.StatusCreated, send(t, b, bruno, "Olá").Code)
		b.clock.Advance(2 * time.Second)
		_, err := b.twilio.Receive(t.Context(), ana, number, "STOP")
		require.NoError(t, err)

		got := shown(t, phones, ana, bruno)
		require.Equal(t, number, got.Number)
		require.True(t, b.clock.Now().Equal(got.Now))
		require.Equal(t, []string{ana, bruno}, got.Phones, "the one that wrote last first")
		require.True(t, got.Handsets[0].Stopped)
		require.False(t, got.Handsets[1].Stopped)
		require.Len(t, got.Handsets[0].Messages, 3)
		first, second, third := got.Handsets[0].Messages[0], got.Handsets[0].Messages[1], got.Handsets[0].Messages[2]
		require.Equal(t, "Hello", first.Body)
		require.Equal(t, twilio.StatusDelivered, first.Status)
		require.Equal(t, []bool{false, false}, []bool{first.Sent, first.Carrier})
		require.Contains(t, []string{second.Body, third.Body}, "STOP")
		require.True(t, second.Sent || third.Sent)
		require.True(t, second.Carrier || third.Carrier, "Twilio's own answer is marked")
		require.Len(t, got.Handsets[1].Messages, 1)
	})
	t.Run("WhatGoesWrongIsSwitchedOnAndOff", func(t *testing.T) {
		t.Parallel()
		phones, b := setup(t)
		require.Equal(t, http.StatusNoContent, change(t, phones, `{"sends":"refused","code":21614}`).Code)
		refused := send(t, b, ana, "Hello")
		require.Equal(t, http.StatusBadRequest, refused.Code)
		require.Contains(t, refused.Body.String(), "21614")
		require.Equal(t, "refused", shown(t, phones).Faults.Sends)

		require.Equal(t, http.StatusNoContent, change(t, phones, `{"sends":"down"}`).Code)
		require.Equal(t, http.StatusServiceUnavailable, send(t, b, ana, "Hello").Code)

		require.Equal(t, http.StatusNoContent, change(t, phones, `{"handset":"undelivered"}`).Code)
		require.Equal(t, http.StatusCreated, send(t, b, ana, "Hello").Code)
		b.clock.Advance(2 * time.Second)
		got := shown(t, phones, ana).Handsets[0].Messages
		require.Len(t, got, 1, "nothing of the messages before")
		require.Equal(t, twilio.StatusUndelivered, got[0].Status)
		require.Equal(t, 30003, got[0].Code)

		require.Equal(t, http.StatusNoContent, change(t, phones, `{}`).Code)
		require.Equal(t, http.StatusCreated, send(t, b, ana, "Hello").Code)
	})
	t.Run("WordsThatAreUnknownChangeNothing", func(t *testing.T) {
		t.Parallel()
		phones, _ := setup(t)
		for _, faults := range []string{`{"sends":"sideways"}`, `{"alarm":"lost"}`, `{"code":7}`, `lost`} {
			require.Equal(t, http.StatusBadRequest, change(t, phones, faults).Code, faults)
		}
		require.Zero(t, shown(t, phones).Faults)
	})
}
