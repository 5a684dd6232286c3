package seed_test

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/queue"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// asked is a statement that a store sent.
type asked struct {
	sql  string
	args []any
}

// listener keeps what is asked.
type listener struct{ heard []asked }

func (l *listener) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	l.heard = append(l.heard, asked{d.SQL, d.Args})
	return ctx
}

func (l *listener) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (l *listener) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (l *listener) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	l.heard = append(l.heard, asked{d.SQL, d.Args})
}

func (l *listener) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// read is a list or an overview as the console asks for it, and how many blocks it may read.
type read struct {
	name string
	ask  func(ctx context.Context) error
	most int
}

// page is the number of rows on a page of the console, and one more.
const page = 51

func readsOfOnboarding(pool *pgxpool.Pool) []read {
	store := onboarding.NewStores(pool)
	profiles := func(f people.ProfileFilter) func(context.Context) error {
		return func(ctx context.Context) error {
			f.OrgID, f.Limit = org, page-1
			_, _, err := store.ListProfiles(ctx, f)
			return err
		}
	}
	sessions := func(f conversation.SessionFilter) func(context.Context) error {
		return func(ctx context.Context) error {
			f.OrgID, f.Limit = org, page
			_, err := store.ListSessions(ctx, f)
			return err
		}
	}
	jobs := func(q *queue.Queue, status string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := q.List(ctx, queue.Filter{OrgID: org, Status: status, Limit: page})
			return err
		}
	}
	return []read{
		{"Overview", func(ctx context.Context) error {
			_, err := store.Overviews().Overview(ctx, org, now, 10_001)
			return err
		}, 45_000},
		{"People", profiles(people.ProfileFilter{}), 1_000},
		{"PeopleByPhone", profiles(people.ProfileFilter{Phone: "+12015550042"}), 100},
		{"PeopleByACommonName", profiles(people.ProfileFilter{Name: "a"}), 12_000},
		{"PeopleByARareName", profiles(people.ProfileFilter{Name: "zul"}), 2_000},
		{"PeopleWhoAreActive", profiles(people.ProfileFilter{Newest: []session.Status{session.Active}}), 1_000},
		{"PeopleWhoStopped", profiles(people.ProfileFilter{Newest: []session.Status{session.Stopped}}), 1_000},
		{"PeopleWhoAreParked", profiles(people.ProfileFilter{Newest: []session.Status{session.Stuck, session.Undeliverable}}), 1_000},
		{"PeopleWhoAreHeld", profiles(people.ProfileFilter{Held: true}), 1_000},
		{"PeopleWhoOptedOut", profiles(people.ProfileFilter{OptedOut: true}), 1_000},
		{"PeopleNeverActivated", profiles(people.ProfileFilter{NotActivated: true}), 1_000},
		{"PeopleOfALanguage", profiles(people.ProfileFilter{Locale: "pt-BR"}), 1_000},
		{"PeopleOfALanguageWhoAreActive", profiles(people.ProfileFilter{Locale: "pt-BR", Newest: []session.Status{session.Active}}), 2_000},
		{"PeopleWhoOptedOutAndAreActive", profiles(people.ProfileFilter{OptedOut: true, Newest: []session.Status{session.Active}}), 100_000},
		{"SessionsThatAreParked", sessions(conversation.SessionFilter{Stuck: true}), 1_000},
		{"SessionsThatAreStuck", sessions(conversation.SessionFilter{Statuses: []session.Status{session.Stuck}}), 1_000},
		{"SessionsThatAreActive", sessions(conversation.SessionFilter{Statuses: []session.Status{session.Active}}), 1_000},
		{"DeadLettersThatAreOpen", func(ctx context.Context) error {
			_, err := store.DeadLetters(ctx, conversation.DeadLetterFilter{Scope: conversation.Scope{OrgID: org}, Open: true, Limit: page})
			return err
		}, 200},
		{"JobsThatFailed", jobs(store.Jobs(), queue.StatusFailed), 500},
		{"Jobs", jobs(store.Jobs(), ""), 500},
		{"DeliveriesThatFailed", jobs(store.Events().Deliveries(), queue.StatusFailed), 100},
		{"OutreachThatFailed", func(ctx context.Context) error {
			_, err := store.Engagement().List(ctx, engagement.OutreachFilter{OrgID: org, Status: queue.StatusFailed, Limit: page})
			return err
		}, 200},
	}
}

func readsOfMessaging(pool *pgxpool.Pool) []read {
	store, queued, of := sends(pool), outbound.NewStore(pool), uuid.MustParse(org)
	list := func(q send.Query) func(context.Context) error {
		return func(ctx context.Context) error {
			q.OrgID, q.Limit, q.Before = of, page, uuid.Max
			_, err := store.Messages(ctx, q)
			return err
		}
	}
	return []read{
		{"Overview", func(ctx context.Context) error {
			_, err := store.Overview(ctx, send.OverviewQuery{OrgID: of, Now: now, Minutes: 60, Most: 10_001, MostOfAMinute: 1_001})
			return err
		}, 5_000},
		{"OverviewOfTheQueue", func(ctx context.Context) error { _, err := queued.Jobs().GaugesUpTo(ctx, now, 10_001); return err }, 1_000},
		{"Messages", list(send.Query{}), 500},
		{"MessagesThatAreUnknown", list(send.Query{Status: sms.Unknown}), 500},
		{"MessagesThatAreParked", list(send.Query{Status: sms.Parked}), 500},
		{"MessagesThatFailed", list(send.Query{Status: sms.Failed}), 500},
		{"TextsThatFailed", func(ctx context.Context) error {
			_, err := queued.List(ctx, outbound.Query{OrgID: of, Status: outbound.Failed, Before: uuid.Max, Limit: page})
			return err
		}, 1_000},
	}
}

// TestPlans holds what the console asks to indexes and to a number of blocks, next to people who were seeded, as the role and in the scope
// of an operator, and likewise the claim of a send. docs/performance.md has how long it takes next to a million.
func TestPlans(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	_, urls := seeded(t, 20_000)
	for i, service := range []string{"onboarding", "messaging"} {
		cfg, err := pgxpool.ParseConfig(urls[i])
		require.NoError(t, err)
		l := &listener{}
		cfg.ConnConfig.Tracer, cfg.MaxConns = l, 1
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		operator := asked{
			`select set_config('role', $1, true), set_config('app.current_org_id', $2, true)`, []any{service + "_tenant", org},
		}
		reads := map[string]func(*pgxpool.Pool) []read{"onboarding": readsOfOnboarding, "messaging": readsOfMessaging}[service]
		for _, r := range reads(pool) {
			l.heard = nil
			require.NoError(t, r.ask(t.Context()), r.name)
			blocks, plan := explained(t, pool, operator, l.heard)
			require.NotContains(t, plan, "Seq Scan on", "%s: %s", service, r.name)
			require.LessOrEqual(t, blocks, r.most, "%s: %s\n%s", service, r.name, plan)
		}
		if service == "messaging" {
			l.heard = nil
			require.NoError(t, claim(t.Context(), sends(pool)))
			blocks, plan := explained(t, pool, asked{`select set_config('role', 'messaging_worker', true)`, nil}, l.heard)
			require.Contains(t, plan, "sms_messages_to_phone")
			require.NotContains(t, plan, "Seq Scan on sms_messages")
			require.LessOrEqual(t, blocks, 300, plan)
		}
	}
}

func sends(pool *pgxpool.Pool) *send.Store {
	return send.NewStore(pool, ledger.NewStore(pool, consent.Pseudonyms{}))
}

// claim claims a message under the caps of its phone, which are counted among all messages.
func claim(ctx context.Context, store *send.Store) error {
	to, err := sms.ParsePhone("+12015550042")
	if err != nil {
		return err
	}
	ten := send.Cap{Messages: 10, Segments: 30}
	_, err = store.Claim(ctx, send.Attempt{
		Request:   send.Request{OrgID: uuid.MustParse(org), To: to, Body: "Hi", Key: "plans", UnknownPolicy: send.ConfirmAbsentThenResend},
		MessageID: uuid.Must(uuid.NewV7()), Sender: senders.Sender{Number: "+15005550006"}, Segments: 1, Token: uuid.New(), At: now, LeaseUntil: now,
		Limits: send.Limits{PhoneHour: ten, PhoneDay: ten},
	})
	return err
}

var sharedBuffers = regexp.MustCompile(`(?m)^  Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?`)

// explained runs each of the questions with the settings ahead of it, and adds up how many blocks they read.
func explained(t *testing.T, pool *pgxpool.Pool, operator asked, questions []asked) (blocks int, plan string) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	run := func(q asked) {
		_, err := tx.Exec(t.Context(), q.sql, q.args...)
		require.NoError(t, err)
	}
	run(operator)
	for _, q := range questions {
		if strings.Contains(q.sql, "set_config") {
			run(q)
			continue
		}
		if !strings.Contains(q.sql, "select") {
			continue // begin, commit
		}
		rows, err := tx.Query(t.Context(), `explain (analyze, buffers, costs off, timing off) `+q.sql, q.args...)
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		text := strings.Join(lines, "\n")
		plan += text + "\n"
		for _, n := range sharedBuffers.FindStringSubmatch(text) {
			if n, err := strconv.Atoi(n); err == nil {
				blocks += n
			}
		}
	}
	require.NotEmpty(t, plan)
	return blocks, plan
}
