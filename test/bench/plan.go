package bench

import (
	"fmt"
	"slices"
	"strings"
)

// Names of the contenders.
const (
	ours  = "ours"
	river = "river"
	seed8 = "seed_8"
	seed1 = "seed_1"
)

// Names of the measures.
const (
	endToEnd    = "end_to_end"
	work        = "work"
	enqueueOne  = "enqueue_one"
	enqueueMany = "enqueue_many"
	pickUp      = "pick_up"
)

// goal is how many times as many jobs a second as river's we want to be end to end, in every scenario.
const goal = 3

// scenario is the state of the database while everything is measured.
type scenario struct {
	name, title string
	finished    bool // the table is full of finished jobs
	held        bool // an open transaction keeps an old snapshot, so no dead row can be cleared away; as many jobs as are measured went before
}

func scenarios() []scenario {
	return []scenario{
		{name: "fresh", title: "an empty table"},
		{name: "finished", title: "a table full of finished jobs", finished: true},
		{name: "held", title: "a transaction is held open elsewhere, and as many jobs have been done since it began", held: true},
	}
}

// measure is one figure.
type measure struct {
	name, title, unit string
	less              bool // is better
	bulk, idle        bool // needs a contender that can store many at once, or one that is woken
}

func measures() []measure {
	return []measure{
		{name: endToEnd, title: "stored and done", unit: "jobs/s"},
		{name: work, title: "done, stored before", unit: "jobs/s"},
		{name: enqueueOne, title: "stored one by one, 256 callers", unit: "jobs/s"},
		{name: enqueueMany, title: "stored 1000 at a time", unit: "jobs/s", bulk: true},
		{name: pickUp, title: "picked up when idle, p50", unit: "ms", less: true, idle: true},
	}
}

func (s scenario) called() string { return s.name }
func (m measure) called() string  { return m.name }

// entry is a contender of the run.
type entry struct {
	name, title string
	schema      schema
	slow        bool // gets a tenth of the jobs
	bulk, idle  bool // has a way to store many at once; is woken when something is stored
}

func contenders() []entry {
	return []entry{
		{name: ours, title: "ours", schema: oursSchema(), bulk: true, idle: true},
		{name: river, title: "river", schema: riverSchema(), bulk: true, idle: true},
		{name: seed8, title: "seed, 8 loops", schema: seedSchema(), slow: true},
		{name: seed1, title: "seed, 1 loop", schema: seedSchema(), slow: true},
	}
}

func (e entry) called() string { return e.name }

func (e entry) takesPart(m measure) bool {
	return (e.bulk || !m.bulk) && (e.idle || !m.idle)
}

// share is how many jobs a contender gets. A rate does not depend on it much, and what does is in the slow one's favour.
func (e entry) share(jobs int) int {
	if e.slow {
		return max(jobs/10, 10)
	}
	return jobs
}

func named[T interface{ called() string }](all []T, name string) (T, error) {
	var names []string
	for _, one := range all {
		if one.called() == name {
			return one, nil
		}
		names = append(names, one.called())
	}
	var none T
	return none, fmt.Errorf("%q is none of %s", name, strings.Join(names, ", "))
}

// chosen are those of all whose names are given, or all.
func chosen[T interface{ called() string }](all []T, names []string) []T {
	if len(names) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(one T) bool { return !slices.Contains(names, one.called()) })
}
