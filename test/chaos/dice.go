package chaos

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"
)

// dice decides everything that is left to chance, from the seed and the name of the question alone. The same question gets
// the same answer at any time and from any goroutine, so that a run is repeated exactly however its goroutines interleave.
type dice uint64

// roll is its own source for one question.
func (d dice) roll(question ...any) *rand.Rand {
	sum := sha256.Sum256(fmt.Append(binary.BigEndian.AppendUint64(nil, uint64(d)), question...))
	//nolint:gosec // it must be reproducible
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])))
}

// one in n.
func oneIn(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

// grid is the unit of every time that a person or a vendor chooses. What begins at an instant of one person's own stays on
// their own instants.
const grid = 100 * time.Millisecond

// between is a time of whole grid units.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64((most-least)/grid)+1))*grid
}
