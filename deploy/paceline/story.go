package main

import (
	"time"

	"paceline.internal/platform/reading/languages"
	"paceline.internal/services/onboarding/words"
)

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
	return storyPerson{name: "Ana", phone: "+12025550143", timeZone: say.Text("example-zone"), story: story(say)}
}

// story is a person who begins well, is silent for two weeks, says that they are busy, lets the reminder pass, and returns.
func story(say languages.Language) []storyEvent {
	category := say.Text("example-category")
	return []storyEvent{
		{day: 0, clock: "10:20", text: say.Text("example-opening")},
		{day: 0, clock: "10:22", text: say.Text("example-explanation")},
		{day: 0, clock: "10:30", text: say.Text("example-interview")},
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
	}
}
