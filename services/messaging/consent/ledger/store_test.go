package ledger_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging/consent"
	ledgers "paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

func TestSetConsent(t *testing.T) {
	t.Parallel()
	store := sendtest.NewStore(pgtest.New(t, schema.Migrations()))
	org, who, at := uuid.Must(uuid.NewV7()), sendtest.Phone(t, "+14155550123"), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	_, err := store.Consent(t.Context(), org, who, ledgers.Page{Limit: 1})
	require.ErrorIs(t, err, ledgers.ErrConsentNotFound)
	note := ledgers.Note{OrgID: org, Phone: who, State: consent.OptedOut, Reason: "called us", Sender: "MG1", At: at}
	_, err = store.SetConsent(t.Context(), note)
	require.NoError(t, err)
	note.Reason, note.At = "called again", at.Add(time.Hour)
	ledger, err := store.SetConsent(t.Context(), note)
	require.NoError(t, err)
	require.Nil(t, ledger.Broken)
	require.Len(t, ledger.Events, 2)
	first, second := ledger.Events[0].Hash, ledger.Events[1].Hash
	require.Equal(t, ledgers.Ledger{
		OrgID: org, Phone: who, State: consent.OptedOut, UpdatedAt: at, Chain: consent.Chain{Length: 2, Head: second, State: "opted_out"},
		Events: []ledgers.Line{
			{
				Event: ledgers.Event{At: at, State: consent.OptedOut, Source: ledgers.FromOperator, Words: "called us", Sender: "MG1"},
				Seq:   1, PrevHash: consent.NoHash, Hash: first,
			},
			{
				Event: ledgers.Event{
					At: at.Add(time.Hour), State: consent.OptedOut, Source: ledgers.FromOperator, Words: "called again", Sender: "MG1",
				},
				Seq: 2, PrevHash: first, Hash: second,
			},
		},
	}, ledger)
	claim, err := store.Claim(t.Context(), sendtest.Attempt(t, org, who, "key"))
	require.NoError(t, err)
	require.Equal(t, send.Claim{OptedOut: true}, claim)
}
