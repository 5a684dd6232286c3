package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	overviewv1 "paceline.internal/proto/gen/paceline/overview/v1"
)

// need is one thing that waits for an operator.
type need struct {
	Kind    string // the key of its words: what it is, and what to do
	ID      string
	At      time.Time
	Profile string // the id of its person; empty when that is not known
	Session string // that it belongs to, where that leads to its person
	Phone   string // of its person, where only that is known
	Person  *onboardingv1.Profile
	Why     string // in the service's words
	Open    string // where more of it is; empty for nowhere
	Gates   string // why it is so, gate by gate; empty for nowhere
	Deeds   []deed // a bulk does the first one

	Ticket *onboardingv1.Ticket // of a conversation that waits for an answer; nil of another kind

	Texts *overviewv1.Count // how many texts are refused; nil of another kind
}

// Words returns the id of the text that may be an opt-out and waits for a judgement; empty for none.
func (n need) Words() string { return wordsIn(n.Why) }

// needsPage is the data of pages/needs.html.
type needsPage struct {
	Needs []need
	Kind  string // the one that is shown; empty for all
	Kinds []string
	Most  int32
	More  []string // the kinds of which there are more
}

// How many of a kind are shown, the newest: of one that is chosen, and of each next to the others, where every row costs a read of its
// person.
const (
	mostOfOne  = 50
	mostOfEach = 15
)

// mostNeeds bounds the rows of the kind that is chosen.
func mostNeeds(chosen string) int32 {
	if chosen == "" {
		return mostOfEach
	}
	return mostOfOne
}

// needs is the page of what waits for an operator, newest first.
func (c *Console) needs(r *http.Request) (page, error) {
	kind := r.Form.Get("kind")
	found, more, err := c.allNeeds(r.Context(), kind)
	if err != nil {
		return page{}, err
	}
	c.nameNeeds(r.Context(), found)
	shown := needsPage{found, kind, needKinds(), mostNeeds(kind), more}
	return page{Title: "needs.title", Name: "needs", Topic: topicAll, Body: shown}, nil
}

// nameNeeds finds the person of each.
func (c *Console) nameNeeds(ctx context.Context, needs []need) {
	var profiles, sessions []string
	for _, n := range needs {
		profiles, sessions = append(profiles, n.Profile), append(sessions, n.Session)
	}
	people, ofSessions := c.profilesOf(ctx, profiles), c.peopleOfSessions(ctx, sessions)
	for i, n := range needs {
		if needs[i].Person = people[n.Profile]; n.Session != "" {
			needs[i].Person = ofSessions[n.Session]
		}
		if p := needs[i].Person; p != nil {
			needs[i].Profile = p.GetProfileId()
		}
	}
}

func needKinds() []string {
	return []string{"refusal", "ticket", "session", "message", "undelivered", "letter", "job", "text", "outreach", "subscription"}
}

// allNeeds asks for every kind at once, or for one. more are the kinds that have more than is shown.
func (c *Console) allNeeds(ctx context.Context, kind string) (found []need, more []string, err error) {
	ask := map[string]func(ctx context.Context, most int32) (needs []need, next string, err error){
		"refusal": c.refusals, "ticket": c.waitingTickets, "session": c.parkedSessions, "message": c.messagesInDoubt,
		"undelivered": c.undeliveredTexts,
		"letter":      c.deadLetters, "job": c.failedJobs, "text": c.failedTexts,
		"outreach": c.failedOutreach, "subscription": c.pausedSubscriptions,
	}
	kinds := needKinds()
	lists, nexts := make([][]need, len(kinds)), make([]string, len(kinds))
	group, ctx := errgroup.WithContext(ctx)
	for i, k := range kinds {
		if kind == "" || kind == k {
			group.Go(func() (err error) { lists[i], nexts[i], err = ask[k](ctx, mostNeeds(kind)); return err })
		}
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	found = slices.Concat(lists...)
	slices.SortStableFunc(found, func(a, b need) int {
		if loud := a.loud(); loud != b.loud() {
			return map[bool]int{true: -1, false: 1}[loud]
		}
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID))
	})
	for i, next := range nexts {
		if next != "" {
			more = append(more, kinds[i])
		}
	}
	return found, more, nil
}

// loud reports whether a need stands before the others: a refusal keeps texts of many people back, and words of distress may be a matter
// of life.
func (n need) loud() bool { return n.Kind == "refusal" || n.Ticket.GetReason() == "distress" }

// refusals are the codes with which Twilio or the carriers refuse texts until a person has acted. They are gone once texts pass again.
func (c *Console) refusals(ctx context.Context, _ int32) (needs []need, next string, err error) {
	out, err := c.services.Messaging.GetMessagingOverview(ctx, &messagingv1.GetMessagingOverviewRequest{})
	return refusalsIn(out), "", err
}

func refusalsIn(out *messagingv1.GetMessagingOverviewResponse) (needs []need) {
	for _, r := range out.GetRefusals() {
		needs = append(needs, need{
			Kind: "refusal", ID: strconv.Itoa(int(r.GetCode())), At: r.GetSince().AsTime(), Texts: r.GetMessages(),
			Why:   fmt.Sprintf("Twilio %d: %s. → %s", r.GetCode(), r.GetMeaning(), r.GetRemedy()),
			Gates: root + "/why/messages/" + r.GetNewestMessageId(),
		})
	}
	return needs
}

func (c *Console) parkedSessions(ctx context.Context, most int32) (needs []need, next string, err error) {
	out, err := c.services.Onboarding.ListSessions(ctx, &onboardingv1.ListSessionsRequest{Stuck: true, PageSize: most})
	if err != nil {
		return nil, "", err
	}
	inInbox, err := c.inInbox(ctx, out.GetSessions())
	for _, s := range out.GetSessions() {
		if inInbox(s) {
			continue
		}
		needs = append(needs, need{
			Kind: "session", ID: s.GetSessionId(), At: s.GetUpdatedAt().AsTime(), Profile: s.GetProfileId(), Why: s.GetReason(),
			Open: messageIn(s.GetReason()), Gates: root + "/why/sessions/" + s.GetSessionId(),
			Deeds: []deed{{Verb: "resume-session", ID: s.GetSessionId()}, {Verb: "reset-session", ID: s.GetSessionId()}},
		})
	}
	return needs, out.GetNextPageToken(), err
}

// inInbox returns which of these sessions the inbox has: those that wait for their ticket, and those of a hand_over with an open one.
func (c *Console) inInbox(ctx context.Context, sessions []*onboardingv1.Session) (func(*onboardingv1.Session) bool, error) {
	if !slices.ContainsFunc(sessions, handedOver) {
		return hasTicket, nil
	}
	out, err := c.tickets(ctx, &onboardingv1.ListTicketsRequest{PageSize: mostAssigned})
	return func(s *onboardingv1.Session) bool {
		return hasTicket(s) || handedOver(s) && (out.GetNextPageToken() != "" || // there are so many that the inbox comes first
			slices.ContainsFunc(out.GetTickets(), func(t *onboardingv1.Ticket) bool { return t.GetSessionId() == s.GetSessionId() }))
	}, err
}

// messageNamed is a message in the reason of a parked session, which says what to do to it: in doubt, or refused for good.
var messageNamed = regexp.MustCompile(`message(?:s/| )([0-9a-f]{8}-[0-9a-f-]{27})\b`)

// messageIn returns the page on which the message of a reason is resolved; empty when it names none.
func messageIn(reason string) string {
	if found := messageNamed.FindStringSubmatch(reason); found != nil {
		return root + "/needs/messages/" + found[1]
	}
	return ""
}

func (c *Console) messagesInDoubt(ctx context.Context, most int32) (needs []need, next string, err error) {
	out, err := c.services.Messaging.ListMessages(ctx, &messagingv1.ListMessagesRequest{Status: "parked", PageSize: most})
	for _, m := range out.GetMessages() {
		needs = append(needs, need{
			Kind: "message", ID: m.GetMessageId(), At: m.GetCreatedAt().AsTime(), Profile: m.GetProfileId(), Why: m.GetBody(),
			Open: root + "/needs/messages/" + m.GetMessageId(),
		})
	}
	return needs, out.GetNextPageToken(), err
}

func (c *Console) deadLetters(ctx context.Context, most int32) (needs []need, next string, err error) {
	out, err := c.services.Onboarding.ListDeadLetters(ctx, &onboardingv1.ListDeadLettersRequest{Open: true, PageSize: most})
	for _, l := range out.GetDeadLetters() {
		n := need{
			Kind: "letter", ID: l.GetDeadLetterId(), At: l.GetCreatedAt().AsTime(), Why: answered(l), Session: l.GetSessionId(),
			Deeds: []deed{{Verb: "replay-letter", ID: l.GetDeadLetterId()}},
		}
		if n.Open = messageIn(n.Why); l.GetSessionId() != "" {
			n.Gates = root + "/why/sessions/" + l.GetSessionId()
		}
		needs = append(needs, n)
	}
	return needs, out.GetNextPageToken(), err
}

// answered returns the answer to the last attempt of an alarm: the message of our error, or the body as it was.
func answered(l *onboardingv1.DeadLetter) string {
	var ours struct {
		Message string `json:"message"`
	}
	if json.Unmarshal([]byte(l.GetResponse()), &ours) != nil || ours.Message == "" {
		ours.Message = l.GetResponse()
	}
	return strings.TrimSpace(strconv.Itoa(int(l.GetStatus())) + " " + ours.Message)
}

func (c *Console) failedJobs(ctx context.Context, most int32) (needs []need, next string, err error) {
	out, err := c.services.Jobs.ListWebhookJobs(ctx, &onboardingv1.ListWebhookJobsRequest{Status: "failed", PageSize: most})
	for _, j := range out.GetJobs() {
		needs = append(needs, need{
			Kind: "job", ID: j.GetJobId(), At: j.GetUpdatedAt().AsTime(), Why: j.GetEventType() + ": " + j.GetErrorMessage(),
			Open:  root + "/queues/jobs/" + j.GetJobId(),
			Phone: phoneIn(j.GetSubject()),
			Deeds: []deed{{Verb: "retry-job", ID: j.GetJobId()}, {Verb: "cancel-job", ID: j.GetJobId()}},
		})
	}
	return needs, out.GetNextPageToken(), err
}

// phoneIn is the phone that is the subject of a job; empty for another subject.
func phoneIn(subject string) string {
	if strings.HasPrefix(subject, "+") && phoneLike.MatchString(subject) {
		return subject
	}
	return ""
}

func (c *Console) failedTexts(ctx context.Context, most int32) (needs []need, next string, err error) {
	out, err := c.services.Outbound.ListQueuedTexts(ctx, &messagingv1.ListQueuedTextsRequest{Status: "failed", PageSize: most})
	for _, t := range out.GetTexts() {
		needs = append(needs, need{
			Kind: "text", ID: t.GetTextId(), At: t.GetEndedAt().AsTime(), Profile: t.GetProfileId(), Why: cmp.Or(t.GetExplanation(), t.GetFailure()),
		})
	}
	return needs, out.GetNextPageToken(), err
}

func (c *Console) failedOutreach(ctx context.Context, most int32) (needs []need, next string, err error) {
	out, err := c.services.Engagement.ListOutreach(ctx, &onboardingv1.ListOutreachRequest{Status: "failed", PageSize: most})
	for _, o := range out.GetOutreach() {
		needs = append(needs, need{
			Kind: "outreach", ID: o.GetOutreachId(), At: o.GetCreatedAt().AsTime(), Profile: o.GetProfileId(),
			Why:   o.GetType() + ": " + o.GetError(),
			Deeds: []deed{{Verb: "retry-outreach", ID: o.GetOutreachId()}, {Verb: "cancel-outreach", ID: o.GetOutreachId()}},
		})
	}
	return needs, out.GetNextPageToken(), err
}

func (c *Console) pausedSubscriptions(ctx context.Context, _ int32) (needs []need, next string, err error) {
	out, err := c.services.Events.ListEventSubscriptions(ctx, &onboardingv1.ListEventSubscriptionsRequest{})
	for _, s := range out.GetSubscriptions() {
		if s.GetStatus() == "paused" {
			needs = append(needs, need{
				Kind: "subscription", ID: s.GetSubscriptionId(), At: s.GetUpdatedAt().AsTime(), Why: s.GetUrl() + ": " + s.GetPausedReason(),
				Deeds: []deed{{Verb: "resume-subscription", ID: s.GetSubscriptionId()}},
			})
		}
	}
	return needs, "", err
}
