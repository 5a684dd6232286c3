package anchor_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/anchor"
	ledgers "paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

var org, at = uuid.MustParse("0190a000-0000-7000-8000-000000000001"), time.Date(2020, 11, 20, 12, 0, 0, 0, time.UTC)

// evidence is a database with the ledgers of two phones, of two lines each, and what anchors them.
type evidence struct {
	t       *testing.T
	served  *pgxpool.Pool
	store   sendtest.Store
	anchors *anchor.Store
	writer  *anchor.Writer
	public  ed25519.PublicKey
	logged  bytes.Buffer
}

const ada, bob = "+14155550123", "+14155550124"

func anchored(t *testing.T) *evidence {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	key, err := anchor.ParseKey(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	require.NoError(t, err)
	e := &evidence{t: t, served: pgtest.New(t, schema.Migrations()), public: public}
	e.store = sendtest.NewStore(e.served)
	e.store.Pseudonyms = consent.NewPseudonyms("a key of at least thirty-two bytes")
	e.anchors = &anchor.Store{Pool: e.served, Pseudonyms: e.store.Pseudonyms}
	e.writer = &anchor.Writer{
		Due: e.anchors.AnchorLedgers, Dir: t.TempDir(), Key: key, Now: func() time.Time { return at }, Log: slog.New(slog.NewJSONHandler(&e.logged, nil)),
	}
	for _, phone := range []string{ada, bob} {
		e.note(phone, "letter 1")
		e.note(phone, agreed) // what ends with an opt-out is never forgotten
	}
	e.asOwner(guardsOff, `update consent_events
		set actor = '{"subject": "ann", "role": "operator", "client_address": "::1", "request_id": "r1"}' where seq = 1`)
	e.anchor()
	return e
}

const agreed = "they agreed again"

func phone(t *testing.T, number string) sms.Phone {
	t.Helper()
	to, err := sms.StoredPhone(number)
	require.NoError(t, err)
	return to
}

func (e *evidence) note(phone, reason string) {
	e.t.Helper()
	to, err := sms.StoredPhone(phone)
	require.NoError(e.t, err)
	note := ledgers.Note{OrgID: org, Phone: to, State: consent.OptedOut, Reason: reason, At: at}
	if reason == agreed {
		note.State = consent.OptedIn
		note.Evidence = &consent.Evidence{Method: "written", CollectedAt: at.Add(time.Second), Reference: "form 7"}
	}
	_, err = e.store.SetConsent(e.t.Context(), note)
	require.NoError(e.t, err)
}

func (e *evidence) anchor() {
	e.t.Helper()
	more, err := e.writer.Once(e.t.Context())
	require.NoError(e.t, err)
	require.False(e.t, more)
}

// asOwner does what needs the password of the owner: it takes the guards off.
func (e *evidence) asOwner(statements ...string) {
	e.t.Helper()
	owner := pgtest.Owner(e.t, e.served)
	for _, sql := range append(statements, `alter table consent_events enable trigger user`) {
		_, err := owner.Exec(e.t.Context(), sql)
		require.NoError(e.t, err, sql)
	}
}

// erase is lawful.
func (e *evidence) erase(phone string) {
	e.t.Helper()
	to, err := sms.StoredPhone(phone)
	require.NoError(e.t, err)
	_, err = e.store.ErasePerson(e.t.Context(), ledgers.Person{OrgID: org, ProfileID: uuid.New(), Phone: to}, at.Add(time.Hour))
	require.NoError(e.t, err)
}

// rewrite changes the words of a person, as an owner of the database can.
const rewrite = `update consent_events set words = 'letter X' where phone = '` + ada + `' and seq = 2`

const guardsOff = `alter table consent_events disable trigger user`

// rehash makes the chain of every ledger whole again, as the trigger would have written it.
//
//nolint:unqueryvet // whole rows are hashed
const rehash = `
do $$
declare e consent_events; h bytea; n bigint; c consents;
begin
    for c in select * from consents loop
        h := decode(repeat('00', 32), 'hex'); n := 0;
        for e in select * from consent_events where org_id = c.org_id and phone = c.phone order by id loop
            n := n + 1;
            update consent_events set seq = n, prev_hash = h, hash = consent_line_hash(e, n, h) where id = e.id;
            h := consent_line_hash(e, n, h);
        end loop;
        update consents set chain_length = n, chain_head = h where org_id = c.org_id and phone = c.phone;
    end loop;
end $$`

func (e *evidence) verify() (anchor.Report, error) {
	known, _, err := e.anchors.Anchors(e.t.Context())
	require.NoError(e.t, err)
	return anchor.Check{
		Dir: e.writer.Dir, Keys: []ed25519.PublicKey{e.public}, Find: e.anchors.NamedLedgers, Known: known,
		Claimed: e.anchors.ClaimedLedgers, Contradicted: e.anchors.ContradictedLedgers, Gone: e.anchors.GoneLedgers,
	}.Verify(e.t.Context())
}

func (e *evidence) finds(words ...string) {
	e.t.Helper()
	report, err := e.verify()
	require.NoError(e.t, err)
	require.Len(e.t, report.Findings, 1, report.Findings)
	for _, w := range words {
		require.Contains(e.t, report.Findings[0], w)
	}
	require.NotContains(e.t, report.Findings[0], "+1415")
}

// whole returns what both verifiers of before say: the database's own, and that of an export.
func (e *evidence) whole(phone string) {
	e.t.Helper()
	to, err := sms.StoredPhone(phone)
	require.NoError(e.t, err)
	ledger, err := e.store.Consent(e.t.Context(), org, to, ledgers.Page{Limit: edge.LargestPage})
	require.NoError(e.t, err)
	require.Nil(e.t, ledger.Broken)
}

func (e *evidence) file() string {
	return filepath.Join(e.writer.Dir, "anchors-2020-11-20.jsonl")
}

func TestAnchors(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	t.Run("UntouchedLedgersAreWhatTheAnchorsHold", func(t *testing.T) {
		t.Parallel()
		e := anchored(t)
		e.note(ada, "letter 3")
		_, unanchored, err := e.anchors.Anchors(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, unanchored)
		e.anchor()
		report, err := e.verify()
		require.NoError(t, err)
		require.Equal(t, anchor.Report{Statements: 2, Entries: 3}, report, "only what has new lines is anchored again")
		text, err := os.ReadFile(e.file())
		require.NoError(t, err)
		require.NotContains(t, string(text)+e.logged.String(), "1415555")
		require.NotContains(t, string(text), "letter")
		require.Contains(t, e.logged.String(), "ledger.anchored")
	})

	t.Run("LinesWaitSinceTheFirstThatNoAnchorHoldsOrTheAnchorAfterIt", func(t *testing.T) {
		t.Parallel()
		e := anchored(t)
		waits := func() time.Duration {
			since, err := e.anchors.UnanchoredSince(t.Context())
			require.NoError(t, err)
			if since == nil {
				return -1
			}
			return since.Sub(at)
		}
		require.EqualValues(t, -1, waits(), "none does")
		note := ledgers.Note{OrgID: org, Phone: phone(t, bob), State: consent.OptedOut, Reason: "letter 3", At: at.Add(7 * time.Hour)}
		_, err := e.store.SetConsent(t.Context(), note)
		require.NoError(t, err)
		require.Equal(t, 7*time.Hour, waits(), "a new line, long after the last anchor")
		e.asOwner(`update ledger_anchors set at = at + interval '9 hours'`)
		require.Equal(t, 9*time.Hour, waits(), "a backlog that is worked off")
	})

	t.Run("TheLoginThatServesRewritesNothing", func(t *testing.T) {
		t.Parallel()
		e := anchored(t)
		for _, deed := range []string{
			`update consent_events set words = 'never'`, `delete from consent_events`, guardsOff, `truncate consent_events cascade`, `delete from consents`,
			`update ledger_anchors set hash = hash`, `delete from ledger_anchors`, `create or replace function refuse_change() returns trigger language sql as ''`,
		} {
			_, err := e.served.Exec(t.Context(), deed)
			require.Error(t, err, deed)
			require.Regexp(t, "permission denied|must be owner", err.Error(), deed)
		}
	})

	for name, tt := range map[string]struct {
		deed  []string
		whole bool // the ledger of before verifies all the same
		want  []string
	}{
		"ALedgerThatTheOwnerRewroteAndHashedAnewIsFound": {
			deed: []string{guardsOff, `update consent_events set words = 'letter X' where phone = '` + ada + `' and seq = 2`, rehash}, whole: true,
			want: []string{"rewritten", "its first 2 lines", "anchor 1 of 2020-11-20T12:00:00Z", org.String()},
		},
		"AnActorWhoWasReplacedIsFound": {
			deed: []string{guardsOff, `update consent_events set actor = '{"subject": "eve", "role": "operator"}' where phone = '` + ada + `' and seq = 1`}, whole: true,
			want: []string{"rewritten"},
		},
		"LinesThatTheOwnerTookAwayAreFound": {
			deed: []string{guardsOff, `delete from consent_events where phone = '` + ada + `' and seq = 2`, `update consents set state = 'opted_out' where phone = '` + ada + `'`, rehash}, whole: true,
			want: []string{"it has 1 lines, and had 2"},
		},
		"ARewrittenLedgerIsNotHiddenByTrueHashesOfIt": {
			deed: []string{
				`insert into forgotten_ledgers (ledger_id, org_id, forgotten_at, witnesses)
					select ledger_id, org_id, updated_at, consent_witnesses(org_id, phone) from consents where phone = '` + ada + `'`,
				guardsOff, rewrite, rehash,
			}, whole: true,
			want: []string{"rewritten"},
		},
		"ALedgerThatIsKeptOutOfAnchorsIsFound": {
			deed: []string{`update consents set anchored = 1000 where phone = '` + ada + `'`},
			want: []string{"says that 1000 of its lines are anchored, and anchors hold 2"},
		},
		"LinesThatAreKeptOutOfAnchorsByTheLengthOfTheirLedgerAreFound": {
			deed: []string{`update consents set chain_length = 0, anchored = 0 where phone = '` + ada + `'`},
			want: []string{"it is opted_in after line 0, and the last line says opted_in and is line 2"},
		},
		"AStateThatTheOwnerWroteIsFound": {
			deed: []string{`update consents set state = 'opted_out' where phone = '` + ada + `'`},
			want: []string{"the state is not what the ledger says", "it is opted_out after line 2, and the last line says opted_in and is line 2"},
		},
		"ALedgerThatTheOwnerDeletedIsFound": {
			deed: []string{guardsOff, `delete from consent_events where phone = '` + ada + `'`, `delete from consents where phone = '` + ada + `'`},
			want: []string{"deleted, and had 2 lines", "anchor 1 of 2020-11-20T12:00:00Z"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := anchored(t)
			e.asOwner(tt.deed...)
			if tt.whole {
				e.whole(ada)
			}
			e.finds(tt.want...)
			e.note(bob, "letter 3")
			e.anchor()
			e.finds(tt.want...) // and no later anchor covers it
		})
	}

	t.Run("AnOptOutIsNeverForgottenNorErasedWithoutWhatKeepsIt", func(t *testing.T) {
		t.Parallel()
		e := anchored(t)
		e.note(ada, "letter 3")
		e.asOwner(`update consents set state = 'opted_in'`)
		tag, err := e.served.Exec(t.Context(), `select forget_ledger($1, $2, $3)`, org, ada, at.Add(time.Hour))
		require.NoError(t, err)
		require.Zero(t, tag.RowsAffected())
		_, err = e.served.Exec(t.Context(), `select erase_person($1, $2, $3, 'none', $4, '{}', '{}')`, org, ada, org, at)
		require.ErrorContains(t, err, "is not kept")
		e.asOwner(`update consents set state = 'opted_out'`)
		e.whole(ada)
	})

	// The ledger of Ada is deleted lawfully; before or after it the owner does what they must not.
	for name, tt := range map[string]struct {
		before, after []string
		forgotten     bool
		want          []string // none when it is lawful
	}{
		"AnErasedLedgerFits":              {},
		"ALedgerTakenByRetentionFits":     {forgotten: true},
		"WhatWasRewrittenIsStillErased":   {before: []string{guardsOff, rewrite, rehash}, want: []string{"erased at", "rewritten"}},
		"WhatWasNotHashedAnewEither":      {before: []string{guardsOff, rewrite}, want: []string{"erased at", "rewritten"}},
		"WhatWasRewrittenIsStillTaken":    {before: []string{guardsOff, rewrite, rehash}, forgotten: true, want: []string{"retention", "rewritten"}},
		"KeptLinesThatAreRewritten":       {after: []string{`update erased_ledgers set lines = set_byte(lines, 20, 1 - get_byte(lines, 20) % 2)`}, want: []string{"not what was sealed"}},
		"KeptLinesThatAreTakenAway":       {after: []string{`update erased_ledgers set lines = ''`}, want: []string{"not what was sealed"}},
		"AKeptTimeThatIsRewritten":        {after: []string{`update erased_ledgers set erased_at = now()`}, want: []string{"not what was sealed"}},
		"KeptWitnessesThatAreRewritten":   {after: []string{`update forgotten_ledgers set witnesses[2] = witnesses[1]`}, forgotten: true, want: []string{"rewritten"}},
		"ALedgerThatIsInNeitherIsDeleted": {after: []string{`delete from forgotten_ledgers`}, forgotten: true, want: []string{"it is deleted, and had 2 lines"}},
		"SoIsOneWithoutItsErasedLedger": {
			after: []string{`delete from erased_ledgers`}, want: []string{"it is deleted, and had 2 lines"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := anchored(t)
			e.asOwner(tt.before...)
			if tt.forgotten {
				_, err := e.served.Exec(t.Context(), `select forget_ledger($1, $2, $3)`, org, ada, at.Add(time.Hour))
				require.NoError(t, err)
			} else {
				e.erase(ada)
			}
			e.asOwner(tt.after...)
			if len(tt.want) > 0 {
				e.finds(tt.want...)
				return
			}
			report, err := e.verify()
			require.NoError(t, err)
			require.Empty(t, report.Findings)
			require.Len(t, report.Lawful, 1)
			require.Contains(t, report.Lawful[0], "lawfully at 2020-11-20T13:00:00Z: 2 lines, witness fits")
			e.note(ada, "letter 3") // the number belongs to a person again
			e.anchor()
			report, err = e.verify()
			require.NoError(t, err)
			require.Empty(t, report.Findings)
		})
	}

	t.Run("LedgersThatWereGoneBeforeTheirFirstAnchorAreListed", func(t *testing.T) {
		t.Parallel()
		e := anchored(t)
		for _, phone := range []string{"+14155550125", "+14155550126"} {
			e.note(phone, "letter 1")
			e.note(phone, agreed)
		}
		e.erase("+14155550125")
		_, err := e.served.Exec(t.Context(), `select forget_ledger($1, $2, $3)`, org, "+14155550126", at.Add(time.Hour))
		require.NoError(t, err)
		report, err := e.verify()
		require.NoError(t, err)
		require.Empty(t, report.Findings)
		require.Len(t, report.Lawful, 2)
		listed := strings.Join(report.Lawful, "\n")
		require.Contains(t, listed, "erased at 2020-11-20T13:00:00Z, and no anchor ever held it")
		require.Contains(t, listed, "taken by retention at 2020-11-20T13:00:00Z, and no anchor ever held it")
	})

	t.Run("AYoungLedgerIsNotForgotten", func(t *testing.T) {
		t.Parallel()
		e := anchored(t)
		e.asOwner(guardsOff, `update consent_events set at = now() - interval '364 days' where phone = '`+ada+`' and seq = 2`)
		tag, err := e.served.Exec(t.Context(), `select forget_ledger($1, $2, $3)`, org, ada, at.Add(time.Hour))
		require.NoError(t, err)
		require.Zero(t, tag.RowsAffected())
	})

	t.Run("WithoutTheKeyWhatIsLeftOfAnErasedLedgerIsNotRead", func(t *testing.T) {
		t.Parallel()
		e := anchored(t)
		e.erase(ada)
		e.anchors.Pseudonyms = consent.Pseudonyms{}
		report, err := e.verify()
		require.NoError(t, err)
		require.Equal(t, anchor.Report{Statements: 1, Entries: 2, Untold: 1}, report)
		e.anchors.Pseudonyms = consent.NewPseudonyms("another key of at least 32 bytes ..")
		e.finds("erased at", "not what was sealed under this PSEUDONYM_KEY")
	})

	t.Run("ALedgerFromBeforeThereWereNamesKeepsItsName", func(t *testing.T) {
		t.Parallel()
		e := anchored(t)
		e.asOwner(`update consents set ledger_id = null, anchored = 0`)
		require.NoError(t, os.Remove(e.file()))
		e.asOwner(`delete from ledger_anchors`)
		e.anchor()
		e.erase(ada)
		report, err := e.verify()
		require.NoError(t, err)
		require.Empty(t, report.Findings)
		require.Len(t, report.Lawful, 1)
	})

	for name, tt := range map[string]struct {
		edit func(file string) string
		want string
	}{
		"AnEntryThatWasChangedInAFileIsFound": {func(s string) string { return strings.Replace(s, `"lines":2`, `"lines":1`, 1) }, "not signed by a key"},
		"AnAnchorThatWasTakenOutIsFound":      {func(s string) string { _, rest, _ := strings.Cut(s, "\n"); return rest }, "anchor before anchor 2 is missing"},
		"TheLastAnchorTakenOutIsFound":        {func(s string) string { first, _, _ := strings.Cut(s, "\n"); return first + "\n" }, "anchor 2, which the database knows"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := anchored(t)
			e.note(ada, "letter 3")
			e.anchor()
			text, err := os.ReadFile(e.file())
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(e.file(), []byte(tt.edit(string(text))), 0o600))
			report, err := e.verify()
			require.NoError(t, err)
			require.Contains(t, strings.Join(report.Findings, "\n"), tt.want)
		})
	}

	t.Run("AFolderThatIsMissingIsNotBlamedOnTheDatabase", func(t *testing.T) {
		t.Parallel()
		e := anchored(t)
		e.note(ada, "letter 3")
		e.writer.Dir = filepath.Join(t.TempDir(), "missing")
		_, err := e.writer.Once(t.Context())
		require.ErrorContains(t, err, "anchor the ledgers in LEDGER_ANCHOR_DIR: open ")
		require.NotErrorIs(t, err, sms.ErrUnanswered)
	})

	t.Run("ACrashBetweenTheFileAndTheDatabaseIsHarmless", func(t *testing.T) {
		t.Parallel()
		e := anchored(t)
		e.note(ada, "letter 3")
		crashed := errors.New("crashed")
		due := e.writer.Due
		e.writer.Due = func(ctx context.Context, limit int, write func(anchor.Last, []anchor.Ledger) (*anchor.Statement, error)) (int, error) {
			return due(ctx, limit, func(last anchor.Last, ledgers []anchor.Ledger) (*anchor.Statement, error) {
				_, err := write(last, ledgers)
				return nil, errors.Join(err, crashed)
			})
		}
		_, err := e.writer.Once(t.Context())
		require.ErrorIs(t, err, crashed)
		torn, err := os.OpenFile(e.file(), os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = torn.WriteString(`{"version":"paceline-anc`)
		require.NoError(t, errors.Join(err, torn.Close()))
		e.writer.Due = due
		e.writer.Now = func() time.Time { return at.Add(time.Minute) }
		e.anchor()
		e.note(ada, "letter 4")
		e.anchor()
		report, err := e.verify()
		require.NoError(t, err)
		require.Equal(t, anchor.Report{Statements: 4, Entries: 5, Unreadable: 1}, report)
	})
}
