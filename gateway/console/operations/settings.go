package operations

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// usualTicketLimit holds while an organisation has decided nothing, in minutes.
const usualTicketLimit = 60

// settingsPage is the data of pages/settings.html.
type settingsPage struct {
	*onboardingv1.Settings

	Retention []keeps
	Flows     []string // that are published
	History   []version
	Unread    error // why there is no history; the form works without
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

// Distress returns the words of distress, one a line: ours, as long as the organisation has decided none.
func (p settingsPage) Distress() string {
	if p.GetDistressWords() == nil {
		return lines(p.GetUsualDistressWords())
	}
	return lines(p.GetDistressWords().GetWords())
}

// Prices returns the prices of a segment, one country code a line.
func (p settingsPage) Prices() string {
	var all []string
	for _, country := range slices.Sorted(maps.Keys(p.GetSegmentPrices().GetPrices())) {
		all = append(all, country+" "+p.GetSegmentPrices().GetPrices()[country])
	}
	return lines(all)
}

// Rules returns the rules of engagement, as a file has them; empty where the deployment's hold.
func (p settingsPage) Rules() (string, error) { return indented(p.GetEngagement()) }

// Texts returns the texts of engagement, by language and by key; empty where the deployment's are sent.
func (p settingsPage) Texts() (string, error) { return indented(p.GetEngagementTexts()) }

// indented returns a JSON object with a line for each field; empty for none. What cannot be shown fails the page: an empty
// field, once saved, goes back to the deployment's.
func indented(s *structpb.Struct) (string, error) {
	if s == nil {
		return "", nil
	}
	file, err := protojson.Marshal(s)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	err = json.Indent(&text, file, "", "  ")
	return text.String(), err
}

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
		{"timeline", r.GetTimelineDays()},
		{"alarms", r.GetAlarmsDays()},
		{"engagement", r.GetEngagementDays()},
		{"audit", r.GetAuditDays()},
		{"messages", r.GetMessagesDays()},
		{"consent", r.GetConsentDays()},
		{"receipts", r.GetReceiptsDays()},
		{"outbound", r.GetOutboundDays()},
		{"goals", r.GetGoalsDays()},
		{"events", r.GetEventsDays()},
		{"jobs", r.GetJobsDays()},
	}
}

// settings shows what the organisation has decided.
func (p *Pages) settings(r *http.Request) (Page, error) {
	out, err := p.Onboarding.GetSettings(r.Context(), &onboardingv1.GetSettingsRequest{})
	if err != nil {
		return Page{}, err
	}
	shown := settingsPage{Settings: out.GetSettings(), Retention: retention(out.GetSettings().GetRetention())}
	published, err := p.Flows.ListFlows(r.Context(), &onboardingv1.ListFlowsRequest{})
	if err != nil {
		return Page{}, err
	}
	for _, f := range published.GetFlows() {
		shown.Flows = append(shown.Flows, f.GetFlow())
	}
	if begins := out.GetSettings().GetActivationFlow(); begins != "" && !slices.Contains(shown.Flows, begins) {
		shown.Flows = append(shown.Flows, begins)
	}
	versions, err := p.Onboarding.ListSettingsVersions(r.Context(), &onboardingv1.ListSettingsVersionsRequest{})
	if status.Code(err) != codes.Unimplemented { // else it is an onboarding of the release before
		shown.Unread = err
	}
	shown.History = history(versions.GetVersions())
	return Page{"settings", "settings.title", shown}, nil
}

// errPrice refuses a line of the price list.
var errPrice = status.Error(codes.InvalidArgument, "write a country code and a price on each line, such as +1 0.0079")

// errRules refuses rules of another form.
var errRules = status.Error(codes.InvalidArgument, "the rules of engagement are JSON, in the form of an engagement file")

// errTexts refuses texts of another form.
var errTexts = status.Error(codes.InvalidArgument, "the texts of engagement are JSON: languages, each with its texts by key")

// errNumber refuses a field that needs a number.
var errNumber = status.Error(codes.InvalidArgument, "days and minutes are whole numbers")

// saveSettings decides the settings anew. Of what is not decided yet it decides only what the form changes.
func (p *Pages) saveSettings(r *http.Request) (Notice, error) {
	got, err := p.Onboarding.GetSettings(r.Context(), &onboardingv1.GetSettingsRequest{})
	if err != nil {
		return Notice{}, err
	}
	now := settingsPage{Settings: got.GetSettings()}
	kept := Notice{Typed: typed(r, "open", "close", "time_zone", "limit", "currency", "brand", "help_contact", "phone_hour", "phone_day",
		"org_hour", "countries", "flow", "distress", "prices", "rules", "texts")}
	for _, of := range retention(nil) {
		maps.Copy(kept.Typed, typed(r, of.Kind))
	}
	for _, box := range []string{"quiet", "require", "own_numbers"} {
		kept.Typed[box] = map[bool]string{true: "yes", false: "no"}[r.Form.Get(box) != ""]
	}
	kept.Typed["number_type"] = strings.Join(r.Form["number_type"], ",")
	if r.Form.Get("as_of") != now.AsOf() {
		kept.Key, kept.Bad = "settings.stale", true
		return kept, nil
	}
	wanted, err := wantedSettings(r, now)
	if err == nil {
		in := &onboardingv1.UpdateSettingsRequest{Settings: wanted, Version: new(now.GetVersion())}
		_, err = p.Onboarding.UpdateSettings(r.Context(), in)
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
	if begins := field("flow"); begins != now.GetActivationFlow() {
		wanted.ActivationFlow = &begins
	}
	sending, err := wantedSending(r, now)
	if err != nil {
		return nil, err
	}
	wanted.Sending = sending
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
	words := linesOf(r.Form.Get("distress"))
	if lines(words) != now.Distress() {
		wanted.DistressWords = &onboardingv1.DistressWords{Words: words}
	}
	if wanted.SegmentPrices, err = wantedPrices(r, now); err != nil {
		return nil, err
	}
	if wanted.Engagement, err = wantedStruct(r, "rules", now.GetEngagement(), errRules); err != nil {
		return nil, err
	}
	if wanted.EngagementTexts, err = wantedStruct(r, "texts", now.GetEngagementTexts(), errTexts); err != nil {
		return nil, err
	}
	days := map[string]int32{}
	for _, of := range retention(now.Settings.GetRetention()) {
		if days[of.Kind] = of.Days; !r.Form.Has(of.Kind) { // a page of the release before has no field for some
			continue
		}
		if days[of.Kind], err = number(of.Kind); err != nil {
			return nil, err
		}
	}
	kept := &onboardingv1.Retention{
		TimelineDays: days["timeline"], AlarmsDays: days["alarms"], EngagementDays: days["engagement"], AuditDays: days["audit"],
		MessagesDays: days["messages"], ConsentDays: days["consent"], ReceiptsDays: days["receipts"], OutboundDays: days["outbound"],
		GoalsDays: days["goals"], EventsDays: days["events"], JobsDays: days["jobs"],
	}
	if !slices.Equal(retention(kept), retention(now.Settings.GetRetention())) {
		wanted.Retention = kept
	}
	return wanted, nil
}

// wantedStruct reads a field with JSON; nil where it is as it was, {} for the deployment's. A page of the release before has no such field.
func wantedStruct(r *http.Request, field string, now *structpb.Struct, refused error) (*structpb.Struct, error) {
	text := strings.TrimSpace(r.Form.Get(field))
	if !r.Form.Has(field) || text == "" && now == nil {
		return nil, nil //nolint:nilnil // nothing is decided anew
	}
	wanted := &structpb.Struct{}
	if err := protojson.Unmarshal([]byte(cmp.Or(text, "{}")), wanted); err != nil {
		return nil, refused
	}
	if proto.Equal(wanted, now) {
		return nil, nil //nolint:nilnil // nothing is decided anew
	}
	return wanted, nil
}

// wantedPrices reads the price list of the form; nil where it is as it was. A comma may stand for the point.
func wantedPrices(r *http.Request, now settingsPage) (*onboardingv1.SegmentPrices, error) {
	list := &onboardingv1.SegmentPrices{Currency: strings.ToUpper(strings.TrimSpace(r.Form.Get("currency"))), Prices: map[string]string{}}
	for _, line := range linesOf(r.Form.Get("prices")) {
		of := strings.Fields(line)
		if len(of) != 2 {
			return nil, errPrice
		}
		list.Prices["+"+strings.TrimPrefix(of[0], "+")] = strings.Replace(of[1], ",", ".", 1)
	}
	before := now.GetSegmentPrices()
	if maps.Equal(list.GetPrices(), before.GetPrices()) && (list.GetCurrency() == before.GetCurrency() || len(list.GetPrices()) == 0) {
		return nil, nil //nolint:nilnil // nothing is decided anew
	}
	return list, nil
}

// linesOf are the lines of a field that have words.
func linesOf(text string) []string {
	all := strings.FieldsFunc(text, func(c rune) bool { return c == '\n' || c == '\r' })
	return slices.DeleteFunc(all, func(line string) bool { return strings.TrimSpace(line) == "" })
}
