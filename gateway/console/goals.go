package console

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/gateway/console/signin"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// goalCard is a goal as the list shows it.
type goalCard struct {
	*onboardingv1.Goal

	At       time.Time // its due time, or the time of its status
	Retrying bool      // its time has come, and its device has been offline
	Waiting  bool      // its device runs another one
	Late     bool      // its time has come and nothing is known of it yet
	Undoable bool
}

// goalsPage is the data of pages/goals.html.
type goalsPage struct {
	Goals           []goalCard
	Status, Profile string
	Statuses        []string
	Next            string // the address of the next page; empty on the last
	Problem         notice // why the filter by person finds nothing; its Key and Text are empty when it does
}

// goalStatuses are the filters, in the order of a goal's life.
func goalStatuses() []string {
	return []string{"scheduled", "running", "completed", "failed", "cancelled"}
}

const goalsShown = 50

// goals draws the list: of the organisation, or of the person who signed in.
func (c *Console) goals(r *http.Request) (page, error) {
	asked := strings.TrimSpace(r.Form.Get("profile"))
	id, problem, err := c.whose(r.Context(), asked)
	if err != nil {
		return page{}, err
	}
	in := &onboardingv1.ListGoalsRequest{ProfileId: id, Status: r.Form.Get("status"), PageSize: goalsShown, PageToken: r.Form.Get("page")}
	out := &onboardingv1.ListGoalsResponse{}
	if problem.Key == "" && problem.Text == "" {
		if out, err = c.services.Goals.ListGoals(r.Context(), in); err != nil {
			return page{}, err
		}
	}
	undone := map[string]bool{}
	for _, g := range out.GetGoals() {
		undone[g.GetUndoOf()] = true
	}
	now := c.now()
	var cards []goalCard
	for _, g := range out.GetGoals() {
		cards = append(cards, card(g, now, undone[g.GetGoalId()]))
	}
	shown := goalsPage{
		Goals: cards, Status: in.GetStatus(), Profile: asked, Statuses: goalStatuses(), Next: nextPage(r, out.GetNextPageToken()),
		Problem: problem,
	}
	topic := topicAll
	if who := signin.SessionFrom(r.Context()); who.Role == rpc.RoleUser {
		topic = who.Subject
	}
	return page{Title: "goals.title", Name: "goals", Topic: topic, Body: shown}, nil
}

// phoneLike is a search that can only be for a number. A name may have digits too.
var phoneLike = regexp.MustCompile(`^[-+0-9 ()./]*[0-9][-+0-9 ()./]*$`)

// whose returns the id of the person that a filter names by id or phone; problem says why it names none.
func (c *Console) whose(ctx context.Context, text string) (id string, problem notice, err error) {
	switch {
	case text == "", uuid.Validate(text) == nil:
		return text, notice{}, nil
	}
	in := &onboardingv1.ListProfilesRequest{Phone: text, PageSize: 2}
	if !phoneLike.MatchString(text) {
		in.Phone, in.Name = "", text
	}
	found, err := c.services.Onboarding.ListProfiles(ctx, in)
	switch {
	case status.Code(err) == codes.InvalidArgument:
		return "", notice{Text: saidBy(err)}, nil
	case err != nil:
		return "", notice{}, err
	case len(found.GetProfiles()) > 1 || in.GetName() != "" && found.GetNextPageToken() != "":
		return "", said("goals.profile.several"), nil
	case len(found.GetProfiles()) == 0:
		return "", said("people.none"), nil
	}
	return found.GetProfiles()[0].GetProfileId(), notice{}, nil
}

func card(g *onboardingv1.Goal, now time.Time, undone bool) goalCard {
	c := goalCard{Goal: g, At: g.GetCreatedAt().AsTime()}
	due := g.GetScheduledFor().AsTime()
	switch g.GetStatus() {
	case "scheduled":
		c.At = due
		c.Waiting = g.GetWaitingSince() != nil
		c.Retrying = g.GetOfflineTries() > 0 && !c.Waiting
		c.Late = due.Before(now) && !c.Waiting && !c.Retrying
	case "running":
		c.At = g.GetStartedAt().AsTime()
	default:
		c.At = g.GetEndedAt().AsTime()
	}
	c.Undoable = g.GetStatus() == "cancelled" && !undone && due.After(now)
	return c
}

// cancelGoal is the X on a card.
func (c *Console) cancelGoal(r *http.Request) (notice, error) {
	_, err := c.services.Goals.CancelGoal(r.Context(), &onboardingv1.CancelGoalRequest{GoalId: r.PathValue("id")})
	return said("goals.cancelled"), err
}

// undoGoal makes a new goal out of a cancelled one. The key makes a second press the same goal.
func (c *Console) undoGoal(r *http.Request) (notice, error) {
	id := r.PathValue("id")
	_, err := c.services.Goals.CreateGoal(r.Context(), &onboardingv1.CreateGoalRequest{
		ProfileId: r.Form.Get("profile"), UndoOf: id, IdempotencyKey: "console:undo:" + id,
	})
	return said("goals.undone"), err
}

// rescheduleGoal takes words, such as "tomorrow at nine".
func (c *Console) rescheduleGoal(r *http.Request) (notice, error) {
	_, err := c.services.Goals.RescheduleGoal(r.Context(), &onboardingv1.RescheduleGoalRequest{
		GoalId: r.PathValue("id"), When: r.Form.Get("when"),
	})
	return said("goals.rescheduled"), err
}
