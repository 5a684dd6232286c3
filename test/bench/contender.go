package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// contender is a queue that is measured.
type contender struct {
	pool *pgxpool.Pool
	// storeMany stores jobs first to first+n-1, as fast as it can.
	storeMany func(ctx context.Context, first, n int) error
	storeOne  func(ctx context.Context, n int) error
	oneByOne  bool // it has no storeMany of its own: that one only lays the table
	// start works what is stored, and says of each job that it was done, until stop.
	start func(ctx context.Context, done func(n int)) (stop func() error, err error)
	// busy reports, quickly, whether the end of any job is still to be recorded.
	busy func(ctx context.Context) (bool, error)
	// sqlCount counts the jobs that are finished and those that are not.
	sqlCount string
}

// tally is how many jobs a table holds.
type tally struct{ finished, open int }

// busyBy asks the database.
func busyBy(pool *pgxpool.Pool, sql string) func(ctx context.Context) (bool, error) {
	return func(ctx context.Context) (busy bool, err error) {
		err = pool.QueryRow(ctx, sql).Scan(&busy)
		return busy, err
	}
}

func (c *contender) count(ctx context.Context) (t tally, err error) {
	err = c.pool.QueryRow(ctx, c.sqlCount).Scan(&t.finished, &t.open)
	return t, err
}

// openContender opens a contender on its database; run separates the jobs of this process from those of others.
func openContender(ctx context.Context, name, url, run string, now func() time.Time) (*contender, error) {
	pool, err := openPool(ctx, url)
	if err != nil {
		return nil, err
	}
	switch name {
	case ours:
		return openOurs(pool, run, now), nil
	case river:
		return openRiver(pool)
	case seed8:
		return openSeed(pool, run, 8, now), nil
	case seed1:
		return openSeed(pool, run, 1, now), nil
	}
	pool.Close()
	return nil, fmt.Errorf("there is no contender %q", name)
}

// task is what every job carries, a quarter of a kilobyte.
type task struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

var text = strings.Repeat("0123456789", 23)

func payload(n int) json.RawMessage {
	return fmt.Appendf(nil, `{"n": %d, "text": %q}`, n, text)
}

// numberOf reads the number of a job. One that cannot be read is -1, which was never stored.
func numberOf(payload []byte) int {
	var t task
	if err := json.Unmarshal(payload, &t); err != nil {
		return -1
	}
	return t.N
}
