package operations

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// maxTypedWords bounds the words of distress that are kept when the form did not work, in bytes.
const maxTypedWords = 1200

// usualTicketLimit holds while an organisation has decided nothing, in minutes.
const usualTicketLimit = 60

// settingsPage is the data of pages/settings.html.
type settingsPage struct {
	*onboardingv1.Settings

	Retention []keeps
}

// keeps has the days for which one kind of data is kept; 0 for as long as the deployment does.
type keeps struct {
	Kind string
	Days int32
}

// Limit returns the minutes after which a person in the inbox waits too long.
func (p settingsPage) Limit() int32 {
	if p.TicketLimitMinutes == nil {
		return usualTicketLimit
	}
	return p.GetTicketLimitMinutes()
}

// Distress returns the words of distress, one a line.
func (p settingsPage) Distress() string { return lines(p.GetDistressWords().GetWords()) }

// AsOf names the settings that are shown: those of another operator's change are others.
func (p settingsPage) AsOf() string { return asOf(p.Settings) }

func asOf(s *onboardingv1.Settings) string {
	if s.GetUpdatedAt() == nil {
		return ""
	}
	return s.GetUpdatedAt().AsTime().Format(time.RFC3339Nano)
}

func retention(r *onboardingv1.Retention) []keeps {
	return []keeps{
		{"timeline", r.GetTimelineDays()}, {"alarms", r.GetAlarmsDays()}, {"engagement", r.GetEngagementDays()}, {"audit", r.GetAuditDays()},
	}
}

// settings shows what the organisation has decided.
func (p *Pages) settings(r *http.Request) (Page, error) {
	out, err := p.Onboarding.GetSettings(r.Context(), &onboardingv1.GetSettingsRequest{})
	shown := settingsPage{Settings: out.GetSettings(), Retention: retention(out.GetSettings().GetRetention())}
	return Page{"settings", "settings.title", shown}, err
}

// errNumber refuses a field that needs a number.
var errNumber = status.Error(codes.InvalidArgument, "days and minutes are whole numbers")

// saveSettings decides the settings anew. Of what is not decided yet it decides only what the form changes.
func (p *Pages) saveSettings(r *http.Request) (Notice, error) {
	got, err := p.Onboarding.GetSettings(r.Context(), &onboardingv1.GetSettingsRequest{})
	if err != nil {
		return Notice{}, err
	}
	now := settingsPage{Settings: got.GetSettings()}
	kept := Notice{Typed: typed(r, "open", "close", "time_zone", "limit", "timeline", "alarms", "engagement", "audit")}
	for _, box := range []string{"quiet", "require"} {
		kept.Typed[box] = map[bool]string{true: "yes", false: "no"}[r.Form.Get(box) != ""]
	}
	if words := r.Form.Get("distress"); len(words) <= maxTypedWords {
		kept.Typed["distress"] = words
	}
	if r.Form.Get("as_of") != now.AsOf() {
		kept.Key, kept.Bad = "settings.stale", true
		return kept, nil
	}
	wanted, err := wantedSettings(r, now)
	if err == nil {
		_, err = p.Onboarding.UpdateSettings(r.Context(), &onboardingv1.UpdateSettingsRequest{Settings: wanted})
	}
	if err != nil {
		return kept, err
	}
	return said("settings.saved"), nil
}

func wantedSettings(r *http.Request, now settingsPage) (*onboardingv1.Settings, error) {
	field := func(name string) string { return strings.TrimSpace(r.Form.Get(name)) }
	wanted := &onboardingv1.Settings{
		QuietHours: &onboardingv1.QuietHours{
			Enabled: field("quiet") != "", Open: field("open"), Close: field("close"),
		},
		RequireConsentRecord: new(field("require") != ""),
	}
	if zone := field("time_zone"); zone != now.GetTimeZone() {
		wanted.TimeZone = &zone
	}
	number := func(name string) (int32, error) {
		n, err := strconv.ParseInt(field(name), 10, 32)
		if err != nil {
			return 0, errNumber
		}
		return int32(n), nil
	}
	limit, err := number("limit")
	if err != nil {
		return nil, err
	}
	if limit != now.Limit() {
		wanted.TicketLimitMinutes = &limit
	}
	words := strings.FieldsFunc(r.Form.Get("distress"), func(c rune) bool { return c == '\n' || c == '\r' })
	words = slices.DeleteFunc(words, func(w string) bool { return strings.TrimSpace(w) == "" })
	if lines(words) != now.Distress() {
		wanted.DistressWords = &onboardingv1.DistressWords{Words: words}
	}
	days := map[string]int32{}
	for _, of := range retention(nil) {
		if days[of.Kind], err = number(of.Kind); err != nil {
			return nil, err
		}
	}
	kept := &onboardingv1.Retention{
		TimelineDays: days["timeline"], AlarmsDays: days["alarms"], EngagementDays: days["engagement"], AuditDays: days["audit"],
	}
	if !slices.Equal(retention(kept), retention(now.Settings.GetRetention())) {
		wanted.Retention = kept
	}
	return wanted, nil
}
