package console

import (
	"bytes"
	"fmt"
	"html"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	runID          = "01900000-0000-7000-8000-0000000000e1"
	subscriptionID = "01900000-0000-7000-8000-0000000000e2"
	deviceID       = "01900000-0000-7000-8000-0000000000e3"
)

// uploads posts a form with a file, and returns the page that it comes to.
func (s *site) uploads(path, file string, form map[string]string) string {
	s.t.Helper()
	var body bytes.Buffer
	parts := multipart.NewWriter(&body)
	for name, value := range form {
		require.NoError(s.t, parts.WriteField(name, value))
	}
	part, err := parts.CreateFormFile("file", "people.csv")
	require.NoError(s.t, err)
	_, err = part.Write([]byte(file))
	require.NoError(s.t, err)
	require.NoError(s.t, parts.Close())
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.URL+path, &body)
	require.NoError(s.t, err)
	r.Header.Set("Content-Type", parts.FormDataContentType())
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return readsAll(s.t, s.does(r))
}

// hidden returns the value of a field of a page.
func hidden(t *testing.T, page, name string) string {
	t.Helper()
	found := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(page)
	require.NotNil(t, found, "%s in %s", name, page)
	return html.UnescapeString(found[1])
}

func TestOperationsAreForOperators(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "user")
	for _, path := range []string{
		"/runs", "/runs/new", "/runs/" + runID, "/import", "/people/" + anasID + "/erasure", "/people/" + anasID + "/export", "/settings",
		"/subscriptions", "/subscriptions/" + subscriptionID, "/devices", "/senders", "/senders/" + orgID, "/keys", "/organisations",
	} {
		httpStatus, _ := b.page(root + path)
		require.Equal(t, http.StatusForbidden, httpStatus, path)
	}
	for _, path := range []string{"/runs", "/runs/new", "/import", "/import/do", "/settings", "/people/" + anasID + "/erase", "/devices/" + deviceID + "/delete", "/senders", "/keys", "/organisations"} {
		require.Equal(t, http.StatusForbidden, b.post(root+path, url.Values{"confirm": {"0143"}}).StatusCode, path)
	}
	require.Empty(t, s.asked)
}

func TestARunIsPreviewedThenStartedOnce(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	s.says("ListFlows", &onboardingv1.ListFlowsResponse{Flows: []*onboardingv1.FlowVersion{{Flow: "nps"}}})
	s.says("StartRun", &onboardingv1.StartRunResponse{
		Run: &onboardingv1.Run{RunId: runID},
		Preview: &onboardingv1.RunPreview{
			People: 2, Segments: 4, Complete: true, LeftOut: map[string]int64{"opted_out": 7}, Languages: []*onboardingv1.RunLanguage{{Language: "en", People: 2, Segments: 4}},
		},
	})
	page := b.uploads(root+"/runs/new", "\ufeffname;phone\nAna;+12025550143\nBo;+12025550144\n;\n", map[string]string{"flow": "nps"})
	require.Regexp(t, `<strong>2</strong> would be started`, page)
	require.Regexp(t, `opted out</span></th><td class="number">7<`, page)
	asked := calls[*onboardingv1.StartRunRequest](s, "StartRun")
	require.True(t, proto.Equal(&onboardingv1.StartRunRequest{Flow: "nps", People: []string{"+12025550143", "+12025550144"}, DryRun: true}, asked[0]), "%v", asked[0])

	s.says("GetRun", &onboardingv1.GetRunResponse{Run: &onboardingv1.Run{
		RunId: runID, Flow: "nps", Status: "running", Counts: &onboardingv1.RunCounts{People: 9, Waiting: 1, Started: 6, LeftOut: map[string]int64{"held": 2}},
	}})
	form := url.Values{"key": {hidden(t, page, "key")}, "flow": {"nps"}, "list": {hidden(t, page, "list")}}
	require.Contains(t, b.said(root+"/runs", form), "The run has begun.")
	page = b.said(root+"/runs", form)
	asked = calls[*onboardingv1.StartRunRequest](s, "StartRun")
	require.Equal(t, "console:"+form.Get("key"), asked[1].GetIdempotencyKey())
	require.True(t, proto.Equal(asked[1], asked[2]), "a second press is the same run")
	require.Equal(t, asked[0].GetPeople(), asked[1].GetPeople(), "who was previewed")
	require.Regexp(t, `max="9" value="8"`, page)
	require.Regexp(t, `on hold</span></th><td class="number">2<`, page)
	require.Contains(t, b.said(root+"/runs/"+runID+"/cancel", url.Values{"back": {root + "/runs/" + runID}}), "Nobody else is started.")
	require.Len(t, calls[*onboardingv1.CancelRunRequest](s, "CancelRun"), 1)

	s.refuses("StartRun", codes.InvalidArgument, "invalid run: filter: undeclared reference to &#39;plan&#39;")
	page = b.said(root+"/runs/new", url.Values{"flow": {"nps"}, "filter": {"plan == 1"}})
	require.Contains(t, page, "undeclared reference")
	require.Contains(t, page, `value="plan == 1"`, "and what was typed is kept")
	for words, form := range map[string]url.Values{
		"choose a file":    {"flow": {"nps"}},
		"and not both":     {"flow": {"nps"}, "filter": {"true"}, "list": {"+12025550143"}},
		"at most 10000":    {"flow": {"nps"}, "list": {strings.Repeat("+1\n", 10_001)}},
		"say when these":   {"flow": {"nps"}, "list": {"+1"}, "source": {"web_form"}},
		"save it as CSV U": {"flow": {"nps"}, "list": {"\xff"}},
	} {
		require.Contains(t, b.said(root+"/runs/new", form), words)
	}
}

func TestAnImportIsPreviewedLineByLine(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	s.answers["ListProfiles"] = func(in proto.Message) (proto.Message, error) {
		out := &onboardingv1.ListProfilesResponse{}
		if in.(*onboardingv1.ListProfilesRequest).GetPhone() == "+12025550143" {
			out.Profiles = []*onboardingv1.Profile{{ProfileId: anasID, FirstName: "Anna", Locale: "en"}}
		}
		return out, nil
	}
	page := b.uploads(root+"/import", "phone,first_name,vip\n+12025550143,Ana,1\n202,<i>Bo,\n+12025550177,<b>Bea</b>,\n+12025550177,Cy,\n", nil)
	row := func(line int, words string) {
		require.Regexp(t, fmt.Sprintf(`data-label="Line">%d</th>[^\n]*%s`, line, words), page)
	}
	row(2, `there already, with other data</span> The person has another first name.`)
	row(3, `refused</span> <bdi>phone: write it in international format[^\n]*<code><bdi>202,&lt;i&gt;Bo,</bdi></code>`)
	row(4, `>new<`)
	row(5, `repeats a line above`)
	require.Contains(t, page, "Columns that are not read: <bdi>vip</bdi>")
	require.NotContains(t, page, "<b>Bea")
	require.Empty(t, calls[*onboardingv1.CreateProfileRequest](s, "CreateProfile"), "a preview writes nothing")

	s.says("CreateProfile", &onboardingv1.CreateProfileResponse{Created: true, Profile: &onboardingv1.Profile{ProfileId: anasID}})
	rows := hidden(t, page, "rows")
	page = b.said(root+"/import/do", url.Values{"rows": {rows}})
	require.Regexp(t, `<strong>1</strong> enrolled`, page)
	made := calls[*onboardingv1.CreateProfileRequest](s, "CreateProfile")
	require.Len(t, made, 1)
	require.Equal(t, "+12025550177", made[0].GetPhone())
	s.refuses("CreateProfile", codes.InvalidArgument, "invalid profile: phone: Twilio does not text this country")
	page = b.said(root+"/import/do", url.Values{"rows": {rows}})
	row(4, `refused</span> <bdi>phone: Twilio does not text this country`)

	require.Contains(t, b.uploads(root+"/import", "name,email\nAna,a@b.c\n", nil), "the column phone is missing")
	require.Contains(t, b.uploads(root+"/import", "", nil), "choose a file")
	require.Contains(t, b.uploads(root+"/import", "phone,first_name\n"+strings.Repeat("+12025550143,Ana\n", 1001), nil), "at most 1000 lines")
	require.Contains(t, b.uploads(root+"/import", strings.Repeat("x", 2<<20), nil), "at most 1 MB")
}

func TestAPersonIsErasedOnceTheyAreNamed(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	page := b.anas()
	require.Contains(t, page, "Erase this person")
	erase := func(words string) string {
		return b.said(root+"/people/"+anasID+"/erase", url.Values{"confirm": {words}, "back": {root + "/people/" + anasID}})
	}
	for _, words := range []string{"", "0144", "143", "Bea"} {
		require.Contains(t, erase(words), "neither the last four digits", words)
	}
	require.Empty(t, calls[*onboardingv1.EraseProfileRequest](s, "EraseProfile"))
	s.says("GetErasure", &onboardingv1.GetErasureResponse{Erasure: &onboardingv1.Erasure{
		ProfileId: anasID, State: "erased", Source: "operator", RequestedAt: at(0), ErasedAt: at(1), Pseudonym: "p-1",
		Ledgers: []*onboardingv1.ErasedLedgerState{{ErasedAt: at(1), State: "opted_out", Length: 3, Verified: true}},
	}})
	page = erase("0143")
	require.Contains(t, page, "The erasure is asked for.")
	require.Regexp(t, `3 lines · <strong><svg[^>]*>.*</svg> unchanged since it was written`, page)
	require.Contains(t, page, "p-1")
	s.refuses("EraseProfile", codes.FailedPrecondition, "the person is on legal hold")
	require.Contains(t, erase(hostile), "the person is on legal hold", "the name does too")

	b.acts(root+"/people/"+anasID+"/legal-hold", url.Values{"reason": {" case 12 "}})
	require.Equal(t, "case 12", calls[*onboardingv1.SetLegalHoldRequest](s, "SetLegalHold")[0].GetReason())
	held := ana()
	held.LegalHoldAt = at(0)
	s.knows(held)
	page = b.acts(root+"/people/"+anasID+"/legal-hold/lift", url.Values{})
	require.Contains(t, page, "The legal hold is lifted.")
	require.NotContains(t, page, "Erase this person", "while the hold is on")

	document, err := structpb.NewStruct(map[string]any{"onboarding": map[string]any{"first_name": "Ana"}})
	require.NoError(t, err)
	s.says("ExportProfile", &onboardingv1.ExportProfileResponse{Document: document})
	answer := b.get(b.URL + root + "/people/" + anasID + "/export")
	require.Equal(t, `attachment; filename="person.json"`, answer.Header.Get("Content-Disposition"))
	require.JSONEq(t, `{"onboarding":{"first_name":"Ana"}}`, readsAll(t, answer))
}

func TestSettingsDecideOnlyWhatIsChanged(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	now := &onboardingv1.Settings{
		QuietHours: &onboardingv1.QuietHours{Enabled: true, Open: "08:00", Close: "21:00"}, QuietHoursByDefault: true, TimeZone: new("UTC"), UpdatedAt: at(0),
		UsualDistressWords: []string{"want to die", "suicide"},
	}
	s.says("GetSettings", &onboardingv1.GetSettingsResponse{Settings: now})
	_, page := b.page(root + "/settings")
	form := url.Values{
		"back": {root + "/settings"}, "as_of": {hidden(t, page, "as_of")}, "quiet": {"yes"}, "open": {"09:00"}, "close": {"21:00"}, "time_zone": {"UTC"},
		"limit": {"60"}, "distress": {""}, "timeline": {"0"}, "alarms": {"0"}, "engagement": {"0"}, "audit": {"0"},
	}
	require.Contains(t, page, ">want to die\nsuicide</textarea>", "what holds is shown")
	form.Set("distress", "want to die\r\nsuicide")
	require.Contains(t, b.said(root+"/settings", form), "Saved.")
	asked := calls[*onboardingv1.UpdateSettingsRequest](s, "UpdateSettings")[0].GetSettings()
	require.True(t, proto.Equal(&onboardingv1.Settings{
		QuietHours: &onboardingv1.QuietHours{Enabled: true, Open: "09:00", Close: "21:00"}, RequireConsentRecord: new(false),
	}, asked), "what is not decided yet stays so: %v", asked)

	form.Set("distress", "hurt myself\r\n\r\nwant to die")
	form.Set("audit", "90")
	form.Set("messages", "60")
	form.Set("texts", `{"en": {"ENGAGEMENT_TIER_3": "Well done."}}`)
	now.Retention = &onboardingv1.Retention{GoalsDays: 7}
	form.Set("limit", "30")
	form.Set("currency", "usd")
	form.Set("prices", "1 0.0079\r\n+55 0,05")
	b.said(root+"/settings", form)
	asked = calls[*onboardingv1.UpdateSettingsRequest](s, "UpdateSettings")[1].GetSettings()
	require.Equal(t, []string{"hurt myself", "want to die"}, asked.GetDistressWords().GetWords())
	require.True(t, proto.Equal(&onboardingv1.Retention{AuditDays: 90, MessagesDays: 60, GoalsDays: 7}, asked.GetRetention()),
		"what a page of the release before has no field for stays: %v", asked.GetRetention())
	require.Equal(t, map[string]any{"en": map[string]any{"ENGAGEMENT_TIER_3": "Well done."}}, asked.GetEngagementTexts().AsMap())
	require.Equal(t, int32(30), asked.GetTicketLimitMinutes())
	require.Equal(t, "USD", asked.GetSegmentPrices().GetCurrency())
	require.Equal(t, map[string]string{"+1": "0.0079", "+55": "0.05"}, asked.GetSegmentPrices().GetPrices())

	s.refuses("UpdateSettings", codes.InvalidArgument, "settings.retention.audit_days must be 30 to 3660")
	form.Set("audit", "3")
	page = b.said(root+"/settings", form)
	require.Contains(t, page, "must be 30 to 3660")
	require.Regexp(t, `name="audit"[^>]*value="3"`, page, "what was typed is kept")
	require.Contains(t, page, ">hurt myself\r\n\r\nwant to die</textarea>")
	form.Set("as_of", "2020")
	require.Contains(t, b.said(root+"/settings", form), "Somebody changed the settings")
	require.Len(t, calls[*onboardingv1.UpdateSettingsRequest](s, "UpdateSettings"), 3, "nothing is decided from an old page")
}

func TestASecretIsShownOnce(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	one := &onboardingv1.EventSubscription{SubscriptionId: subscriptionID, Url: "https://example.com/events", Status: "active", Types: []string{"session.completed"}}
	s.says("CreateEventSubscription", &onboardingv1.CreateEventSubscriptionResponse{Subscription: one, Secret: "whsec_abc"})
	s.says("GetEventSubscription", &onboardingv1.GetEventSubscriptionResponse{Subscription: one})
	s.says("ListEventDeliveries", &onboardingv1.ListEventDeliveriesResponse{Deliveries: []*onboardingv1.EventDelivery{
		{DeliveryId: letterID, SubscriptionId: subscriptionID, Type: "session.completed", Status: "failed", ErrorMessage: "answered 500"},
		{DeliveryId: messageID, SubscriptionId: runID, Type: "ticket.opened", Status: "failed"},
	}})
	form := url.Values{"back": {root + "/subscriptions"}, "url": {" https://example.com/events "}, "types": {"session.completed"}}
	page := b.said(root+"/subscriptions", form)
	require.Contains(t, page, "<code>whsec_abc</code>")
	require.Contains(t, page, "deed=replay-delivery."+letterID)
	require.NotContains(t, page, "ticket.opened", "which is another one's")
	_, page = b.page(root + "/subscriptions/" + subscriptionID)
	require.NotContains(t, page, "whsec_abc")

	s.says("ListEventSubscriptions", &onboardingv1.ListEventSubscriptionsResponse{Subscriptions: []*onboardingv1.EventSubscription{one}})
	require.Contains(t, b.said(root+"/subscriptions", form), "There is a subscription of this address")
	require.Len(t, calls[*onboardingv1.CreateEventSubscriptionRequest](s, "CreateEventSubscription"), 1, "a second press makes no second one")

	s.says("RotateEventSubscriptionSecret", &onboardingv1.RotateEventSubscriptionSecretResponse{Secret: "whsec_def"})
	changes := func(deed string, form url.Values) string {
		form.Set("back", root+"/subscriptions/"+subscriptionID)
		return b.said(root+"/subscriptions/"+subscriptionID+"/"+deed, form)
	}
	require.Contains(t, changes("rotate", url.Values{}), "<code>whsec_def</code>")
	require.Contains(t, changes("pause", url.Values{}), "Paused.")
	s.says("ResumeEventSubscription", &onboardingv1.ResumeEventSubscriptionResponse{Missed: true})
	require.Contains(t, changes("resume", url.Values{}), "take the state of people anew")
	changes("change", url.Values{"url": {"https://example.com/2"}, "types": {"a.b, c.d\ne.f"}, "body": {"yes"}})
	asked := calls[*onboardingv1.UpdateEventSubscriptionRequest](s, "UpdateEventSubscription")[0]
	require.Equal(t, []string{"a.b", "c.d", "e.f"}, asked.GetTypes().GetTypes())
	require.True(t, asked.GetIncludeBody())
	require.Contains(t, changes("delete", url.Values{}), "Deleted.")
}

func TestADeviceIsRevoked(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	s.says("ListDevices", &onboardingv1.ListDevicesResponse{Devices: []*onboardingv1.Device{
		{DeviceId: deviceID, ProfileId: anasID, Name: hostile, Kind: "stream", Online: true}, {DeviceId: runID, ProfileId: anasID, Name: "phone", Kind: "phone"},
	}})
	s.says("RotateDevice", &onboardingv1.RotateDeviceResponse{Token: "t-1"})
	page := b.said(root+"/devices/"+deviceID+"/rotate", url.Values{"back": {root + "/devices"}})
	require.Contains(t, page, "<code>t-1</code>")
	require.Contains(t, page, "connected")
	require.NotContains(t, page, "<script>alert")
	require.Equal(t, 1, strings.Count(page, "/delete\""), "a phone is not removed")
	require.Contains(t, b.said(root+"/devices/"+deviceID+"/delete", url.Values{"back": {root + "/devices"}}), "Removed.")
	require.Equal(t, deviceID, calls[*onboardingv1.DeleteDeviceRequest](s, "DeleteDevice")[0].GetDeviceId())
}
