package engagement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"paceline.internal/services/onboarding/engagement/rules"
)

// Why a wish is refused.
var (
	ErrPreference = errors.New("preference refused")
	// ErrRemindersOffByPerson: only the person switches on again what their own words have switched off.
	ErrRemindersOffByPerson = errors.New("the person has switched their reminders off, and switches them on")
	ErrNoHousehold          = errors.New("the person is in no household with another person")
	ErrHouseholdFull        = errors.New("the household has as many members as it can")
)

// Wishes are changes of a person's preferences; what is empty stays.
type Wishes struct {
	Reminders   string // on, off
	Tips        string // on, off
	Destination rules.Destination

	Source string // as events name it: web, app, operator
	By     string // ByPerson, ByOperator
	Cause  string
}

// check reports every problem of wishes at once.
func (w Wishes) check() error {
	var problems []string
	for _, name := range []struct{ name, value string }{{"reminders", w.Reminders}, {"tips", w.Tips}} {
		if !slices.Contains([]string{"", "on", "off"}, name.value) {
			problems = append(problems, name.name+" must be on or off")
		}
	}
	if w.Destination != "" && !slices.Contains(rules.Destinations(), w.Destination) {
		problems = append(problems, "destination must be individual or group")
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w: %s", ErrPreference, strings.Join(problems, "; "))
	}
	return nil
}

// SetPreferences changes what a person prefers, and returns the person as they are then. Messaging learns first of what it refuses by; when
// the rest fails, asking again completes it. Errors: ErrPreference, ErrNoPerson, ErrNoHousehold,
// ErrRemindersOffByPerson, and what the ports return.
func (s *Service) SetPreferences(ctx context.Context, orgID, profileID string, w Wishes) (View, error) {
	if err := w.check(); err != nil {
		return View{}, err
	}
	v, err := s.Store.PersonByID(ctx, orgID, profileID, "")
	if err != nil {
		return View{}, err
	}
	if w.Destination == rules.Group && !v.InHousehold {
		return View{}, ErrNoHousehold
	}
	said := Preference{OrgID: orgID, ProfileID: profileID, Source: w.Source, Cause: w.Cause, Said: s.Now(), Now: s.Now()}
	if w.Reminders != "" {
		if err := s.setReminders(ctx, v, said, w); err != nil {
			return View{}, err
		}
	}
	for _, p := range []struct {
		name  PreferenceName
		value string
	}{{Tips, w.Tips}, {Destination, string(w.Destination)}} {
		said.Name, said.Value = p.name, p.value
		if p.value == "" {
			continue
		}
		if err := s.Store.Prefer(ctx, said); err != nil {
			return View{}, err
		}
	}
	return s.Store.PersonByID(ctx, orgID, profileID, "")
}

// setReminders has messaging keep the switch, and copies what is in force there. When something else was said later, that stands, and is
// copied by who takes it.
func (s *Service) setReminders(ctx context.Context, v View, said Preference, w Wishes) error {
	off := w.Reminders == "off"
	inForce, err := s.Carrier.SetReminders(ctx, v.OrgID, v.Phone, RemindersSaid{Off: off, Source: w.By, Said: said.Said})
	switch {
	case err != nil:
		return err
	case inForce.Off != off && w.By == ByOperator && inForce.Source == ByPerson:
		return ErrRemindersOffByPerson
	case inForce.Off != off:
		return nil
	}
	said.Name, said.Value, said.Said = Reminders, w.Reminders, inForce.Said
	return s.Store.Prefer(ctx, said)
}

// Stands reads the state of a person, and the reason to write nothing to them now; empty when there is none. ErrNoPerson.
func (s *Service) Stands(ctx context.Context, orgID, profileID string) (View, rules.Skip, error) {
	v, err := s.Store.PersonByID(ctx, orgID, profileID, "")
	return v, v.candidate().Eligible(rules.Goodbye), err
}
