package people

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"paceline.internal/platform/phone"
	"paceline.internal/platform/roster"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/session"
)

// ErrPhoneTaken is a phone that another profile of the organisation has.
var ErrPhoneTaken = errors.New("another profile of the organisation has this phone; GET /v1/profiles?phone= finds it")

// ProfileBusy is a change that has to wait, because something of the person is not at its end.
type ProfileBusy struct {
	Field string
	Open  []string // what is open, each with what to do
}

func (b *ProfileBusy) Error() string {
	return b.Field + " cannot be changed now: " + strings.Join(b.Open, "; ")
}

// Change has the new values of a person's fields, as an operator typed them. A field that is nil stays as it is.
type Change struct {
	FirstName, Locale, TimeZone, Phone *string

	Fields map[string]any // of flows, as JSON has them; nil removes one
}

func (ch Change) empty() bool {
	return ch.FirstName == nil && ch.Locale == nil && ch.TimeZone == nil && ch.Phone == nil && len(ch.Fields) == 0
}

// Unfinished has what messaging has not brought to its end of a person; empty where there is nothing.
type Unfinished struct {
	MessageID     string // to their phone, on its way or in doubt
	MessageStatus string
	TextID        string // of the outbound queue
}

// Open is all that is not at its end of a person.
type Open struct {
	Unfinished

	Session         session.Record // active or parked; without an id there is none
	Working         bool           // one of their messages, or their opening, is being worked on
	AwaitsOperator  bool
	OutreachID      string
	GoalID          string // to be texted to them
	HoldUnforwarded bool
}

// ChangeProfile changes a person. Errors: roster.ErrInvalid, flow.ErrFields, phone.ErrRefused, ErrNoProfile, *ProfileBusy, ErrOnHold,
// ErrAwaitsOperator, ErrPhoneTaken, ErrUnavailable, and ErrConflict when other changes were faster again and again.
func (c *Service) ChangeProfile(ctx context.Context, orgID, profileID string, change Change) (changed Profile, err error) {
	if change.empty() {
		return Profile{}, fmt.Errorf("%w: send first_name, locale, time_zone, phone or fields; a field that is left out stays as it is",
			roster.ErrInvalid)
	}
	for range MaxContention {
		if changed, err = c.changeProfile(ctx, orgID, profileID, change); !errors.Is(err, ErrConflict) {
			break
		}
	}
	return changed, err
}

// MaxContention bounds how often a change of a person is decided anew because another one was stored meanwhile. Of those that are made
// at once, one is stored each time.
const MaxContention = 12

func (c *Service) changeProfile(ctx context.Context, orgID, profileID string, change Change) (Profile, error) {
	was, err := c.Store.Profile(ctx, orgID, profileID)
	if err != nil {
		return Profile{}, err
	}
	is, err := change.apply(was)
	if err != nil {
		return Profile{}, err
	}
	if is.TimeZoneGuessed {
		is.TimeZone = phone.Zone(is.Phone) // which may be another
	}
	if _, err := c.Catalog.Render(c.Catalog.Current(), is.Locale, string(session.TextOpening), is.FirstName); err != nil {
		return Profile{}, fmt.Errorf("%w: first_name: %w", roster.ErrInvalid, err)
	}
	fields, err := c.readFields(ctx, orgID, change.Fields)
	if err != nil {
		return Profile{}, err
	}
	var unfinished Unfinished
	if is.Phone != was.Phone {
		if err := c.texted(ctx, orgID, is.Phone); err != nil {
			return Profile{}, err
		}
		if unfinished, err = c.Carrier.Unfinished(ctx, orgID, profileID, was.Phone); err != nil {
			return Profile{}, err
		}
	}
	return c.Store.ChangeProfile(ctx, was, is, fields, unfinished, c.Now())
}

// readFields holds values of fields to what the current flows of the organisation declare.
func (c *Service) readFields(ctx context.Context, orgID string, given map[string]any) (change FieldChange, err error) {
	if len(given) == 0 {
		return change, nil
	}
	declared, err := c.Flows.Declared(ctx, orgID)
	if err != nil {
		return change, err
	}
	set := maps.Clone(given)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if given[name] == nil {
			delete(set, name)
			change.Remove = append(change.Remove, name)
		}
	}
	change.Set, err = GivenFields(declared, set)
	return change, err
}

// GivenFields holds values of fields to declarations; flow.ErrFields.
func GivenFields(declared flow.Declared, given map[string]any) (fields []session.Field, err error) {
	values, err := declared.Read(given)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fields = append(fields, session.Field{Name: name, Value: values[name], Private: declared.Private(name)})
	}
	return fields, nil
}

// apply is the person after the change. All problems are reported at once.
func (ch Change) apply(p Profile) (Profile, error) {
	var problems []error
	set := func(given *string, into *string, normalise func(string) (string, error)) {
		if given == nil {
			return
		}
		value, err := normalise(*given)
		if err != nil {
			problems = append(problems, err)
			return
		}
		*into = value
	}
	set(ch.FirstName, &p.FirstName, roster.FirstName)
	set(ch.Locale, &p.Locale, said("locale", roster.Locale))
	set(ch.TimeZone, &p.TimeZone, said("time_zone", roster.Zone))
	set(ch.Phone, &p.Phone, roster.Phone)
	p.TimeZoneGuessed = p.TimeZoneGuessed && ch.TimeZone == nil
	if err := errors.Join(problems...); err != nil {
		return p, fmt.Errorf("%w: %s", roster.ErrInvalid, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return p, nil
}

// said refuses the empty value, which of a new person means the default.
func said(field string, normalise func(string) (string, error)) func(string) (string, error) {
	return func(raw string) (string, error) {
		if raw == "" {
			return "", errors.New(field + " must not be empty; leave it out to keep it")
		}
		return normalise(raw)
	}
}

// MayChange decides whether a person may be changed into another while this is open. What they are called, in which language, and their
// fields stand in the text of a message: while it is tried again under its key it must stay the same. By the phone everything finds them.
func MayChange(was, is Profile, fields bool, o Open) error {
	switch phone := is.Phone != was.Phone; {
	case phone && was.Hold:
		return fmt.Errorf("phone cannot be changed now: %w", ErrOnHold)
	case phone && o.AwaitsOperator:
		return fmt.Errorf("phone cannot be changed now: %w", ErrAwaitsOperator)
	case phone && o.HoldUnforwarded: // a moment after a release
		return ErrConflict
	case phone:
		return busy("phone", slices.Concat(o.session("is active"), o.working(), o.further()))
	case (is.FirstName != was.FirstName || is.Locale != was.Locale || fields) &&
		(o.Session.NextStep != "" || o.Session.Status.Parked() || o.Working):
		return busy("first_name, locale and fields", slices.Concat(o.session("is in its burst; wait until that is over"), o.working()))
	}
	return nil
}

func busy(field string, open []string) error {
	if len(open) == 0 {
		return nil
	}
	return &ProfileBusy{Field: field, Open: open}
}

// session describes an open session and says what to do about one that is active.
func (o Open) session(active string) []string {
	switch id := o.Session.ID; {
	case id == "":
		return nil
	case o.Session.Status.Parked():
		return []string{fmt.Sprintf("session %s is parked as %s; POST /v1/sessions/%s:resume once its cause is mended, or :reset to end it",
			id, o.Session.Status, id)}
	default:
		return []string{fmt.Sprintf("session %s %s; POST /v1/sessions/%s:reset ends it", id, active, id)}
	}
}

func (o Open) working() []string {
	if !o.Working {
		return nil
	}
	return []string{"a message of theirs is being worked on; try again in a moment"}
}

// further lists what is open apart from the conversation.
func (o Open) further() (open []string) {
	if id := o.OutreachID; id != "" {
		open = append(open, fmt.Sprintf("outreach %s waits to be sent; wait, or POST /v1/outreach/%s:cancel", id, id))
	}
	if id := o.GoalID; id != "" {
		open = append(open, fmt.Sprintf("goal %s is to be texted to them; wait, or DELETE /v1/goals/%s/schedule", id, id))
	}
	if id := o.TextID; id != "" {
		open = append(open, fmt.Sprintf("text %s of the queue waits to be sent; wait, or POST /v1/outbound/%s:cancel", id, id))
	}
	if id := o.MessageID; id != "" {
		open = append(open, fmt.Sprintf("message %s is %s; wait until it is settled, or, if it is parked, POST /v1/messages/%s:resolve",
			id, o.MessageStatus, id))
	}
	return open
}
