package main

import (
	"context"
	"embed"
	"io/fs"
	"net/http"
	"slices"
	"time"

	"paceline.internal/deploy/operator"
	"paceline.internal/platform/reading/languages"
	"paceline.internal/services/onboarding/session"
	"paceline.internal/services/onboarding/words"
)

// whatIsShown says in one sentence what the story is about.
const whatIsShown = "A person joins an imaginary service that keeps track of what they spend: onboarding welcomes them, an interview " +
	"asks three questions, and engagement keeps in touch."

// storyFiles holds the interview of the story.
//
//go:embed story/interview/*.yaml
var storyFiles embed.FS

// publishStory publishes the interview, which then follows onboarding, unless there is one.
func publishStory(ctx context.Context, api *operator.Client) error {
	var published struct {
		Flows []flowVersion `json:"flows"`
	}
	if err := callFlows(ctx, api, http.MethodGet, "/v1/flows", nil, &published); err != nil {
		return err
	}
	if slices.ContainsFunc(published.Flows, func(v flowVersion) bool { return v.Flow == session.Interview }) {
		return nil
	}
	folder, err := fs.Sub(storyFiles, "story/interview")
	if err != nil {
		return err
	}
	files, err := flowFiles(folder)
	if err != nil {
		return err
	}
	_, err = pushFlow(ctx, api, files)
	return err
}

// question is a question of the story by its state token, and what the person answers.
type question struct{ state, answer string }

// questions lists the questions of the story in their order, with the answers of a person who writes in a language.
func questions(locale string) []question {
	say := words.All().Of(locale)
	return []question{
		{"onboarding:awaiting_opening_response", say.Text("example-opening")},
		{"onboarding:awaiting_explanation_response", say.Text("example-explanation")},
		{"onboarding:awaiting_interview_start", say.Text("example-interview")},
		{"interview:activity_01", "3"},
		{"interview:household", "2"},
		{"interview:saving_for", say.Text("example-saving")},
	}
}

// storyPerson is the person of the story.
type storyPerson struct {
	name, phone, timeZone string
	story                 []storyEvent
}

// storyEvent is one thing that the person does: they write, or do something in the host application.
type storyEvent struct {
	day              int // since the first
	clock            string
	text             string
	action, category string
}

func (p storyPerson) zone() *time.Location {
	zone, err := time.LoadLocation(p.timeZone)
	if err != nil {
		panic(err) // it is an example of words, and the zones are compiled in
	}
	return zone
}

// at returns the time of the event, by the person's clock.
func (e storyEvent) at(zone *time.Location) time.Time {
	return wall(zone, e.day, e.clock)
}

// wall is a time of day, with seconds or without, so many days after the first.
func wall(zone *time.Location, day int, clock string) time.Time {
	of, err := time.Parse(time.TimeOnly[:len(clock)], clock)
	if err != nil {
		panic(err) // it is one of a story's
	}
	first := leapsBegin.In(zone)
	return time.Date(first.Year(), first.Month(), first.Day()+day, of.Hour(), of.Minute(), of.Second(), 0, zone)
}

// personOf returns the person who writes in a language.
func personOf(locale string) storyPerson {
	say := words.All().Of(locale)
	return storyPerson{name: "Ana", phone: "+12025550143", timeZone: say.Text("example-zone"), story: story(say, questions(locale))}
}

// story is a person who begins well, is silent for two weeks, says that they are busy, lets the reminder pass, and returns.
func story(say languages.Language, asks []question) []storyEvent {
	category := say.Text("example-category")
	var events []storyEvent
	for i, clock := range []string{"10:20", "10:22", "10:30", "10:31", "10:32", "10:33"} {
		events = append(events, storyEvent{day: 0, clock: clock, text: asks[i].answer})
	}
	return append(events, []storyEvent{
		{day: 0, clock: "12:40", action: "add_expense", category: category},
		{day: 1, clock: "09:15", action: "edit_category", category: category},
		{day: 1, clock: "19:05", action: "add_expense", category: category},
		{day: 2, clock: "08:50", action: "delete_expense", category: category},
		{day: 2, clock: "18:30", action: "add_category", category: category},
		{day: 3, clock: "13:10", action: "add_expense", category: category},
		{day: 4, clock: "20:15", text: say.Text("example-no-tips")},
		{day: 19, clock: "19:40", text: say.Text("example-busy")},
		{day: 37, clock: "12:25", text: say.Text("example-back")},
		{day: 37, clock: "12:26", action: "add_expense", category: category},
	}...)
}
