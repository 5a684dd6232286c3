package queue

import (
	"time"

	"github.com/google/uuid"
)

// Lease lets a process store a job as processing and hand it to its own Runner. The zero Lease is none: the job is stored as pending.
type Lease struct {
	Token string // a UUID
	Until time.Time
}

// Lease returns a lease for a job without a subject that is due now, so that it begins without a claim; none unless the runner is at work
// with half of its workers free, so that the jobs of others keep their turn. The caller stores the job, and calls HandOver right after the
// commit. A job that is not handed over waits until its lease is over; then any process claims it.
func (r *Runner) Lease() Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.passing || len(r.running)+len(r.handed) >= r.cfg.Workers/2 {
		return Lease{}
	}
	return Lease{Token: uuid.NewString(), Until: r.cfg.Now().Add(r.cfg.Lease)}
}

// HandOver has the runner do a job that is stored under its lease.
func (r *Runner) HandOver(j Job) {
	r.mu.Lock()
	r.handed = append(r.handed, j)
	passing := r.passing
	r.mu.Unlock()
	if Wake(r.gave); !passing {
		Wake(r.cfg.Wake)
	}
}

// leave ends a pass, unless a job was handed over.
func (r *Runner) leave() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passing = len(r.handed) > 0
	return !r.passing
}

// beginHanded starts what was handed over, and has the runner grant leases from now on. A claim that is under way may have taken all of the
// room: then it is below zero for a time.
func (p *pass) beginHanded() {
	p.r.mu.Lock()
	jobs := p.r.handed
	p.r.handed, p.r.passing = nil, true
	p.r.mu.Unlock()
	p.room -= len(jobs)
	p.beginAll(jobs)
}
