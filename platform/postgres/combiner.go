package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// combinerLanes transactions may be under way at once: the second one only while the first takes longer than slowLane, because its disk
	// is slow or a row is locked. What waits for a quick one shares the next, which costs the server less than two side by side.
	combinerLanes = 2
	slowLane      = 50 * time.Millisecond
	// maxCombined bounds the pieces of work that share a transaction.
	maxCombined = 128
	// combinedTimeout bounds a shared transaction, which none of its callers may break off for the others; laneTimeout one that a caller
	// runs alone in a lane.
	combinedTimeout = 10 * time.Second
	laneTimeout     = 5 * time.Second
)

// sqlByRow plans a statement once for any number of rows, and so that each row is looked up by itself: what a hash join does best is to
// read a whole table. sqlBrief keeps one row that another transaction holds from holding up a lane, and all who wait for it: after
// this long the piece that waits goes by itself, outside of the lanes.
const (
	sqlByRow = `set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_hashjoin', 'off', true),
	set_config('enable_mergejoin', 'off', true)`
	sqlBrief = `set_config('lock_timeout', '200ms', true)`
	sqlLazy  = `set_config('synchronous_commit', 'off', true)`
)

// Combiner runs the statements of many callers in few transactions: what has come together while the lanes were busy goes to the server in
// one round trip and shares one commit, and what is the same statement is run once for all of them. A caller alone goes at once, in a
// separate transaction; a crowd waits for one transaction that is under way and for its own. No caller is answered before the commit.
//
// What is combined must be correct in any order and next to anything: statements that are guarded by themselves. The zero value is not
// usable; see NewCombiner.
type Combiner struct {
	db    DB
	ready *pgxpool.Pool // its connections are set as sqlBrief says; nil where each transaction has to say it
	lazy  bool          // its commits do not wait for the disk

	mu      sync.Mutex
	lanes   int       // in use
	began   time.Time // when the one lane, or the older of two, began its transaction
	watched bool      // second is to come
	waiting []*piece
	keys    map[string]bool // of the pieces in the lanes
	waited  int
}

// NewCombiner returns a combiner on a database.
func NewCombiner(db DB) *Combiner {
	c := &Combiner{db: db, keys: map[string]bool{}}
	if pool, ok := db.(*Pool); ok {
		c.ready = pool.lanes
	}
	return c
}

// NewLazyCombiner returns one for notes that may be lost when the server crashes, but not when a client does: its commits do not wait for
// the disk. What is noted must be safe to do again.
func NewLazyCombiner(db DB) *Combiner {
	c := NewCombiner(db)
	c.lazy = true
	return c
}

// Statement is one statement of a piece of work, in the form for many rows at once: each argument is an array of the values of all callers,
// as in unnest(@id::uuid[]) with ordinality u (id, n). A value that is only written is read by its place, (@at::timestamptz[])[u.n]: a join
// reads the rows of unnest again and again, so they are to be narrow.
type Statement struct {
	SQL string
	// Args are the caller's own values, which become the elements of the arrays.
	Args Args
	// Rows is set to the number of rows of the result that are the caller's, by the ordinality n in their first column. Nil where that is
	// of no interest. A transaction that is undone and tried again counts anew.
	Rows *int
	// Read reads such a row, by the columns behind the first one. Nil for none. It may be called again by another try, so what it read is
	// only good together with Rows. Its error is its caller's alone, and undoes nothing.
	Read func(pgx.CollectableRow) error
}

// piece holds one caller's work: its statements, one after the other in one transaction.
type piece struct {
	ctx        context.Context //nolint:containedctx // of the caller who waits for the answer
	key        string
	statements []Statement
	unread     error      // of Read
	answer     chan error // of one
}

// Do runs statements in one transaction, which may be shared with those of other callers, and returns once it is committed. The key orders
// the pieces of a transaction, so that two transactions that meet the same rows meet them in the same order: pieces that lock the same
// rows have the same key. Pieces of one key go one after the other; an empty key is no key. An error of the server undoes all statements of
// the piece, and of no other. When ctx ends first the statements may have happened all the same, and may still be read: after an error
// nothing of what they set is to be looked at.
//
// A context that is bounded to an organisation has its transaction for itself.
func (c *Combiner) Do(ctx context.Context, key string, statements ...Statement) error {
	p := &piece{ctx: ctx, key: key, statements: statements}
	if !across(ctx) {
		return c.alone(ctx, p)
	}
	c.mu.Lock()
	if c.lanes == 0 || c.lanes < combinerLanes && c.slowFor() >= 0 && !c.keys[key] {
		c.take(p)
		if c.lanes++; c.lanes == 1 {
			c.began = time.Now() //nolint:forbidigo // with a timer of the machine
		}
		c.mu.Unlock()
		err := c.inLane(ctx, p)
		if lockedOut(err) || lostConflict(err) {
			return c.alone(ctx, p)
		}
		return cmp.Or(err, p.unread)
	}
	p.answer = make(chan error, 1)
	c.waiting = append(c.waiting, p)
	if !c.watched {
		c.watched = true
		time.AfterFunc(-c.slowFor(), c.second)
	}
	if len(c.waiting) > 1 {
		c.waited++
	}
	c.mu.Unlock()
	select {
	case err := <-p.answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// inLane runs a piece in the lane that its caller has taken, for no longer than others can wait.
func (c *Combiner) inLane(ctx context.Context, p *piece) error {
	defer c.leave(p)
	ctx, cancel := context.WithTimeout(ctx, laneTimeout)
	defer cancel()
	return c.run(ctx, true, p)
}

// Waited returns the number of callers so far who came while another waited for a lane: while it grows, there is more to do than the
// database keeps up with.
func (c *Combiner) Waited() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waited
}

// leave gives the lane of a caller who came first to those who came meanwhile.
func (c *Combiner) leave(p *piece) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(p)
	if len(c.waiting) == 0 {
		c.lanes--
		return
	}
	go c.work()
}

// work runs what waits in a lane, until nothing does.
func (c *Combiner) work() {
	for batch := c.next(nil); len(batch) > 0; batch = c.next(batch) {
		c.together(batch)
	}
}

// take notes that a key is in a lane. Another piece of it in the other lane would wait for the same row, and with it all that share its
// transaction.
func (c *Combiner) take(p *piece) {
	if p.key != "" {
		c.keys[p.key] = true
	}
}

// release takes back the notes of take.
func (c *Combiner) release(done ...*piece) {
	for _, p := range done {
		delete(c.keys, p.key)
	}
}

// slowFor returns for how long the first lane has been slow; less than zero until it is.
func (c *Combiner) slowFor() time.Duration {
	return time.Since(c.began) - slowLane //nolint:forbidigo // with a timer of the machine
}

// second opens the second lane if the first is slow or cannot keep up, and looks again later while there are callers who wait.
func (c *Combiner) second() {
	c.mu.Lock()
	slow := c.slowFor()
	c.watched = len(c.waiting) > 0
	open := c.watched && c.lanes < combinerLanes && (slow >= 0 || len(c.waiting) >= maxCombined)
	if open {
		c.lanes++
	}
	if c.watched {
		time.AfterFunc(max(-slow, slowLane/2), c.second)
	}
	c.mu.Unlock()
	if open {
		c.work()
	}
}

// next releases the keys of what is done and takes what waits. If it takes nothing the lane is free again: what still waits has keys of the
// other lane.
func (c *Combiner) next(done []*piece) []*piece {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(done...)
	batch := make([]*piece, 0, min(len(c.waiting), maxCombined))
	c.waiting = slices.DeleteFunc(c.waiting, func(p *piece) bool {
		if p.ctx.Err() != nil { // the caller has gone
			return true
		}
		if len(batch) == maxCombined || c.keys[p.key] {
			return false
		}
		c.take(p)
		batch = append(batch, p)
		return true
	})
	switch {
	case len(batch) == 0:
		c.lanes--
	case c.lanes == 1:
		c.began = time.Now() //nolint:forbidigo // with a timer of the machine
	}
	return batch
}

// together runs a batch in one transaction. If the server refuses it nothing of it has happened, and each piece goes by itself, at once, so
// that those who wait for nothing do not wait for the one that does. A lost connection is the error of all: whether the transaction was
// committed is not known, and only the callers know how to find out.
func (c *Combiner) together(batch []*piece) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].ctx), combinedTimeout)
	defer cancel()
	err := c.run(ctx, true, batch...)
	if undone(err) && (len(batch) > 1 || lockedOut(err) || lostConflict(err)) {
		for _, p := range batch {
			go func() { p.answer <- c.apart(p) }()
		}
		return
	}
	for _, p := range batch {
		p.answer <- cmp.Or(err, p.unread)
	}
}

// apart runs a piece of a batch that was refused. What waits for a lock keeps its connection for long, so it is found first: else a few
// such pieces would have all connections, and those that wait for nothing would wait for one.
func (c *Combiner) apart(p *piece) error {
	err := c.run(p.ctx, true, p)
	if lockedOut(err) || lostConflict(err) {
		return c.alone(p.ctx, p)
	}
	return cmp.Or(err, p.unread)
}

// undone reports whether an error says that nothing of a transaction has happened, on a connection that goes on: the server refused a
// statement, or one was never sent because its arguments have no form.
func undone(err error) bool {
	if _, unsent := errors.AsType[pgx.ErrPreprocessingBatch](err); unsent {
		return true
	}
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.SeverityUnlocalized == "ERROR"
}

// alone runs a piece in a separate transaction; again, at once, when it lost a conflict: of two that wait for each other one has gone on.
func (c *Combiner) alone(ctx context.Context, p *piece) error {
	var err error
	for range txAttempts {
		if err = c.run(ctx, false, p); !lostConflict(err) {
			break
		}
	}
	return cmp.Or(err, p.unread)
}

// run sends all statements at once, those of pieces that are alike together. Without a begin what is sent at once is one
// transaction. A brief one waits for no lock longer than others can.
func (c *Combiner) run(ctx context.Context, brief bool, pieces ...*piece) error {
	slices.SortStableFunc(pieces, func(a, b *piece) int {
		return cmp.Or(slices.CompareFunc(a.statements, b.statements, func(a, b Statement) int { return strings.Compare(a.SQL, b.SQL) }),
			cmp.Compare(a.key, b.key))
	})
	var batch pgx.Batch
	send := c.begin(&batch, brief)
	for len(pieces) > 0 {
		alike := 1
		for alike < len(pieces) && slices.EqualFunc(pieces[0].statements, pieces[alike].statements,
			func(a, b Statement) bool { return a.SQL == b.SQL }) {
			alike++
		}
		for i := range pieces[0].statements {
			queue(&batch, i, pieces[:alike])
		}
		pieces = pieces[alike:]
	}
	return send(ctx, &batch).Close() // only now it is committed
}

// begin sets a transaction as far as its connection is not set already, and returns what sends it.
func (c *Combiner) begin(batch *pgx.Batch, brief bool) func(context.Context, *pgx.Batch) pgx.BatchResults {
	settings, send := []string{sqlByRow}, c.db.SendBatch
	switch {
	case brief && c.free():
		settings, send = nil, c.ready.SendBatch
	case brief:
		settings = append(settings, sqlBrief)
	}
	if c.lazy {
		settings = append(settings, sqlLazy)
	}
	if len(settings) > 0 {
		batch.Queue("select " + strings.Join(settings, ", "))
	}
	return send
}

// free reports whether a connection that is set already can be had at once.
func (c *Combiner) free() bool {
	if c.ready == nil {
		return false
	}
	stat := c.ready.Stat()
	return stat.AcquiredConns() < stat.MaxConns()
}

// queue adds the statement at a place of pieces that are alike, once for all of them.
func queue(batch *pgx.Batch, place int, pieces []*piece) {
	one := pieces[0].statements[place]
	args := make(Args, len(one.Args))
	for name := range one.Args {
		values := make([]any, len(pieces))
		for i, p := range pieces {
			values[i] = p.statements[place].Args[name]
		}
		args[name] = pgtype.FlatArray[any](values)
	}
	for _, p := range pieces {
		if place == 0 {
			p.unread = nil
		}
		if rows := p.statements[place].Rows; rows != nil {
			*rows = 0
		}
	}
	queued := batch.Queue(one.SQL, args)
	if one.Rows == nil && one.Read == nil {
		return
	}
	queued.Query(func(rows pgx.Rows) error {
		defer rows.Close()
		for rows.Next() {
			n := 0
			into := make([]any, len(rows.FieldDescriptions())) // a column without a destination is passed over
			into[0] = &n
			if err := rows.Scan(into...); err != nil {
				return err
			}
			p := pieces[n-1]
			of := p.statements[place]
			if of.Rows != nil {
				*of.Rows++
			}
			if of.Read != nil {
				p.unread = cmp.Or(p.unread, of.Read(behind{rows}))
			}
		}
		return rows.Err()
	})
}

// behind is a row without its first column.
type behind struct{ rows pgx.Rows }

// FieldDescriptions implements pgx.CollectableRow.
func (b behind) FieldDescriptions() []pgconn.FieldDescription { return b.rows.FieldDescriptions()[1:] }

// Scan implements pgx.CollectableRow. Its error is of this row alone: that of pgx.Rows would end the rows of all callers.
func (b behind) Scan(dest ...any) error {
	return pgx.ScanRow(b.rows.TypeMap(), b.FieldDescriptions(), b.RawValues(), dest...)
}

// Values implements pgx.CollectableRow.
func (b behind) Values() ([]any, error) {
	values, err := b.rows.Values()
	if err != nil {
		return nil, err
	}
	return values[1:], nil
}

// RawValues implements pgx.CollectableRow.
func (b behind) RawValues() [][]byte { return b.rows.RawValues()[1:] }
