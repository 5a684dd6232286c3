package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/sendtest"
)

// TestStrangersAreErased: of an organisation that has ended no number is left and no word, and of another one all of it. What is left of
// the ledgers still verifies.
func TestStrangersAreErased(t *testing.T) {
	t.Parallel()
	store, pool, p := erasable(t)
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	const strangers = 120
	for i := range strangers {
		p.Phone = sendtest.Phone(t, fmt.Sprintf("+1415555%04d", 1000+i))
		writes(t, store, p, "STOP", at)
	}
	stopped := p.Phone
	_, err := pool.Exec(t.Context(), `update sms_messages set from_number = '+551187651234' where org_id = $1 and from_number = '+14155551000'`, p.OrgID)
	require.NoError(t, err, "a form that is stored no more: Brazil without the 9")
	other := ledger.Person{OrgID: uuid.New(), Phone: p.Phone}
	writes(t, store, other, "hello", at)
	passes := 0
	for more := true; more; passes++ {
		var err error
		more, err = store.EraseStrangers(t.Context(), p.OrgID, at)
		require.NoError(t, err)
		require.Less(t, passes, 10, "it comes to its end")
	}
	require.Greater(t, passes, 2, "some at once")
	var left int
	require.NoError(t, pool.QueryRow(t.Context(), `select (select count(*) from sms_messages where org_id = $1 and (body <> '' or from_number like '+1415555%' or from_number = '+551187651234'))
		+ (select count(*) from consents where org_id = $1) + (select count(*) from holds where org_id = $1)`, p.OrgID).Scan(&left))
	require.Zero(t, left)
	erased, err := store.ErasedConsent(t.Context(), p.OrgID, store.Pseudonyms.Of(p.OrgID.String(), stopped.String()))
	require.NoError(t, err)
	require.False(t, erased.SuppressedAt.IsZero())
	require.Nil(t, store.Pseudonyms.VerifyErased(erased.Ledgers[0]))
	require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from sms_messages where org_id = $1 and body = 'hello'`, other.OrgID).Scan(&left))
	require.Equal(t, 1, left, "that of another organisation")

	store.Pseudonyms = consent.Pseudonyms{}
	more, err := store.EraseStrangers(t.Context(), p.OrgID, at)
	require.NoError(t, err, "without numbers no key is needed")
	require.False(t, more)
	_, err = store.EraseStrangers(t.Context(), other.OrgID, at)
	require.ErrorIs(t, err, ledger.ErrPseudonymKey)
}
