package chaos

import (
	"fmt"
	"slices"
	"time"
)

// Report sums a run of a population up. In JSON it is one object: what its kind of run adds stands next to the rest.
type Report struct {
	Kept   bool   `json:"kept"` // every promise
	Seed   uint64 `json:"seed"`
	People int    `json:"people"`

	Verdict

	SpacingAll Spread `json:"spacing_all"`      // by how much gaps were longer than the flow says, faults included
	Folder     string `json:"folder,omitempty"` // with the output of every process

	*Simulated
	*Killed
}

// Simulated is the part of a report that a simulation adds.
type Simulated struct {
	Worlds      int            `json:"worlds"`
	Interrupted bool           `json:"interrupted"` // before all worlds were played; the figures are of those that were
	TookMS      int64          `json:"took_ms"`
	VirtualMS   int64          `json:"virtual_ms"` // by the clocks of all worlds together
	Faults      map[string]int `json:"faults"`     // what went wrong, by kind
	Failed      []World        `json:"failed"`     // worlds that broke a promise, or could not be played
}

// Killed is the part of a report that a run of processes adds.
type Killed struct {
	DurationMS int64 `json:"duration_ms"` // of the kills and silences
	SettleMS   int64 `json:"settle_ms"`   // from the end of the last conversation until no process worked on anything
	TotalMS    int64 `json:"total_ms"`

	Kills map[string]int `json:"kills"` // by process
	// Processes that ended although the run did not kill them, such as one that found no Postgres when it started.
	EndedByThemselves map[string]int `json:"ended_by_themselves"`
	// From a kill until every process that it affected was ready again. Kills while a wire was silent are not counted here.
	RecoveryToReady Spread         `json:"recovery_to_ready"`
	NotRecovered    int            `json:"not_recovered"` // kills after which readiness did not come back, and silences likewise
	Silences        []silence      `json:"silences"`      // oldest first
	VendorFaults    map[string]int `json:"vendor_faults"`

	Rollout *Rollout `json:"rollout,omitempty"`

	Postgres string            `json:"postgres"` // its version
	Knobs    map[string]string `json:"knobs"`    // of the environment, as they were shortened
}

// World is the outcome of one world.
type World struct {
	Seed    uint64         `json:"seed"`
	People  int            `json:"people"`
	Gear    Gear           `json:"gear,omitempty"`
	Days    int            `json:"days,omitempty"` // for which people were followed by engagement
	Digest  string         `json:"digest"`         // the same whenever this seed is played with as many people
	Swept   int            `json:"swept_jobs"`     // that retention has deleted
	Lasted  time.Duration  `json:"-"`
	Took    time.Duration  `json:"-"`
	Verdict Verdict        `json:"verdict"`
	Faults  map[string]int `json:"faults"`
	Err     error          `json:"-"` // that kept it from being played to its end
	Problem string         `json:"problem,omitempty"`
	Replay  string         `json:"replay,omitempty"` // the command that plays it again
}

func (r *Report) add(w World) {
	r.Worlds++
	r.People += w.People
	r.VirtualMS += w.Lasted.Milliseconds()
	r.Verdict.Add(w.Verdict)
	r.Faults = sum(r.Faults, w.Faults)
	if w.Err != nil || !w.Verdict.Kept() {
		if w.Err != nil {
			w.Problem = w.Err.Error()
		}
		w.Replay = w.Again()
		r.Failed = append(r.Failed, w)
	}
}

// Again is the command that plays a world again.
func (w World) Again() string {
	again := fmt.Sprintf("go run ./test/rig chaos --seed %d --sessions %d --per-world %d", w.Seed, w.People, w.People)
	switch {
	case w.Days > 0:
		again += fmt.Sprintf(" --engagement --days %d", w.Days)
	case w.Gear == Fast:
		again += " --gear fast"
	}
	return again
}

// Spread is the distribution of durations.
type Spread struct {
	Count int     `json:"count"`
	P50MS float64 `json:"p50_ms"`
	P99MS float64 `json:"p99_ms"`
	MaxMS float64 `json:"max_ms"`
}

func spreadOf(all []time.Duration) Spread {
	if len(all) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(all))
	at := func(percent int) float64 { // the smallest that at least so many per cent do not exceed
		rank := max(1, (len(sorted)*percent+99)/100)
		return float64(sorted[rank-1].Microseconds()) / 1000
	}
	return Spread{Count: len(sorted), P50MS: at(50), P99MS: at(99), MaxMS: at(100)}
}
