package people

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/phone"
	"paceline.internal/platform/process"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1" //nolint:depguard // settings are stored in the form of the RPC
	"paceline.internal/services/onboarding/request"
)

const (
	tellInterval = 5 * time.Second
	tellBatch    = 20
	tellAgain    = 15 * time.Second // after messaging could not be told
	tellAllAgain = 24 * time.Hour
	tellWithin   = 2 * time.Second // in the request that changes the settings: the loop does the rest
)

// TellSettings has messaging know what organisations have decided about sending. One that fails delays no other. Once a day, and after a
// start, it is told all of them again: its database or ours may have gone back.
func (c *Service) TellSettings(ctx context.Context) (more bool, err error) {
	untold, err := c.Settings.Untold(ctx, c.Now(), tellBatch)
	if err != nil {
		return false, err
	}
	more = len(untold) == tellBatch
	if !more {
		told, again, err := c.toldBefore(ctx)
		if err != nil {
			return false, err
		}
		untold, more = append(untold, told...), again
	}
	var failures []error
	for _, u := range untold {
		if _, err := c.tell(ctx, u); err != nil {
			failures = append(failures, fmt.Errorf("organisation %s: %w", u.OrgID, err))
		}
		process.Progress(ctx)
	}
	return more && len(failures) == 0, errors.Join(failures...)
}

// toldBefore returns the next settings that are told again, and reports whether there may be more today.
func (c *Service) toldBefore(ctx context.Context) (told []Untold, more bool, err error) {
	now := c.Now()
	if now.Before(c.again.at) {
		return nil, false, nil
	}
	told, err = c.Settings.ToldBehind(ctx, cmp.Or(c.again.behind, uuid.Nil.String()), tellBatch)
	if err != nil {
		return nil, false, err
	}
	if len(told) < tellBatch {
		c.again = round{at: now.Add(tellAllAgain)}
		return told, false, nil
	}
	c.again.behind = told[len(told)-1].OrgID
	return told, true, nil
}

// round has where the loop is in telling all settings again.
type round struct {
	at     time.Time // when it begins
	behind string    // the organisation that was the last; empty before the first
}

// tell has messaging know a version of the settings, and returns the version that it knows then: a higher one where our database went back,
// for what is decided here counts.
func (c *Service) tell(ctx context.Context, u Untold) (version int64, err error) {
	kept, err := u.Version, u.Unreadable
	if err == nil {
		kept, err = c.Carrier.SetSending(ctx, u)
	}
	if err == nil && kept > u.Version {
		raised, raising := c.Settings.Raise(ctx, u, kept, c.Now())
		if raising != nil || !raised { // whoever has changed them tells it
			return u.Version, raising
		}
		u.Version = kept + 1
		_, err = c.Carrier.SetSending(ctx, u)
	}
	if err != nil {
		return u.Version, errors.Join(err, c.Settings.TellNext(ctx, u, c.Now().Add(tellAgain)))
	}
	return u.Version, c.Settings.Told(ctx, u)
}

// SettingsLoop repeats TellSettings.
func (c *Service) SettingsLoop(rest process.Rest) process.Repetition {
	return process.Repetition{
		Once: c.TellSettings,
		Failed: func(ctx context.Context, err error) {
			c.Log.WarnContext(ctx, "onboarding.settings_not_told", "error", err)
		},
		Rest: rest, Every: tellInterval,
	}
}

// texted checks that a number may be texted, by what its organisation has decided. phone.ErrRefused.
func (c *Service) texted(ctx context.Context, orgID, number string) error {
	decided, err := c.Settings.Decided(ctx, orgID)
	if err == nil {
		_, err = decided.Policy(c.Numbers).Check(number)
	}
	return err
}

// Policy returns which numbers are texted: what was decided, or else the deployment's.
func (d Decided) Policy(otherwise phone.Policy) phone.Policy {
	if d.Recipients == nil {
		return otherwise
	}
	decided, err := policy(d.Recipients)
	if err != nil { // a later release has written it; messaging refuses what it does not know
		return otherwise
	}
	return decided
}

func policy(of *messagingv1.Recipients) (p phone.Policy, err error) {
	if err := p.Countries.Read(of.GetCountries()); err != nil {
		return p, request.Invalid("settings.sending.recipients.countries: %s", err)
	}
	if err := p.Kinds.Read(of.GetNumberTypes()); err != nil {
		return p, request.Invalid("settings.sending.recipients.number_types: %s", err)
	}
	return p, nil
}

const (
	mostLine   = 60            // characters of a brand and a contact: an answer to HELP is to stay short
	mostOfACap = 1_000_000_000 // as messaging has it
	mostListed = 300           // countries and kinds
)

// readSendingOf checks how messaging is to send, and writes it as it is stored.
func readSendingOf(in *messagingv1.Sending) (*messagingv1.Sending, error) {
	if in == nil {
		return nil, nil //nolint:nilnil // nothing is decided anew
	}
	out := &messagingv1.Sending{Caps: in.GetCaps()}
	for field, text := range map[string]struct {
		given string
		into  *string
	}{"brand": {in.GetBrand(), &out.Brand}, "help_contact": {in.GetHelpContact(), &out.HelpContact}} {
		line := strings.TrimSpace(letters.Compose(text.given))
		if !utf8.ValidString(line) || utf8.RuneCountInString(line) > mostLine || strings.ContainsFunc(line, unicode.IsControl) {
			return nil, request.Invalid("settings.sending.%s must be one line of at most %d characters", field, mostLine)
		}
		*text.into = line
	}
	for name, c := range map[string]*messagingv1.Cap{
		"phone_hour": in.GetCaps().GetPhoneHour(), "phone_day": in.GetCaps().GetPhoneDay(), "org_hour": in.GetCaps().GetOrgHour(),
	} {
		least, most := min(c.GetMessages(), c.GetSegments()), max(c.GetMessages(), c.GetSegments())
		if most != 0 && (least < 1 || most > mostOfACap) || least < 0 {
			return nil, request.Invalid("settings.sending.caps.%s must have messages and segments of 1 to %d each, or both 0 for no cap",
				name, mostOfACap)
		}
	}
	if to := in.GetRecipients(); to != nil {
		if len(to.GetCountries())+len(to.GetNumberTypes()) > mostListed {
			return nil, request.Invalid("settings.sending.recipients must list at most %d", mostListed)
		}
		p, err := policy(to)
		if err != nil {
			return nil, err
		}
		out.Recipients = &messagingv1.Recipients{Countries: p.Countries}
		for _, kind := range p.Kinds {
			out.Recipients.NumberTypes = append(out.Recipients.NumberTypes, string(kind))
		}
	}
	return out, nil
}

// anyVersion changes whichever version there is.
const anyVersion = -1

// versionOf reads the version that is changed.
func versionOf(given *int64) (int64, error) {
	switch {
	case given == nil:
		return anyVersion, nil
	case *given < 0 || *given == math.MaxInt64:
		return 0, request.Invalid("version must be that of the settings that were read")
	}
	return *given, nil
}
