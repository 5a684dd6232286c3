package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/platform/queue"
)

// TestModel (S2_08, S2_15, S2_32, S2_33) plays random schedules of storing, claiming, dying, finishing, retrying and cancelling,
// and holds the queue to what may never happen: an end recorded for a worker that lost the lease, two ends of one job, two jobs of a subject at
// a time, or one out of order.
func TestModel(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]*bundle{"Plain": setup(t), "Scheduled": scheduled(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(r *rapid.T) {
				_, err := b.pool.Exec(t.Context(), `truncate jobs`)
				require.NoError(r, err)
				m := model{T: r, b: b, ended: map[string]bool{}, holder: map[string]queue.Job{}, subject: map[string]string{}, until: map[string]time.Time{}}
				r.Repeat(map[string]func(*rapid.T){
					"store": m.store, "claim": m.claim, "finish": m.finish, "pass": m.pass, "cancel": m.cancel, "": func(*rapid.T) {},
				})
				m.check()
			})
		})
	}
}

type model struct {
	*rapid.T

	b       *bundle
	order   []string             // ids as they were stored
	subject map[string]string    // of each
	ended   map[string]bool      // completed, failed or cancelled
	holder  map[string]queue.Job // the newest claim of each that is open
	until   map[string]time.Time
	stale   []queue.Job // claims that were taken over, or ended
}

func (m *model) store(r *rapid.T) {
	n := m.b.job(rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(r, "subject"))
	n.OrgID = []string{m.b.orgID, "00000000-0000-7000-8000-00000000000a"}[rapid.IntRange(0, 1).Draw(r, "org")]
	n.DueAt = n.DueAt.Add(time.Duration(rapid.IntRange(-10, 30).Draw(r, "due")) * time.Second)
	stored, err := m.b.queue.Enqueue(m.b.t.Context(), m.b.pool, n)
	require.NoError(r, err)
	require.False(r, stored.Duplicate)
	m.order = append(m.order, n.ID)
	if n.Subject != "" {
		m.subject[n.ID] = n.OrgID + n.Subject
	}
}

func (m *model) claim(r *rapid.T) {
	now := m.b.clock.Now()
	var found []queue.Job
	if len(m.order) > 0 && rapid.Bool().Draw(r, "one") {
		found = m.b.claimOne(rapid.SampledFrom(m.order).Draw(r, "id"))
	} else {
		found = m.b.claim(rapid.IntRange(1, 4).Draw(r, "limit")).Jobs
	}
	for _, j := range found {
		require.False(r, m.ended[j.ID], "it was at its end")
		if before, held := m.holder[j.ID]; held {
			require.False(r, m.until[j.ID].After(now), "its lease was not over")
			m.stale = append(m.stale, before)
		}
		m.holder[j.ID], m.until[j.ID] = j, now.Add(lease)
		for _, other := range m.order {
			if other == j.ID || m.subject[j.ID] == "" || m.subject[other] != m.subject[j.ID] || m.ended[other] {
				continue
			}
			require.Less(r, j.ID, other, "an older one of the subject is open")
			_, held := m.holder[other]
			require.False(r, held && m.until[other].After(now), "two of a subject at a time")
		}
	}
}

func (m *model) finish(r *rapid.T) {
	status := rapid.SampledFrom([]string{queue.StatusCompleted, queue.StatusFailed, queue.StatusPending}).Draw(r, "status")
	now := m.b.clock.Now()
	var ends []queue.Finish
	expect := map[string]bool{}
	for _, j := range m.stale {
		if _, again := m.holder[j.ID]; !again && len(ends) < 3 {
			ends = append(ends, queue.Finish{Job: j, Status: status, At: now, DueAt: now})
			expect[j.ID] = false
		}
	}
	for _, id := range m.order {
		j, held := m.holder[id]
		if !held || !rapid.Bool().Draw(r, "this") {
			continue
		}
		ends = append(ends, queue.Finish{Job: j, Status: status, Attempts: j.Attempts, At: now, DueAt: now.Add(5 * time.Second)})
		expect[id] = true
	}
	fenced, err := m.b.queue.Finish(m.b.t.Context(), ends)
	require.NoError(r, err)
	lost := map[string]bool{}
	for _, id := range fenced {
		lost[id] = true
	}
	for id, recorded := range expect {
		require.Equal(r, !recorded, lost[id], "%s", id)
		if recorded {
			m.stale = append(m.stale, m.holder[id])
			delete(m.holder, id)
			m.ended[id] = status != queue.StatusPending
		}
	}
}

func (m *model) pass(r *rapid.T) {
	m.b.clock.Advance(time.Duration(rapid.IntRange(1, 50).Draw(r, "seconds")) * time.Second)
}

func (m *model) cancel(r *rapid.T) {
	if len(m.order) == 0 {
		return
	}
	id := rapid.SampledFrom(m.order).Draw(r, "id")
	_, held := m.holder[id]
	_, err := m.b.queue.Cancel(m.b.t.Context(), m.b.pool, m.b.orgID, id, m.b.clock.Now())
	if err == nil {
		require.False(r, held || m.ended[id])
		m.ended[id] = true
	}
}

// check lets a healthy worker finish everything: nothing is stranded.
func (m *model) check() {
	for range 3*len(m.order) + 3 {
		m.b.clock.Advance(lease)
		for _, j := range m.b.claim(100).Jobs {
			_, err := m.b.queue.Finish(m.b.t.Context(), []queue.Finish{{Job: j, Status: queue.StatusCompleted, At: m.b.clock.Now()}})
			require.NoError(m, err)
			m.ended[j.ID] = true
		}
	}
	for _, id := range m.order {
		require.True(m, m.ended[id], fmt.Sprint(id, " was stranded"))
	}
}
