package stack

import (
	"encoding/json"
	"errors"
	"net/http"

	"paceline.internal/emulators/handsets"
	"paceline.internal/emulators/twilio"
)

// maxPhoneForm bounds what a person may type into the phone.
const maxPhoneForm = 16 << 10

// withPhones adds the phones to the emulated Twilio. For people at a terminal: POST /phone with From, Body and, unless it
// is the stack's own number, To sends a text as that person and answers what came of it. For the console: /handsets.
func withPhones(v *Vendors) http.Handler {
	mux, carrier := http.NewServeMux(), v.Twilio
	mux.Handle("/", carrier)
	phones := handsets.New(handsets.Config{Twilio: carrier, QStash: v.QStash, Clock: v.clock, Number: FromNumber}).Handler()
	mux.Handle("/handsets", phones)
	mux.Handle("/handsets/", phones)
	mux.HandleFunc("POST /phone", func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxPhoneForm)
		from, to := r.PostFormValue("From"), r.PostFormValue("To")
		if from == "" {
			http.Error(w, "From is missing: the person's phone number", http.StatusBadRequest)
			return
		}
		if to == "" {
			to = FromNumber
		}
		delivery, err := carrier.Receive(r.Context(), from, to, r.PostFormValue("Body"))
		if errors.Is(err, twilio.ErrNotOwned) {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		answer := map[string]any{"message_sid": delivery.MessageSID, "callback_status": delivery.StatusCode, "attempts": len(delivery.Attempts)}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			return // the terminal has gone
		}
	})
	return mux
}
