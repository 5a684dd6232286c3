package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	"paceline.internal/services/onboarding/flow"
)

// flowCommand works with conversations that are written in files.
type flowCommand struct {
	Check flowCheckCommand `cmd:"" help:"Report everything that is wrong with a flow, by file and line."`
	Draw  flowDrawCommand  `cmd:"" help:"Print a flow as a picture, in SVG."`
	Try   flowTryCommand   `cmd:"" help:"Talk to a flow in the terminal. Nothing is sent, and time leaps."`

	Schema flowSchemaCommand `cmd:"" help:"Print the JSON Schema of flow.yaml, for editors."`
	Import flowImportCommand `cmd:"" help:"Turn a flow definition of Twilio Studio into files, and list what is not carried over."`

	Push     flowPushCommand     `cmd:"" help:"Publish a flow to a deployment."`
	List     flowListCommand     `cmd:"" help:"List the published flows of a deployment, or the versions of one."`
	Rollback flowRollbackCommand `cmd:"" help:"Make an older version of a flow current again."`
	Move     flowMoveCommand     `cmd:"" help:"Move the sessions of a version that wait for a reply to another version."`

	Start  flowStartCommand  `cmd:"" help:"Start a published flow for many people."`
	Runs   flowRunsCommand   `cmd:"" help:"List the runs of flows for many people, or show one."`
	Pause  flowPauseCommand  `cmd:"" help:"Have a run start nobody until it is resumed."`
	Resume flowResumeCommand `cmd:"" help:"Have a run go on."`
	Cancel flowCancelCommand `cmd:"" help:"End a run; who was started goes on."`
}

// flowFolder is the argument of every command of flows.
type flowFolder struct {
	Dir string `arg:"" type:"existingdir" help:"The folder with flow.yaml and the texts."`
}

func (f flowFolder) read() (flow.Flow, error) { return flow.Check(os.DirFS(f.Dir)) }

type flowCheckCommand struct{ flowFolder }

// Run prints what is wrong, or a summary.
func (c flowCheckCommand) Run(t terminal) error {
	f, err := c.read()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.out, "%s is in order: %d steps, %s, version %s\n", f.Name, len(f.Order), strings.Join(f.Languages, ", "), f.Version)
	return err
}

type flowDrawCommand struct{ flowFolder }

// Run prints the picture of a flow that is in order.
func (c flowDrawCommand) Run(t terminal) error {
	_, files, err := readFlow(c.Dir)
	if err != nil {
		return err
	}
	return draw(t.out, files)
}

type flowSchemaCommand struct{}

// Run prints the schema that this release reads flows by.
func (flowSchemaCommand) Run(t terminal) error {
	_, err := t.out.Write(flow.Schema())
	return err
}

type flowTryCommand struct {
	flowFolder

	Name     string            `default:"Ana" help:"The person's first name."`
	Language string            `default:"en" help:"The person's language."`
	Field    map[string]string `help:"A field that is known at the start, such as amount=$20. May be given several times."`
}

// Run plays the flow with the person at the keyboard. An empty line is silence; for a call to the host application a line of JSON is
// asked for, or nothing for a failure.
func (c flowTryCommand) Run(t terminal) error {
	f, err := c.read()
	if err != nil {
		return err
	}
	trial := trial{
		flow: f, out: t.out, lines: bufio.NewScanner(t.in), now: time.Now().Truncate(time.Second),
		person: flow.Person{FirstName: c.Name, Locale: c.Language, TimeZone: "UTC", Fields: map[string]flow.Value{}},
	}
	for name, text := range c.Field {
		value, ok := f.Fields[name].Parse(text)
		if !ok {
			return fmt.Errorf("--field %s=%s: the flow has no such field, or it is of another type or longer than its limit", name, text)
		}
		trial.person.Fields[name] = value
	}
	return trial.play()
}
