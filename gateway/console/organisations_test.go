package console

import (
	"html"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const orgID = "01900000-0000-7000-8000-0000000000e1"

func TestAPlatformOperatorHasOrganisationsAlone(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "platform")
	s.says("ListOrganisations", &onboardingv1.ListOrganisationsResponse{Organisations: []*onboardingv1.Organisation{{
		OrgId: orgID, Name: hostile, Status: "suspended", Reason: "unpaid",
	}}})
	_, page := b.page(root)
	require.Contains(t, page, "unpaid")
	require.NotContains(t, page, `<script>alert`)
	for _, path := range []string{"/inbox", "/people", "/settings", "/keys", "/senders", "/goals", "/me", "/audit"} {
		httpStatus, _ := b.page(root + path)
		require.Equal(t, http.StatusForbidden, httpStatus, path)
	}

	s.says("GetOrganisation", &onboardingv1.GetOrganisationResponse{Organisation: &onboardingv1.Organisation{OrgId: orgID, Name: "Acme", Status: "active"}})
	at := root + "/organisations/" + orgID
	form := url.Values{"back": {at}, "reason": {"left"}, "confirm": {"Other"}}
	require.Contains(t, b.said(at+"/end", form), "Nothing was done")
	require.Empty(t, s.asked["EndOrganisation"])
	form.Set("reason", strings.Repeat("r", 500))
	require.Equal(t, 2, strings.Count(b.said(at+"/end", form), `value="`+form.Get("reason")+`"`), "the reason is kept")
	form.Set("reason", "left")
	form.Set("confirm", "Acme")
	require.Contains(t, b.said(at+"/end", form), "Ended.")
	require.Equal(t, "left", calls[*onboardingv1.EndOrganisationRequest](s, "EndOrganisation")[0].GetReason())
	s.says("CreateFirstKey", &onboardingv1.CreateFirstKeyResponse{Key: "pl_live_first"})
	require.Contains(t, b.said(at+"/key", url.Values{"back": {at}, "name": {"admin"}}), "pl_live_first")
	_, page = b.page(at)
	require.NotContains(t, page, "pl_live_first", "it is shown once")
	require.Equal(t, http.StatusOK, b.post(at+"/sell", url.Values{"back": {at}}).StatusCode, "a deed that there is not is refused on the page")
}

func TestCredentialsOfASenderAreNeverShown(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	s.says("GetSender", &messagingv1.GetSenderResponse{Sender: &messagingv1.Sender{SenderId: orgID, Name: "Brand", Status: "active", SegmentsPerSecond: 1}})
	s.refuses("CreateSender", codes.FailedPrecondition, "Twilio does not take the auth token")
	form := url.Values{
		"back": {root + "/senders"}, "name": {"Brand"}, "account_sid": {"AC1"}, "api_key_sid": {"SK1"}, "api_key_secret": {"s3cret"},
		"auth_token": {"t0ken"}, "rate": {"1"}, "countries": {"US, BR"},
	}
	page := b.said(root+"/senders", form)
	require.Contains(t, page, "Twilio does not take the auth token")
	require.Contains(t, page, `value="Brand"`)
	require.NotContains(t, page, "s3cret")
	require.NotContains(t, page, "t0ken")
	at := root + "/senders/" + orgID
	require.Contains(t, b.said(at+"/token", url.Values{"back": {at}, "auth_token": {"n3w"}}), "The token is replaced.")
	require.True(t, proto.Equal(&messagingv1.UpdateSenderRequest{SenderId: orgID, AuthToken: new("n3w"), NextAuthToken: new("")},
		calls[*messagingv1.UpdateSenderRequest](s, "UpdateSender")[0]))
	s.says("GetSender", &messagingv1.GetSenderResponse{Sender: &messagingv1.Sender{SenderId: orgID, Name: "Brand", Countries: []string{"US"}}})
	page = b.said(at+"/change", url.Values{"back": {at}, "name": {"Brand"}, "rate": {"x"}, "countries": {""}})
	require.Regexp(t, `name="countries"[^>]*value=""`, page, "what was emptied stays so")
	s.refuses("DeleteSender", codes.FailedPrecondition, "messages name the sender")
	require.Contains(t, b.said(at+"/delete", url.Values{"back": {at}}), "messages name the sender")
}

func TestSendingIsDecidedByTheForm(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	now := &onboardingv1.Settings{QuietHours: &onboardingv1.QuietHours{Open: "08:00", Close: "21:00"}, TimeZone: new("UTC"), Version: 4}
	s.says("GetSettings", &onboardingv1.GetSettingsResponse{Settings: now})
	s.says("ListSettingsVersions", &onboardingv1.ListSettingsVersionsResponse{Versions: []*onboardingv1.Settings{
		{Version: 4, TimeZone: new("UTC")}, {Version: 3, TimeZone: new("America/Lima")},
	}})
	_, page := b.page(root + "/settings")
	require.Contains(t, page, "time zone</td>")
	form := url.Values{
		"back": {root + "/settings"}, "as_of": {hidden(t, page, "as_of")}, "open": {"08:00"}, "close": {"21:00"}, "time_zone": {"UTC"},
		"limit": {"60"}, "timeline": {"0"}, "alarms": {"0"}, "engagement": {"0"}, "audit": {"0"}, "brand": {"Acme"}, "phone_day": {"20:60"},
		"org_hour": {"0"}, "own_numbers": {"yes"}, "countries": {"US, BR"}, "number_type": {"voicemail"},
	}
	require.Contains(t, b.said(root+"/settings", form), "Saved.")
	asked := calls[*onboardingv1.UpdateSettingsRequest](s, "UpdateSettings")[0]
	require.EqualValues(t, 4, asked.GetVersion())
	require.True(t, proto.Equal(&messagingv1.Sending{
		Brand: "Acme", Caps: &messagingv1.Caps{PhoneDay: &messagingv1.Cap{Messages: 20, Segments: 60}, OrgHour: &messagingv1.Cap{}},
		Recipients: &messagingv1.Recipients{Countries: []string{"US", "BR"}, NumberTypes: []string{"voicemail"}},
	}, asked.GetSettings().GetSending()), "%v", asked)
	require.Nil(t, asked.GetSettings().GetEngagement(), "the form of the release before has no field for it")
	form.Set("rules", `{"inactivity_days": 3}`)
	require.Contains(t, b.said(root+"/settings", form), "Saved.")
	require.InDelta(t, 3, calls[*onboardingv1.UpdateSettingsRequest](s, "UpdateSettings")[1].GetSettings().GetEngagement().AsMap()["inactivity_days"], 0)
	form.Set("rules", `{"inactivity_days"`)
	require.Contains(t, b.said(root+"/settings", form), "the rules of engagement are JSON")
	form.Del("rules")
	form.Set("phone_hour", "20")
	require.Contains(t, b.said(root+"/settings", form), "a cap is messages:segments")
	require.Len(t, s.asked["UpdateSettings"], 2)
}

func TestRulesThatCannotBeShownFailThePage(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	decided := &onboardingv1.Settings{Engagement: &structpb.Struct{Fields: map[string]*structpb.Value{"inactivity_days": structpb.NewNumberValue(3)}}}
	s.says("GetSettings", &onboardingv1.GetSettingsResponse{Settings: decided})
	code, page := b.page(root + "/settings")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, html.UnescapeString(page), "{\n  \"inactivity_days\": 3\n}</textarea>")
	decided.Engagement.Fields["inactivity_days"] = structpb.NewNumberValue(math.NaN())
	code, page = b.page(root + "/settings")
	require.Equal(t, http.StatusInternalServerError, code)
	require.NotContains(t, page, "<form", "an empty field would reset them")
}

// asksSettings is the settings page of an organisation, with a form as the page has it.
func asksSettings(t *testing.T, now *onboardingv1.Settings) (*site, *scripted, url.Values) {
	t.Helper()
	b, s := meets(t, "operator")
	now.QuietHours, now.TimeZone = &onboardingv1.QuietHours{Open: "08:00", Close: "21:00"}, new("UTC")
	s.says("GetSettings", &onboardingv1.GetSettingsResponse{Settings: now})
	return b, s, url.Values{
		"back": {root + "/settings"}, "as_of": {""}, "open": {"08:00"}, "close": {"21:00"}, "time_zone": {"UTC"}, "limit": {"60"},
		"timeline": {"0"}, "alarms": {"0"}, "engagement": {"0"}, "audit": {"0"},
	}
}

func TestAFormThatDidNotWorkNeverWidensWhatIsStored(t *testing.T) {
	t.Parallel()
	b, s, form := asksSettings(t, &onboardingv1.Settings{
		Sending:       &messagingv1.Sending{Brand: "Acme", Recipients: &messagingv1.Recipients{Countries: []string{"US", "BR"}}},
		DistressWords: &onboardingv1.DistressWords{Words: []string{"hurt myself"}},
	})
	form.Set("brand", "")
	form.Set("own_numbers", "yes")
	form.Set("countries", strings.Repeat("US, ", 1500))
	form.Set("distress", strings.Repeat("help me\n", 800))
	form.Set("phone_hour", "20")
	form["number_type"] = []string{"pager", "voicemail"}
	page := b.said(root+"/settings", form)
	require.Contains(t, page, "a cap is messages:segments")
	require.Contains(t, page, "Not all that you typed could be kept")
	require.Regexp(t, `name="phone_hour"[^>]*value="20"`, page)
	require.Regexp(t, `name="own_numbers" value="yes" checked`, page)
	require.Equal(t, 3, strings.Count(page, " checked>"), "the other ticks are kept")
	require.Regexp(t, `value="voicemail" checked`, page)
	require.Regexp(t, `name="countries"[^>]*value="US, BR"`, page, "what is too long to keep is as it is stored")
	require.Contains(t, page, ">hurt myself</textarea>")
	require.Regexp(t, `name="brand"[^>]*value=""`, page, "and what was emptied is empty")

	form.Set("phone_hour", "")
	form.Set("countries", " ")
	form.Set("distress", strings.Repeat("help me\n", 200))
	page = b.said(root+"/settings", form)
	require.Contains(t, page, "name the countries that your organisation texts")
	require.NotContains(t, page, "Not all that you typed")
	require.Contains(t, page, ">"+strings.Repeat("help me\n", 200)+"</textarea>")
	require.Empty(t, s.asked["UpdateSettings"])
}

func TestNumbersCountOnlyWhereTheOrganisationDecides(t *testing.T) {
	t.Parallel()
	stored := &onboardingv1.Settings{}
	b, s, form := asksSettings(t, stored)
	form.Set("countries", "BR")
	require.Contains(t, b.said(root+"/settings", form), "tick that your organisation decides")
	form.Del("countries")
	form.Set("number_type", "pager")
	require.Contains(t, b.said(root+"/settings", form), "tick that your organisation decides")
	require.Empty(t, s.asked["UpdateSettings"])

	stored.Sending = &messagingv1.Sending{Brand: "Acme", Recipients: &messagingv1.Recipients{Countries: []string{"US", "BR"}}}
	stored.Sending.Recipients.NumberTypes = []string{"pager", "satellite"}
	_, page := b.page(root + "/settings")
	require.Regexp(t, `value="satellite" checked`, page, "a kind of a later release")
	form.Set("brand", "Acme")
	form.Set("countries", "US, BR")
	require.Contains(t, b.said(root+"/settings", form), "Saved.", "to untick it is enough")
	asked := calls[*onboardingv1.UpdateSettingsRequest](s, "UpdateSettings")[0]
	require.True(t, proto.Equal(&messagingv1.Sending{Brand: "Acme"}, asked.GetSettings().GetSending()), "%v", asked)
}

func TestEachChangeOfTheSettingsHasAName(t *testing.T) {
	t.Parallel()
	b, s, _ := asksSettings(t, &onboardingv1.Settings{})
	all := &onboardingv1.Settings{}
	fields := all.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		switch f := fields.Get(i); {
		case f.Message() != nil:
			all.ProtoReflect().Mutable(f)
		case f.Kind() == protoreflect.StringKind && !f.IsList():
			all.ProtoReflect().Set(f, protoreflect.ValueOfString("x"))
		case f.Kind() == protoreflect.Int32Kind:
			all.ProtoReflect().Set(f, protoreflect.ValueOfInt32(1))
		case f.Kind() == protoreflect.BoolKind:
			all.ProtoReflect().Set(f, protoreflect.ValueOfBool(true))
		}
	}
	s.says("ListSettingsVersions", &onboardingv1.ListSettingsVersionsResponse{Versions: []*onboardingv1.Settings{all, {}}})
	_, page := b.page(root + "/settings")
	named := regexp.MustCompile(`<td class="text"[^>]*>([^<]*)</td>`).FindStringSubmatch(page)
	require.NotNil(t, named)
	require.Contains(t, named[1], "cost")
	require.NotContains(t, named[1], "_", "a name of the API")

	s.refuses("ListSettingsVersions", codes.Unavailable, "try again")
	httpStatus, page := b.page(root + "/settings")
	require.Equal(t, http.StatusOK, httpStatus, "the form works without")
	require.Contains(t, page, "They cannot be shown now: <bdi>try again</bdi>")
}
