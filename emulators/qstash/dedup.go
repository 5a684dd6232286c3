package qstash

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	api "paceline.internal/platform/qstash"
)

// dedupWindow is the time for which QStash remembers a deduplication id, from the first accept on and even when the message has
// failed: https://upstash.com/docs/qstash/features/deduplication.
const dedupWindow = 10 * time.Minute

// duplicates remembers which message came first.
type duplicates struct {
	first map[string]string // key to message id
	order []dedupEntry      // by expiry, since the window is the same for all
}

type dedupEntry struct {
	key     string
	expires time.Time
}

func newDuplicates() duplicates { return duplicates{first: map[string]string{}} }

// claim returns the id of the message that holds the key, which is now id unless another message has it already. An empty key
// holds nothing.
func (d *duplicates) claim(key, id string, now time.Time) string {
	for len(d.order) > 0 && !d.order[0].expires.After(now) {
		delete(d.first, d.order[0].key)
		d.order = d.order[1:]
	}
	if key == "" {
		return id
	}
	if first, taken := d.first[key]; taken {
		return first
	}
	d.first[key] = id
	d.order = append(d.order, dedupEntry{key: key, expires: now.Add(dedupWindow)})
	return id
}

// contentKey is equal for messages with the same destination, body, content type and forwarded headers.
func contentKey(m Message, h http.Header) string {
	hash := sha256.New()
	add := func(part string) { _, _ = io.WriteString(hash, fmt.Sprintf("%d:%s", len(part), part)) } // a hash never fails
	add(m.URL)
	add(string(m.Body))
	add(h.Get("Content-Type"))
	var forwarded []string
	for name, values := range h {
		if strings.HasPrefix(name, api.HeaderForwardPrefix) {
			forwarded = append(forwarded, name+"="+strings.Join(values, ","))
		}
	}
	slices.Sort(forwarded)
	for _, line := range forwarded {
		add(line)
	}
	return fmt.Sprintf("content:%x", hash.Sum(nil))
}
