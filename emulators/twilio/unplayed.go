package twilio

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
)

// What Twilio has and this emulator has not is refused and never ignored: a program that relies on it must learn so here.

// notPlayed refuses a part of the API.
func notPlayed(w http.ResponseWriter, r *http.Request) {
	refuse(w, refusal{http.StatusNotFound, 20404, "This emulator does not play " + r.Method + " " + r.URL.Path})
}

// unplayed is the refusal of the first parameter that is not among those played, nil if there is none. The code is Twilio's for parameters
// that it does not know.
func unplayed(given url.Values, played ...string) *refusal {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(played, name) {
			return &refusal{http.StatusBadRequest, 20001, "This emulator does not play the parameter " + name}
		}
	}
	return nil
}

// filtered lets a list through that has no parameters but those of paging and those named.
func filtered(list http.HandlerFunc, parameters ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if no := unplayed(r.URL.Query(), append([]string{"PageSize", "Page", "PageToken"}, parameters...)...); no != nil {
			refuse(w, *no)
			return
		}
		list(w, r)
	}
}
