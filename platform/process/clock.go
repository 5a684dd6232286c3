package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// tolerableSkew is what the pauses between texts may well be wrong by.
	tolerableSkew = 500 * time.Millisecond
	// badSkew is beyond what a signature of QStash forgives.
	badSkew = 5 * time.Second
)

// asker is a pool.
type asker interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// LookAtClock is a Look at the database's clock beside that of this host: a warning when they differ by half a second, and wrong when
// by five.
func LookAtClock(ctx context.Context, db asker) (string, error) {
	best, skew := time.Duration(-1), time.Duration(0)
	for range 3 { // the quickest answer says most
		asked := time.Now() //nolint:forbidigo // it is the host's clock that is looked at
		var theirs time.Time
		if err := db.QueryRow(ctx, `select clock_timestamp()`).Scan(&theirs); err != nil {
			return "", Mend("mend what is wrong with the database, above", fmt.Errorf("ask the database for the time: %w", err))
		}
		if took := time.Since(asked); best < 0 || took < best { //nolint:forbidigo // the same
			best, skew = took, theirs.Sub(asked.Add(took/2))
		}
	}
	return judgeSkew(skew)
}

func judgeSkew(skew time.Duration) (string, error) {
	said := fmt.Sprintf("the database's clock is %s off ours", skew.Round(time.Millisecond))
	switch {
	case skew.Abs() >= badSkew:
		return "", errors.New(said)
	case skew.Abs() >= tolerableSkew:
		return "", Warn("%s", said)
	}
	return said, nil
}
