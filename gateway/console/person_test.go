package console

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/gateway/console/signin"
	auditv1 "paceline.internal/proto/gen/paceline/audit/v1"
	explainv1 "paceline.internal/proto/gen/paceline/explain/v1"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// scripted answers the console's calls, each by the name of its method, and keeps what was asked. A call without an answer is answered with
// an empty message.
type scripted struct {
	grpc.ClientConnInterface // of which only Invoke is called

	mu      sync.Mutex
	answers map[string]func(in proto.Message) (proto.Message, error)
	asked   map[string][]proto.Message
}

func (s *scripted) Invoke(_ context.Context, method string, in, out any, _ ...grpc.CallOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	method = method[strings.LastIndex(method, "/")+1:]
	s.asked[method] = append(s.asked[method], in.(proto.Message))
	if s.answers[method] == nil {
		return nil
	}
	answer, err := s.answers[method](in.(proto.Message))
	if err == nil {
		proto.Merge(out.(proto.Message), answer)
	}
	return err
}

func (s *scripted) says(method string, answer proto.Message) {
	s.answers[method] = func(proto.Message) (proto.Message, error) { return answer, nil }
}

func (s *scripted) refuses(method string, code codes.Code, words string) {
	s.answers[method] = func(proto.Message) (proto.Message, error) { return nil, status.Error(code, words) }
}

// calls returns the requests to a method.
func calls[In proto.Message](s *scripted, method string) (all []In) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.asked[method] {
		all = append(all, in.(In))
	}
	return all
}

const (
	anasID    = "01900000-0000-7000-8000-000000000001"
	sessionID = "01900000-0000-7000-8000-0000000000b1"
	letterID  = "01900000-0000-7000-8000-0000000000d1"
	messageID = "01900000-0000-7000-8000-0000000000c1"
	hostile   = `<script>alert("x")</script>` + "\u202e"
)

func at(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(noon.Add(d)) }

// meets is a console in front of Ana, who is in her burst, with an operator signed in.
func meets(t *testing.T, role string) (*site, *scripted) {
	t.Helper()
	s := &scripted{answers: map[string]func(proto.Message) (proto.Message, error){}, asked: map[string][]proto.Message{}}
	s.knows(ana())
	s.says("GetSession", &onboardingv1.GetSessionResponse{Session: &onboardingv1.Session{
		SessionId: sessionID, ProfileId: anasID, Status: "active", NextStepId: "onboarding_message_2", NextDueAt: at(8 * time.Second),
	}})
	b := opens(t, func(cfg *Config) {
		cfg.Services = Services{
			Onboarding: onboardingv1.NewOnboardingServiceClient(s), Jobs: onboardingv1.NewWebhookJobServiceClient(s),
			Engagement: onboardingv1.NewEngagementServiceClient(s), Goals: onboardingv1.NewGoalServiceClient(s),
			Events: onboardingv1.NewEventServiceClient(s), Messaging: messagingv1.NewMessagingServiceClient(s),
			Outbound: messagingv1.NewOutboundServiceClient(s), Tickets: onboardingv1.NewTicketServiceClient(s),
			Flows: onboardingv1.NewFlowServiceClient(s), Runs: onboardingv1.NewRunServiceClient(s),
			Keys: onboardingv1.NewAPIKeyServiceClient(s), Senders: messagingv1.NewSenderServiceClient(s),
			Organisations: onboardingv1.NewOrganisationServiceClient(s),
		}
	})
	require.Equal(t, http.StatusOK, b.post(signin.PathSignIn, url.Values{"token": {"good " + role}}).StatusCode)
	return b, s
}

// knows has onboarding know this person alone.
func (s *scripted) knows(p *onboardingv1.Profile) {
	s.says("GetProfile", &onboardingv1.GetProfileResponse{Profile: p})
	s.says("ListProfiles", &onboardingv1.ListProfilesResponse{Profiles: []*onboardingv1.Profile{p}})
}

func ana() *onboardingv1.Profile {
	return &onboardingv1.Profile{
		ProfileId: anasID, Phone: "+12025550143", FirstName: hostile, Locale: "pt-BR", TimeZone: "America/Sao_Paulo",
		State: &onboardingv1.ProfileState{SessionId: sessionID, Status: "active", StateToken: "onboarding:awaiting_burst"},
	}
}

// page returns the page that a browser gets, whatever the status.
func (s *site) page(path string) (httpStatus int, body string) {
	s.t.Helper()
	answer := s.get(s.URL + path)
	text, err := io.ReadAll(answer.Body)
	require.NoError(s.t, err)
	return answer.StatusCode, string(text)
}

// acts posts the form of Ana's page, and returns the page that it comes back to, with its notice.
func (s *site) acts(path string, form url.Values) string {
	s.t.Helper()
	form.Set("back", root+"/people/"+anasID+"?times=theirs")
	answer := s.post(path, form)
	require.Equal(s.t, http.StatusOK, answer.StatusCode)
	require.Equal(s.t, root+"/people/"+anasID+"?times=theirs", answer.Request.URL.RequestURI(), "the zone stays")
	text, err := io.ReadAll(answer.Body)
	require.NoError(s.t, err)
	return string(text)
}

// anas reads Ana's page.
func (s *site) anas() string {
	s.t.Helper()
	httpStatus, body := s.page(root + "/people/" + anasID)
	require.Equal(s.t, http.StatusOK, httpStatus, body)
	require.NotContains(s.t, body, hostile)
	require.NotContains(s.t, body, "<script>alert")
	return body
}

func TestPersonPage(t *testing.T) {
	t.Parallel()
	t.Run("CountsDownToTheStepThatIsDue", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		require.Contains(t, b.anas(), `<time class="due" datetime="2026-11-24T12:00:08Z" title="2026-11-24 12:00:08 UTC">8 s</time>`)
		b.now = noon.Add(time.Minute)
		require.Contains(t, b.anas(), "Due, and late by</strong> 52 s")
		s.says("GetSession", &onboardingv1.GetSessionResponse{Session: &onboardingv1.Session{SessionId: sessionID}})
		require.NotContains(t, b.anas(), "late by")
	})
	t.Run("ShowsTimesInTheZoneOfThePersonAtASwitch", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		s.says("ListMessages", &messagingv1.ListMessagesResponse{Messages: []*messagingv1.Message{{MessageId: messageID, Body: hostile, CreatedAt: at(0)}}})
		require.Contains(t, b.anas(), "2026-11-24 12:00:00.000 UTC")
		_, theirs := b.page(root + "/people/" + anasID + "?times=theirs")
		require.Contains(t, theirs, "2026-11-24 09:00:00.000 -03")
		require.NotContains(t, theirs, "12:00:00.000 UTC")
		require.Contains(t, theirs, `hx-get="/console/people/`+anasID+`?times=theirs"`, "a page that renews itself keeps the zone")
		require.Contains(t, b.anas(), "2026-11-24 12:00:00.000 UTC", "the reader's own zone is as it was")
	})
	t.Run("SaysWhatTheLedgerSays", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		s.refuses("GetConsent", codes.NotFound, "nothing is recorded")
		require.Contains(t, b.anas(), "Nothing is recorded of this number.")
		s.says("GetConsent", &messagingv1.GetConsentResponse{
			Consent: &messagingv1.Consent{State: "opted_out", UpdatedAt: at(0)}, Chain: &messagingv1.ConsentChain{Verified: true},
			Events: []*messagingv1.ConsentEvent{
				{State: "opted_in", Source: "first_send", Words: "I agree"},
				{State: "opted_out", Source: "inbound", Words: hostile},
				{State: "opted_out", Source: "confirmation", Words: "You are out."},
			},
		})
		page := b.anas()
		require.Contains(t, page, "the person, by text “<bdi>&lt;script&gt;")
		require.NotContains(t, page, "You are out.")
		require.NotContains(t, page, "is not what was written")
		require.Contains(t, page, `/console/ledger?phone=%2b12025550143"`)
	})
	t.Run("SaysWhyAPersonIsHeldSinceWhenAndByWhom", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		b.anas()
		require.Empty(t, calls[*onboardingv1.ListAuditRequest](s, "ListAudit"), "who is not held is not asked for")
		held := ana()
		held.Hold, held.State.HoldReason, held.State.HeldSince = true, "under review "+hostile, at(-time.Hour)
		held.LegalHoldAt = at(-2 * time.Hour)
		s.knows(held)
		s.says("ListAudit", &onboardingv1.ListAuditResponse{Entries: []*auditv1.AuditEntry{{Actor: &auditv1.Actor{Subject: "bea"}}}})
		page := b.anas()
		require.Regexp(t, `under review &lt;script.*2026-11-24 11:00:00 UTC.*<bdi>bea</bdi>`, page)
		require.Regexp(t, `legal hold</dt>.*2026-11-24 10:00:00 UTC`, page)
		asked := calls[*onboardingv1.ListAuditRequest](s, "ListAudit")[0]
		require.Equal(t, "paceline.onboarding.v1.OnboardingService/HoldProfile", asked.GetMethod())
		require.Equal(t, anasID, asked.GetProfileId())
		require.Equal(t, noon.Add(-time.Hour+time.Microsecond), asked.GetUntil().AsTime(), "a later call that changed nothing is not it")
	})
	t.Run("LinksWhatIsInDoubtOrGivenUpToWhatMayBeDone", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		s.says("ListMessages", &messagingv1.ListMessagesResponse{Messages: []*messagingv1.Message{{MessageId: messageID, Status: "parked", Body: hostile}}})
		s.answers["GetSession"] = func(proto.Message) (proto.Message, error) {
			return &onboardingv1.GetSessionResponse{Session: &onboardingv1.Session{SessionId: sessionID}, Timeline: []*onboardingv1.TimelineEntry{
				{Kind: "failed", StepId: "onboarding_message_1", Detail: "QStash gave the alarm up; see dead letter 01900000-0000-7000-8000-0000000000d0"},
				{Kind: "failed", StepId: "onboarding_message_2", Detail: "QStash gave the alarm up; see dead letter " + letterID},
			}}, nil
		}
		s.says("ListDeadLetters", &onboardingv1.ListDeadLettersResponse{DeadLetters: []*onboardingv1.DeadLetter{{DeadLetterId: letterID}}})
		page := b.anas()
		require.Contains(t, page, `href="/console/needs/messages/`+messageID+`"`)
		require.Equal(t, 1, strings.Count(page, "deed=replay-letter."), "one that was replayed has no link")
		require.Contains(t, page, `/console/do?deed=replay-letter.`+letterID+`&amp;back=%2fconsole%2fpeople%2f`+anasID)
		require.True(t, calls[*onboardingv1.ListDeadLettersRequest](s, "ListDeadLetters")[0].GetOpen())
	})
	t.Run("MarksATextThatDidNotArriveAndSaysWhoDidWhat", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		s.says("ListMessages", &messagingv1.ListMessagesResponse{Messages: []*messagingv1.Message{
			{MessageId: messageID, Status: "undelivered", Direction: "outbound"}, {MessageId: letterID, Status: "delivered", Direction: "outbound"},
		}})
		bea := &auditv1.Actor{Subject: "bea"}
		s.says("GetSession", &onboardingv1.GetSessionResponse{Session: &onboardingv1.Session{SessionId: sessionID, Status: "stuck"}, Timeline: []*onboardingv1.TimelineEntry{
			{Kind: "activated", Trigger: "activation", ToStateToken: "onboarding:awaiting_opening_response", Actor: bea},
			{Kind: "parked", Trigger: "activation", Detail: "GET /v1/messages/" + messageID + "/evidence", Actor: bea},
			{Kind: "replied", Trigger: "reply", Detail: "again"},
			{Kind: "held", Trigger: "operator", Detail: hostile},
		}})
		page := b.anas()
		require.Equal(t, 1, strings.Count(page, "did not reach them</strong>"))
		require.Contains(t, page, `<li class="outbound lost">`)
		require.Contains(t, page, `waits for the reply to the opening</span> <em>by <bdi>bea</bdi></em>`)
		require.Contains(t, page, `<a href="/console/needs/messages/`+messageID+`">what is known of the text</a></bdi></span> <a`, "the system parked it")
		require.Contains(t, page, "their reply, which was kept, is taken up</strong></li>")
		require.Contains(t, page, "<em>by an operator</em>")
	})
	t.Run("ShowsHowWeStayInTouch", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		s.says("GetEngagement", &onboardingv1.GetEngagementResponse{Engagement: &onboardingv1.Engagement{
			State: "remind_later", RemindAt: at(time.Hour), Skip: "held",
			Preferences: &onboardingv1.Preferences{Reminders: "on", Tips: "off", Destination: "individual"},
		}})
		s.says("ListOutreach", &onboardingv1.ListOutreachResponse{Outreach: []*onboardingv1.Outreach{
			{OutreachId: messageID, Type: "goodbye", Status: "failed", Outcome: "given_up", Error: hostile},
		}})
		page := b.anas()
		for _, shown := range []string{
			"reminded later", "1 h</time>", "not written to now: on hold", "goodbye: failed (given up)", "deed=retry-outreach." + messageID,
			"Reminders: <strong>on</strong>", "Tips: <strong>off</strong>",
		} {
			require.Contains(t, page, shown)
		}
		require.NotContains(t, page, `value="group"`, "who is in no household has no group")
	})
	t.Run("ShowsTheConversationWhateverElseCannotBeRead", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		s.says("ListMessages", &messagingv1.ListMessagesResponse{Messages: []*messagingv1.Message{{MessageId: messageID, Body: "Hello, Ana"}}})
		for _, method := range []string{"GetConsent", "ListGoals", "GetEngagement", "ListDeadLetters"} {
			s.refuses(method, codes.Unavailable, method+" is away")
		}
		page := b.anas()
		require.Contains(t, page, "Hello, Ana")
		require.Contains(t, page, `<time class="due"`, "the session is read without its dead letters")
		for _, method := range []string{"GetConsent", "ListGoals", "GetEngagement", "ListDeadLetters"} {
			require.Contains(t, page, "This cannot be read now: <bdi>"+method+" is away</bdi>")
		}
		require.NotContains(t, page, "Nothing is recorded of this number.")
		require.NotContains(t, page, "There are no goals here.")
		s.refuses("GetProfile", codes.NotFound, "no such profile")
		httpStatus, _ := b.page(root + "/people/" + anasID)
		require.Equal(t, http.StatusNotFound, httpStatus)
	})
}

func TestPersonGoals(t *testing.T) {
	t.Parallel()
	t.Run("AreShownWithTheirWhy", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		s.says("ListGoals", &onboardingv1.ListGoalsResponse{Goals: []*onboardingv1.Goal{{GoalId: messageID, Goal: hostile, Status: "scheduled", ScheduledFor: at(time.Hour)}}})
		page := b.anas()
		require.Contains(t, page, "1 h</time>")
		require.Contains(t, page, `href="/console/why/goals/`+messageID+`"`)
		require.Contains(t, page, `href="/console/goals?profile=`+anasID+`"`)
		asked := calls[*onboardingv1.ListGoalsRequest](s, "ListGoals")[0]
		require.Equal(t, anasID, asked.GetProfileId())
		require.EqualValues(t, 5, asked.GetPageSize())
	})
	t.Run("ASecondPressOfTheFormIsTheSameGoal", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		s.says("ListDevices", &onboardingv1.ListDevicesResponse{Devices: []*onboardingv1.Device{{DeviceId: letterID, Name: hostile, Kind: "stream"}, {DeviceId: sessionID, Kind: "phone"}}})
		page := b.anas()
		require.Contains(t, page, `<option value="`+letterID+`">&lt;script`)
		require.NotContains(t, page, `<option value="`+sessionID+`"`, "the phone is the first choice")
		key := regexp.MustCompile(`name="key" value="([A-Z2-7]{20,})"`).FindStringSubmatch(page)
		require.NotNil(t, key)
		require.NotContains(t, b.anas(), key[1], "another page is another goal")
		form := url.Values{"key": {key[1]}, "goal": {"regar as plantas amanhã às 9h"}, "device": {""}}
		s.says("CreateGoal", &onboardingv1.CreateGoalResponse{Goal: &onboardingv1.Goal{Understood: "amanhã às 9h " + hostile}})
		page = b.acts(root+"/people/"+anasID+"/goals", form)
		require.Contains(t, page, "Scheduled: amanhã às 9h &lt;script")
		s.says("CreateGoal", &onboardingv1.CreateGoalResponse{Duplicate: true})
		require.Contains(t, b.acts(root+"/people/"+anasID+"/goals", form), "It is scheduled already")
		made := calls[*onboardingv1.CreateGoalRequest](s, "CreateGoal")
		require.Len(t, made, 2)
		require.True(t, proto.Equal(made[0], made[1]))
		s.says("CreateGoal", &onboardingv1.CreateGoalResponse{Goal: &onboardingv1.Goal{Understood: "amanhã às 9h", ScheduledFor: at(time.Hour)}})
		page = b.acts(root+"/people/"+anasID+"/goals", url.Values{"goal": {"water"}, "key": {"k2"}})
		require.Contains(t, page, "Scheduled: <time", "in the reader's words")
		require.True(t, proto.Equal(&onboardingv1.CreateGoalRequest{
			ProfileId: anasID, Goal: "regar as plantas amanhã às 9h", IdempotencyKey: "console:" + key[1],
		}, made[0]))
	})
	t.Run("AreRefusedInTheWordsOfTheService", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "operator")
		s.refuses("CreateGoal", codes.InvalidArgument, "the time is unclear: 9 in the morning or in the evening?")
		require.Contains(t, b.acts(root+"/people/"+anasID+"/goals", url.Values{"key": {"k"}, "goal": {"call at 9"}}), "Not done: the time is unclear")
		b.acts(root+"/people/"+anasID+"/goals", url.Values{"goal": {"call at 9"}})
		require.Len(t, calls[*onboardingv1.CreateGoalRequest](s, "CreateGoal"), 1, "without a key nothing is asked")
	})
	t.Run("OfAUserSayWhyToThatUser", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, "user")
		s.says("ExplainGoal", &onboardingv1.ExplainGoalResponse{
			Summary: "It waits for its time.", Outcome: "early", Next: "The alarm comes then.",
			Gates: []*explainv1.Gate{{Name: "due", Fact: hostile, Change: "its time"}},
		})
		httpStatus, page := b.page(root + "/why/goals/" + messageID)
		require.Equal(t, http.StatusOK, httpStatus)
		for _, shown := range []string{"It waits for its time.", `<strong title="early">Waiting for its time`, "The alarm comes then.", "&lt;script", "its time"} {
			require.Contains(t, page, shown)
		}
		require.NotContains(t, page, hostile)
		require.Equal(t, messageID, calls[*onboardingv1.ExplainGoalRequest](s, "ExplainGoal")[0].GetGoalId())
		s.says("ListGoals", &onboardingv1.ListGoalsResponse{Goals: []*onboardingv1.Goal{{GoalId: messageID, Goal: "call", Status: "running"}}})
		_, page = b.page(root + "/goals")
		require.Contains(t, page, `href="/console/why/goals/`+messageID+`"`)
	})
}

func TestPersonPreferences(t *testing.T) {
	t.Parallel()
	b, s := meets(t, "operator")
	path := root + "/people/" + anasID + "/preferences"
	require.Contains(t, b.acts(path, url.Values{"reminders": {"off"}, "tips": {""}, "destination": {""}}), "Preferences changed.")
	require.True(t, proto.Equal(&onboardingv1.SetPreferencesRequest{ProfileId: anasID, Reminders: "off"},
		calls[*onboardingv1.SetPreferencesRequest](s, "SetPreferences")[0]), "what the form leaves stays")
	require.Contains(t, b.acts(path, url.Values{"reminders": {""}}), "Not done: choose what is to change")
	require.Len(t, calls[*onboardingv1.SetPreferencesRequest](s, "SetPreferences"), 1)
	s.refuses("SetPreferences", codes.FailedPrecondition, "the person switched reminders off")
	require.Contains(t, b.acts(path, url.Values{"reminders": {"on"}}), "Not done: the person switched reminders off")
	s.says("GetEngagement", &onboardingv1.GetEngagementResponse{Engagement: &onboardingv1.Engagement{
		HouseholdId: sessionID, Preferences: &onboardingv1.Preferences{Reminders: "off", Tips: "on", Destination: "individual"},
	}})
	page := b.anas()
	for _, offered := range []string{`<option value="on">on`, `<option value="off">off`, `<option value="group">all of their household`} {
		require.Contains(t, page, offered)
	}
	for _, key := range []string{"preferences", "preferences.what", "preferences.done", "goal", "goal.what"} {
		require.True(t, known("person."+key), key)
	}
}
