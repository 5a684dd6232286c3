package console

import (
	"errors"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/status"

	"paceline.internal/gateway/console/signin"
	"paceline.internal/platform/rpc"
)

// notice is the result of an action: a key of the catalog with its arguments, or a text of a service.
type notice struct {
	Key  string   `json:"key,omitempty"`
	Args []string `json:"args,omitempty"`
	Text string   `json:"text,omitempty"`
	Bad  bool     `json:"bad,omitempty"`
	To   string   `json:"-"` // the page that shows it; by default the one that the form came from

	Secret string `json:"secret,omitempty"` // shown once, to be copied
	Stored string `json:"stored,omitempty"` // the id of a ticket: what was written for it is stored now

	Typed map[string]string `json:"typed,omitempty"` // what was typed into a form that did not work, by its field
	Lost  bool              `json:"lost,omitempty"`  // some of that was too long
	Of    string            `json:"of,omitempty"`    // the path of that form: no other page may show what was typed for it
	For   string            `json:"for,omitempty"`   // who did it: whoever signs in to this browser next is not shown it
}

// signedIn names the person of a session, of one organisation.
func signedIn(s signin.Session) string { return s.OrgID + " " + string(s.Role) + " " + s.Subject }

func said(key string, args ...string) notice { return notice{Key: key, Args: args} }

// bad marks a notice of something that was not done.
func (n notice) bad() notice {
	n.Bad = true
	return n
}

const (
	noticeLife = 10 * time.Minute // it outlives an outage of its page, which has what was typed
	maxSaid    = 1000             // of a service's text, in bytes: a cookie has four thousand
	maxTyped   = 120              // of a field, in bytes; longer is not kept
)

// tell has the next page show a notice. Of what was typed it leaves out the longest until the browser takes the rest.
func (c *Console) tell(w http.ResponseWriter, n notice) error {
	for {
		err := c.door.Set(w, signin.PurposeNotice, n, c.now().Add(noticeLife))
		if !errors.Is(err, signin.ErrTooLong) || len(n.Typed) == 0 {
			return err
		}
		byLength := func(a, b string) int { return len(n.Typed[a]) - len(n.Typed[b]) }
		delete(n.Typed, slices.MaxFunc(slices.Collect(maps.Keys(n.Typed)), byLength))
		n.Lost = true
	}
}

// typed returns the values of a form in these fields.
func typed(r *http.Request, fields ...string) map[string]string {
	kept := map[string]string{}
	for _, field := range fields {
		if value := r.Form.Get(field); value != "" && len(value) <= maxTyped {
			kept[field] = value
		}
	}
	return kept
}

// refusal is the key of a refusal that the console says in its reader's language; empty for one in the service's words.
func refusal(err error) string {
	reason, _ := rpc.Reason(err)
	if key := "refused." + reason; known(key) {
		return key
	}
	return ""
}

// saidBy is the message of an RPC's error, which is written for its caller.
func saidBy(err error) string {
	text := status.Convert(err).Message()
	return strings.ToValidUTF8(text[:min(len(text), maxSaid)], "") // the cut may be inside a character
}

// Refused words a refusal that a page shows in its place.
func (f frame) Refused(err error) template.HTML {
	return f.Linked(f.Said(notice{Key: refusal(err), Text: saidBy(err)}))
}
