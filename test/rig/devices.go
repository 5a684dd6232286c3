package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"paceline.internal/deploy/device"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/test/chaos"
)

// fleetCommand is many stream devices in one process, which work as the goals of chaos say and write down what happens to them.
type fleetCommand struct {
	URL     string `name:"url" required:"" help:"The gateway."`
	Devices string `required:"" type:"existingfile" help:"A line of JSON for each device: device_id and token."`
	State   string `required:"" type:"existingdir" help:"The folder where the devices remember their runs."`
}

// Run serves until it is stopped.
func (c *fleetCommand) Run(ctx context.Context, t terminal) error {
	gateway, err := url.Parse(c.URL)
	if err != nil {
		return fmt.Errorf("--url: %w", err)
	}
	file, err := os.Open(c.Devices)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	diary := &fleetDiary{out: t.out}
	var all sync.WaitGroup
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var of struct {
			DeviceID string `json:"device_id"`
			Token    string `json:"token"`
		}
		if err := json.Unmarshal(lines.Bytes(), &of); err != nil {
			return fmt.Errorf("--devices: %w", err)
		}
		book, err := device.OpenBook(filepath.Join(c.State, of.DeviceID+".json"))
		if err != nil {
			return err
		}
		note := func(what string, o *onboardingv1.DeviceOffer, ok bool) {
			diary.note(chaos.DeviceEvent{Device: of.DeviceID, What: what, Run: o.GetRunId(), Goal: o.GetGoalId(), OK: ok})
		}
		all.Go(func() {
			if err := device.Serve(ctx, device.Config{
				Gateway: gateway, ID: of.DeviceID, Token: of.Token, Book: book, Out: io.Discard,
				Saw: func(what string, o *onboardingv1.DeviceOffer) { note(what, o, false) },
				Execute: func(ctx context.Context, o *onboardingv1.DeviceOffer) (bool, string) {
					note(chaos.DeviceBegins, o, false)
					ok, detail := chaos.Work(ctx, o.GetGoal())
					note(chaos.DeviceEnded, o, ok)
					return ok, detail
				},
			}); err != nil {
				note(chaos.DeviceGaveUp, nil, false)
				fmt.Fprintln(os.Stderr, "rig: device", of.DeviceID, err)
			}
			_ = book.Close() // each change was synced
		})
	}
	all.Wait()
	return diary.problem()
}

// fleetDiary writes the events of devices, a line of JSON each, at once: it outlives a SIGKILL of the process.
type fleetDiary struct {
	mu  sync.Mutex
	out io.Writer
	err error
}

func (d *fleetDiary) note(e chaos.DeviceEvent) {
	e.At = time.Now()
	line, err := json.Marshal(e)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		_, err = d.out.Write(append(line, '\n'))
	}
	if d.err == nil {
		d.err = err
	}
}

func (d *fleetDiary) problem() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}
