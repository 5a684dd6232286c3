package twilio

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	defaultPage = 50
	maxPage     = 1000
	// A page token names the message that the page begins after: older ones follow it, or newer ones precede it.
	olderThan, newerThan = "PA", "PB"
)

// page is one answer of the list.
type page struct {
	Messages     []resource `json:"messages"`
	FirstPageURI string     `json:"first_page_uri"`
	NextPageURI  *string    `json:"next_page_uri"`
	PrevPageURI  *string    `json:"previous_page_uri"`
	URI          string     `json:"uri"`
	Page         int        `json:"page"`
	PageSize     int        `json:"page_size"`
	Start        int        `json:"start"`
	End          int        `json:"end"`
}

// listFilters are the parameters of the list without those of paging.
func listFilters() []string { return []string{"To", "From", "DateSent", "DateSent<", "DateSent>"} }

// list shows the messages that match the filters, in the order of find. All its URIs are relative to the API's origin.
func (e *Emulator) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	match, err := filter(query)
	if err != nil {
		refuse(w, refusal{http.StatusBadRequest, 20001, "A DateSent filter is not a date"})
		return
	}
	caller := callerOf(r)
	found := e.find(func(m *Message) bool { return m.AccountSID == caller.SID && match(m) })
	writeJSON(w, http.StatusOK, e.page(caller, found, query))
}

// find is every message that matches, the one that was sent last first. Twilio documents this order and not where a message
// stands that has not been sent yet. Here it comes last, which is the most that a reader has to reckon with: behind any number
// of older ones.
func (e *Emulator) find(match func(*Message) bool) []Message {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []Message
	for _, m := range slices.Backward(e.messages) {
		if match(m) {
			found = append(found, m.snapshot())
		}
	}
	slices.SortStableFunc(found, func(a, b Message) int { return b.SentAt.Compare(a.SentAt) }) // the zero time is before all others
	return found
}

// page cuts one page out of what was found.
func (e *Emulator) page(caller *Account, found []Message, query url.Values) page {
	size := min(number(query, "PageSize", defaultPage), maxPage)
	index := number(query, "Page", 0)
	from, to := window(found, query.Get("PageToken"), size)

	uri := func(index int, token string) string {
		q := url.Values{}
		for _, name := range listFilters() {
			if query.Has(name) {
				q.Set(name, query.Get(name))
			}
		}
		q.Set("PageSize", strconv.Itoa(size))
		q.Set("Page", strconv.Itoa(index))
		if token != "" {
			q.Set("PageToken", token)
		}
		return caller.path("/Messages.json?") + q.Encode()
	}
	p := page{
		Messages: []resource{}, Page: index, PageSize: size, Start: index * size, End: max(0, index*size+to-from-1),
		FirstPageURI: uri(0, ""), URI: uri(index, query.Get("PageToken")),
	}
	for _, m := range found[from:to] {
		p.Messages = append(p.Messages, e.resource(m))
	}
	if to < len(found) && from < to {
		next := uri(index+1, olderThan+found[to-1].SID)
		p.NextPageURI = &next
	}
	if index > 0 && from > 0 && from < to {
		prev := uri(index-1, newerThan+found[from].SID)
		p.PrevPageURI = &prev
	}
	return p
}

// window is the part of found that the token asks for. It does not shift when new messages arrive; one that is
// sent meanwhile moves to the front, past a reader who is further on.
func window(found []Message, token string, size int) (from, to int) {
	sid, after := strings.CutPrefix(token, olderThan)
	if !after {
		sid, _ = strings.CutPrefix(token, newerThan)
	}
	at := slices.IndexFunc(found, func(m Message) bool { return m.SID == sid })
	switch {
	case token != "" && at < 0:
		return 0, 0
	case after:
		from, to = at+1, at+1+size
	case token != "":
		from, to = at-size, at
	default:
		to = size
	}
	return max(from, 0), min(to, len(found))
}

// filter reads To, From and the three DateSent filters. A date means its whole day in GMT, a time means that second;
// both bounds are inclusive. A message that the carrier has not taken yet has no date, and no date filter finds it.
func filter(query url.Values) (func(*Message) bool, error) {
	to, from := query.Get("To"), query.Get("From")
	accepts := []func(*Message) bool{
		func(m *Message) bool { return (to == "" || m.To == to) && (from == "" || m.From == from) },
	}
	for _, name := range []string{"DateSent", "DateSent<", "DateSent>"} {
		if !query.Has(name) {
			continue
		}
		first, last, err := span(query.Get(name))
		if err != nil {
			return nil, err
		}
		accepts = append(accepts, func(m *Message) bool {
			early, late := m.SentAt.Before(first), m.SentAt.After(last)
			return !m.SentAt.IsZero() && (!early || name == "DateSent<") && (!late || name == "DateSent>")
		})
	}
	return func(m *Message) bool {
		return !slices.ContainsFunc(accepts, func(ok func(*Message) bool) bool { return !ok(m) })
	}, nil
}

// span is the time that a filter's value covers. RFC 3339 has whole seconds, as has date_sent.
func span(value string) (from, to time.Time, err error) {
	if day, err := time.Parse(time.DateOnly, value); err == nil {
		return day, day.AddDate(0, 0, 1).Add(-time.Nanosecond), nil
	}
	at, err := time.Parse(time.RFC3339, value)
	return at, at.Add(time.Second - time.Nanosecond), err
}

// paging is the page of all that a query asks for by its number, and what is on it.
func paging(query url.Values, all int) (size, page, from, to int) {
	const last = 1 << 20 // a larger number means this page, which is empty as well
	size, page = min(number(query, "PageSize", defaultPage), maxPage), min(number(query, "Page", 0), last)
	from = min(page*size, all)
	return size, page, from, min(from+size, all)
}

// number is a positive parameter, or otherwise if it is absent or malformed.
func number(query url.Values, name string, otherwise int) int {
	n, err := strconv.Atoi(query.Get(name))
	if err != nil || n < 0 || n == 0 && otherwise > 0 {
		return otherwise
	}
	return n
}
