package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/uuid"

	"paceline.internal/deploy/device"
)

// deviceCommand is a stream device that runs a command for each goal.
type deviceCommand struct {
	URL       string `name:"url" help:"The gateway. Default: PUBLIC_BASE_URL, or that of the paceline up on this machine."`
	Device    string `required:"" help:"The device_id that POST /v1/devices answered."`
	TokenFile string `type:"existingfile" help:"The file that holds the device's token; else PACELINE_DEVICE_TOKEN does."`
	Exec      string `required:"" help:"The program to run for each goal."`
	State     string `required:"" help:"The file that remembers runs across restarts, so that none begins twice."`
	Say       string `help:"A goal for this device, such as \"in 5 minutes open the door\"."`
}

// Help returns the text of --help after the first line.
func (c *deviceCommand) Help() string {
	return "The program gets the goal on its standard input, and PACELINE_RUN_ID, PACELINE_GOAL_ID, PACELINE_SCHEDULED_FOR and " +
		"PACELINE_CONFIGURATION in its environment. It is asked to end by SIGTERM, and killed 10 s later. It has succeeded when it exits " +
		"with 0; its last line is what the goal ends with. Each line of the standard input is a goal as of --say. " +
		"docs/goals.md, A device of your own."
}

// Run serves until it is stopped, or cannot serve any more.
func (c *deviceCommand) Run(ctx context.Context, t terminal) error {
	token := t.environ[device.TokenVariable]
	if c.TokenFile != "" {
		content, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return fmt.Errorf("--token-file: %w", err)
		}
		token = strings.TrimSpace(string(content))
	}
	if token == "" || uuid.Validate(c.Device) != nil {
		return fmt.Errorf("give --token-file or %s, and a --device that can be read", device.TokenVariable)
	}
	environ, err := deploymentEnviron(t.environ, "")
	if err != nil {
		return err
	}
	where, err := gatewayAt(c.URL, environ)
	if err != nil {
		return err
	}
	book, err := device.OpenBook(c.State)
	if err != nil {
		return err
	}
	defer func() { _ = book.Close() }() // each change was synced
	goals := make(chan string, 16)
	if c.Say != "" {
		goals <- c.Say
	}
	if t.in != nil {
		go readGoals(ctx, t.in, goals) // it ends with the process: a read of a terminal cannot be interrupted
	}
	return device.Serve(ctx, device.Config{
		Gateway: where, ID: c.Device, Token: token, Execute: device.Program(c.Exec), Book: book, Goals: goals, Out: t.out,
	})
}

// readGoals takes each line for a goal.
func readGoals(ctx context.Context, in io.Reader, goals chan<- string) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" {
			select {
			case goals <- line:
			case <-ctx.Done():
				return
			}
		}
	}
}
