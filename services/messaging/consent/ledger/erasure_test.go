package ledger_test

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/inbound"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
)

const pseudonymKey = "a key of at least thirty-two bytes"

// erasable is a store and a person of it.
func erasable(t *testing.T) (sendtest.Store, *pgxpool.Pool, ledger.Person) {
	t.Helper()
	pool := pgtest.New(t, schema.Migrations())
	store := sendtest.NewStore(pool)
	store.Pseudonyms = consent.NewPseudonyms(pseudonymKey)
	return store, pool, ledger.Person{OrgID: uuid.New(), ProfileID: uuid.New(), Phone: sendtest.Phone(t, "+14155550123")}
}

// writes has a person text words of consent.
func writes(t *testing.T, store sendtest.Store, p ledger.Person, words string, at time.Time) {
	t.Helper()
	_, err := store.RecordInbound(t.Context(), inbound.Entry{
		Inbound: inbound.Inbound{OrgID: p.OrgID, SID: "SM" + uuid.NewString(), From: p.Phone, To: "+14155550100", Body: words, ReceivedAt: at},
		ID:      uuid.Must(uuid.NewV7()), At: at,
	})
	require.NoError(t, err)
}

// erase erases a person to whom nothing is on its way.
func erase(t *testing.T, store sendtest.Store, p ledger.Person, at time.Time) ledger.Erasure {
	t.Helper()
	e, err := store.ErasePerson(t.Context(), p, at)
	require.NoError(t, err)
	require.Equal(t, uuid.Nil, e.WaitsFor)
	return e
}

// dump is everything that a database has, as text.
func dump(t *testing.T, pool *pgxpool.Pool) (all string) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `select string_agg(query_to_xml(format('select r::text from %I r', tablename), true, true, '')::text, '')
		from pg_tables where schemaname = 'public'`).Scan(&all))
	return all
}

func TestErasePerson(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

	t.Run("WaitsForWhatIsOnItsWayAndLetsNothingElseGo", func(t *testing.T) {
		t.Parallel()
		store, _, p := erasable(t)
		a := sendtest.Attempt(t, p.OrgID, p.Phone, "key")
		claim, err := store.Claim(t.Context(), a)
		require.NoError(t, err)
		require.True(t, claim.Won)
		e, err := store.ErasePerson(t.Context(), p, at)
		require.NoError(t, err)
		require.Equal(t, claim.Message.ID, e.WaitsFor)
		claim, err = store.Claim(t.Context(), sendtest.Attempt(t, p.OrgID, p.Phone, "another"))
		require.NoError(t, err)
		require.False(t, claim.Won)
		require.True(t, claim.Held)
	})

	t.Run("LeavesNeitherWordsNorNumber", func(t *testing.T) {
		t.Parallel()
		store, pool, p := erasable(t)
		a := sendtest.Attempt(t, p.OrgID, p.Phone, "ref-+14155550123")
		_, err := store.Claim(t.Context(), a)
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), `update sms_messages set status = 'delivered', twilio_sid = 'SMx', accepted_at = $1`, at)
		require.NoError(t, err)
		_, err = store.RecordReceipt(t.Context(), receipt("SMx", "sent"))
		require.NoError(t, err)
		writes(t, store, p, "please STOP, says Ana", at)
		writes(t, store, p, "STOP", at)
		_, err = pool.Exec(t.Context(), `update sms_messages set twilio_sid = 'wamid.' || id where direction = 'inbound'`)
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), `insert into sms_looks (message_id, at, finding, detail, candidates)
			select id, $1, 'resolved', 'hello Ana', '[]' from sms_messages where direction = 'outbound'`, at)
		require.NoError(t, err)
		before := dump(t, pool)
		require.Contains(t, before, "4155550123")
		var hash string
		require.NoError(t, pool.QueryRow(t.Context(), `select encode(hash, 'hex') from consent_events limit 1`).Scan(&hash))
		require.Contains(t, before, hash)

		e := erase(t, store, p, at)
		erase(t, store, p, at.Add(time.Hour)) // and again
		_, err = store.RecordReceipt(t.Context(), receipt("SMx", "delivered"))
		require.NoError(t, err)
		after := dump(t, pool)
		for _, word := range []string{"4155550123", "Ana", "hello", "wamid.", hash} {
			require.NotContains(t, after, word)
		}
		left, err := store.ErasedConsent(t.Context(), p.OrgID, e.Pseudonym)
		require.NoError(t, err)
		require.Len(t, left.Ledgers, 1)
		require.EqualValues(t, 2, left.Ledgers[0].Length)
		require.Nil(t, store.Pseudonyms.VerifyErased(left.Ledgers[0]))
		require.Equal(t, at, left.SuppressedAt.UTC())
		_, err = pgtest.Owner(t, pool).Exec(t.Context(), `update erased_ledgers set state = 'opted_in'`)
		require.NoError(t, err)
		left, err = store.ErasedConsent(t.Context(), p.OrgID, e.Pseudonym)
		require.NoError(t, err)
		require.NotNil(t, store.Pseudonyms.VerifyErased(left.Ledgers[0]))
	})

	t.Run("SendsNothingMoreInTheNameOfTheProfile", func(t *testing.T) {
		t.Parallel()
		store, _, p := erasable(t)
		erase(t, store, p, at)
		a := sendtest.Attempt(t, p.OrgID, p.Phone, "straggler")
		a.ProfileID = p.ProfileID
		requireRefused(t, store, a)
		a = sendtest.Attempt(t, p.OrgID, p.Phone, "enrolled anew")
		a.ProfileID = uuid.New()
		claim, err := store.Claim(t.Context(), a)
		require.NoError(t, err)
		require.True(t, claim.Won)
		b := sendtest.Attempt(t, p.OrgID, p.Phone, "straggler") // consent is there again
		b.ProfileID = p.ProfileID
		requireRefused(t, store, b)
	})

	t.Run("LeavesTheCapsOfThePhoneAsFullAsTheyWereAlsoOfOneThatTheyHadBefore", func(t *testing.T) {
		t.Parallel()
		for _, now := range []string{"+14155550123", "+14155550124"} {
			store, pool, p := erasable(t)
			capped := func(key string, profile uuid.UUID) send.Claim {
				a := sendtest.Attempt(t, p.OrgID, p.Phone, key)
				a.ProfileID = profile
				a.Limits.PhoneHour, a.Limits.PhoneDay = send.Cap{Messages: 9, Segments: 9}, send.Cap{Messages: 2, Segments: 9}
				claim, err := store.Claim(t.Context(), a)
				require.NoError(t, err)
				return claim
			}
			require.True(t, capped("before", p.ProfileID).Won)
			_, err := pool.Exec(t.Context(), `update sms_messages set status = 'delivered', twilio_sid = 'SMx', accepted_at = $1`, at)
			require.NoError(t, err)
			erased := p
			erased.Phone = sendtest.Phone(t, now)
			erase(t, store, erased, at)
			require.True(t, capped("enrolled anew", uuid.New()).Won)
			full := capped("one more", uuid.New())
			require.False(t, full.Won)
			require.Equal(t, at.Add(24*time.Hour), full.Exceeded.PhoneDay.UTC())
			require.Zero(t, full.Exceeded.PhoneHour)
		}
	})

	t.Run("EmptiesReceiptsOfMessagesThatAreNoneOfOurs", func(t *testing.T) {
		t.Parallel()
		for number, accounts := range map[string][]string{
			"+14155550123": {"14155550123"}, "+5511987654321": {"5511987654321", "551187654321"}, "+525512345678": {"525512345678", "5215512345678"},
		} {
			store, pool, p := erasable(t)
			p.Phone = sendtest.Phone(t, number)
			receipts := []send.Receipt{{SID: "SMto", Raw: map[string]string{"To": number}}, {SID: "SMfrom", Raw: map[string]string{"From": number}}}
			for _, account := range append(accounts, "14155550199") {
				id := "wamid." + base64.StdEncoding.EncodeToString([]byte("\x1c\x18"+string(rune(len(account)))+account+"\x15\x02\x00\x11\x18\x129F61A"))
				receipts = append(receipts, send.Receipt{SID: id, Raw: map[string]string{"message_id": id}})
			}
			for _, r := range append(receipts, send.Receipt{SID: "wamid.?", Raw: map[string]string{"message_id": "wamid.?"}}) {
				r.Status, r.At = "sent", at
				_, err := store.RecordReceipt(t.Context(), r)
				require.NoError(t, err)
			}
			erase(t, store, p, at)
			var left []string
			require.NoError(t, pool.QueryRow(t.Context(), `select array_agg(twilio_sid) from sms_receipts where raw <> '{}'`).Scan(&left))
			require.ElementsMatch(t, []string{receipts[len(receipts)-1].SID, "wamid.?"}, left, number)
			require.NotContains(t, dump(t, pool), number[1:])
		}
	})

	t.Run("ReadsNoTableWhole", func(t *testing.T) {
		t.Parallel()
		_, pool, p := erasable(t)
		owner := pgtest.Owner(t, pool)
		for _, sql := range []string{
			`insert into sms_receipts (twilio_sid, status, error_code, raw, received_at)
				select case n % 2 when 0 then 'SM' || n else 'wamid.' || encode(convert_to('abc' || 14155600000 + n, 'UTF8'), 'base64') end, 'sent', 0,
					jsonb_build_object('To', '+1415' || 5600000 + n, 'From', '+1415' || 5600000 + n), $1 from generate_series(1, 20000) n`,
			`insert into sms_outbound_jobs (id, org_id, idempotency_key, event_type, subject, payload, priority, status, processed_at, created_at, updated_at)
				select gen_random_uuid(), '` + p.OrgID.String() + `', n::text, 'otp', '', jsonb_build_object('to', '+1415' || 5600000 + n, 'body', ''), 0,
					'completed', $1, $1, $1 from generate_series(1, 20000) n`,
		} {
			_, err := owner.Exec(t.Context(), sql, at)
			require.NoError(t, err)
		}
		_, err := owner.Exec(t.Context(), `analyze`)
		require.NoError(t, err)
		var plan []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
		_, err = conn.Exec(t.Context(), `insert into erased_profiles (org_id, profile_id, pseudonym, began_at) values ($1, $2, 'erased:1', $3)`,
			p.OrgID, p.ProfileID, at)
		require.NoError(t, err)
		for range 2 { // the first one reads the catalogue too
			require.NoError(t, conn.QueryRow(t.Context(), `explain (analyze, buffers, format json) select erase_person($1, $2, $3, 'erased:1', $4, '{}', '{}')`,
				p.OrgID, p.Phone.String(), p.ProfileID, at).Scan(&plan))
		}
		require.Less(t, plan[0].Plan.Hit+plan[0].Plan.Read, 250)
	})

	t.Run("NeedsAKey", func(t *testing.T) {
		t.Parallel()
		store, _, p := erasable(t)
		store.Pseudonyms = consent.Pseudonyms{}
		_, err := store.ErasePerson(t.Context(), p, at)
		require.ErrorIs(t, err, ledger.ErrPseudonymKey)
		_, err = store.CanErase(t.Context(), p)
		require.ErrorIs(t, err, ledger.ErrPseudonymKey)
	})

	t.Run("TakesAStateWithoutLinesToo", func(t *testing.T) {
		t.Parallel()
		store, pool, p := erasable(t)
		for _, state := range []string{"opted_in", "opted_out"} {
			_, err := pgtest.Owner(t, pool).Exec(t.Context(), `insert into consents (org_id, phone, state, updated_at) values ($1, $2, $3, $4)`,
				p.OrgID, p.Phone.String(), state, at)
			require.NoError(t, err)
			erase(t, store, p, at)
			require.NotContains(t, dump(t, pool), p.Phone.String()[1:])
		}
	})

	t.Run("IsTheOnlyWayToTakeALineOutOfTheLedger", func(t *testing.T) {
		t.Parallel()
		store, pool, p := erasable(t)
		writes(t, store, p, "STOP", at)
		_, err := pool.Exec(t.Context(), `set role messaging_worker; set app.erasing = 'DELETE consent_events'; delete from consent_events`)
		require.ErrorContains(t, err, "permission denied")
		_, err = pgtest.Owner(t, pool).Exec(t.Context(), `delete from consent_events`)
		require.ErrorContains(t, err, "append-only")
	})
}

// TestExport: a table that is new is in the export of a person, or says here why not.
func TestExport(t *testing.T) {
	t.Parallel()
	const noPerson, gone = "no person", "what an erasure has left, of a person who cannot be exported any more"
	pgtest.CheckExport(t, schema.Migrations(), ledger.SQLExport, map[string]string{
		"consents": "the ledger, as GET /v1/consents/{phone} has it", "consent_events": "the ledger",
		"event_outbox": "onboarding has it within seconds, and exports it",
		"suppressions": gone, "erased_profiles": gone, "erased_ledgers": gone, "forgotten_ledgers": "hashes",
		"ledger_anchors": noPerson, "sms_counts": noPerson, "sms_quarters": noPerson, "sms_quarters_counted": noPerson, "sender_rates": noPerson, "senders": noPerson, "organisations": noPerson, "organisation_settings": noPerson, "event_types": noPerson, "histories": noPerson, "beats": noPerson, "readbacks": noPerson, "goose_db_version": noPerson,
	})
}

// TestFormerNumbers changes the number of a person twice; another person has one of the two by now.
func TestFormerNumbers(t *testing.T) {
	t.Parallel()
	store, _, p := erasable(t)
	for _, number := range []string{"+14155550124", "+14155550125", p.Phone.String()} {
		a := sendtest.Attempt(t, p.OrgID, sendtest.Phone(t, number), number)
		a.ProfileID = p.ProfileID
		_, err := store.Claim(t.Context(), a)
		require.NoError(t, err)
	}
	a := sendtest.Attempt(t, p.OrgID, sendtest.Phone(t, "+14155550125"), "of another")
	a.ProfileID = uuid.New()
	_, err := store.Claim(t.Context(), a)
	require.NoError(t, err)
	numbers, err := store.FormerNumbers(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, []sms.Phone{sendtest.Phone(t, "+14155550124")}, numbers)
}

func requireRefused(t *testing.T, store sendtest.Store, a send.Attempt) {
	t.Helper()
	claim, err := store.Claim(t.Context(), a)
	require.NoError(t, err)
	require.False(t, claim.Won)
	require.True(t, claim.OptedOut)
}

func receipt(sid, status string) send.Receipt {
	return send.Receipt{
		SID: sid, Status: status, Raw: map[string]string{"To": "+14155550123", "MessageStatus": status},
		At: time.Date(2026, 11, 20, 12, 0, 1, 0, time.UTC), Senders: []uuid.UUID{uuid.Nil},
	}
}

// TestSuppressions: a STOP outlives the number that it was for.
func TestSuppressions(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	at := time.Date(2020, 11, 20, 12, 0, 0, 0, time.UTC)
	stopped := func(t *testing.T) (sendtest.Store, ledger.Person) {
		t.Helper()
		store, _, p := erasable(t)
		writes(t, store, p, "STOP", at)
		erase(t, store, p, at)
		p.ProfileID = uuid.New()
		return store, p
	}

	for name, words := range map[string]string{"AfterTheirSTOP": "STOP", "AfterWordsThatMayBeOne": "leave me alone"} {
		t.Run("TheyAreNotTextedUntilTheirSTART"+name, func(t *testing.T) {
			t.Parallel()
			store, _, p := erasable(t)
			writes(t, store, p, words, at)
			erase(t, store, p, at)
			requireRefused(t, store, sendtest.Attempt(t, p.OrgID, p.Phone, "enrolled anew"))
			state, err := store.State(t.Context(), p.OrgID, p.Phone.String())
			require.NoError(t, err)
			require.Equal(t, consent.OptedOut, state)
			writes(t, store, p, "START", at.Add(time.Hour))
			claim, err := store.Claim(t.Context(), sendtest.Attempt(t, p.OrgID, p.Phone, "enrolled anew"))
			require.NoError(t, err)
			require.True(t, claim.Won)
		})
	}

	t.Run("OnlyTheSTARTOfThePersonEndsThem", func(t *testing.T) {
		t.Parallel()
		store, pool, p := erasable(t)
		writes(t, store, p, "START", at) // of another time
		writes(t, store, p, "STOP", at.Add(time.Minute))
		erase(t, store, p, at.Add(time.Hour))
		other := p
		other.Phone = sendtest.Phone(t, "+14155550124")
		writes(t, store, other, "START", at)
		for _, deed := range []string{
			`delete from suppressions`, `select set_config('app.opted_in', max(id)::text, false) from consent_events; delete from suppressions`,
			`update suppressions set pseudonym = 'erased:1'`,
		} {
			_, err := pool.Exec(t.Context(), deed)
			require.ErrorContains(t, err, "suppression", deed)
		}
	})

	t.Run("NoneIsLeftAfterTheirSTARTToComeBackWithALossOfTheLedger", func(t *testing.T) {
		t.Parallel()
		store, pool, p := erasable(t)
		writes(t, store, p, "STOP", at)
		e := erase(t, store, p, at)
		writes(t, store, p, "START", at.Add(time.Hour))
		left, err := store.ErasedConsent(t.Context(), p.OrgID, e.Pseudonym)
		require.NoError(t, err)
		require.Zero(t, left.SuppressedAt)
		_, err = pool.Exec(t.Context(), `select forget_ledger($1, $2, $3)`, p.OrgID, p.Phone.String(), at.Add(2*time.Hour))
		require.NoError(t, err)
		_, err = store.Consent(t.Context(), p.OrgID, p.Phone, ledger.Page{Limit: 1})
		require.ErrorIs(t, err, ledger.ErrConsentNotFound)
		state, err := store.State(t.Context(), p.OrgID, p.Phone.String())
		require.NoError(t, err)
		require.Empty(t, state)
	})

	t.Run("NoOperatorLiftsThem", func(t *testing.T) {
		t.Parallel()
		store, p := stopped(t)
		note := ledger.Note{OrgID: p.OrgID, Phone: p.Phone, State: consent.OptedIn, Reason: "they say so", At: at.Add(time.Hour), Evidence: beyondDoubt}
		_, err := store.SetConsent(t.Context(), note)
		require.ErrorIs(t, err, ledger.ErrOwnOptOut)
		note.State, note.Evidence = consent.OptedOut, nil // nor by a detour
		_, err = store.SetConsent(t.Context(), note)
		require.NoError(t, err)
		note.State, note.Evidence = consent.OptedIn, beyondDoubt
		_, err = store.SetConsent(t.Context(), note)
		require.ErrorIs(t, err, ledger.ErrOwnOptOut)
	})

	t.Run("AnotherErasureKeepsThem", func(t *testing.T) {
		t.Parallel()
		store, p := stopped(t)
		erase(t, store, p, at.Add(time.Hour))
		requireRefused(t, store, sendtest.Attempt(t, p.OrgID, p.Phone, "enrolled anew"))
	})

	t.Run("UnderAnotherKeyNoNewPersonIsTexted", func(t *testing.T) {
		t.Parallel()
		store, p := stopped(t)
		for _, key := range []string{"", "another key of at least 32 bytes .."} {
			store.Pseudonyms = consent.NewPseudonyms(key)
			_, err := store.Claim(t.Context(), sendtest.Attempt(t, p.OrgID, sendtest.Phone(t, "+14155550199"), "key"))
			require.ErrorIs(t, err, sms.ErrUnavailable)
			require.ErrorIs(t, err, ledger.ErrPseudonymKey)
		}
	})
}

func TestForgetCodes(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, schema.Migrations())
	queue, at := outbound.NewStore(pool), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	code := outbound.Request{OrgID: uuid.New(), To: sendtest.Phone(t, "+14155550123"), Body: "your code is 493817", Key: "k", Purpose: outbound.OTP}
	id := uuid.Must(uuid.NewV7())
	_, _, err := queue.Enqueue(t.Context(), code, id, at)
	require.NoError(t, err)
	a := sendtest.Attempt(t, code.OrgID, code.To, outbound.MessageKey(id.String()))
	a.Body = code.Body
	_, err = sendtest.NewStore(pool).Claim(t.Context(), a)
	require.NoError(t, err)
	for _, c := range []struct {
		status string
		want   int
	}{{"unknown", 0}, {"delivered", 1}} {
		_, err = pool.Exec(t.Context(), fmt.Sprintf(`update sms_messages set status = '%s'%s`, c.status,
			map[string]string{"delivered": ", twilio_sid = 'SMx', accepted_at = created_at"}[c.status]))
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), `update sms_outbound_jobs set status = 'completed', next_retry_at = null, processed_at = $1`, at)
		require.NoError(t, err)
		n, err := queue.ForgetCodes(t.Context(), at, 10)
		require.NoError(t, err)
		require.Equal(t, c.want, n, c.status)
	}
	require.NotContains(t, dump(t, pool), "493817")
	stored, duplicate, err := queue.Enqueue(t.Context(), code, uuid.Must(uuid.NewV7()), at)
	require.NoError(t, err)
	require.True(t, duplicate)
	require.Equal(t, id, stored.ID)
	code.To = sendtest.Phone(t, "+14155550199")
	_, _, err = queue.Enqueue(t.Context(), code, uuid.Must(uuid.NewV7()), at)
	require.ErrorIs(t, err, outbound.ErrKeyReused)
}
