package queue

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"paceline.internal/platform/process"
)

// pass is one drain: from the first claim until nothing is due that may be begun and nothing runs. Its own goroutine claims and begins;
// handlers run on one each; one more records whatever has ended while it recorded the last ones; one more sends heartbeats.
type pass struct {
	r       *Runner
	ctx     context.Context //nolint:containedctx // a pass is one call
	room    int             // jobs that may still be begun
	claims  int             // under way
	look    bool            // something may be due
	reasons int             // how often there was a reason to look; a claim that began before the last one has not seen it
	next    time.Time       // when the next job is due; zero when that is not known
	vain    time.Time       // when a claim found nothing, by the machine's clock
	looked  time.Time       // when a claim ended, by the machine's clock
	from    time.Time       // what became due earlier is known to be gone; zero when it is not
	since   int             // claims since one looked at everything
	full    bool            // the last claim found all that it was asked for: there is a backlog
	idle    int             // organisations' pages that were looked at in vain
	ran     int
	wait    time.Duration // as Admit says, or after an error
	failing bool          // it is after an error
	until   time.Time     // when it is over, by the machine's clock
	err     error
	claimed chan claimedBatch
	ended   chan recordedBatch

	mu     sync.Mutex
	ending []ending      // waiting to be recorded; there is room for all, for each has its place among Workers
	some   chan struct{} // of one: ending has something
}

type claimedBatch struct {
	Claimed

	wanted  int
	reasons int       // pass.reasons when it began
	from    time.Time // of the claim
	at      time.Time // when it began
	err     error
}

type recordedBatch struct {
	jobs     int
	subjects bool // one of them had a subject: its next job may be free now
	err      error
}

func (r *Runner) drain(ctx context.Context) (ran int, wait time.Duration, err error) {
	p := &pass{
		r: r, ctx: ctx, room: r.cfg.Workers, look: true, some: make(chan struct{}, 1),
		claimed: make(chan claimedBatch), ended: make(chan recordedBatch),
	}
	aside, done := context.WithCancel(context.WithoutCancel(ctx))
	var helpers sync.WaitGroup
	helpers.Go(func() { p.recordAll(aside) })
	helpers.Go(func() { r.heartbeat(aside) })
	p.work()
	done()
	helpers.Wait()
	if p.err != nil {
		return p.ran, 0, p.err
	}
	return p.ran, p.untilNext(), nil
}

// afterDue bounds the wait for a job that is due, without a wake-up: the process that stored it has woken its runner by then.
const afterDue = 5 * time.Millisecond

// afterVain is the rest after a claim that found nothing: several runners look for each job that becomes due, and one has it. A wake-up
// ends it, so the process that stored a job is not late.
const afterVain = 20 * time.Millisecond

// untilNext returns how long the loop may rest at most, or zero. Half of Ahead before the next job is due is early enough, so that a claim
// takes along what becomes due in the other half.
func (p *pass) untilNext() time.Duration {
	if p.next.IsZero() {
		return p.wait
	}
	rest := time.Until(p.vain.Add(afterVain)) //nolint:forbidigo // with a timer of the machine
	next := max(p.next.Add(afterDue-p.r.cfg.Ahead/2).Sub(p.r.cfg.Now()), rest, time.Millisecond)
	if p.wait > 0 {
		return min(p.wait, next)
	}
	return next
}

// work is the pass's own goroutine.
func (p *pass) work() {
	again := time.NewTimer(p.r.cfg.Poll)
	defer again.Stop()
	for {
		p.claimMore()
		if p.claims == 0 && p.room == p.r.cfg.Workers {
			return
		}
		again.Reset(p.untilAgain())
		select {
		case c := <-p.claimed:
			process.Progress(p.ctx)
			p.begin(c)
		case e := <-p.ended:
			process.Progress(p.ctx)
			p.room += e.jobs
			p.err = cmp.Or(p.err, e.err)
			if e.subjects {
				p.lookAgain()
			}
		case <-p.r.cfg.Wake:
			p.admitAgain()
			p.lookAgain()
		case <-again.C:
			p.timeIsUp()
		case <-p.stopped():
			p.look = false
		}
	}
}

// timeIsUp has the pass look: a job became due while others were running, or few are left that do not hang. A claim that is under way is
// look enough, or claims that take longer than the poll would follow each other without a rest.
func (p *pass) timeIsUp() {
	p.full = false
	if p.wait > 0 && time.Now().Before(p.until) { //nolint:forbidigo // with a timer of the machine
		return
	}
	p.wait, p.failing, p.look = 0, false, true
	if p.claims == 0 {
		p.reasons++
	}
}

// admitAgain ends a wait that Admit asked for: a job that was stored meanwhile may be of an organisation that need not wait.
func (p *pass) admitAgain() {
	if !p.failing {
		p.wait = 0
	}
}

func (p *pass) lookAgain() {
	p.look = true
	p.reasons++
}

// untilAgain is the time to go without looking while jobs are running. What happens meanwhile does not begin a wait anew.
func (p *pass) untilAgain() time.Duration {
	if p.ctx.Err() != nil { // nothing is claimed any more, and what ends says so
		return p.r.cfg.Poll
	}
	if p.wait > 0 {
		return max(0, min(time.Until(p.until), p.r.cfg.Poll)) //nolint:forbidigo // the same
	}
	if p.look || p.claims > 0 {
		return p.r.cfg.Poll
	}
	poll := max(0, time.Until(p.looked.Add(p.r.cfg.Poll))) //nolint:forbidigo // the same
	if p.next.IsZero() {
		return poll
	}
	return min(p.untilNext(), poll)
}

// pause stops claiming for a while.
func (p *pass) pause(d time.Duration) {
	p.wait, p.until = d, time.Now().Add(d) //nolint:forbidigo // with a timer of the machine
}

// stopped is closed when the caller has ended, until the pass has noticed it.
func (p *pass) stopped() <-chan struct{} {
	if !p.look {
		return nil
	}
	return p.ctx.Done()
}

// claimMore begins as many claims as there are room and reason for. A second one during the first waits until it is worth a
// batch, and while there is a backlog the first one waits for a quarter of the room: what is claimed one by one costs ten times as
// much as what is claimed together.
func (p *pass) claimMore() {
	for p.look && p.ctx.Err() == nil && p.room > 0 && p.wait == 0 {
		if p.claims >= p.r.cfg.Fetchers || p.claims > 0 && p.room < p.r.cfg.Batch || p.full && p.room < p.r.cfg.Workers/4 {
			return
		}
		ahead, most := p.ahead()
		want := p.admitted(min(most, p.r.cfg.Batch))
		if want == 0 {
			return
		}
		p.room -= want
		p.claims++
		at, reasons := p.r.cfg.Now(), p.reasons
		now := at.Add(ahead)
		c := Claim{Limit: want, Now: now, Until: now.Add(p.r.cfg.Lease), After: p.r.servedLast(), From: p.from}
		if p.since++; p.from.IsZero() {
			p.since = 0
		}
		go func() {
			// Broken off when the process is asked to stop, the claim might be committed all the same, and its jobs would wait for their
			// leases to expire.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), p.r.cfg.Lease/4)
			defer cancel()
			claimed, err := p.r.cfg.Store.Claim(ctx, c)
			p.claimed <- claimedBatch{Claimed: claimed, wanted: want, from: c.From, at: at, reasons: reasons, err: err}
		}()
	}
}

// ahead returns how long before they are due jobs are claimed now, and how many at the most. Half of the workers may wait for a time: the
// others are for what is due at once.
func (p *pass) ahead() (early time.Duration, most int) {
	half := p.r.cfg.Workers / 2
	if spare := p.room - half; p.r.cfg.Ahead > 0 && spare >= max(half/4, 1) {
		return p.r.cfg.Ahead, spare
	}
	return 0, p.room
}

// admitted returns the number of the wanted jobs that may be begun now.
func (p *pass) admitted(want int) int {
	if p.r.cfg.Admit == nil {
		return want
	}
	n, wait, err := p.r.cfg.Admit(p.ctx, want)
	if err != nil {
		p.failed(fmt.Errorf("admit: %w", err))
		return 0
	}
	if n = min(n, want); n <= 0 {
		p.pause(max(wait, time.Millisecond))
		return 0
	}
	return n
}

// begin starts what was claimed.
func (p *pass) begin(c claimedBatch) {
	p.claims--
	p.looked = time.Now() //nolint:forbidigo // with a timer of the machine
	p.room += c.wanted - len(c.Jobs)
	if c.err != nil {
		p.failed(c.err)
		return
	}
	p.r.serves(c.Last)
	p.next, p.full = c.Next, len(c.Jobs) == c.wanted
	if p.expect(c); len(c.Jobs) == 0 {
		p.vain = p.looked
	}
	p.beginAll(c.Jobs)
}

// beginAll starts claimed jobs, or releases them when the caller has ended.
func (p *pass) beginAll(jobs []Job) {
	p.ran += len(jobs)
	for _, j := range jobs {
		if p.ctx.Err() != nil {
			p.release(j)
		} else {
			p.start(j)
		}
	}
}

// failed keeps the first error, and stops claiming for a while: nothing more is claimed when nothing runs, and else after a pause.
func (p *pass) failed(err error) {
	if p.ctx.Err() == nil {
		p.err = cmp.Or(p.err, err)
	}
	p.pause(againSoon)
	p.failing = true
}

// maxIdle bounds the pages of organisations without a due job that are looked at in a row.
const maxIdle = 64

// expect decides whether another claim may find something. A batch that is not full may have been a share that was not used
// up; so only an empty one is the end, unless there was a reason to look while it was on its way.
func (p *pass) expect(c claimedBatch) {
	p.from = p.floor(c)
	if c.Drained && len(c.Jobs) < c.wanted && c.reasons == p.reasons {
		p.look, p.idle = false, 0
		return
	}
	if len(c.Jobs) > 0 || c.Snoozed > 0 || !c.from.IsZero() {
		p.look, p.idle = true, 0
		return
	}
	p.idle++
	if c.reasons == p.reasons && (!c.More || p.idle > maxIdle) {
		p.look = false
	}
}

// maxPartial bounds the claims in a row that leave out what is known to be gone. What they miss, such as a job that was stored as
// overdue, or one of a busy subject, waits for no more claims than that.
const maxPartial = 16

// floor is from where the next claim may look, while full batches show that a backlog is being worked off, or one that has to wait for
// other jobs is being snoozed.
func (p *pass) floor(c claimedBatch) time.Time {
	if len(c.Jobs) < c.wanted && c.Snoozed == 0 || p.since >= maxPartial {
		return time.Time{}
	}
	if c.Floor.After(c.at) { // it was claimed ahead, and others may become due before it
		return c.at
	}
	return c.Floor
}

// release releases a job that has not begun.
func (p *pass) release(j Job) {
	now, due := p.r.cfg.Now(), j.DueAt
	if due.Before(now) {
		due = now
	}
	v := verdict{status: StatusPending, attempts: j.Attempts, message: "released: the process was asked to stop"}
	p.end(ending{end: Finish{Job: j, Status: v.status, Attempts: v.attempts, Message: v.message, DueAt: due, At: now}, verdict: v})
}

// start runs a job on its own goroutine, known to the heartbeat, when it is due.
func (p *pass) start(j Job) {
	r, early := p.r, min(j.DueAt.Sub(p.r.cfg.Now()), p.r.cfg.Ahead)
	timed, cancelTimed := bounded(p.ctx, max(early, 0)+r.cfg.Timeout)
	work, cancel := context.WithCancelCause(timed)
	own := &begun{job: j, cancel: cancel}
	r.mu.Lock()
	if before, running := r.running[j.ID]; running { // its lease is over, and the heartbeat keeps only this run from now on
		before.cancel(ErrFenced)
	}
	r.running[j.ID] = own
	r.mu.Unlock()
	if r.cfg.Log.Enabled(work, slog.LevelDebug) {
		r.cfg.Log.DebugContext(work, "queue.processing", "queue", r.cfg.Name, "job_id", j.ID, "event_type", j.EventType)
	}
	go func() {
		goOn := early <= 0 || process.RestOnMachineClock(p.ctx, early, nil) && work.Err() == nil
		var end Finish
		var v verdict
		if goOn {
			end, v = r.run(p.ctx, work, j, r.handler(j.EventType))
		}
		r.mu.Lock()
		if r.running[j.ID] == own {
			delete(r.running, j.ID)
		}
		r.mu.Unlock()
		cancel(nil)
		cancelTimed()
		if !goOn {
			p.release(j)
			return
		}
		p.end(ending{end: end, verdict: v})
	}()
}
