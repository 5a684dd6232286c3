package people

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/hours"
	"paceline.internal/platform/letters"
	"paceline.internal/platform/retention"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/request"
)

// GetSettings reads what the caller's organisation has decided.
func (s *RPC) GetSettings(ctx context.Context, _ *onboardingv1.GetSettingsRequest) (*onboardingv1.GetSettingsResponse, error) {
	found, err := s.Store.Settings(ctx, request.Org(ctx))
	if err != nil {
		return nil, err
	}
	return &onboardingv1.GetSettingsResponse{Settings: settings(ctx, found)}, nil
}

// UpdateSettings decides it anew.
func (s *RPC) UpdateSettings(
	ctx context.Context, in *onboardingv1.UpdateSettingsRequest,
) (*onboardingv1.UpdateSettingsResponse, error) {
	wanted := in.GetSettings().GetQuietHours()
	if wanted == nil {
		return nil, request.Invalid("settings.quiet_hours is required, such as %s", `{"enabled": true, "open": "08:00", "close": "21:00"}`)
	}
	window, err := quietWindow(wanted)
	if err != nil {
		return nil, err
	}
	own, err := ownRetention(in.GetSettings().GetRetention())
	if err != nil {
		return nil, err
	}
	limit, distress, err := inboxSettings(in.GetSettings())
	if err != nil {
		return nil, err
	}
	prices, err := readPrices(in.GetSettings().GetSegmentPrices())
	if err != nil {
		return nil, err
	}
	var zone string
	if given := in.GetSettings().TimeZone; given != nil {
		if zone, err = ParseZone(*given); err != nil {
			return nil, request.Invalid("%v", err)
		}
	}
	sending, err := readSendingOf(in.GetSettings().GetSending())
	if err != nil {
		return nil, err
	}
	engagement, err := readEngagement(in.GetSettings().GetEngagement())
	if err != nil {
		return nil, err
	}
	texts, err := s.readTexts(in.GetSettings().GetEngagementTexts())
	if err != nil {
		return nil, err
	}
	version, err := versionOf(in.Version) //nolint:protogetter // nil is whichever there is
	if err != nil {
		return nil, err
	}
	begins := in.GetSettings().ActivationFlow
	if begins != nil && *begins != "" {
		if err := s.People.Flows.Published(ctx, request.Org(ctx), *begins); err != nil {
			return nil, err
		}
	}
	stored, err := s.Store.SetSettings(ctx, request.Org(ctx), Settings{
		QuietHours: wanted.GetEnabled(), Window: window, TimeZone: zone, RequireConsentRecord: in.GetSettings().RequireConsentRecord,
		Retention: own, TicketLimit: limit, Distress: distress, Prices: prices, ActivationFlow: begins, Sending: sending, Version: version,
		Engagement: engagement, EngagementTexts: texts,
	}, s.Now())
	if err != nil {
		return nil, err
	}
	if stored.Pending {
		telling, cancel := context.WithTimeout(ctx, tellWithin)
		known, told := s.People.tell(telling, Untold{
			OrgID: request.Org(ctx), Version: stored.Version, Sending: stored.Sending, Retention: stored.Retention,
		})
		cancel()
		if told != nil {
			s.People.Log.WarnContext(ctx, "onboarding.settings_not_told", "org_id", request.Org(ctx), "error", told)
		}
		stored.Pending, stored.Version = told != nil, known
	}
	return &onboardingv1.UpdateSettingsResponse{Settings: settings(ctx, stored)}, nil
}

// ListSettingsVersions lists what the caller's organisation had decided.
func (s *RPC) ListSettingsVersions(
	ctx context.Context, _ *onboardingv1.ListSettingsVersionsRequest,
) (*onboardingv1.ListSettingsVersionsResponse, error) {
	found, err := s.Store.SettingsVersions(ctx, request.Org(ctx))
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ListSettingsVersionsResponse{}
	for _, v := range found {
		out.Versions = append(out.Versions, settings(ctx, v))
	}
	return out, nil
}

// Bounds of what an organisation decides about its inbox.
const (
	maxTicketLimit                      = 7 * 24 * 60 // minutes
	maxDistress                         = 200
	leastDistressWord, mostDistressWord = 2, 100 // characters
)

// inboxSettings reads what is decided about the inbox; nil of what is not.
func inboxSettings(in *onboardingv1.Settings) (limit *int, distress []string, err error) {
	if given := in.TicketLimitMinutes; given != nil {
		if *given < 1 || *given > maxTicketLimit {
			return nil, nil, request.Invalid("settings.ticket_limit_minutes must be 1 to %d", maxTicketLimit)
		}
		limit = new(int(*given))
	}
	if in.GetDistressWords() == nil {
		return limit, nil, nil
	}
	distress = []string{}
	for _, word := range in.GetDistressWords().GetWords() {
		word = strings.TrimSpace(letters.Compose(word))
		n := utf8.RuneCountInString(word)
		if n < leastDistressWord || n > mostDistressWord || len(letters.Words(word)) == 0 {
			return nil, nil, request.Invalid("settings.distress_words.words must each have letters, and %d to %d characters",
				leastDistressWord, mostDistressWord)
		}
		distress = append(distress, word)
	}
	if len(distress) > maxDistress {
		return nil, nil, request.Invalid("settings.distress_words.words must be at most %d", maxDistress)
	}
	return limit, distress, nil
}

// ownRetention reads how long what is kept; nil of none.
func ownRetention(in *onboardingv1.Retention) (map[string]int, error) {
	if in == nil {
		return nil, nil //nolint:nilnil // nothing is decided anew
	}
	own := map[string]int{}
	for kind, days := range map[string]int32{
		retention.Timeline: in.GetTimelineDays(), retention.Alarms: in.GetAlarmsDays(), retention.Engagement: in.GetEngagementDays(),
		retention.Audit: in.GetAuditDays(), retention.Messages: in.GetMessagesDays(), retention.Consent: in.GetConsentDays(),
		retention.Receipts: in.GetReceiptsDays(), retention.Outbound: in.GetOutboundDays(), retention.Goals: in.GetGoalsDays(),
		retention.Events: in.GetEventsDays(), retention.Jobs: in.GetJobsDays(),
	} {
		if days != 0 && !retention.Fits(kind, int(days)) {
			return nil, request.Invalid("settings.retention.%s_days must be %d to %d, or 0 for as long as the deployment keeps it",
				kind, retention.LeastDays(kind), retention.MostDays)
		}
		if days != 0 {
			own[kind] = int(days)
		}
	}
	if words, decided := own[retention.Messages]; decided && own[retention.Consent] > 0 && own[retention.Consent] < words {
		return nil, request.Invalid("settings.retention.consent_days must be no less than messages_days")
	}
	return own, nil
}

// mostEngagement bounds the rules of engagement of an organisation, in bytes without white space.
const mostEngagement = 16 << 10

// readEngagement checks the rules of engagement as an engagement file is checked; nil of none, {} of those of the deployment.
func readEngagement(in *structpb.Struct) ([]byte, error) {
	file, err := compact(in)
	if err != nil || len(in.GetFields()) == 0 {
		return file, err
	}
	if len(file) > mostEngagement {
		return nil, request.Invalid("settings.engagement must have at most %d bytes", mostEngagement)
	}
	if _, err := rules.ParseConfig(file); err != nil {
		problems := strings.ReplaceAll(err.Error(), rules.ErrConfig.Error()+": ", "")
		return nil, request.Invalid("settings.engagement: %s", strings.ReplaceAll(problems, "\n", "; "))
	}
	return file, nil
}

// mostTexts bounds the texts of engagement of an organisation, in bytes without white space.
const mostTexts = 32 << 10

// readTexts checks the texts of engagement as a copy file is checked; nil of none, {} of those of the deployment.
func (s *RPC) readTexts(in *structpb.Struct) ([]byte, error) {
	own, err := compact(in)
	if err != nil || len(in.GetFields()) == 0 {
		return own, err
	}
	if len(own) > mostTexts {
		return nil, request.Invalid("settings.engagement_texts must have at most %d bytes", mostTexts)
	}
	if err := s.People.Texts.CheckOwn(own); err != nil {
		problems := strings.ReplaceAll(err.Error(), catalog.ErrCopy.Error()+": ", "")
		return nil, request.Invalid("settings.engagement_texts: %s", strings.ReplaceAll(problems, "\n", "; "))
	}
	return own, nil
}

// compact writes an object without the white space of protojson, which differs from build to build; nil of none.
func compact(in *structpb.Struct) ([]byte, error) {
	if in == nil {
		return nil, nil
	}
	written, err := protojson.Marshal(in)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Compact(&out, written); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// shownStruct returns what is stored; nil of none, and of what is no object, which the table refuses.
func shownStruct(stored []byte) *structpb.Struct {
	out := &structpb.Struct{}
	if stored == nil || protojson.Unmarshal(stored, out) != nil {
		return nil
	}
	return out
}

// GetQuietHours returns when a text to a phone may be sent.
func (s *RPC) GetQuietHours(ctx context.Context, in *onboardingv1.GetQuietHoursRequest) (*onboardingv1.GetQuietHoursResponse, error) {
	if err := request.ID("org_id", in.GetOrgId()); err != nil {
		return nil, err
	}
	to := in.GetPhone()
	if e164, err := ReadPhone(to); err == nil { // as it was typed; messaging takes other spellings too
		to = e164
	}
	if in.GetProfileId() != "" {
		if err := request.ID("profile_id", in.GetProfileId()); err != nil {
			return nil, err
		}
	}
	found, required, err := s.Store.QuietHours(ctx, in.GetOrgId(), to, in.GetProfileId())
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.GetQuietHoursResponse{QuietHours: &onboardingv1.QuietHours{}, RequireConsentRecord: required}
	if !found.Window.Always() {
		out.QuietHours = quietHours(true, found.Window)
		out.TimeZone = found.Zone.String()
	}
	return out, nil
}

// quietWindow reads the times; one that is left out is the usual one.
func quietWindow(wanted *onboardingv1.QuietHours) (hours.Window, error) {
	opens, err := hours.ParseTimeOfDay(cmp.Or(wanted.GetOpen(), hours.DefaultOpen.String()))
	if err != nil {
		return hours.Window{}, fmt.Errorf("settings.quiet_hours.open: %w", err)
	}
	closes, err := hours.ParseTimeOfDay(cmp.Or(wanted.GetClose(), hours.DefaultClose.String()))
	if err != nil {
		return hours.Window{}, fmt.Errorf("settings.quiet_hours.close: %w", err)
	}
	return hours.NewWindow(opens, closes)
}

func settings(ctx context.Context, found Settings) *onboardingv1.Settings {
	out := &onboardingv1.Settings{
		RequireConsentRecord: found.RequireConsentRecord, QuietHours: quietHours(found.QuietHours, found.Window),
		QuietHoursByDefault: found.ByDefault, TimeZone: &found.TimeZone,
		UsualDistressWords: UsualDistress(), SegmentPrices: found.Prices.shown(),
		ActivationFlow: found.ActivationFlow, Sending: found.Sending, SendingPending: found.Pending, Version: found.Version,
		Engagement: shownStruct(found.Engagement), EngagementTexts: shownStruct(found.EngagementTexts),
	}
	if kept := found.Retention; len(kept) > 0 {
		out.Retention = &onboardingv1.Retention{
			TimelineDays: days(kept[retention.Timeline]), AlarmsDays: days(kept[retention.Alarms]),
			EngagementDays: days(kept[retention.Engagement]), AuditDays: days(kept[retention.Audit]),
			MessagesDays: days(kept[retention.Messages]), ConsentDays: days(kept[retention.Consent]),
			ReceiptsDays: days(kept[retention.Receipts]), OutboundDays: days(kept[retention.Outbound]),
			GoalsDays: days(kept[retention.Goals]), EventsDays: days(kept[retention.Events]), JobsDays: days(kept[retention.Jobs]),
		}
	}
	if found.TicketLimit != nil {
		out.TicketLimitMinutes = new(int32(min(max(*found.TicketLimit, 0), maxTicketLimit)))
	}
	if found.Distress != nil {
		out.DistressWords = &onboardingv1.DistressWords{Words: found.Distress}
	}
	if !found.UpdatedAt.IsZero() {
		out.UpdatedAt, out.UpdatedBy = timestamppb.New(found.UpdatedAt), request.Actor(ctx, found.UpdatedBy)
	}
	return out
}

// days is bounded by what ownRetention takes.
func days(stored int) int32 { return int32(min(max(stored, 0), retention.MostDays)) }

func quietHours(enabled bool, window hours.Window) *onboardingv1.QuietHours {
	return &onboardingv1.QuietHours{Enabled: enabled, Open: window.Opens().String(), Close: window.Closes().String()}
}
