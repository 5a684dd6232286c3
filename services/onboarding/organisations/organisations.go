// Package organisations has the organisations of a deployment: it makes, suspends, resumes and ends them.
package organisations

import (
	"errors"
	"time"
)

// Status is the state of an organisation.
type Status string

// States of an organisation.
const (
	Active    Status = "active"
	Suspended Status = "suspended" // nothing is sent
	Ended     Status = "ended"     // nothing is sent, its callers are refused, and it is erased after the grace period
)

// MaxOrganisations bounds the organisations of a deployment.
const MaxOrganisations = 10_000

var (
	// ErrNotFound means that there is no such organisation.
	ErrNotFound = errors.New("there is no such organisation")
	// ErrTooMany means that there are as many organisations as may be.
	ErrTooMany = errors.New("there are as many organisations as may be")
	// ErrEnded means that an organisation has ended.
	ErrEnded = errors.New("the organisation has ended: POST /v1/organisations/{org_id}:resume takes that back, before it is erased")
	// ErrDefault means that an organisation cannot end, as its sender is no row that could be erased.
	ErrDefault = errors.New("the organisation of DEFAULT_ORG_ID has the sender of the environment, so it does not end: suspend it, or " +
		"give DEFAULT_ORG_ID and the Twilio variables to another one first")
	// ErrErased means that the data of an organisation is erased, or being erased.
	ErrErased = errors.New("the grace period of the organisation is over: it is being erased, which is not taken back")
	// ErrMoved means that an organisation is on its way to another deployment, or lives there.
	ErrMoved = errors.New("the organisation moves to another deployment, or has moved: see paceline org move")
	// ErrHasKey means that an organisation has an operator's key.
	ErrHasKey = errors.New("the organisation has an operator's key, which makes others: revoke it first if it is lost")
	// ErrNotTold means that a change is kept, and that messaging does not know it yet.
	ErrNotTold = errors.New("the change is kept, and messaging cannot be told right now; it is told until it knows")
)

// Organisation is one organisation.
type Organisation struct {
	OrgID      string
	Name       string
	Status     Status
	Wanted     Status // what was asked for last; Status follows once messaging knows
	Version    int64
	Reason     string
	ChangedAt  time.Time
	ChangedBy  *string // the actor, see audit.Read
	CreatedAt  time.Time
	EraseAfter *time.Time
	ErasedAt   *time.Time
	WaitsFor   string
	Tries      int
	// Move is the state of a move to or from another deployment: leaving, left, released or arriving; empty without one.
	Move string
}

// What gateways see of an organisation that moves; none is stored with it.
const (
	Moving Status = "moving" // its callers come again; texts and receipts are taken until it is suspended
	Moved  Status = "moved"  // it is not here, or not yet
)
