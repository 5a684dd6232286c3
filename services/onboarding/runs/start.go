package runs

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"paceline.internal/platform/phone"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/request"
)

// Request asks for a run.
type Request struct {
	OrgID, Flow string
	People      []string // ids of profiles, or phones
	Filter      string
	Paused      bool
	Key         string // idempotency key; a dry run needs none
	Consent     *people.ConsentRecord
}

// Unknown has the entries of a list that name nobody.
type Unknown struct {
	Counts map[Reason]int
	Places []int // in the list; the first mostPlaces
}

const mostPlaces = 100

func (u *Unknown) add(reason Reason, place int) {
	if u.Counts == nil {
		u.Counts = map[Reason]int{}
	}
	u.Counts[reason]++
	if len(u.Places) < mostPlaces {
		u.Places = append(u.Places, place)
	}
}

// Start makes a run of the current version of a flow. Errors: ErrInvalid, flow.ErrNotFound, ErrTooMany, ErrKeyReused.
func (s *Service) Start(ctx context.Context, in Request) (run Run, unknown Unknown, duplicate bool, err error) {
	if in.Key == "" {
		return run, unknown, false, fmt.Errorf(
			"%w: send the header Idempotency-Key, or idempotency_key: a repeat with the same key finds the run and starts nobody twice", ErrInvalid)
	}
	f, _, err := s.check(ctx, in)
	if err != nil {
		return run, unknown, false, err
	}
	found, unknown, err := s.find(ctx, in.OrgID, in.People)
	if err != nil {
		return run, unknown, false, err
	}
	written, err := json.Marshal(in) //nolint:musttag // only its hash is kept
	if err != nil {
		return run, unknown, false, fmt.Errorf("write a request: %w", err)
	}
	hash := sha256.Sum256(written)
	now := s.Now()
	status := Running
	if in.Paused {
		status = Paused
	}
	run, duplicate, err = s.Store.Create(ctx, Run{
		ID: uuid.Must(uuid.NewV7()).String(), OrgID: in.OrgID, Flow: f.Name, FlowVersion: f.Version, Status: status, Filter: in.Filter,
		Filtering: in.Filter != "", Consent: in.Consent, CreatedAt: now,
	}, Made{Key: in.Key, Hash: hash[:], IDs: ids(found)})
	if err == nil && !duplicate {
		s.Notify()
	}
	return run, unknown, duplicate, err
}

// check refuses a request that no run could be made of, and returns the flow and the filter.
func (s *Service) check(ctx context.Context, in Request) (f flow.Flow, filter flow.Filter, err error) {
	switch {
	case len(in.People) > 0 && in.Filter != "":
		return f, filter, fmt.Errorf("%w: send people or filter, and not both", ErrInvalid)
	case len(in.People) == 0 && in.Filter == "" && !in.Paused:
		return f, filter, fmt.Errorf("%w: send people, or a filter such as person.locale == 'en'; true is everybody", ErrInvalid)
	case len(in.People) > MaxPage:
		return f, filter, tooLong(len(in.People))
	case len(in.Filter) > maxFilter:
		return f, filter, fmt.Errorf("%w: filter must have at most %d bytes", ErrInvalid, maxFilter)
	case len(in.Key) > mostKey:
		return f, filter, fmt.Errorf("%w: idempotency_key must have at most %d characters", ErrInvalid, mostKey)
	}
	if f, err = s.Flows.Current(ctx, in.OrgID, in.Flow); err != nil {
		return f, filter, err
	}
	if in.Filter != "" {
		filter, err = s.filter(ctx, in.OrgID, in.Filter)
	}
	return f, filter, err
}

const mostKey = 200

func tooLong(n int) error {
	return fmt.Errorf("%w: people has %d entries, and may have %d; make the run paused, add the others with :add, and :resume it",
		ErrInvalid, n, MaxPage)
}

// filter reads a filter over the fields of all current flows.
func (s *Service) filter(ctx context.Context, orgID, condition string) (flow.Filter, error) {
	declared, err := s.Flows.Declared(ctx, orgID)
	if err != nil {
		return flow.Filter{}, err
	}
	filter, err := flow.NewFilter(declared, condition)
	if err != nil {
		return filter, fmt.Errorf("%w: filter: %s", ErrInvalid, err.Error())
	}
	return filter, nil
}

// find returns the people of a list, each once.
func (s *Service) find(ctx context.Context, orgID string, list []string) (found []Candidate, unknown Unknown, err error) {
	var profileIDs, phones []string
	names := make([]string, len(list)) // as people are found by it; empty of an entry that names nobody
	for i, entry := range list {
		if request.IsID(entry) {
			names[i] = strings.ToLower(entry) // as the database writes ids
			profileIDs = append(profileIDs, names[i])
		} else if e164, err := phone.Read(entry); err == nil {
			names[i], phones = e164, append(phones, e164)
		}
	}
	known := map[string]bool{}
	add := func(all []Candidate) {
		for _, c := range all {
			if !known[c.ID] {
				found = append(found, c)
			}
			known[c.ID], known[c.Phone] = true, true
		}
	}
	if len(profileIDs) > 0 {
		all, err := s.People.Candidates(ctx, orgID, profileIDs)
		if err != nil {
			return nil, unknown, err
		}
		add(all)
	}
	if len(phones) > 0 {
		all, err := s.People.CandidatesByPhone(ctx, orgID, phones)
		if err != nil {
			return nil, unknown, err
		}
		add(all)
	}
	for i, name := range names {
		switch {
		case name == "":
			unknown.add(BadNumber, i)
		case !known[name]:
			unknown.add(NoProfile, i)
		}
	}
	return found, unknown, nil
}

func ids(of []Candidate) []string {
	all := make([]string, len(of))
	for i, c := range of {
		all[i] = c.ID
	}
	slices.Sort(all) // two requests lock people in one order
	return all
}

// Add puts people in a run that is not finished. already counts the entries of those who were in it. ErrInvalid, ErrNoRun, ErrFinished,
// ErrTooMany.
func (s *Service) Add(ctx context.Context, orgID, id string, list []string) (added, already int, unknown Unknown, err error) {
	if len(list) == 0 {
		return 0, 0, unknown, fmt.Errorf("%w: people must have an id or a phone", ErrInvalid)
	}
	if len(list) > MaxPage {
		return 0, 0, unknown, tooLong(len(list))
	}
	found, unknown, err := s.find(ctx, orgID, list)
	if err != nil {
		return 0, 0, unknown, err
	}
	if added, err = s.Store.Add(ctx, orgID, id, ids(found), s.Now()); err != nil {
		return 0, 0, unknown, err
	}
	already = len(list) - added
	for _, n := range unknown.Counts {
		already -= n
	}
	return added, already, unknown, nil
}

// Switch pauses, resumes or cancels a run; a repeat changes nothing. ErrNoRun, ErrFinished.
func (s *Service) Switch(ctx context.Context, orgID, id string, to Status) (Run, error) {
	run, err := s.Store.Switch(ctx, orgID, id, to, "", s.Now())
	if err == nil && to == Running {
		s.Notify()
	}
	return run, err
}

// Get returns a run with the counts of its people; ErrNoRun.
func (s *Service) Get(ctx context.Context, orgID, id string) (Run, error) {
	run, err := s.Store.Run(ctx, orgID, id)
	if err != nil || run.Counts != nil {
		return run, err
	}
	counts, err := s.Store.Count(ctx, id)
	run.Counts = &counts
	return run, err
}
