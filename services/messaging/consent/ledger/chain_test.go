package ledger_test

import (
	"fmt"
	"io/fs"
	"strconv"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	platform "paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging/consent"
	ledgers "paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/sendtest"
)

const ofWhom = "+14155550123"

var everything = ledgers.Page{Limit: edge.LargestPage}

// beyondDoubt is evidence of an opt-in that no opt-out is newer than.
var beyondDoubt = &consent.Evidence{Method: "phone call", CollectedAt: time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC), Reference: "call 815"}

// written makes a ledger of n lines.
func written(t *testing.T, store sendtest.Store, org uuid.UUID, n int) ledgers.Ledger {
	t.Helper()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var ledger ledgers.Ledger
	for i := range n {
		state := []consent.State{consent.OptedOut, consent.OptedIn}[i%2]
		var err error
		ledger, err = store.SetConsent(t.Context(), ledgers.Note{
			OrgID: org, Phone: sendtest.Phone(t, ofWhom), State: state, Reason: fmt.Sprint("não, call ", i), Sender: "MG1", At: at.Add(time.Duration(i) * time.Second),
			Evidence: beyondDoubt,
		})
		require.NoError(t, err)
	}
	return ledger
}

// TestLedgerIsAChain: Postgres writes the hashes and consent.Verify computes them, so each of these checks the one by the other.
func TestLedgerIsAChain(t *testing.T) {
	t.Parallel()

	t.Run("WhateverIsSaidIsHashedAlike", func(t *testing.T) {
		t.Parallel()
		store, org := sendtest.NewStore(pgtest.New(t, schema.Migrations())), uuid.New()
		at, n := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), 0
		rapid.Check(t, func(r *rapid.T) {
			n++
			words := rapid.StringOf(rapid.Rune().Filter(func(r rune) bool { return r != 0 })).Draw(r, "words") + "." + strconv.Itoa(n) // a repeat of the last line is none
			ledger, err := store.SetConsent(t.Context(), ledgers.Note{
				OrgID: org, Phone: sendtest.Phone(t, ofWhom), State: rapid.SampledFrom([]consent.State{consent.OptedIn, consent.OptedOut}).Draw(r, "state"),
				Reason: words, Sender: rapid.SampledFrom([]string{"", "MG1", "é"}).Draw(r, "sender"),
				At: at.Add(time.Duration(rapid.Int64Range(-1<<60, 1<<60).Draw(r, "at"))), Evidence: beyondDoubt,
			})
			require.NoError(r, err)
			require.Nil(r, ledger.Broken)
			require.EqualValues(r, n, ledger.Chain.Length)
		})
	})

	t.Run("LinesOfOneMomentAreOneAfterTheOther", func(t *testing.T) {
		t.Parallel()
		store, org := sendtest.NewStore(pgtest.New(t, schema.Migrations())), uuid.New()
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				_, err := store.SetConsent(t.Context(), ledgers.Note{
					OrgID: org, Phone: sendtest.Phone(t, ofWhom), State: []consent.State{consent.OptedOut, consent.OptedIn}[i%2], Reason: "at once " + strconv.Itoa(i),
					At: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), Evidence: beyondDoubt,
				})
				require.NoError(t, err)
			})
		}
		all.Wait()
		ledger, err := store.Consent(t.Context(), org, sendtest.Phone(t, ofWhom), everything)
		require.NoError(t, err)
		require.Len(t, ledger.Events, 16)
		require.Nil(t, ledger.Broken)
	})

	t.Run("LedgerIsReadInPagesAndVerifiedAsAWhole", func(t *testing.T) {
		t.Parallel()
		pool, org := pgtest.New(t, schema.Migrations()), uuid.New()
		store := sendtest.NewStore(pool)
		whole := written(t, store, org, 5)
		var after int64
		var read []ledgers.Line
		for more := true; more; {
			ledger, err := store.Consent(t.Context(), org, sendtest.Phone(t, ofWhom), ledgers.Page{After: after, Limit: 2})
			require.NoError(t, err)
			require.Nil(t, ledger.Broken)
			read = append(read, ledger.Events...)
			more, after = ledger.More, ledger.Events[len(ledger.Events)-1].Seq
		}
		require.Equal(t, whole.Events, read)
		beyond, err := store.Consent(t.Context(), org, sendtest.Phone(t, ofWhom), ledgers.Page{After: 9, Limit: 2})
		require.NoError(t, err)
		require.Empty(t, beyond.Events)
		tamper(t, pool, "update consent_events set words = 'x' where seq = 4")
		first, err := store.Consent(t.Context(), org, sendtest.Phone(t, ofWhom), ledgers.Page{Limit: 2})
		require.NoError(t, err)
		require.NotNil(t, first.Broken, "on every page")
	})
}

// tamper does what only the owner of the tables can do: it takes the guards off.
func tamper(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	owner := pgtest.Owner(t, pool)
	_, err := owner.Exec(t.Context(), "alter table consent_events disable trigger user")
	require.NoError(t, err)
	_, err = owner.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
	_, err = owner.Exec(t.Context(), "alter table consent_events enable trigger user")
	require.NoError(t, err)
}

func TestTamperingIsFound(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		deed string
		want int64
	}{
		{name: "WordsChanged", deed: "update consent_events set words = 'START' where seq = 2", want: 2},
		{name: "StateTurned", deed: "update consent_events set state = 'opted_in' where seq = 1", want: 1},
		{name: "TimeMoved", deed: "update consent_events set at = at + interval '1 microsecond' where seq = 3", want: 3},
		{name: "LineTakenOut", deed: "delete from consent_events where seq = 2", want: 2},
		{name: "LastLineTakenOut", deed: "delete from consent_events where seq = 4", want: 4},
		{name: "HashesForgedForOneLine", deed: "update consent_events e set words = 'x', hash = consent_line_hash((e.id, e.org_id, e.phone, e.at, e.state, " +
			"e.source, 'x', e.sender, e.message_id, e.keyword_pack, e.seq, e.rules_version, e.confirmed_by, e.confirmation, e.prev_hash, e.hash, e.actor)::consent_events, " +
			"e.seq, e.prev_hash) where seq = 2", want: 3},
		{name: "HashesTakenAway", deed: "update consent_events set hash = null, prev_hash = null, words = 'x' where seq = 1", want: 2},
		{name: "NumbersSwapped", deed: "update consent_events set seq = 5 - seq where seq in (2, 3)", want: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pool, org := pgtest.New(t, schema.Migrations()), uuid.New()
			store := sendtest.NewStore(pool)
			require.Nil(t, written(t, store, org, 4).Broken)
			_, err := pool.Exec(t.Context(), tt.deed)
			require.ErrorContains(t, err, "permission denied", "the login that serves changes nothing")
			_, err = pgtest.Owner(t, pool).Exec(t.Context(), tt.deed)
			require.ErrorContains(t, err, "append-only", "nor does the owner before the guards are taken off")
			tamper(t, pool, tt.deed)
			ledger, err := store.Consent(t.Context(), org, sendtest.Phone(t, ofWhom), everything)
			require.NoError(t, err)
			require.NotNil(t, ledger.Broken)
			require.Equal(t, tt.want, ledger.Broken.Seq, ledger.Broken.Why)

			again, err := store.SetConsent(t.Context(), ledgers.Note{
				OrgID: org, Phone: sendtest.Phone(t, ofWhom), State: consent.OptedOut, Reason: "a line more", At: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
			})
			require.NoError(t, err)
			require.NotNil(t, again.Broken, "and no later line mends it")
		})
	}
}

// upTo are the migrations before a number.
func upTo(t *testing.T, number string) platform.Migrations {
	t.Helper()
	files := fstest.MapFS{}
	names, err := fs.Glob(schema.Migrations().FS, "*.sql")
	require.NoError(t, err)
	for _, name := range names {
		if name < number {
			text, err := fs.ReadFile(schema.Migrations().FS, name)
			require.NoError(t, err)
			files[name] = &fstest.MapFile{Data: text}
		}
	}
	return platform.Migrations{FS: files}
}

// TestLedgerOfBefore goes up with a ledger of the release before, which has no hashes, and has that release write on.
func TestLedgerOfBefore(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	const old = `
		with changed as (
			insert into consents as c (org_id, phone, state, updated_at) values ($1, $2, $3, now())
			on conflict (org_id, phone) do update set state = excluded.state
			returning org_id, phone
		)
		insert into consent_events (org_id, phone, at, state, source, words, sender)
		select org_id, phone, now(), $3, $4, 'é', '' from changed`
	setup := func(t *testing.T) (string, *pgxpool.Pool, uuid.UUID) {
		t.Helper()
		url := pgtest.OwnerURL(t, pgtest.URL(t, schema.Migrations()))
		require.NoError(t, schema.Migrations().Down(t.Context(), url))
		require.NoError(t, upTo(t, "0005").Up(t.Context(), url))
		pool, err := platform.Open(t.Context(), platform.Config{URL: url})
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		org := uuid.New()
		for _, state := range []string{"opted_in", "opted_out"} {
			_, err = pool.Exec(t.Context(), old, org, ofWhom, state, map[string]string{"opted_in": "first_send", "opted_out": "twilio_21610"}[state])
			require.NoError(t, err)
		}
		return url, pool, org
	}

	t.Run("IsSealedByTheMigration", func(t *testing.T) {
		t.Parallel()
		url, pool, org := setup(t)
		_, err := pool.Exec(t.Context(), `
			with c as (insert into consents select $1, '+1415556' || n, 'opted_in', now() from generate_series(1000, 2100) n returning org_id, phone)
			insert into consent_events (org_id, phone, at, state, source, words, sender) select org_id, phone, now(), 'opted_in', 'first_send', '', '' from c`, org)
		require.NoError(t, err)
		require.NoError(t, schema.Migrations().Up(t.Context(), url))
		var unsealed int
		require.NoError(t, pool.QueryRow(t.Context(), "select count(*) from consents where chain_head is null").Scan(&unsealed))
		require.Zero(t, unsealed)
		store := sendtest.NewStore(pool)
		ledger, err := store.Consent(t.Context(), org, sendtest.Phone(t, ofWhom), everything)
		require.NoError(t, err)
		require.Nil(t, ledger.Broken)
		require.EqualValues(t, 2, ledger.Chain.Length)
		require.Empty(t, ledger.Events[1].Hash)
		require.EqualValues(t, 2, ledger.Events[1].Seq)
		require.True(t, ledger.CarrierBlocks)

		_, err = pool.Exec(t.Context(), old, org, ofWhom, "opted_in", "first_send") // by a process of the release before
		require.NoError(t, err)
		ledger, err = store.Consent(t.Context(), org, sendtest.Phone(t, ofWhom), everything)
		require.NoError(t, err)
		require.Nil(t, ledger.Broken)
		require.NotEmpty(t, ledger.Events[2].Hash)
		tamper(t, pool, "update consent_events set words = 'x' where org_id = $1 and phone = $2 and hash is null", org, ofWhom)
		ledger, err = store.Consent(t.Context(), org, sendtest.Phone(t, ofWhom), everything)
		require.NoError(t, err)
		require.NotNil(t, ledger.Broken, "a line without a hash of its own is sealed all the same")
		require.NoError(t, schema.Migrations().Down(t.Context(), url))
	})

	t.Run("IsSealedByItsNextLineBeforeThat", func(t *testing.T) {
		t.Parallel()
		url, pool, org := setup(t)
		require.NoError(t, upTo(t, "0006").Up(t.Context(), url))
		_, err := pool.Exec(t.Context(), old, org, ofWhom, "opted_in", "first_send")
		require.NoError(t, err)
		require.NoError(t, schema.Migrations().Up(t.Context(), url))
		ledger, err := sendtest.NewStore(pool).Consent(t.Context(), org, sendtest.Phone(t, ofWhom), everything)
		require.NoError(t, err)
		require.Nil(t, ledger.Broken)
		require.EqualValues(t, 3, ledger.Chain.Length)
		require.EqualValues(t, 3, ledger.Events[2].Seq)
	})
}

// TestStateIsWhatTheLedgerSays is about a state that is written by hand, with the login that serves.
func TestStateIsWhatTheLedgerSays(t *testing.T) {
	t.Parallel()
	const refused, stranger = "not what the last line of its ledger says", "+14155550199"
	pool, org := pgtest.New(t, schema.Migrations()), uuid.New()
	store, who := sendtest.NewStore(pool), sendtest.Phone(t, ofWhom)
	note := ledgers.Note{OrgID: org, Phone: who, State: consent.OptedOut, Reason: "letter", At: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	_, err := store.SetConsent(t.Context(), note)
	require.NoError(t, err)
	const by = `update consents set state = 'opted_in' where org_id = $1 and phone = $2`
	for deed, phone := range map[string]string{
		by: ofWhom,
		`insert into consents (org_id, phone, state, updated_at) values ($1, $2, 'opted_in', now())`: stranger,
		`with c as (insert into consents (org_id, phone, state, updated_at) values ($1, $2, 'opted_in', now()) returning org_id, phone)
			insert into consent_events (org_id, phone, at, state, source, words, sender)
			select org_id, phone, now(), 'opted_out', 'operator', 'letter', '' from c`: stranger,
	} {
		_, err := pool.Exec(t.Context(), deed, org, phone)
		require.ErrorContains(t, err, refused, deed)
	}
	_, err = pgtest.Owner(t, pool).Exec(t.Context(), by, org, ofWhom)
	require.NoError(t, err)
	ledger, err := store.Consent(t.Context(), org, who, everything)
	require.NoError(t, err)
	require.Equal(t, &consent.Break{Seq: 1, Why: "the state is not what the ledger says: it is opted_in, and the last line says opted_out"}, ledger.Broken)
	_, err = store.SetConsent(t.Context(), note)
	require.NoError(t, err, "a note repairs it")
}
