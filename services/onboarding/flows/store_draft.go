package flows

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/flow"
)

// The refusals of a change of a draft.
var (
	ErrNoDraft       = errors.New("the flow has no draft")
	ErrDraftOutdated = errors.New("somebody else has saved the draft or published the flow since; read it again, then save yours")
	ErrDraftText     = errors.New("text refused")
)

// Draft holds the changed texts of a flow, which PublishDraft puts into the current version.
type Draft struct {
	Of        string // the version that it changes
	Revision  int64  // grows with each save; 0 without a draft
	Texts     map[string]map[string]string
	ChangedAt time.Time
	ChangedBy *string // the actor, see audit.Read
}

// DraftChange replaces texts of one language. Version and Revision are those that the writer has read.
type DraftChange struct {
	Flow, Version, Language string
	Revision                int64
	Texts                   map[string]string
}

const sqlDraft = `select version, revision, texts, changed_at, changed_by::text from flow_drafts where org_id = $1 and flow = $2`

// Draft returns the draft of a flow; the zero value without one.
func (s *Store) Draft(ctx context.Context, orgID, name string) (Draft, error) {
	return readDraft(ctx, s.pool, orgID, name)
}

func readDraft(ctx context.Context, db postgres.DB, orgID, name string) (d Draft, err error) {
	err = db.QueryRow(ctx, sqlDraft, orgID, name).Scan(&d.Of, &d.Revision, &d.Texts, &d.ChangedAt, &d.ChangedBy)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return d, fmt.Errorf("draft of a flow: %w", err)
	}
	return d, nil
}

const (
	sqlDropDraft = `delete from flow_drafts where org_id = @org and flow = @flow`

	sqlSaveDraft = `
insert into flow_drafts (org_id, flow, version, revision, texts, changed_at) values (@org, @flow, @version, @revision, @texts, @at)
on conflict (org_id, flow) do update set version = excluded.version, revision = excluded.revision, texts = excluded.texts,
    changed_at = excluded.changed_at, changed_by = current_actor()`
)

// SaveDraft changes texts of a draft. To save again what it has changes nothing. flow.ErrNotFound, ErrDraftOutdated, ErrDraftText.
func (s *Store) SaveDraft(ctx context.Context, orgID string, in DraftChange, at time.Time) error {
	f, err := s.Version(ctx, orgID, in.Flow, in.Version)
	if err != nil {
		return err
	}
	seen, err := s.Draft(ctx, orgID, in.Flow)
	if err != nil {
		return err
	}
	of := f // the version that the draft was made of
	if seen.Revision > 0 && seen.Of != in.Version {
		if of, err = s.Version(ctx, orgID, in.Flow, seen.Of); err != nil {
			return err
		}
	}
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		had, err := s.readOf(ctx, tx, orgID, in.Flow, in.Version)
		if err == nil && had.Of != seen.Of {
			err = ErrDraftOutdated
		}
		if err == nil {
			err = unlessRevised(&of, &f, had.Texts, in)
		}
		if err != nil {
			return err
		}
		texts, err := merged(&f, had.Texts, in)
		switch same := maps.EqualFunc(texts, had.Texts, maps.Equal); {
		case err != nil:
			return err
		case same && (had.Of == in.Version || had.Revision == 0):
			return nil
		case had.Revision != in.Revision:
			return ErrDraftOutdated
		}
		sql, args := sqlSaveDraft, postgres.Args{
			"org": orgID, "flow": in.Flow, "version": in.Version, "revision": max(at.UnixMicro(), had.Revision+1), "texts": texts, "at": at,
		}
		if len(texts) == 0 {
			sql, args = sqlDropDraft, postgres.Args{"org": orgID, "flow": in.Flow}
		}
		if _, err := tx.Exec(ctx, sql, args); err != nil {
			return fmt.Errorf("save the draft of a flow: %w", err)
		}
		return nil
	})
}

// readOf returns the draft of a flow, if version is the current one. Nothing else changes either until the end of the transaction.
func (s *Store) readOf(ctx context.Context, tx pgx.Tx, orgID, name, version string) (d Draft, err error) {
	if _, err := tx.Exec(ctx, sqlLock, postgres.Args{"org": orgID}); err != nil {
		return d, fmt.Errorf("lock the flows: %w", err)
	}
	current, err := describe(ctx, tx, orgID, name, "")
	if err == nil {
		d, err = readDraft(ctx, tx, orgID, name)
	}
	if err == nil && current.Version != version {
		err = ErrDraftOutdated
	}
	return d, err
}

// unlessRevised returns ErrDraftOutdated where a draft of another version would undo, in a text that its writer has not given now, what was
// published since.
func unlessRevised(of, now *flow.Flow, had map[string]map[string]string, in DraftChange) error {
	type place struct{ language, key string }
	under := map[place]string{}
	for _, w := range of.Written() {
		under[place{w.Language, w.Key}] = w.Text
	}
	var revised []string
	for _, w := range now.Written() {
		mine, changed := had[w.Language][w.Key]
		_, given := in.Texts[w.Key]
		if changed && mine != w.Text && w.Text != under[place{w.Language, w.Key}] && (!given || w.Language != in.Language) {
			revised = append(revised, w.Language+" "+w.Key)
		}
	}
	if len(revised) > 0 {
		return fmt.Errorf("%w: these were published anew under the draft: %s; save them too, or drop the draft",
			ErrDraftOutdated, strings.Join(revised, ", "))
	}
	return nil
}

// merged returns the texts of a draft after a change: only those that differ from the flow.
func merged(f *flow.Flow, had map[string]map[string]string, in DraftChange) (map[string]map[string]string, error) {
	if !slices.Contains(f.Languages, in.Language) {
		return nil, fmt.Errorf("%w: the flow has no language %.20q", ErrDraftText, in.Language)
	}
	known, all := map[string]bool{}, map[string]map[string]string{}
	for _, w := range f.Written() {
		text, changed := had[w.Language][w.Key]
		if w.Language == in.Language {
			known[w.Key] = true
			if typed, given := in.Texts[w.Key]; given {
				text, changed = flow.Typed(typed), true
			}
		}
		if !changed || text == w.Text {
			continue
		}
		if all[w.Language] == nil {
			all[w.Language] = map[string]string{}
		}
		all[w.Language][w.Key] = text
	}
	for _, key := range slices.Sorted(maps.Keys(in.Texts)) {
		if !known[key] {
			return nil, fmt.Errorf("%w: no step of the flow sends a text %.60q", ErrDraftText, key)
		}
	}
	if kept, err := json.Marshal(all); err != nil || len(kept) > MaxBytes {
		return nil, fmt.Errorf("%w: the changed texts are too long together; at most %d bytes are kept", ErrDraftText, MaxBytes)
	}
	return all, nil
}

// PublishDraft publishes the current version with the texts of the draft, which ends. flow.ErrNotFound, ErrNoDraft, ErrDraftOutdated, and
// what Publish returns.
func (s *Store) PublishDraft(ctx context.Context, orgID, name string, revision int64, at time.Time) (done Published, err error) {
	d, err := s.Draft(ctx, orgID, name)
	switch {
	case err != nil:
		return done, err
	case d.Revision == 0:
		return done, ErrNoDraft
	}
	files, err := s.Files(ctx, orgID, name, d.Of)
	if err != nil {
		return done, err
	}
	for language, texts := range d.Texts {
		if files[language+".yaml"], err = flow.WithTexts(files[language+".yaml"], texts); err != nil {
			return done, err
		}
	}
	f, err := parse(files)
	if err == nil {
		err = s.checkStarts(ctx, orgID, f)
	}
	if err != nil {
		return done, err
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if now, err := s.readOf(ctx, tx, orgID, name, d.Of); err != nil || now.Revision != d.Revision || d.Revision != revision {
			return cmp.Or(err, ErrDraftOutdated)
		}
		if _, err := tx.Exec(ctx, sqlDropDraft, postgres.Args{"org": orgID, "flow": name}); err != nil {
			return fmt.Errorf("end the draft of a flow: %w", err)
		}
		done, err = s.publish(ctx, tx, orgID, f, files, at)
		return err
	})
	if err != nil {
		return Published{}, err
	}
	return done, nil
}

// sqlDropRevision reports whether another revision was found, and kept.
const sqlDropRevision = `
with dropped as (delete from flow_drafts where org_id = @org and flow = @flow and @revision::bigint in (0, revision) returning 1)
select exists (select from flow_drafts where org_id = @org and flow = @flow) and not exists (select from dropped)`

// DropDraft ends a revision of the draft of a flow without publishing it; any revision for 0. ErrDraftOutdated.
func (s *Store) DropDraft(ctx context.Context, orgID, name string, revision int64) error {
	var kept bool
	args := postgres.Args{"org": orgID, "flow": name, "revision": revision}
	if err := s.pool.QueryRow(ctx, sqlDropRevision, args).Scan(&kept); err != nil {
		return fmt.Errorf("drop the draft of a flow: %w", err)
	}
	if kept {
		return ErrDraftOutdated
	}
	return nil
}
