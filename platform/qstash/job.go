package qstash

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Route names the paths to which QStash takes the jobs of one kind. Its paths are at the publisher's origin and begin with a single slash.
type Route struct {
	// Path is called when a job is due.
	Path string
	// FailurePath is called once when all attempts of a job have failed; see DecodeFailure.
	FailurePath string
	// Label filters logs and dead letters.
	Label string
}

// Job is one piece of work that our path is called for later. The Publisher adds origin and policy.
type Job struct {
	// OrgID names the organisation that the work is for. QStash is not told.
	OrgID string
	// Lost says that the alarm before it brought nothing. QStash is not told.
	Lost bool
	// Route is one of those that the publisher was given.
	Route Route
	// DedupID names the business operation: a second publish of it within ten minutes is no second message.
	DedupID DedupID
	// Body is delivered byte for byte, as JSON.
	Body []byte
	// Due is the time of delivery; a time that has passed means now.
	Due time.Time
	// Policy replaces that of the publisher for this job; the zero value keeps it.
	Policy Policy
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

// check refuses a label that no filter finds, and paths that could lead elsewhere.
func (r Route) check(origin string) error {
	if !plainID(r.Label) {
		return fmt.Errorf("%w: the label of a route must be of [A-Za-z0-9._-]", ErrInvalid)
	}
	return errors.Join(checkPath(origin, r.Path), checkPath(origin, r.FailurePath))
}

// checkPath refuses a path that could lead elsewhere than to our origin: QStash would call whatever it resolves to, with a signature
// from us for it.
func checkPath(origin, path string) error {
	refused := fmt.Errorf("%w: the path of a route must be a clean one at our own origin, such as /api/jobs/run", ErrInvalid)
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "\\#") || strings.ContainsFunc(path, unprintable) {
		return refused
	}
	base, err := url.Parse(origin)
	if err != nil {
		return refused
	}
	reference, err := url.Parse(path)
	if err != nil || reference.IsAbs() || reference.Host != "" || reference.User != nil || reference.ForceQuery {
		return refused
	}
	// Some servers and proxies undo an escape before they resolve dots and slashes; none may be left to resolve.
	for segment := range strings.SplitSeq(strings.TrimPrefix(reference.Path, "/"), "/") {
		if segment == "." || segment == ".." || strings.Contains(segment, "\\") {
			return refused
		}
	}
	if strings.Contains(reference.Path, "//") || strings.Count(reference.Path, "/") != strings.Count(reference.EscapedPath(), "/") {
		return refused
	}
	resolved := base.ResolveReference(reference)
	if resolved.Scheme != base.Scheme || resolved.Host != base.Host || resolved.String() != origin+path {
		return refused
	}
	return nil
}

func unprintable(r rune) bool { return r <= ' ' || r >= 0x7f }

// plainID reports whether s is a name of [A-Za-z0-9._-] that cannot vanish from a path.
func plainID(s string) bool {
	strange := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
	}
	return s != "" && s != "." && s != ".." && !strings.ContainsFunc(s, strange)
}
