package send

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/phone"
	"paceline.internal/platform/retention"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1" //nolint:depguard // Sending is stored in the form of the RPC
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/sms"
)

const (
	// freshSettings bounds the use of settings that were read: so long after a change the old ones may hold.
	freshSettings = 3 * time.Second
	// mostSettings bounds the organisations that a process remembers the settings of.
	mostSettings = 4096
)

// Settings has how texts are sent for an organisation: what it has decided, and else what the environment of the deployment says.
type Settings struct {
	Brand, HelpContact string // empty where the organisation has decided nothing
	Caps               Caps
	Numbers            phone.Policy
}

// settingsCache keeps settings for a moment: a burst asks for those of one organisation again and again.
type settingsCache struct {
	mu    sync.Mutex
	known map[uuid.UUID]knownSettings
}

type knownSettings struct {
	Settings

	at time.Time
}

// Settings returns those of an organisation, as they were at most a few seconds ago. sms.ErrUnavailable, also of stored settings that this
// release cannot read: a later one may have written them, and asking again is right.
func (s *Service) Settings(ctx context.Context, orgID uuid.UUID) (Settings, error) {
	now := s.Now()
	s.decided.mu.Lock()
	found, ok := s.decided.known[orgID]
	s.decided.mu.Unlock()
	if age := now.Sub(found.at); ok && age >= 0 && age < freshSettings {
		return found.Settings, nil
	}
	decided, err := s.Store.Sending(ctx, orgID)
	if err != nil {
		return Settings{}, fmt.Errorf("read the settings of the organisation: %w", err)
	}
	found = knownSettings{Settings{Caps: s.Caps, Numbers: s.Numbers}, now}
	if err := found.overlay(decided); err != nil {
		return Settings{}, fmt.Errorf("%w: the stored settings of organisation %s: %s", sms.ErrUnavailable, orgID, err.Error())
	}
	s.decided.mu.Lock()
	defer s.decided.mu.Unlock()
	if s.decided.known == nil || len(s.decided.known) >= mostSettings {
		s.decided.known = map[uuid.UUID]knownSettings{}
	}
	s.decided.known[orgID] = found
	return found.Settings, nil
}

// settingsFor returns those that bound a send. Our answers to STOP and HELP heed none, and go out also while they cannot be read.
func (s *Service) settingsFor(ctx context.Context, r Request) (Settings, error) {
	if r.DespiteHold {
		return Settings{}, nil
	}
	return s.Settings(ctx, r.OrgID)
}

// forgetSettings has the next question read them anew.
func (s *Service) forgetSettings(orgID uuid.UUID) {
	s.decided.mu.Lock()
	defer s.decided.mu.Unlock()
	delete(s.decided.known, orgID)
}

// overlay puts what an organisation has decided in place of what the environment says. sms.ErrInvalid.
func (d *Settings) overlay(decided *messagingv1.Sending) error {
	d.Brand, d.HelpContact = decided.GetBrand(), decided.GetHelpContact()
	caps := decided.GetCaps()
	err := errors.Join(
		overlayCap("phone_hour", &d.Caps.PhoneHour, caps.GetPhoneHour()), overlayCap("phone_day", &d.Caps.PhoneDay, caps.GetPhoneDay()),
		overlayCap("org_hour", &d.Caps.OrgHour, caps.GetOrgHour()))
	to := decided.GetRecipients()
	if to == nil || err != nil {
		return err
	}
	var numbers phone.Policy
	if err := numbers.Countries.Read(to.GetCountries()); err != nil {
		return edge.Invalid("sending.recipients.countries", err.Error())
	}
	if err := numbers.Kinds.Read(to.GetNumberTypes()); err != nil {
		return edge.Invalid("sending.recipients.number_types", err.Error())
	}
	d.Numbers = numbers
	return nil
}

func overlayCap(name string, of *Cap, decided *messagingv1.Cap) error {
	if decided == nil {
		return nil
	}
	c := Cap{Messages: int(decided.GetMessages()), Segments: int(decided.GetSegments())}
	if c != (Cap{}) && (c.Messages < 1 || c.Segments < 1 || c.Messages > mostOfACap || c.Segments > mostOfACap) {
		return edge.Invalid("sending.caps."+name,
			fmt.Sprintf("must have messages and segments of 1 to %d each, or both 0 for no cap", mostOfACap))
	}
	*of = c
	return nil
}

// ownRetention reads for how many days what is kept; nil of none, which leaves it as it is. sms.ErrInvalid.
func ownRetention(in *messagingv1.Retention) (map[string]int32, error) {
	if in == nil {
		return nil, nil //nolint:nilnil // nothing is said about it
	}
	own := map[string]int32{}
	for kind, days := range map[string]int32{
		retention.Messages: in.GetMessagesDays(), retention.Consent: in.GetConsentDays(), retention.Receipts: in.GetReceiptsDays(),
		retention.Outbound: in.GetOutboundDays(), retention.Audit: in.GetAuditDays(),
	} {
		if days != 0 && !retention.Fits(kind, int(days)) {
			return nil, edge.Invalid("retention."+kind+"_days", fmt.Sprintf("must be %d to %d, or 0", retention.LeastDays(kind), retention.MostDays))
		}
		if days != 0 {
			own[kind] = days
		}
	}
	return own, nil
}

// SetOrganisationSettings takes what an organisation has decided about how texts are sent for it.
func (s *RPC) SetOrganisationSettings(
	ctx context.Context, r *messagingv1.SetOrganisationSettingsRequest,
) (*messagingv1.SetOrganisationSettingsResponse, error) {
	orgID, err := edge.ReadID("org_id", r.GetOrgId())
	if err != nil {
		return nil, err
	}
	if r.GetVersion() < 1 {
		return nil, fmt.Errorf("%w: version must be at least 1", sms.ErrInvalid)
	}
	if err := new(Settings).overlay(r.GetSending()); err != nil {
		return nil, err
	}
	days, err := ownRetention(r.GetRetention())
	if err != nil {
		return nil, err
	}
	kept, err := s.Store.SetSending(ctx, orgID, r.GetSending(), days, r.GetVersion(), s.Now())
	if err != nil {
		return nil, err
	}
	s.forgetSettings(orgID)
	return &messagingv1.SetOrganisationSettingsResponse{Version: kept}, nil
}
