package twilio

import (
	"fmt"
	"net/http"
	"strings"
)

// listNumbers shows the account's phone numbers that have what PhoneNumber says in them, on one page. Source:
// https://www.twilio.com/docs/phone-numbers/api/incomingphonenumber-resource
func (e *Emulator) listNumbers(w http.ResponseWriter, r *http.Request) {
	part := r.URL.Query().Get("PhoneNumber")
	listed := []map[string]any{}
	for i, number := range e.cfg.Numbers {
		if isShortCode(number) || !strings.Contains(number, part) {
			continue
		}
		listed = append(listed, map[string]any{
			"sid": fmt.Sprintf("PN%032x", i+1), "account_sid": e.cfg.AccountSID, "phone_number": number, "friendly_name": number,
		})
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"incoming_phone_numbers": listed, "page": 0, "page_size": defaultPage, "start": 0, "end": max(0, len(listed)-1),
		"first_page_uri": r.URL.RequestURI(), "next_page_uri": nil, "previous_page_uri": nil, "uri": r.URL.RequestURI(),
	})
}
