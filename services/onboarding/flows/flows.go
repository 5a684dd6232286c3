// Package flows keeps the flows that organisations publish, counts how far people come in them, and moves sessions from one version to
// another. A version is never changed, so every replica reads the same flow for a session until it is moved.
package flows

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/flow"
)

// The bounds of what an organisation keeps. Nothing deletes a version, since sessions may be on it.
const (
	MaxBytes    = 256 << 10 // of all files of a version
	MaxFlows    = 100
	MaxVersions = 1000 // of one flow
	// MaxPublications bounds how often a flow is published; rolling back publishes.
	MaxPublications = 2000
)

// maxFiles is flow.yaml and as many languages as the schema allows.
const maxFiles = 41

// ErrTooMany refuses a new flow, or a new version, at the most of them.
var ErrTooMany = fmt.Errorf("an organisation has at most %d flows, and a flow at most %d versions and %d publications; "+
	"publish it under another name", MaxFlows, MaxVersions, MaxPublications)

// Version describes a version of a flow.
type Version struct {
	Flow, Version string
	Number        int  // grows with each publication of the flow
	Current       bool // new sessions get it
	PublishedAt   time.Time
	PublishedBy   *string // the actor, see audit.Read
}

// Published is the result of Publish.
type Published struct {
	Version

	Created   bool // the flow did not have the version before
	Unchanged bool // it was the current one already
}

// Store keeps flows in the database, and those that were parsed in memory.
type Store struct {
	pool   postgres.DB
	parsed cache
}

// NewStore returns a store on an open pool. A process needs one, for its memory.
func NewStore(pool postgres.DB) *Store {
	return &Store{pool: pool, parsed: cache{flows: map[key]flow.Flow{}}}
}

// Current returns the flow that new sessions get; flow.ErrNotFound.
func (s *Store) Current(ctx context.Context, orgID, name string) (flow.Flow, error) {
	current, err := s.Describe(ctx, orgID, name, "")
	if err != nil {
		return flow.Flow{}, err
	}
	return s.Version(ctx, orgID, name, current.Version)
}

// Published reports whether an organisation has published a flow; flow.ErrNotFound.
func (s *Store) Published(ctx context.Context, orgID, name string) error {
	_, err := s.Describe(ctx, orgID, name, "")
	return err
}

// Version returns a version of a flow, current or not; flow.ErrNotFound.
func (s *Store) Version(ctx context.Context, orgID, name, version string) (flow.Flow, error) {
	of := key{orgID, name, version}
	if parsed, ok := s.parsed.get(of); ok {
		return parsed, nil
	}
	files, err := s.Files(ctx, orgID, name, version)
	if err != nil {
		return flow.Flow{}, err
	}
	parsed, err := flow.Parse(folder(files))
	if err != nil { // not wrapped: Problems are about the files of a caller
		return flow.Flow{}, fmt.Errorf("%w: version %s of flow %s: %s", flow.ErrUnreadable, version, name, err.Error())
	}
	parsed.Version = version
	s.parsed.put(of, parsed)
	return parsed, nil
}

// Declared returns the fields of the current flows. One that this release cannot read declares none.
func (s *Store) Declared(ctx context.Context, orgID string) (flow.Declared, error) {
	current, err := s.List(ctx, orgID)
	if err != nil {
		return nil, err
	}
	declared := flow.Declared{}
	for _, v := range current {
		f, err := s.Version(ctx, orgID, v.Flow, v.Version)
		if errors.Is(err, flow.ErrUnreadable) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for name, fields := range f.Declared() {
			declared[name] = append(declared[name], fields...)
		}
	}
	return declared, nil
}

// ByKeyword returns the current flow that a text enters, if there is one.
func (s *Store) ByKeyword(ctx context.Context, orgID, text string) (flow.Flow, bool, error) {
	word := flow.Keyword(text)
	if word == "" {
		return flow.Flow{}, false, nil
	}
	owners, err := s.owners(ctx, s.pool, orgID, "", []string{word})
	if err != nil || len(owners) == 0 {
		return flow.Flow{}, false, err
	}
	found, err := s.Version(ctx, orgID, owners[0].Flow, owners[0].Version)
	return found, err == nil, err
}

// Check returns the flow that files hold. Its error is flow.Problems: everything for which Publish would refuse them.
func (s *Store) Check(ctx context.Context, orgID string, files map[string]string) (flow.Flow, error) {
	parsed, err := parse(files)
	if err != nil {
		return flow.Flow{}, err
	}
	return parsed, errors.Join(s.checkKeywords(ctx, s.pool, orgID, parsed), s.checkStarts(ctx, orgID, parsed))
}

// checkStarts refuses a flow that starts itself again through others, without an answer of the person: it would text them for ever.
func (s *Store) checkStarts(ctx context.Context, orgID string, f flow.Flow) error {
	seen, from := map[string]bool{}, f.Follows()
	for len(from) > 0 {
		name := from[0]
		from = from[1:]
		if name == f.Name || seen[name] { // one that starts itself is found by its own check
			continue
		}
		seen[name] = true
		other, err := s.Current(ctx, orgID, name)
		if errors.Is(err, flow.ErrNotFound) || errors.Is(err, flow.ErrUnreadable) {
			continue
		}
		if err != nil {
			return err
		}
		follows := other.Follows()
		if slices.Contains(follows, f.Name) {
			return flow.Problems{{File: flow.File, Text: fmt.Sprintf(
				"flow %s starts flow %s, which starts %s again, without an answer of the person; a circle needs a step that waits",
				f.Name, name, f.Name)}}
		}
		from = append(from, follows...)
	}
	return nil
}

// checkKeywords refuses a keyword of another current flow: a text can enter only one.
func (s *Store) checkKeywords(ctx context.Context, db postgres.DB, orgID string, f flow.Flow) error {
	owners, err := s.owners(ctx, db, orgID, f.Name, keywords(f))
	if err != nil {
		return err
	}
	var found flow.Problems
	for _, o := range owners {
		found = append(found, flow.Problem{File: flow.File, Text: fmt.Sprintf(
			"entry: flow %s cannot have the keyword %q: it is one of flow %s", f.Name, o.Keyword, o.Flow)})
	}
	if len(found) > 0 {
		return found
	}
	return nil
}

// parse reads the files of a flow, and refuses those that it would not read.
func parse(files map[string]string) (flow.Flow, error) {
	size := 0
	for name, text := range files {
		size += len(name) + len(text)
	}
	var found flow.Problems
	if size > MaxBytes {
		text := fmt.Sprintf("the files are too long: %d bytes; at most %d are kept", size, MaxBytes)
		found = append(found, flow.Problem{File: flow.File, Text: text})
	}
	if len(files) > maxFiles {
		found = append(found, flow.Problem{File: flow.File, Text: fmt.Sprintf("these are %d files; a flow has at most %d", len(files), maxFiles)})
	}
	if len(found) > 0 {
		return flow.Flow{}, found
	}
	parsed, err := flow.Check(folder(files))
	if err != nil {
		return flow.Flow{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name != flow.File && !slices.ContainsFunc(parsed.Languages, func(l string) bool { return name == l+".yaml" }) {
			found = append(found, flow.Problem{File: name, Text: "no language of the flow has this file"})
		}
	}
	if len(found) > 0 {
		return flow.Flow{}, found
	}
	return parsed, nil
}

// keywords returns the entry keywords of a flow as they are compared.
func keywords(f flow.Flow) []string {
	words := make([]string, len(f.Keywords))
	for i, word := range f.Keywords {
		words[i] = flow.Keyword(word)
	}
	return words
}

// maxParsed bounds the flows in memory.
const maxParsed = 256

type key struct{ org, flow, version string }

// cache holds flows that were parsed. They never change, so none gets stale.
type cache struct {
	mu    sync.Mutex
	flows map[key]flow.Flow
}

func (c *cache) get(k key) (flow.Flow, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.flows[k]
	return f, ok
}

// put keeps a flow, in place of any other when there are too many.
func (c *cache) put(k key, f flow.Flow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := range c.flows {
		if len(c.flows) < maxParsed {
			break
		}
		delete(c.flows, other)
	}
	c.flows[k] = f
}
