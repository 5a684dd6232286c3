package signin

import (
	"crypto/rand"
	"errors"
	"maps"
	"net/url"
	"sync"
	"time"

	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
)

const (
	linkLife = 10 * time.Minute
	// maxLinks bounds the links that are remembered as used, each until its end.
	maxLinks = 1 << 10
)

// link holds the operator that a link signs in, of which organisation, and since when. Its ID tells it from the others.
type link struct {
	ID     string    `json:"id"`
	OrgID  string    `json:"org"`
	Issued time.Time `json:"iat"`
}

func (l link) expires() time.Time { return l.Issued.Add(linkLife) }

// NewLink is the path of a link that signs an operator of an organisation in, once and within ten minutes, at a console that has Links and
// this key. It needs no word with that console.
func NewLink(key config.Secret, orgID string, now time.Time) (path string, err error) {
	b, err := newBox(key)
	if err != nil {
		return "", err
	}
	sealed, err := b.seal(purposeLink, link{ID: rand.Text(), OrgID: orgID, Issued: now.UTC().Truncate(time.Millisecond)})
	return pathLink + "?" + url.Values{fieldKey: {sealed}}.Encode(), err
}

// Links lets a console take links. Only `paceline up` makes one: it has one process, so what was used is known there, and its console
// is for
// the user of this machine, who can read its key anyway. No variable of the environment makes one.
type Links struct {
	now     func() time.Time
	started time.Time // a link from before is not taken: whether it was used only the process before knew

	mu   sync.Mutex
	used map[string]time.Time // by id, until when
}

// NewLinks makes the Links of a process that starts now.
func NewLinks(now func() time.Time) *Links {
	return &Links{now: now, started: now().Truncate(time.Millisecond), used: map[string]time.Time{}}
}

var errLink = errors.New("the link was used, or is over")

// look reports what speaks against a link. It uses nothing up: programs look at links before people do.
func (ls *Links) look(b *box, sealed string) error {
	var l link
	if err := b.open(purposeLink, sealed, &l); err != nil {
		return err
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.counts(l)
}

// take uses a link up.
func (ls *Links) take(b *box, sealed string) (rpc.Principal, error) {
	var l link
	if err := b.open(purposeLink, sealed, &l); err != nil {
		return rpc.Principal{}, err
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if err := ls.counts(l); err != nil {
		return rpc.Principal{}, err
	}
	now := ls.now()
	maps.DeleteFunc(ls.used, func(_ string, until time.Time) bool { return !now.Before(until) })
	if len(ls.used) >= maxLinks {
		return rpc.Principal{}, errLink
	}
	ls.used[l.ID] = l.expires()
	return rpc.Principal{Subject: "operator", OrgID: l.OrgID, Role: rpc.RoleOperator}, nil
}

// counts is called with the lock.
func (ls *Links) counts(l link) error {
	if _, used := ls.used[l.ID]; used || l.Issued.Before(ls.started) || !ls.now().Before(l.expires()) {
		return errLink
	}
	return nil
}
