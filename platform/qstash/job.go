package qstash

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Job is one piece of work that a path of our own is called for later. The Publisher adds origin and policy.
type Job struct {
	// Path is what is called at the publisher's origin; it begins with a single slash.
	Path string
	// Label is one of the labels that the publisher was given. Logs and dead letters are filtered by it.
	Label string
	// DedupID names the business operation: a second publish of it within ten minutes is no second message.
	DedupID DedupID
	// Body is delivered byte for byte, as JSON.
	Body []byte
	// Due is when it is to be delivered; a time that has passed means now.
	Due time.Time

	// Retries, RetryDelay and Timeout replace those of the publisher's policy for this job; nil, "" and 0 keep them.
	Retries    *int
	RetryDelay string
	Timeout    time.Duration
}

// DedupID is a deduplication id made of what an operation is, and of nothing else: a caller that publishes the same operation
// again, in another process or after a crash, makes the same id. NewDedupID makes it; the zero value is refused.
type DedupID struct{ id string }

// maxDedupID is far more than a name and two UUIDs. What QStash takes at most is not documented.
const maxDedupID = 256

// NewDedupID is <job>-<resource>, followed by the versions, for an operation that may rightly be done again to the same
// resource: the episode, the step, the generation. It wraps ErrInvalid when a part is blank or has characters outside
// [A-Za-z0-9._-]; a colon is one that QStash refuses. Only the resource may hold a hyphen, so that for a number of
// versions, which is fixed for a job, two operations never share an id.
func NewDedupID(job, resource string, versions ...string) (DedupID, error) {
	if !plainID(resource) {
		return DedupID{}, fmt.Errorf("%w: the resource of a deduplication id must be of [A-Za-z0-9._-]", ErrInvalid)
	}
	for _, part := range append([]string{job}, versions...) {
		if !plainID(part) || strings.Contains(part, "-") {
			return DedupID{}, fmt.Errorf("%w: the job and the versions of a deduplication id must be of [A-Za-z0-9._]", ErrInvalid)
		}
	}
	return dedupID(append([]string{job, resource}, versions...))
}

// InBucket adds the number of the time window that at lies in, for work that is meant to be done once per window: the
// same operation in the next one is another message. Nothing else puts the time into an id. A window is whole seconds.
func (d DedupID) InBucket(at time.Time, window time.Duration) (DedupID, error) {
	if d.id == "" || window < time.Second || window%time.Second != 0 || at.Unix() < 0 {
		return DedupID{}, fmt.Errorf("%w: a time bucket needs an id, a window of whole seconds, and a time", ErrInvalid)
	}
	return dedupID([]string{d.id, "t" + strconv.FormatInt(at.Unix()/int64(window/time.Second), 10)})
}

func dedupID(parts []string) (DedupID, error) {
	id := strings.Join(parts, "-")
	if len(id) > maxDedupID {
		return DedupID{}, fmt.Errorf("%w: the deduplication id has over %d characters", ErrInvalid, maxDedupID)
	}
	return DedupID{id}, nil
}

// String is the id as QStash gets it. Logs and spans show its hash instead: it may name a person's session.
func (d DedupID) String() string { return d.id }

// hash is the first 16 hexadecimal digits of the id's HMAC-SHA256.
func (d DedupID) hash(key []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(d.id))
	return hex.EncodeToString(mac.Sum(nil))[:16]
}

// destination is the URL of a path at our origin. A path that could lead elsewhere is refused: QStash would call whatever
// it resolves to, with a signature of ours for it.
func destination(origin, path string) (string, error) {
	refused := fmt.Errorf("%w: the path of a job must be a clean one at our own origin, such as /api/jobs/run", ErrInvalid)
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "\\#") || strings.ContainsFunc(path, unprintable) {
		return "", refused
	}
	base, err := url.Parse(origin)
	if err != nil {
		return "", refused
	}
	reference, err := url.Parse(path)
	if err != nil || reference.IsAbs() || reference.Host != "" || reference.User != nil || reference.ForceQuery {
		return "", refused
	}
	// Some servers and proxies undo an escape before they resolve dots and slashes; none may be left to resolve.
	for segment := range strings.SplitSeq(strings.TrimPrefix(reference.Path, "/"), "/") {
		if segment == "." || segment == ".." || strings.Contains(segment, "\\") {
			return "", refused
		}
	}
	if strings.Contains(reference.Path, "//") || strings.Count(reference.Path, "/") != strings.Count(reference.EscapedPath(), "/") {
		return "", refused
	}
	resolved := base.ResolveReference(reference)
	if resolved.Scheme != base.Scheme || resolved.Host != base.Host || resolved.String() != origin+path {
		return "", refused
	}
	return origin + path, nil
}

func unprintable(r rune) bool { return r <= ' ' || r >= 0x7f }
