package twilio

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// senders is one kind of a messaging service's senders, as messaging.twilio.com lists it. Source:
// https://www.twilio.com/docs/messaging/api/phonenumber-resource
type senders struct {
	collection, key, field, prefix string
	has                            func(sender string) bool
}

func phoneNumbers() senders {
	return senders{"PhoneNumbers", "phone_numbers", "phone_number", "PN", func(s string) bool { return !isShortCode(s) }}
}

func shortCodes() senders {
	return senders{"ShortCodes", "short_codes", "short_code", "SC", isShortCode}
}

// pageMeta is the paging information of this API: whole URLs, under their own key.
type pageMeta struct {
	Page     int     `json:"page"`
	PageSize int     `json:"page_size"`
	First    string  `json:"first_page_url"`
	Previous *string `json:"previous_page_url"`
	Next     *string `json:"next_page_url"`
	URL      string  `json:"url"`
	Key      string  `json:"key"`
}

// listSenders shows one kind of the senders of a service, in the order in which they were configured.
func (e *Emulator) listSenders(kind senders) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		service, caller := r.PathValue("service"), callerOf(r)
		pool, known := caller.Services[service]
		if !known {
			notFound(w, r)
			return
		}
		all := slices.DeleteFunc(slices.Clone(pool), func(sender string) bool { return !kind.has(sender) })
		query := r.URL.Query()
		size, page, from, to := paging(query, len(all))

		at := func(page int) string {
			q := url.Values{"PageSize": {strconv.Itoa(size)}, "Page": {strconv.Itoa(page)}}
			if page > 0 {
				q.Set("PageToken", fmt.Sprintf("PA%d", page))
			}
			// Twilio names its own host here, whatever proxy the request came through.
			return "https://messaging.twilio.com/v1/Services/" + service + "/" + kind.collection + "?" + q.Encode()
		}
		meta := pageMeta{Page: page, PageSize: size, First: at(0), URL: at(page), Key: kind.key}
		if to < len(all) {
			next := at(page + 1)
			meta.Next = &next
		}
		if page > 0 {
			previous := at(page - 1)
			meta.Previous = &previous
		}
		listed := []map[string]any{}
		for i, sender := range all[from:to] {
			listed = append(listed, map[string]any{
				"sid": fmt.Sprintf("%s%032x", kind.prefix, from+i+1), "account_sid": caller.SID, "service_sid": service,
				kind.field: sender, "country_code": "US", "capabilities": []string{"SMS"},
			})
		}
		writeJSON(w, http.StatusOK, map[string]any{kind.key: listed, "meta": meta})
	}
}

// isShortCode reports whether a sender is a short code, which has no plus sign.
func isShortCode(sender string) bool { return !strings.HasPrefix(sender, "+") }
