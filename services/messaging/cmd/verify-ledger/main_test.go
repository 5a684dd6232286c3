package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
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

func TestVerify(t *testing.T) {
	t.Parallel()
	const empty = `{"consent":{"phone":"+14155550123"},"events":[],"chain":{"org_id":"o","length":0,"head":""}}`
	var out strings.Builder
	_, err := verify(strings.NewReader(empty), &out)
	require.NoError(t, err)
	require.Contains(t, out.String(), "ok: 0 lines")
	_, err = verify(strings.NewReader(strings.Replace(empty, `"length":0,"head":""`, `"length":1,"head":"ab"`, 1)), &out)
	require.ErrorContains(t, err, "line 1")
	_, err = verify(strings.NewReader("no"), &out)
	require.ErrorIs(t, err, consent.ErrExport)
}

func TestMain(m *testing.M) { pgtest.Run(m) }

// TestAnchors has the ledger of a person anchored, who then opts out again.
func TestAnchors(t *testing.T) {
	t.Parallel()
	at, org := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), uuid.New()
	pool := pgtest.New(t, schema.Migrations())
	store := sendtest.NewStore(pool)
	to, err := sms.StoredPhone("+14155550123")
	require.NoError(t, err)
	export := func(reason string) string {
		_, err := store.SetConsent(t.Context(), ledgers.Note{OrgID: org, Phone: to, State: consent.OptedOut, Reason: reason, At: at})
		require.NoError(t, err)
		ledger, err := store.Consent(t.Context(), org, to, ledgers.Page{Limit: edge.LargestPage})
		require.NoError(t, err)
		answer := map[string]any{"consent": map[string]any{"phone": to.String()}, "chain": map[string]any{
			"org_id": org.String(), "length": ledger.Chain.Length, "head": ledger.Chain.Head,
		}}
		var events []map[string]any
		for _, l := range ledger.Events {
			events = append(events, map[string]any{
				"at": l.At, "state": l.State, "source": l.Source, "words": l.Words, "seq": l.Seq, "prev_hash": l.PrevHash, "hash": l.Hash,
			})
		}
		answer["events"] = events
		text, err := json.Marshal(answer)
		require.NoError(t, err)
		return string(text)
	}
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	key, err := anchor.ParseKey(base64.StdEncoding.EncodeToString(der))
	require.NoError(t, err)
	pub, err := x509.MarshalPKIXPublicKey(public)
	require.NoError(t, err)
	dir := t.TempDir()
	keys := filepath.Join(dir, "ledger.pub")
	require.NoError(t, os.WriteFile(keys, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub}), 0o600))
	writer := anchor.Writer{
		Due: (&anchor.Store{Pool: pool}).AnchorLedgers, Dir: dir, Key: key, Now: func() time.Time { return at }, Log: slog.New(slog.DiscardHandler),
	}
	export("letter 1")
	erased, err := sms.StoredPhone("+14155550124")
	require.NoError(t, err)
	_, err = store.SetConsent(t.Context(), ledgers.Note{OrgID: org, Phone: erased, State: consent.OptedOut, Reason: "letter", At: at})
	require.NoError(t, err)
	_, err = writer.Once(t.Context())
	require.NoError(t, err)
	env := map[string]string{"MESSAGING_DATABASE_URL": pool.Config().ConnString()}
	asks := func(from string, more ...string) (string, error) {
		var out strings.Builder
		args := append([]string{"--anchors", dir, "--public-key", keys}, more...)
		err := run(t.Context(), args, func(name string) string { return env[name] }, strings.NewReader(from), &out)
		return out.String(), err
	}

	longer := export("letter 2")
	said, err := asks(longer)
	require.NoError(t, err)
	require.Contains(t, said, "1 of 2 lines are anchored")
	said, err = asks("", "--database")
	require.NoError(t, err)
	require.Contains(t, said, "ok: 1 anchors with 2 entries")
	require.Contains(t, said, "1 ledgers have lines that no anchor holds yet")

	const pseudonymKey = "a key of at least thirty-two bytes"
	gone := ledgers.Person{OrgID: org, ProfileID: uuid.New(), Phone: erased}
	store.Pseudonyms = consent.NewPseudonyms(pseudonymKey)
	_, err = store.ErasePerson(t.Context(), gone, at)
	require.NoError(t, err)
	said, err = asks("", "--database")
	require.NoError(t, err)
	require.Contains(t, said, "untold: 1 ledgers were erased")
	require.Contains(t, said, "(0 are gone, 1 untold)")
	env["PSEUDONYM_KEY"] = pseudonymKey + "\n"
	said, err = asks("", "--database")
	require.NoError(t, err)
	require.Contains(t, said, "erased lawfully at 2026-11-20T12:00:00Z: 1 lines, witness fits")
	require.Contains(t, said, "(1 are gone, 0 untold)")

	const guardsOff = "alter table consent_events disable trigger user; update consent_events set words = 'letter X', prev_hash = null, hash = null; " +
		"update consents set chain_head = null, chain_length = 0"
	_, err = pgtest.Owner(t, pool).Exec(t.Context(), guardsOff)
	require.NoError(t, err)
	said, err = asks("", "--database")
	require.ErrorContains(t, err, "2 findings")
	require.Contains(t, said, "it was rewritten")
	require.Contains(t, said, "after line 0")
	_, err = asks(strings.Replace(longer, "letter", "postcard", 1))
	require.ErrorContains(t, err, "the chain breaks at line 1")
	_, err = asks(`{"consent":{"phone":"+14155550123"},"events":[],"chain":{"org_id":"o","length":0,"head":""}}`)
	require.ErrorContains(t, err, "no anchor holds any line")
	require.ErrorContains(t, run(t.Context(), []string{"--anchors", dir}, nil, nil, nil), "both")
}
