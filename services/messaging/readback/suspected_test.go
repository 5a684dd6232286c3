package readback_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	metricnoop "go.opentelemetry.io/otel/metric/noop"

	"paceline.internal/platform/postgres/history"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
)

// nobodyIsUp has the last beat a while ago.
func (b *bundle) nobodyIsUp() { b.exec(`update beats set written = written - interval '31 seconds'`) }

// startsAnew has another process take over.
func (b *bundle) startsAnew() {
	b.Helper()
	keeper, err := history.New(b.keeper.Config, metricnoop.NewMeterProvider().Meter("test"))
	require.NoError(b, err)
	b.keeper, b.store.Beat = keeper, keeper.Last
	require.NoError(b, keeper.Beat(b.Context()))
}

// endless leads each page of Twilio's list to itself.
func endless(record http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/Messages.json") || !r.URL.Query().Has("DateSent>") {
			record.ServeHTTP(w, r)
			return
		}
		answer, page := httptest.NewRecorder(), map[string]any{}
		record.ServeHTTP(answer, r)
		if json.Unmarshal(answer.Body.Bytes(), &page) == nil && r.URL.Query().Get("To") == "" {
			page["next_page_uri"] = r.URL.RequestURI()
		}
		_ = json.NewEncoder(w).Encode(page)
	})
}

// TestNobodyWasUp starts a process that finds no recent beat of any other: its database may be a copy of earlier.
func TestNobodyWasUp(t *testing.T) {
	t.Parallel()

	t.Run("ACopyOfEarlierIsFoundOutByAProcessThatFindsNobodyUp", func(t *testing.T) { // same name, and nobody remembers a count
		t.Parallel()
		b := setup(t)
		require.Equal(t, send.Accepted, b.must("1", "one"))
		require.Equal(t, send.Accepted, b.must("2", "two"))
		_, err := b.twilio.Receive(t.Context(), theirs, ours, "please stop texting me")
		require.NoError(t, err)
		b.loses("2")
		b.nobodyIsUp()
		b.startsAnew()
		_, err = b.asks("2", "two")
		require.ErrorIs(t, err, send.ErrStopped)
		b.readsBack()
		require.Equal(t, send.AlreadyAccepted, b.must("2", "two"), "it was sent")
		require.Equal(t, send.OptedOut, b.must("3", "three"))
		require.Len(t, b.twilio.Messages(), 3, "two texts and the stop")
		require.Equal(t, 1, b.count(`select count(*) from readbacks where suspected and received = 1 and sent = 1`))
	})

	t.Run("AStartAfterAStopFindsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.Equal(t, send.Accepted, b.must("1", "one"))
		for range 2 {
			b.nobodyIsUp()
			b.startsAnew()
			b.reader.UnderWay, b.reader.Answer = time.Minute, 15*time.Second // the last request may be under way, and Twilio lists late
			b.exec(`update readbacks set noticed_at = noticed_at - interval '8 seconds'`)
			b.readsBack()
			require.Equal(t, 1, b.count(`select count(*) from readbacks where ended_at is null`))
			b.exec(`update readbacks set noticed_at = noticed_at - interval '8 seconds'`)
			b.readsBack()
			require.Equal(t, 1, b.count(`select count(*) from readbacks where suspected and ended_at is not null`), "the one before is forgotten")
		}
		require.Equal(t, send.Accepted, b.must("2", "two"))
	})

	t.Run("AQuickRestartAndAProcessAmongOthersAskNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.startsAnew()
		require.Zero(t, b.count(`select count(*) from readbacks`))
		require.Equal(t, send.Accepted, b.must("1", "one"), "at once")
		b.nobodyIsUp()
		require.NoError(t, b.keeper.Beat(t.Context()), "one that was up knows its count")
		require.Zero(t, b.count(`select count(*) from readbacks`))
	})

	t.Run("ALossBehindASuspicionIsWaitedFor", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.nobodyIsUp()
		b.startsAnew()
		b.exec(`update histories set name = 'another/00000001'`)
		require.NoError(t, b.keeper.Beat(t.Context()))
		require.Equal(t, 1, b.count(`select count(*) from readbacks where not suspected`))
	})

	t.Run("ARecordThatHasNoEndStopsNobodyUnlessSomethingIsLost", func(t *testing.T) {
		t.Parallel()
		for key, sends := range map[string]bool{"kept": true, "lost": false, "another program's": false} {
			b := setup(t, endless)
			b.shareAccount(1)
			if key != "another program's" {
				require.Equal(t, send.Accepted, b.must(key, "one"))
			}
			if key == "lost" { // by one of the two: older ones of the other may be, too
				b.loses(key)
			}
			b.nobodyIsUp()
			b.startsAnew()
			for range 2 {
				_, err := b.reader.Once(t.Context())
				require.Equal(t, sends, err == nil, "%s: %v", key, err)
				b.exec(`update readbacks set lease_until = null`)
			}
			ended := b.count(`select count(*) from readbacks where ended_at is not null`)
			require.Equal(t, map[bool]int{true: 2}[sends], ended, key)
			_, err := b.asks("2", "two")
			require.Equal(t, sends, err == nil, "%s: %v", key, err)
		}
	})
}

// TestFoundByATryThatFailed counts what a try has stored: the next one finds it known.
func TestFoundByATryThatFailed(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]struct{ breaks, mends func(*bundle) }{
		"AtAnotherText": { // of three, the one in the middle
			breaks: func(b *bundle) {
				b.exec(`alter table sms_messages add constraint broken check (body <> 'two') not valid`)
			},
			mends: func(b *bundle) { b.exec(`alter table sms_messages drop constraint broken`) },
		},
		"AtAnotherAccount": {
			breaks: func(b *bundle) { b.twilio.SetCredentials(another, "another", "", nil) },
			mends:  func(b *bundle) { b.twilio.SetCredentials(another, token, "", map[string]string{anotherKey: keySecret}) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.keepsSenders()
			b.adds(org, another, anotherKey, ofAnother)
			for _, key := range []string{"one", "two", "three"} {
				require.Equal(t, send.Accepted, b.must(key, key))
				b.loses(key)
			}
			b.nobodyIsUp()
			b.startsAnew()
			fails.breaks(b)
			_, err := b.reader.Once(t.Context())
			require.Error(t, err)
			fails.mends(b)
			b.exec(`update readbacks set lease_until = null`)
			var log bytes.Buffer
			b.reader.Log = slog.New(slog.NewTextHandler(&log, nil))
			b.readsBack()
			require.Equal(t, 1, b.count(`select count(*) from readbacks where ended_at is not null and sent = 3`))
			require.Regexp(t, `level=WARN msg=messaging.readback_ended org_id=`+org.String()+` .* sent=3`, log.String())
		})
	}
}

// shareAccount stores senders of other organisations that have numbers of the same account.
func (b *bundle) shareAccount(n int) {
	b.Helper()
	b.keepsSenders()
	for i := range n {
		b.adds(uuid.New(), account, keySID, others[i])
	}
}

func (b *bundle) keepsSenders() {
	b.Helper()
	keyset, err := senders.NextKeyset("")
	require.NoError(b, err)
	b.reader.Senders.Store, b.reader.Senders.APIURL, b.reader.Senders.Timeout = senders.NewStore(b.pool), b.url, time.Second
	b.reader.Senders.Keyset, err = senders.ParseKeyset(keyset)
	require.NoError(b, err)
	b.reader.Senders.Transport = new(http.Transport)
}

func (b *bundle) adds(org uuid.UUID, account, key, number string) {
	b.Helper()
	_, err := b.reader.Senders.Create(b.Context(), senders.Sender{
		OrgID: org, Name: "one", AccountSID: account, APIKeySID: key, Number: number, Rate: 1, Status: senders.Active,
	}, senders.Credentials{APIKeySecret: keySecret, AuthToken: token})
	require.NoError(b, err)
}

// TestOrganisationsOfOneAccount reads an account once for all that send from it.
func TestOrganisationsOfOneAccount(t *testing.T) {
	t.Parallel()
	var lists, status atomic.Int32
	b := setup(t, func(record http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && r.URL.Query().Has("DateSent>") && !r.URL.Query().Has("To") {
				lists.Add(1)
				if failure := int(status.Load()); failure != 0 {
					w.WriteHeader(failure)
					return
				}
			}
			record.ServeHTTP(w, r)
		})
	})
	b.shareAccount(3)
	require.Equal(t, send.Accepted, b.must("1", "one"))
	b.loses("1")
	b.nobodyIsUp()
	b.startsAnew()
	for failure, tries := range map[int32]int32{http.StatusServiceUnavailable: 1, http.StatusUnauthorized: 4} { // each has its own key
		for range 2 {
			status.Store(failure)
			lists.Store(0)
			_, err := b.reader.Once(t.Context())
			require.Error(t, err)
			require.Equal(t, tries, lists.Load(), failure)
			b.exec(`update readbacks set lease_until = null`)
		}
	}
	status.Store(0)
	lists.Store(0)
	b.readsBack()
	require.Equal(t, 4, b.count(`select count(*) from readbacks where ended_at is not null`))
	require.EqualValues(t, 1, lists.Load())
	require.Equal(t, send.AlreadyAccepted, b.must("1", "one"))

	b.exec(`insert into readbacks (org_id, since, noticed_at) values ($1, now(), now())`, org)
	b.readsBack()
	require.EqualValues(t, 2, lists.Load(), "of another time")
}
