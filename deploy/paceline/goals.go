package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"paceline.internal/deploy/device"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/words"
)

// goalWords are the person's requests, at ten o'clock and later.
type goalWords struct{ door, washing, plants, unclear, call string }

func goalWordsOf(locale string) goalWords {
	say := func(key string) string { return words.All().Of(locale).Text("example-" + key) }
	return goalWords{door: say("door"), washing: say("washing"), plants: say("plants"), unclear: say("unclear"), call: say("call")}
}

// asked is a goal as the API has it.
type asked struct {
	ID           string    `json:"goal_id"`
	Kind         string    `json:"device_kind"`
	Goal         string    `json:"goal"`
	Said         string    `json:"said"`
	Status       string    `json:"status"`
	Reason       string    `json:"reason"`
	ScheduledFor time.Time `json:"scheduled_for"`
	OfflineTries int       `json:"offline_tries"`
}

// ran is one run as the device saw it.
type ran struct {
	GoalID string    `json:"goal_id"`
	Goal   string    `json:"goal"`
	At     time.Time `json:"at"`
}

// errands is a person who asks for things to happen later, and the device at their home.
type errands struct {
	*leaps

	words    goalWords
	deviceID string
	device   device.Config
	said     chan string    // goals that the device says
	leave    func() error   // ends the device's connection; nil while there is none
	printed  map[string]int // lines of a goal's timeline

	mu   sync.Mutex
	runs []ran
}

// playGoals plays goals, prints them as a diary, and judges them by what the device and the phone saw.
func (d *demoCommand) playGoals(ctx context.Context, t terminal, s *screen) error {
	if d.Faults {
		return errors.New("--goals goes without --faults")
	}
	s.heading("Paceline: what a person asks to happen later, on a clock that leaps ...")
	return d.leap(ctx, t, s, func(ctx context.Context, l *leaps) (played report, err error) {
		state, err := os.MkdirTemp("", "paceline-demo-device-*")
		if err != nil {
			return report{}, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(state)) }()
		book, err := device.OpenBook(filepath.Join(state, "runs.json"))
		if err != nil {
			return report{}, err
		}
		defer func() { _ = book.Close() }() // each change was synced
		e := &errands{leaps: l, words: goalWordsOf(d.Locale), said: make(chan string, 1), printed: map[string]int{}}
		e.news, e.screen.layout = e.tell, time.TimeOnly
		if err := e.register(ctx, book); err != nil {
			return report{}, err
		}
		defer func() {
			if e.leave != nil {
				err = errors.Join(err, e.leave())
			}
		}()
		return e.play(ctx)
	}, "")
}

// register makes the device, which is the one of `paceline device` but for what it does with a goal.
func (e *errands) register(ctx context.Context, book *device.Book) error {
	var registered struct {
		Device struct {
			ID string `json:"device_id"`
		} `json:"device"`
		Token string `json:"token"`
	}
	body := map[string]string{"profile_id": e.profileID, "name": "home"}
	if err := e.api.Call(ctx, http.MethodPost, "/v1/devices", body, &registered); err != nil {
		return err
	}
	at, err := url.Parse(e.services.URL())
	if err != nil {
		return err
	}
	e.deviceID = registered.Device.ID
	e.device = device.Config{
		Gateway: at, ID: e.deviceID, Token: registered.Token, Execute: e.run, Book: book, Goals: e.said, Out: io.Discard,
	}
	return nil
}

// run notes a goal; the device does nothing else with it.
func (e *errands) run(_ context.Context, o *onboardingv1.DeviceOffer) (ok bool, detail string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runs = append(e.runs, ran{GoalID: o.GetGoalId(), Goal: o.GetGoal(), At: e.clock.Now()})
	return true, "done"
}

func (e *errands) play(ctx context.Context) (report, error) {
	for _, moment := range []struct {
		clock string
		do    func(ctx context.Context) error
	}{
		{"10:15", e.connect},
		{"10:20", e.say},
		{"10:25", func(ctx context.Context) error { return e.ask(ctx, e.words.washing) }},
		{"10:28", func(ctx context.Context) error { return e.text(ctx, e.words.unclear) }},
		{"10:29", func(ctx context.Context) error { return e.text(ctx, e.words.call) }},
		{"10:30", e.count},
		{"10:39", e.count},
		{"10:39:50", e.count},
		{"10:50", e.cancel},
		{"13:30", func(ctx context.Context) error { return e.ask(ctx, e.words.plants) }},
		{"13:55", e.disconnect},
		{"14:00:20", e.connect},
		{"15:05", func(context.Context) error { return nil }},
	} {
		if err := e.pass(ctx, wall(e.person.zone(), 0, moment.clock)); err != nil {
			return report{}, fmt.Errorf("until %s: %w", moment.clock, err)
		}
		if err := moment.do(ctx); err != nil {
			return report{}, fmt.Errorf("at %s: %w", moment.clock, err)
		}
	}
	return e.judge(ctx)
}

// note prints what the person does at the device or in the host application.
func (e *errands) note(where, what string) {
	e.screen.text(e.screen.at(e.clock.Now()), "("+where+")", what)
}

// connect has the device connect, and stay so.
func (e *errands) connect(ctx context.Context) error {
	e.note("home", "connects")
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- device.Serve(serving, e.device) }()
	e.leave = func() error {
		stop()
		return <-ended
	}
	return e.awaitPresence(ctx, true)
}

// disconnect switches the device off.
func (e *errands) disconnect(ctx context.Context) error {
	e.note("home", "loses its connection")
	err := e.leave()
	e.leave = nil
	return errors.Join(err, e.awaitPresence(ctx, false))
}

func (e *errands) awaitPresence(ctx context.Context, online bool) error {
	return e.await(ctx, "the device's presence", func(ctx context.Context) (bool, error) {
		var answer struct {
			Devices []struct {
				ID     string `json:"device_id"`
				Online bool   `json:"online"`
			} `json:"devices"`
		}
		err := e.api.Call(ctx, http.MethodGet, "/v1/devices?profile_id="+url.QueryEscape(e.profileID), nil, &answer)
		for _, d := range answer.Devices {
			if d.ID == e.deviceID && d.Online == online {
				return true, err
			}
		}
		return false, err
	})
}

// say has the person speak to the device, which passes it on.
func (e *errands) say(ctx context.Context) error {
	e.note("home", "hears: "+e.words.door)
	e.said <- e.words.door
	return e.await(ctx, "the goal that was said to the device", func(ctx context.Context) (bool, error) {
		g, err := e.find(ctx, e.words.door)
		return g.ID != "", err
	})
}

// ask has the host application create a goal for the device.
func (e *errands) ask(ctx context.Context, words string) error {
	e.note("app", words)
	return e.api.Call(ctx, http.MethodPost, "/v1/goals", map[string]string{
		"profile_id": e.profileID, "device_id": e.deviceID, "goal": words, "idempotency_key": words,
	}, nil)
}

// count prints how long it is until the door opens.
func (e *errands) count(ctx context.Context) error {
	g, err := e.find(ctx, e.words.door)
	if err != nil {
		return err
	}
	now := e.clock.Now()
	e.screen.printf("%s  [%s] %s: in %s\n", e.screen.at(now), g.Status, g.Goal, g.ScheduledFor.Sub(now))
	return nil
}

// cancel has the host application cancel the washing machine.
func (e *errands) cancel(ctx context.Context) error {
	g, err := e.find(ctx, e.words.washing)
	if err != nil {
		return err
	}
	e.note("app", "cancels: "+g.Goal)
	return e.api.Call(ctx, http.MethodDelete, "/v1/goals/"+url.PathEscape(g.ID)+"/schedule", nil, nil)
}

// goals lists the goals of the person, oldest first.
func (e *errands) goals(ctx context.Context) ([]asked, error) {
	var page struct {
		Goals []asked `json:"goals"`
	}
	err := e.api.Call(ctx, http.MethodGet, "/v1/goals?profile_id="+url.QueryEscape(e.profileID), nil, &page)
	slices.Reverse(page.Goals)
	return page.Goals, err
}

// find is the goal that was asked for with these words; the zero value when there is none.
func (e *errands) find(ctx context.Context, said string) (asked, error) {
	all, err := e.goals(ctx)
	return saidIn(all, said), err
}

// tell prints what has happened to the goals since it was asked last.
func (e *errands) tell(ctx context.Context) error {
	all, err := e.goals(ctx)
	if err != nil {
		return err
	}
	var lines []diaryLine
	for _, g := range all {
		var answer struct {
			Timeline []struct {
				At     time.Time `json:"at"`
				To     string    `json:"to_status"`
				Event  string    `json:"event"`
				Detail string    `json:"detail"`
			} `json:"timeline"`
		}
		if err := e.api.Call(ctx, http.MethodGet, "/v1/goals/"+url.PathEscape(g.ID), nil, &answer); err != nil {
			return err
		}
		for _, entry := range answer.Timeline[e.printed[g.ID]:] {
			what := ""
			switch entry.Event {
			case "created":
				due := g.ScheduledFor.In(e.person.zone())
				what = fmt.Sprintf(", for %s, in %s", due.Format(time.TimeOnly), due.Sub(entry.At).Round(time.Second))
			case "offline":
				what = ": its device is offline"
			case "ended":
				if g.OfflineTries > 0 {
					what = fmt.Sprintf(", after %d tries in vain", g.OfflineTries)
				}
			case "started", "offered", "cancelled", "failed":
			default:
				continue
			}
			if g.Kind == "stream" && entry.Event == "ended" {
				lines = append(lines, diaryLine{entry.At, func(at string) { e.screen.text(at, "(home)", "does: "+g.Goal+", "+entry.Detail) }})
			}
			lines = append(lines, diaryLine{entry.At, func(at string) { e.screen.printf("%s  [%s] %s%s\n", at, entry.To, g.Goal, what) }})
		}
		e.printed[g.ID] = len(answer.Timeline)
	}
	e.screen.told(e.heard(e.person.phone), lines)
	return nil
}
