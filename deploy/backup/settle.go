package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/history"
	"paceline.internal/platform/process"
	"paceline.internal/platform/retention"
	"paceline.internal/services/messaging"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/readback"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/restores"
)

// Reason begins the reason of every hold and every pause that settling makes.
const Reason = "restored from a backup"

// margin widens the time in which the databases are compared: their clocks, and Twilio's, may be this far apart.
const margin = 2 * time.Minute

// Settling brings two databases that were restored, maybe to different instants, to what Twilio knows and to each other.
type Settling struct {
	Onboarding, Messaging postgres.DB
	Calendar              rules.Calendar // of engagement's runs
	// Since is the last instant that both databases have; zero for the last beat of each.
	Since time.Time
	Grace time.Duration // for steps to ask again for what was sent, before people are held
	Wait  time.Duration // for the servers to recover, and for the services until messages are sent again
	Poll  time.Duration // between two looks at what the services do
	Now   func() time.Time
	Out   io.Writer
}

const (
	longestGrace = send.UnclaimedFor - 2*time.Minute
	parkTimeout  = 10 * time.Minute // beyond the grace
)

// ErrRunning is a deployment that runs, where nothing says to which instant its databases went back.
var ErrRunning = errors.New("the services run on these databases, so their last beats do not tell what was lost. " +
	"If the databases were restored, say to which instant: --since 2026-11-29T12:00:00Z")

// work is a settling at work.
type work struct {
	Settling

	onboarding *onboarding.Stores
	sent       *send.Store
	holds      *ledger.Store
	readbacks  *readback.Store
	restore    restores.Restore
}

// Run settles, and prints each stage with its counts. It goes on where another Run was killed.
func (s Settling) Run(ctx context.Context) error {
	if s.Grace > longestGrace {
		return fmt.Errorf("--grace is at most %s: later a step would send again what Twilio has sent", longestGrace)
	}
	ctx = postgres.AcrossOrganisations(ctx)
	recovery, recovered := context.WithTimeout(ctx, s.Wait)
	defer recovered()
	if err := s.recovered(recovery); err != nil {
		return err
	}
	if err := errors.Join(onboarding.Migrations().Ready(ctx, s.Onboarding), messaging.Migrations().Ready(ctx, s.Messaging)); err != nil {
		return err
	}
	holds := ledger.NewStore(s.Messaging, consent.NewPseudonyms(""))
	w := &work{
		Settling: s, onboarding: onboarding.NewStores(s.Onboarding), holds: holds, sent: send.NewStore(s.Messaging, holds),
		readbacks: readback.NewStore(s.Messaging),
	}
	if err := w.open(ctx); err != nil {
		return err
	}
	stages := []func(context.Context) error{w.stop, w.readBack, w.compare, w.release}
	if !w.restore.ReleasedAt.IsZero() {
		stages = nil
	}
	bounded, cancel := context.WithTimeout(ctx, s.Wait)
	defer cancel()
	for _, stage := range stages {
		if err := stage(bounded); err != nil {
			return err
		}
	}
	ctx, end := context.WithTimeout(ctx, s.Grace+parkTimeout) // what was released is parked, however long the stages took
	defer end()
	if err := w.park(ctx); err != nil {
		return err
	}
	return w.onboarding.Restores().End(ctx, w.restore.ID, w.Now())
}

// recovered waits until both servers have recovered to their instant: they take connections before.
func (s Settling) recovered(ctx context.Context) error {
	for said := false; ; said = true {
		err := errors.Join(postgres.Writable(ctx, s.Onboarding), postgres.Writable(ctx, s.Messaging))
		if !errors.Is(err, postgres.ErrReadOnly) {
			return err
		}
		if !said {
			_, _ = fmt.Fprintln(s.Out, "waits for the servers to recover")
		}
		if !process.RestOnMachineClock(ctx, s.Poll, nil) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// open goes on with a restore, or begins one.
func (w *work) open(ctx context.Context) error {
	store := w.onboarding.Restores()
	open, there, err := store.Open(ctx)
	if err != nil {
		return err
	}
	now := w.Now()
	r := restores.Restore{ID: uuid.New(), BeganAt: now, OnboardingSince: w.Since, MessagingSince: w.Since}
	var ofOnboarding, ofMessaging error
	r.OnboardingHistory, ofOnboarding = history.Current(ctx, w.Onboarding)
	r.MessagingHistory, ofMessaging = history.Current(ctx, w.Messaging)
	if err := errors.Join(ofOnboarding, ofMessaging); err != nil {
		return err
	}
	if there {
		same := open.OnboardingHistory == r.OnboardingHistory && open.MessagingHistory == r.MessagingHistory
		if err := w.mayGoOn(open, same, now); err != nil {
			return err
		}
		if same {
			w.printf("goes on with the restore of %s\n", open.BeganAt.UTC().Format(time.RFC3339))
			w.restore = open
			return nil
		}
		w.printf("ends the restore of %s: it was of other databases\n", open.BeganAt.UTC().Format(time.RFC3339))
		if err := store.End(ctx, open.ID, now); err != nil {
			return err
		}
	}
	if w.Since.IsZero() {
		if r.OnboardingSince, r.MessagingSince, err = w.last(ctx, now); err != nil {
			return err
		}
	}
	if err := store.Begin(ctx, r); err != nil {
		return err
	}
	w.restore, there, err = store.Open(ctx)
	if err == nil && !there {
		err = errors.New("another settle has just ended; see what it printed")
	}
	return err
}

// goesOnFor is the age from which on an open restore may have come back with a copied data folder.
const goesOnFor = 6 * time.Hour

// mayGoOn refuses where it is not sure whether a restore that is open is the one that the operator settles: one of these databases that is
// old may have come back from a backup, and one of others that is young may have been overtaken by a failover, with beats of after it.
func (w *work) mayGoOn(open restores.Restore, same bool, now time.Time) error {
	since, age := open.OnboardingSince, now.Sub(open.BeganAt)
	if open.MessagingSince.Before(since) {
		since = open.MessagingSince
	}
	was := fmt.Sprintf("a settle that began %s ago, for --since %s, is not ended",
		age.Round(time.Minute), since.UTC().Format(time.RFC3339Nano))
	switch {
	case same && !w.Since.IsZero() && !w.Since.Truncate(time.Microsecond).Equal(since):
		return errors.New(was + ". To begin another, end that one in onboarding's database: " +
			"update restores set ended_at = now() where ended_at is null")
	case same && w.Since.IsZero() && age > goesOnFor:
		return errors.New(was + ". To go on with it, give that instant. If the databases came back from a backup since, end it in onboarding's " +
			"database: update restores set ended_at = now() where ended_at is null; and give the instant of the backup")
	case !same && w.Since.IsZero() && age <= goesOnFor:
		return errors.New(was + ", and was of another history of the databases. Say to which instant they were restored: --since")
	}
	return nil
}

// looks is the pause between two looks for beats.
const looks = 3 * history.Every

// last returns the last instants that the databases have. A service that runs on one has counted on; beats of another history are
// of before.
func (w *work) last(ctx context.Context, now time.Time) (onboarding, messaging time.Time, err error) {
	o, m, err := w.points(ctx, now)
	if err != nil || !o.Noted && !m.Noted {
		return o.Last, m.Last, err
	}
	if !process.RestOnMachineClock(ctx, looks, nil) {
		return onboarding, messaging, ctx.Err()
	}
	later, newer, err := w.points(ctx, now)
	if err == nil && (o.Noted && later.Written.After(o.Written) || m.Noted && newer.Written.After(m.Written)) {
		err = ErrRunning
	}
	return o.Last, m.Last, err
}

func (w *work) points(ctx context.Context, now time.Time) (onboarding, messaging history.Point, err error) {
	onboarding, err = history.At(ctx, w.Onboarding, now)
	if err == nil {
		messaging, err = history.At(ctx, w.Messaging, now)
	}
	return onboarding, messaging, err
}

// stop has nothing sent, and what Twilio has read again. Every statement may be repeated. What keeps messages from being sent comes first.
func (w *work) stop(ctx context.Context) error {
	r := w.restore
	if err := w.readbacks.Stop(ctx, r.MessagingSince, r.BeganAt); err != nil {
		return err
	}
	people := w.onboarding.People()
	if err := people.PauseAll(ctx, Reason, r.BeganAt); err != nil {
		return err
	}
	given, err := w.onboarding.Engagement().GiveUpRuns(ctx, w.Calendar, r.OnboardingSince, r.BeganAt)
	if err != nil {
		return err
	}
	if err := people.ForgetForwarded(ctx); err != nil {
		return err
	}
	err = postgres.InTx(ctx, w.Onboarding, func(tx pgx.Tx) error {
		all := []retention.Part{{But: []string{}}}
		return w.onboarding.Inbound().SweepAgain(ctx, tx, all, r.OnboardingSince, r.BeganAt)
	})
	if err != nil {
		return err
	}
	settling, err := w.readbacks.Settling(ctx)
	if err != nil {
		return err
	}
	w.printf("1  stopped      %s; messaging lost what came after %s, onboarding after %s\n", many(settling.Organisations, "organisation"),
		r.MessagingSince.UTC().Format(time.RFC3339), r.OnboardingSince.UTC().Format(time.RFC3339))
	if given > 0 {
		w.printf("                %s of engagement not repeated\n", many(given, "run"))
	}
	return nil
}

// keptFor bounds the wait of what Twilio had sent for its steps until park has held the people, also when settle is killed before.
const keptFor = 24 * time.Hour

// release lets everything be sent again: only what is done before keeps a text from being sent twice.
func (w *work) release(ctx context.Context) error {
	now := w.Now()
	if err := w.sent.KeepWaiting(ctx, w.lostSince(), now.Add(keptFor)); err != nil {
		return err
	}
	if err := w.readbacks.Release(ctx, now); err != nil {
		return err
	}
	if err := w.onboarding.People().ResumeAll(ctx, Reason); err != nil {
		return err
	}
	if err := w.onboarding.Restores().Released(ctx, w.restore.ID, now); err != nil {
		return err
	}
	w.restore.ReleasedAt = now
	w.printf("4  released     messages are sent again\n")
	return nil
}

// lostSince is the instant from which on messaging may have lost what was sent.
func (w *work) lostSince() time.Time { return w.restore.MessagingSince.Add(-margin) }

// park waits until steps have asked for what Twilio had sent, and holds whom nothing has asked for: whether their next message was sent is
// not known.
func (w *work) park(ctx context.Context) error {
	var orphans []send.Orphan
	for said := false; ; said = true {
		var err error
		if orphans, err = w.sent.Orphans(ctx, w.lostSince()); err != nil {
			return err
		}
		until := w.restore.ReleasedAt.Add(w.Grace)
		if len(orphans) == 0 || !w.Now().Before(until) {
			break
		}
		if !said {
			w.printf("                waits until %s for steps to ask for %s that Twilio had sent\n", until.UTC().Format(time.TimeOnly),
				many(len(orphans), "message"))
		}
		if !process.RestOnMachineClock(ctx, w.Poll, nil) {
			return ctx.Err()
		}
	}
	sent, unknown := map[person]int{}, 0
	for _, o := range orphans {
		sent[person{o.OrgID.String(), o.Phone}]++
	}
	for of, n := range sent {
		held, err := w.hold(ctx, of, fmt.Sprintf("Twilio has %s to them, sent after %s, that no step knows of", many(n, "message"),
			w.restore.MessagingSince.UTC().Format(time.RFC3339)))
		if err != nil {
			return err
		}
		if !held {
			unknown++
		}
	}
	if err := w.sent.KeepWaiting(ctx, w.lostSince(), w.restore.ReleasedAt.Add(send.UnclaimedFor)); err != nil {
		return err
	}
	parked, err := w.onboarding.People().HeldFor(ctx, Reason)
	if err != nil {
		return err
	}
	w.printf("5  parked       %s held with the reason, %s that onboarding does not know\n", many(parked, "person"), many(unknown, "phone"))
	return nil
}

// person identifies a person by what both databases know.
type person struct{ orgID, phone string }

func (w *work) printf(format string, args ...any) { _, _ = fmt.Fprintf(w.Out, format, args...) } // a closed terminal is no error

// many counts things.
func many(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case what == "person":
		return fmt.Sprintf("%d people", n)
	default:
		return fmt.Sprintf("%d %ss", n, what)
	}
}
