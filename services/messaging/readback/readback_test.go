package readback_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	metricnoop "go.opentelemetry.io/otel/metric/noop"

	"paceline.internal/emulators/clock"
	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/platform/postgres/history"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/inbound"
	"paceline.internal/services/messaging/readback"
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

const (
	account, token    = "AC0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	keySID, keySecret = "SKbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "b1111111111111111111111111111111"
	ours, theirs      = "+14155550100", "+14155550123"
	another           = "ACcccccccccccccccccccccccccccccccc" // account
	anotherKey        = "SKcccccccccccccccccccccccccccccccc"
	ofAnother         = "+14155550104"
)

// others are numbers of the account that other organisations may have.
var others = []string{"+14155550101", "+14155550102", "+14155550103"}

var org = uuid.MustParse("00000000-0000-7000-8000-000000000001")

// bundle is one process: what sends, what beats, what reads back.
type bundle struct {
	*testing.T

	pool   *pgxpool.Pool
	twilio *emulator.Emulator
	url    string // of the emulator
	store  *send.Store
	send   *send.Service
	reader *readback.Service
	keeper *history.Keeper
}

func setup(t *testing.T, before ...func(http.Handler) http.Handler) *bundle {
	t.Helper()
	carrier, err := emulator.New(emulator.Config{
		Clock: clock.System(), AccountSID: account, AuthToken: token, APIKeys: map[string]string{keySID: keySecret},
		Numbers:  append([]string{ours}, others...),
		Others:   []emulator.Account{{SID: another, AuthToken: token, APIKeys: map[string]string{anotherKey: keySecret}, Numbers: []string{ofAnother}}},
		Receipts: emulator.Receipts{Sent: time.Hour, Delivered: time.Hour}, // Twilio keeps every message in its queue
	})
	require.NoError(t, err)
	t.Cleanup(carrier.Close)
	var served http.Handler = carrier
	for _, proxy := range before {
		served = proxy(served)
	}
	api := httptest.NewServer(served)
	t.Cleanup(api.Close)
	client, err := twilio.New(twilio.Config{AccountSID: account, AuthToken: token, APIURL: api.URL, FromNumber: ours})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	b := &bundle{T: t, pool: pgtest.New(t, schema.Migrations()), twilio: carrier, url: api.URL}
	log, meter := slog.New(slog.DiscardHandler), metricnoop.NewMeterProvider().Meter("test")
	sent, err := send.NewMetrics(meter)
	require.NoError(t, err)
	heard, err := inbound.NewMetrics(meter)
	require.NoError(t, err)
	consents := ledger.NewStore(b.pool, consent.NewPseudonyms(""))
	b.store = send.NewStore(b.pool, consents)
	known := sendtest.Only(senders.Sender{OrgID: org, Number: ours, AccountSID: account})
	b.send = send.New(send.Config{
		Store: b.store, Evidence: b.store, Carrier: client, Senders: known, PublicURL: "https://paceline.example",
		Timeout: time.Second, Lease: time.Minute, StopWait: time.Second, Now: time.Now, Log: log, Metrics: sent,
	})
	received := inbound.New(inbound.Config{
		Store: inbound.NewStore(b.pool, consents), Twilio: client, Send: b.send, Now: time.Now, Log: log, Metrics: heard,
	})
	store := readback.NewStore(b.pool)
	metrics, err := readback.NewMetrics(t.Context(), meter, store.Open)
	require.NoError(t, err)
	b.reader = readback.New(readback.Config{
		Store: store, Sent: b.store, Inbound: received, Senders: known, Carrier: client, Now: time.Now, Log: log, Metrics: metrics,
	})
	b.keeper, err = history.New(history.Config{DB: b.pool, Now: time.Now, Log: log, Back: b.reader.Begin, Noted: b.reader.Wake}, meter)
	require.NoError(t, err)
	b.store.Beat = b.keeper.Last
	require.NoError(t, b.keeper.Beat(t.Context()))
	require.NoError(t, b.keeper.Beat(t.Context()))
	return b
}

func (b *bundle) asks(key, body string) (send.Outcome, error) {
	b.Helper()
	to, err := sms.ParsePhone(theirs)
	require.NoError(b, err)
	result, err := b.send.Send(b.Context(), send.Request{OrgID: org, To: to, Body: sms.Body(body), Key: key})
	return result.Outcome, err
}

func (b *bundle) exec(sql string, args ...any) {
	b.Helper()
	_, err := pgtest.Owner(b.T, b.pool).Exec(b.Context(), sql, args...)
	require.NoError(b, err)
}

func (b *bundle) readsBack() {
	b.Helper()
	_, err := b.reader.Once(b.Context())
	require.NoError(b, err)
}

// loses has the database forget a send.
func (b *bundle) loses(key string) {
	b.exec(`delete from sms_messages where idempotency_key = $1`, key)
}

func TestReadback(t *testing.T) {
	t.Parallel()

	t.Run("AHistoryThatNobodyNotedStopsSendingUntilItIsReadBack", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.Equal(t, send.Accepted, b.must("1", "one"))
		require.Equal(t, send.Accepted, b.must("2", "two"))
		b.loses("2")
		b.exec(`update histories set name = 'another/00000001'`)
		_, err := b.asks("2", "two")
		require.ErrorIs(t, err, send.ErrStopped, "at once, before anybody noticed")
		require.NoError(t, b.keeper.Beat(t.Context()))
		_, err = b.asks("2", "two")
		require.ErrorIs(t, err, send.ErrStopped)
		require.ErrorIs(t, err, sms.ErrUnavailable)
		require.Equal(t, send.AlreadyAccepted, b.must("1", "one"), "what is known is answered")
		b.readsBack()
		require.Equal(t, send.AlreadyAccepted, b.must("2", "two"), "it was sent")
		require.Equal(t, send.AlreadyAccepted, b.must("2", "two"))
		require.Equal(t, send.Accepted, b.must("3", "three"))
		require.Len(t, b.twilio.Messages(), 3)
	})

	t.Run("ACountThatIsGoneStopsSendingUnderTheSameName", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.exec(`update beats set n = 1`)
		_, err := b.asks("1", "one")
		require.ErrorIs(t, err, send.ErrStopped)
		require.NoError(t, b.keeper.Beat(t.Context()))
		b.readsBack()
		require.Equal(t, send.Accepted, b.must("1", "one"))
		require.NoError(t, b.keeper.Beat(t.Context()))
		require.Equal(t, 1, b.count(`select count(*) from readbacks`), "once")
	})

	t.Run("ALossThatAnotherProcessHasNoted", func(t *testing.T) { // this one went on at the old server meanwhile
		t.Parallel()
		b := setup(t)
		b.exec(`update histories set name = 'another/00000001'`)
		b.exec(`insert into histories (name, since, noticed_at) values (current_history(), now(), now())`)
		b.exec(`update beats set n = 1, at = now() - interval '1 hour', written = now() - interval '1 hour'`)
		b.exec(`insert into beats (process, n, at) values ($1, 7, now())`, uuid.New())
		require.NoError(t, b.keeper.Beat(t.Context()))
		require.Equal(t, 1, b.count(`select count(*) from readbacks where since < now() - interval '59 minutes'`))
	})

	t.Run("TheClockOfOneProcessIsAhead", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.exec(`update histories set name = 'another/00000001'`)
		b.exec(`insert into beats (process, n, at) values ($1, 7, now() + interval '10 minutes')`, uuid.New())
		require.NoError(t, b.keeper.Beat(t.Context()))
		require.Equal(t, 1, b.count(`select count(*) from readbacks where since <= now()`))
	})

	t.Run("ACountWhoseAnswerWasLostIsNoLoss", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.exec(`update beats set n = n + 1`)
		require.NoError(t, b.keeper.Beat(t.Context()))
		require.Zero(t, b.count(`select count(*) from readbacks`))
		require.Equal(t, send.Accepted, b.must("1", "one"))
	})

	t.Run("AFoundMessageWithOtherWordsKeepsNothingBack", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.Equal(t, send.Accepted, b.must("1", "one"))
		b.loses("1")
		b.exec(`insert into readbacks (org_id, since, noticed_at) values ($1, now(), now())`, org)
		b.readsBack()
		require.Equal(t, 1, b.count(`select count(*) from sms_messages where unclaimed_until is not null and twilio_sid is not null`))
		require.Equal(t, send.Accepted, b.must("2", "two"))
		require.Equal(t, send.AlreadyAccepted, b.must("1", "one"))
		require.Len(t, b.twilio.Messages(), 2)
	})

	t.Run("TheSameWordsOfAnotherDayAreSent", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.Equal(t, send.Accepted, b.must("today", "remember"))
		b.loses("today")
		b.exec(`insert into readbacks (org_id, since, noticed_at) values ($1, now(), now())`, org)
		b.readsBack()
		require.Equal(t, 1, b.count(`select count(*) from sms_messages where unclaimed_until < now() + interval '16 minutes'`))
		b.exec(`update sms_messages set unclaimed_until = now() where unclaimed_until is not null`)
		require.Equal(t, send.Accepted, b.must("tomorrow", "remember"))
		require.Len(t, b.twilio.Messages(), 2)
	})

	t.Run("AnAttemptThatIsUnderWayIsWaitedFor", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.reader.UnderWay = time.Minute
		b.exec(`insert into readbacks (org_id, since, noticed_at) values ($1, now(), now())`, org)
		b.readsBack()
		_, err := b.asks("1", "one")
		require.ErrorIs(t, err, send.ErrStopped, "another process may be sending it")
		require.Equal(t, 1, b.count(`select count(*) from readbacks where ended_at is null and failures = 0`))
		b.exec(`update readbacks set noticed_at = now() - interval '61 seconds'`)
		b.readsBack()
		require.Equal(t, send.Accepted, b.must("1", "one"))
	})

	t.Run("ASenderThatIsRefusedStopsNoOther", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.exec(`insert into readbacks (org_id, since, noticed_at, senders) values ($1, now(), now() + interval '1 day', $2)`, org, []uuid.UUID{uuid.New()})
		require.Equal(t, send.Accepted, b.must("1", "one"))
		b.exec(`update readbacks set senders = $1`, []uuid.UUID{uuid.Nil})
		_, err := b.asks("2", "two")
		require.ErrorIs(t, err, send.ErrStopped)
	})

	t.Run("AThrottledSendWhoseNextAttemptWasLostIsTheFoundOne", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.Equal(t, send.Accepted, b.must("1", "one"))
		require.Equal(t, send.Accepted, b.must("2", "two"))
		const unsent = `update sms_messages set status = 'throttled', twilio_sid = null, accepted_at = null, next_look_at = null, lease_until = now()`
		b.exec(unsent + ` where idempotency_key = '1'`)
		b.exec(`update sms_messages set idempotency_key = 'lost' where idempotency_key = '2'`)
		b.exec(`update sms_messages set unclaimed_until = now() + interval '1 day' where idempotency_key = 'lost'`)
		b.exec(`insert into readbacks (org_id, since, noticed_at) values ($1, now(), now())`, org)
		b.readsBack()
		require.Equal(t, send.AlreadyAccepted, b.must("1", "one"))
		require.Len(t, b.twilio.Messages(), 2)

		require.Equal(t, send.Accepted, b.must("3", "three"))
		b.exec(unsent + `, body = 'four', body_hash = sha256('four') where idempotency_key = '3'`)
		require.Equal(t, send.Accepted, b.must("3", "four"), "what was found has other words")
		require.Len(t, b.twilio.Messages(), 4)
	})

	t.Run("ConsentComesBackBeforeAnythingIsSent", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.Equal(t, send.Accepted, b.must("1", "one"))
		_, err := b.twilio.Receive(t.Context(), theirs, ours, "please stop texting me")
		require.NoError(t, err)
		b.exec(`update histories set name = 'another/00000001'`)
		require.NoError(t, b.keeper.Beat(t.Context()))
		b.readsBack()
		require.Equal(t, send.OptedOut, b.must("2", "two"))
		require.Equal(t, 1, b.count(`select count(*) from sms_messages where direction = 'inbound' and awaits_onboarding`), "onboarding's sweep finds it")
	})

	t.Run("AnAttemptThatWasUnderWayWritesItsRow", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		to, err := sms.ParsePhone(theirs)
		require.NoError(t, err)
		now := clock.System().Now()
		claim, err := b.store.Claim(t.Context(), send.Attempt{
			Request: send.Request{OrgID: org, To: to, Body: "one", Key: "1", UnknownPolicy: send.ConfirmAbsentThenResend}, MessageID: uuid.New(),
			Sender: senders.Sender{OrgID: org, Number: ours}, Token: uuid.New(), At: now, LeaseUntil: now.Add(time.Minute),
		})
		require.NoError(t, err)
		require.True(t, claim.Won)
		b.loses("1")
		m, err := b.store.Settle(t.Context(), *claim.Message, send.Answer{
			MessageID: claim.Message.ID, Token: claim.Message.AttemptToken, At: now,
			Outcome: twilio.Outcome{Status: sms.Accepted, SID: "SM1", Reported: "queued"},
		})
		require.NoError(t, err)
		require.Equal(t, "1", m.Key)
		require.Equal(t, 1, b.count(`select count(*) from sms_messages where idempotency_key = '1' and twilio_sid = 'SM1'`))
	})

	t.Run("AnAccountThatCannotBeReadStaysStoppedAndSaysWhy", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.exec(`insert into readbacks (org_id, since, noticed_at) values ($1, now(), now())`, org)
		b.twilio.SetCredentials(account, "another", "", nil)
		_, err := b.reader.Once(t.Context())
		require.Error(t, err)
		_, err = b.asks("1", "one")
		require.ErrorIs(t, err, send.ErrStopped)
		require.Equal(t, 1, b.count(`select count(*) from readbacks where failures = 1 and failure <> '' and ended_at is null`))
		b.twilio.SetCredentials(account, token, "", nil)
		b.exec(`update readbacks set lease_until = now() - interval '1 second'`)
		b.readsBack()
		require.Equal(t, send.Accepted, b.must("1", "one"))
	})
}

func (b *bundle) must(key, body string) send.Outcome {
	b.Helper()
	outcome, err := b.asks(key, body)
	require.NoError(b, err)
	return outcome
}

func (b *bundle) count(sql string) (n int) {
	b.Helper()
	require.NoError(b, b.pool.QueryRow(context.WithoutCancel(b.Context()), sql).Scan(&n))
	return n
}

// TestStop settles a restore for an organisation that is being read back already.
func TestStop(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.Equal(t, send.Accepted, b.must("1", "one"))
	store := readback.NewStore(b.pool)
	began := clock.System().Now().Truncate(time.Microsecond)
	b.exec(`insert into readbacks (org_id, since, noticed_at, settling, read_at, senders, lease_token, lease_until)
		values ($1, $2, $2, true, $2, '{}', gen_random_uuid(), now() + interval '1 minute')`, org, began.Add(-time.Hour))
	require.NoError(t, store.Stop(t.Context(), began.Add(-time.Minute), began))
	require.Equal(t, 1, b.count(`select count(*) from readbacks where settling and read_at is null and senders is null and lease_token is null`))
	b.readsBack()
	require.NoError(t, store.Stop(t.Context(), began.Add(-time.Minute), began))
	require.Equal(t, 1, b.count(`select count(*) from readbacks where settling and read_at is not null and ended_at is null`), "a repeat changes nothing")

	b.exec(`update readbacks set read_at = null, failures = 1, failure = 'refused'`)
	now, err := store.Settling(t.Context())
	require.NoError(t, err)
	require.Equal(t, readback.Settling{Organisations: 1, Unread: 1, Failure: "refused", Failing: []uuid.UUID{org}}, now)
	require.NoError(t, store.Release(t.Context(), clock.System().Now()))
	_, err = b.asks("2", "two")
	require.ErrorIs(t, err, send.ErrStopped, "its record is not read")
	b.readsBack()
	require.Equal(t, send.Accepted, b.must("2", "two"), "nobody settles it any more")
}
