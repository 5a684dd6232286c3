package twilio

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// numbers are all of the account's, those in messaging services too.
func (a *Account) numbers() []string {
	all := slices.Clone(a.Numbers)
	for _, service := range slices.Sorted(maps.Keys(a.Services)) {
		all = append(all, a.Services[service]...)
	}
	return all
}

// listNumbers shows the account's phone numbers that have what PhoneNumber says in them. Source:
// https://www.twilio.com/docs/phone-numbers/api/incomingphonenumber-resource
func (e *Emulator) listNumbers(w http.ResponseWriter, r *http.Request) {
	query, caller := r.URL.Query(), callerOf(r)
	part := query.Get("PhoneNumber")
	all := []map[string]any{}
	for i, number := range caller.numbers() {
		if isShortCode(number) || !strings.Contains(number, part) {
			continue
		}
		all = append(all, map[string]any{
			"sid": fmt.Sprintf("PN%032x", i+1), "account_sid": caller.SID, "phone_number": number, "friendly_name": number,
		})
	}
	size, page, from, to := paging(query, len(all))
	at := func(page int) string {
		q := url.Values{"PageSize": {strconv.Itoa(size)}, "Page": {strconv.Itoa(page)}}
		if part != "" {
			q.Set("PhoneNumber", part)
		}
		return caller.path("/IncomingPhoneNumbers.json?") + q.Encode()
	}
	var next, previous *string
	if to < len(all) {
		next = new(at(page + 1))
	}
	if page > 0 {
		previous = new(at(page - 1))
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"incoming_phone_numbers": all[from:to], "page": page, "page_size": size, "start": from, "end": max(from, to-1),
		"first_page_uri": at(0), "next_page_uri": next, "previous_page_uri": previous, "uri": at(page),
	})
}
