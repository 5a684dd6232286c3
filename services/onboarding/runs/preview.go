package runs

import (
	"context"
	"maps"
	"slices"

	"paceline.internal/services/onboarding/flow"
)

// Preview counts what a run would do.
type Preview struct {
	People, Segments, Quiet int
	Languages               map[string]Share
	LeftOut                 map[Reason]int
	Complete                bool // everybody was looked at
}

// Share is the part of one language.
type Share struct{ People, Segments int }

// Preview counts what a run would do now, and makes none. Its errors are those of Start.
func (s *Service) Preview(ctx context.Context, in Request) (Preview, Unknown, error) {
	f, filter, err := s.check(ctx, in)
	if err != nil {
		return Preview{}, Unknown{}, err
	}
	p := Preview{Languages: map[string]Share{}, LeftOut: map[Reason]int{}, Complete: true}
	if in.Filter == "" {
		found, unknown, err := s.find(ctx, in.OrgID, in.People)
		if err != nil {
			return p, unknown, err
		}
		maps.Copy(p.LeftOut, unknown.Counts)
		s.count(&p, &f, in, found)
		return p, unknown, nil
	}
	p.Complete, err = s.ask(ctx, in.OrgID, filter, nobody, maxPreview, func(met []Candidate) error {
		s.count(&p, &f, in, met)
		return nil
	})
	return p, Unknown{}, err
}

// count adds people to a preview.
func (s *Service) count(p *Preview, f *flow.Flow, in Request, all []Candidate) {
	for _, c := range all {
		reason := leaves(c, in.Consent != nil)
		var first opening
		var sends bool
		if reason == "" {
			if first, sends = openingOf(f, c.Person(f.Fields)); !sends {
				reason = SendsNothing
			}
		}
		if reason != "" {
			p.LeftOut[reason]++
			continue
		}
		if _, quiet := c.QuietUntil(s.Now()); quiet {
			p.Quiet++
		}
		share := p.Languages[first.language]
		share.People, share.Segments = share.People+1, share.Segments+first.longest
		p.Languages[first.language] = share
		p.People, p.Segments = p.People+1, p.Segments+first.longest
	}
}

const (
	// nobody is the place before the first person.
	nobody = "00000000-0000-0000-0000-000000000000"
	// asked bounds the people of whom a filter is asked at a time.
	asked = 1_000
)

// ask asks a filter of people behind a place, of so many at most, and hands over those who meet it. It reports whether nobody is left.
func (s *Service) ask(
	ctx context.Context, orgID string, filter flow.Filter, after string, most int, met func([]Candidate) error,
) (all bool, err error) {
	for looked := 0; looked < most; looked += asked {
		page, last, err := s.askPage(ctx, orgID, filter, after)
		if err != nil {
			return false, err
		}
		if err := met(page); err != nil || last == "" {
			return err == nil, err
		}
		after = last
	}
	return false, nil
}

// askPage asks a filter of the next people. last is the last of them; empty when nobody is left.
func (s *Service) askPage(
	ctx context.Context, orgID string, filter flow.Filter, after string,
) (met []Candidate, last string, err error) {
	page, err := s.People.CandidatesBehind(ctx, orgID, after, asked)
	if err != nil {
		return nil, "", err
	}
	if len(page) == asked {
		last = page[asked-1].ID
	}
	return slices.DeleteFunc(page, func(c Candidate) bool { return !filter.Holds(c.Person(filter.Fields())) }), last, nil
}
