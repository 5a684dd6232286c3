package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/reading"
	"paceline.internal/platform/reading/human"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/session"
)

// trial is one conversation with a flow at the keyboard.
type trial struct {
	flow   flow.Flow
	person flow.Person
	state  flow.State
	sent   []string  // the last texts, newest first
	now    time.Time // leaps over every delay
	out    io.Writer
	lines  *bufio.Scanner
}

// play performs the decisions of the flow until it ends or the input does.
func (t *trial) play() error {
	fmt.Fprintln(t.out, "You are the person. An empty line is silence; Ctrl-D ends.")
	var next flow.Event = flow.Began{}
	for next != nil {
		decision := t.flow.Next(t.state, t.person, next)
		t.state = decision.State
		for name, value := range decision.Save {
			t.person.Fields[name] = value
			stored, err := json.Marshal(value)
			if err != nil {
				return err
			}
			fmt.Fprintf(t.out, "        %s = %s\n", name, stored)
		}
		var err error
		if next, err = t.perform(decision.Do); err != nil {
			return err
		}
	}
	return nil
}

// perform shows what a decision does, and returns what happens then; nil at the end.
func (t *trial) perform(action flow.Action) (flow.Event, error) {
	switch do := action.(type) {
	case flow.SendText:
		t.now = t.now.Add(do.After)
		text, err := t.flow.Render(do.Text, t.person.Locale, t.person.FirstName, t.person.Fields)
		if err != nil {
			return nil, err
		}
		t.sent = append([]string{text}, t.sent[:min(len(t.sent), textsRead-1)]...)
		t.say(fmt.Sprintf("%s  (%s, segments: %d)", text, do.Text, letters.Segments(text)))
		return flow.Taken{}, nil
	case flow.Await:
		return t.await(do)
	case flow.CallHost:
		const answers = `its answer, such as {"field": 4, "branch": ""}, or nothing for a failure`
		line, more := t.ask(fmt.Sprintf("        POST %s; %s:", do.URL, answers))
		var answer struct {
			Field  any    `json:"field"`
			Branch string `json:"branch"`
		}
		ok := more && line != ""
		if ok {
			if err := json.Unmarshal([]byte(line), &answer); err != nil {
				return nil, fmt.Errorf("the host application's answer: %w", err)
			}
			if err := t.flow.WrongField(t.flow.Steps[do.Step], answer.Field); err != nil {
				t.say("(" + err.Error() + ")")
			}
			if problem := t.flow.WrongBranch(do.Step, answer.Branch); problem != "" {
				t.say("(" + problem + ")")
			}
		}
		return flow.Called{OK: ok, Branch: answer.Branch, Field: answer.Field}, nil
	case flow.OpenTicket:
		t.say("(handed over to a person: " + do.Reason + ")")
		line, more := t.ask("        close the ticket: Enter goes on, restart asks the last question again, end ends:")
		if !more {
			return nil, nil //nolint:nilnil // no event is the end
		}
		return flow.Closed{How: cmp.Or(flow.Resumption(line), flow.Resume)}, nil
	case flow.StartFlow:
		t.say("(starts the flow " + do.Flow + ")")
	case flow.Finished:
		t.say("(the end: " + do.Outcome + ")")
	case flow.Defer, flow.Ignore:
	}
	return nil, nil //nolint:nilnil // no event is the end
}

// await reads what the person writes.
func (t *trial) await(do flow.Await) (flow.Event, error) {
	for {
		line, more := t.ask(t.stamp() + "  you:")
		intent := session.IntentAt(&t.flow, session.Record{Flow: t.flow.Name, At: t.state}, line)
		elsewhere := t.takenElsewhere(line)
		switch {
		case !more:
			return nil, nil //nolint:nilnil // no event is the end
		case elsewhere != "":
			t.say("(" + elsewhere + ")")
			continue
		case line != "" && intent == session.Remark:
			t.say("(a reaction, a quote or an automatic reply answers nothing)")
			continue
		case line != "":
			zone, err := time.LoadLocation(t.person.TimeZone)
			if err != nil {
				return nil, err
			}
			return flow.Said{Text: line, Refused: intent == session.Pause, Locale: t.person.Locale, Zone: zone, At: t.now}, nil
		case do.Silence > 0:
			t.now = t.now.Add(do.Silence)
			return flow.Silent{}, nil
		}
		fmt.Fprintln(t.out, "        (the flow waits for an answer as long as it takes)")
	}
}

// textsRead bounds the last texts by which messaging reads an answer.
const textsRead = 3

// takenElsewhere names the taker of a text before the flow. It is empty where the flow gets the text.
func (t *trial) takenElsewhere(line string) string {
	kind, _ := reading.Theirs(line)
	read := consent.Asked{Sent: t.sent}.Read(line, "", consent.OptedIn)
	switch {
	case line == "":
	case read.Effect == consent.Ambiguous && !read.Preferences.Any():
		return "this may be an opt-out: nothing more is sent until they answer our question with YES, or somebody of yours has judged it; " +
			"your next line is read as if they had answered YES"
	case read.Effect != consent.None && read.Effect != consent.Ambiguous, flow.IsConsent(line):
		return "STOP, START and HELP are answered before any flow; after a STOP nothing more is sent"
	case kind == reading.Own && !t.flow.IsChoice(line) && human.Asked(line, t.flow.PersonWords()):
		return "this asks for a person: a ticket opens, and the flow waits until it is closed"
	}
	return ""
}

func (t *trial) say(text string) { fmt.Fprintf(t.out, "%s  %s\n", t.stamp(), text) }

// stamp is the time on the clock that leaps.
func (t *trial) stamp() string { return t.now.Format("Mon 15:04:05") }

// ask reads a line; more is false at the end of the input.
func (t *trial) ask(prompt string) (line string, more bool) {
	fmt.Fprint(t.out, prompt+" ")
	if !t.lines.Scan() {
		fmt.Fprintln(t.out)
		return "", false
	}
	return strings.TrimSpace(t.lines.Text()), true
}
