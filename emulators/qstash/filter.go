package qstash

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// filter is the selection of a list or a bulk call. Different names must all match; values that are repeated or separated by commas are
// alternatives.
type filter struct {
	values   map[string][]string
	from, to int64 // unix milliseconds, both inclusive
	count    int
	cursor   string
}

// dates are the two parameters that bound a time.
const (
	fromDate = "fromDate"
	toDate   = "toDate"
)

// readFilter reads a query of played parameters. Without a count it is the most that one answer holds.
func readFilter(query url.Values, most int) (filter, error) {
	f := filter{values: map[string][]string{}, count: most, cursor: query.Get("cursor")}
	var err error
	if f.from, err = readInt(query, fromDate, 0); err != nil {
		return f, err
	}
	if f.to, err = readInt(query, toDate, 1<<62); err != nil {
		return f, err
	}
	count, err := readInt(query, "count", int64(most))
	if err != nil || count < 1 || count > int64(most) {
		return f, badRequest("invalid count")
	}
	f.count = int(count)
	for name, values := range query {
		switch name {
		case fromDate, toDate, "count", "cursor", tokenParameter:
		default:
			f.values[name] = strings.Split(strings.Join(values, ","), ",")
		}
	}
	return f, nil
}

func readInt(query url.Values, name string, otherwise int64) (int64, error) {
	if !query.Has(name) {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(query.Get(name), 10, 64)
	if err != nil || n < 0 {
		return 0, badRequest("invalid %s", name)
	}
	return n, nil
}

// has reports whether the filter names these; QStash then ignores what else there is.
func (f filter) has(ids string) bool { return len(f.values[ids]) > 0 }

// matches reports whether something of that time and those values passes.
func (f filter) matches(at time.Time, of map[string]string) bool {
	for name, wanted := range f.values {
		if !slices.Contains(wanted, of[name]) {
			return false
		}
	}
	return at.UnixMilli() >= f.from && at.UnixMilli() <= f.to
}

// about are the values of a message, or of an event of one, that filters ask for.
func about(id, destination, label string) map[string]string {
	of := map[string]string{"messageId": id, "url": destination, "label": label}
	if u, err := url.Parse(destination); err == nil {
		of["host"], of["path"] = u.Host, u.Path
	}
	return of
}
