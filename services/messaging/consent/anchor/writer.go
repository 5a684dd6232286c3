package anchor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric"

	"paceline.internal/services/messaging/consent"
)

// AtOnce sets how many ledgers a statement has at the most.
const AtOnce = 500

// Ledger is one with its lines, from the first, or with what is left of them.
type Ledger struct {
	ID, OrgID uuid.UUID
	Lines     []consent.Line
	Left      *Left // nil while the lines are there
}

// Left holds what is kept of a ledger that was deleted lawfully.
type Left struct {
	How       string // in words
	At        time.Time
	Witnesses []string
	Sealed    bool  // whether they cannot be read, for want of the key
	Problem   error // why they cannot be read with it
}

func (l Ledger) witnesses() []string {
	if l.Left != nil {
		return l.Left.Witnesses
	}
	return consent.Witnesses(consent.Traces(l.Lines))
}

// Last is the newest statement that the database knows; zero when there is none.
type Last struct {
	Number int64
	Hash   string
}

// Writer writes statements.
type Writer struct {
	// Due is the database: of all replicas one at a time gets the ledgers with lines that no anchor holds. What write returns is noted, once
	// the statement is in its file; a crash between has the same ledgers anchored again, by another statement that follows the same one.
	Due func(ctx context.Context, limit int, write func(last Last, due []Ledger) (*Statement, error)) (anchored int, err error)
	Dir string // outside the database; it has to be there
	Key Key
	Now func() time.Time
	Log *slog.Logger
}

// Once anchors a batch of ledgers and reports whether there may be more.
func (w *Writer) Once(ctx context.Context) (more bool, err error) {
	var written *Statement
	var unwritten error // of the file: the database is not to blame
	n, err := w.Due(ctx, AtOnce, func(last Last, due []Ledger) (*Statement, error) {
		s := &Statement{Number: last.Number + 1, At: w.Now().UTC().Truncate(time.Microsecond), Previous: last.Hash}
		for _, l := range due {
			witnesses := l.witnesses()
			s.Ledgers = append(s.Ledgers, Entry{Ledger: l.ID, Lines: len(l.Lines), Witness: witnesses[len(witnesses)-1]})
		}
		line, err := w.Key.line(s)
		if err != nil {
			return nil, err
		}
		written = s
		unwritten = appendLine(filepath.Join(w.Dir, "anchors-"+s.At.Format(time.DateOnly)+".jsonl"), line)
		return s, unwritten
	})
	if unwritten != nil {
		return false, fmt.Errorf("anchor the ledgers in LEDGER_ANCHOR_DIR: %w", unwritten)
	}
	if err != nil {
		return false, fmt.Errorf("anchor the ledgers: %w", err)
	}
	if n > 0 { // the log is another place that the owner of the database does not write
		w.Log.InfoContext(ctx, "ledger.anchored", "number", written.Number, "ledgers", n, "hash", written.Hash())
	}
	return n == AtOnce, nil
}

// appendLine has the line on the disk when it returns. What a crash left of another line is ended first.
func appendLine(file string, line []byte) (err error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o640) //nolint:gosec // its group reads it: who verifies need not write
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if end > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], end-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	if _, err := f.Write(line); err != nil {
		return err
	}
	return f.Sync()
}

// observeTimeout bounds what a collection waits for the database; scrapers give up after ten seconds.
const observeTimeout = 2 * time.Second

// Observe registers the gauge of a deployment that anchors its ledgers. It is read at every collection, under the values of ctx, and at no
// other time.
func Observe(
	ctx context.Context, meter metric.Meter, waitingSince func(ctx context.Context) (*time.Time, error), now func() time.Time,
) error {
	waiting, err := meter.Float64ObservableGauge("paceline_ledgers_unanchored_seconds", metric.WithUnit("s"),
		metric.WithDescription("For how long lines of consent ledgers have waited for an anchor and none was written; 0 when none waits."))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
		defer cancel()
		since, err := waitingSince(ctx)
		if err != nil {
			return err
		}
		var age time.Duration // none waits is a number, too
		if since != nil {
			age = max(0, now().Sub(*since))
		}
		o.ObserveFloat64(waiting, age.Seconds())
		return nil
	}, waiting)
	return err
}
