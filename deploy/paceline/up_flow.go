package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"time"

	"paceline.internal/deploy/operator"
	"paceline.internal/services/onboarding/flow"
)

// flowPoll sets how often up --flow reads its folder. A poll sees what every editor does when it saves, on every file system.
const flowPoll = 500 * time.Millisecond

// flowWatch publishes the flow of a folder, and again when a file of it is saved.
type flowWatch struct {
	dir  string
	name string // of the flow, which activations name
	out  io.Writer
	api  *operator.Client
	// token is renewed before each publication: up may run for days.
	token func() (string, error)

	handled map[string]string // the files that were published or refused last
	said    string            // the last refusal, which is shown once
}

// readFlow reads a folder, and refuses what is wrong with it.
func readFlow(dir string) (flow.Flow, map[string]string, error) {
	files, err := flowFiles(os.DirFS(dir))
	if err != nil {
		return flow.Flow{}, nil, err
	}
	f, err := flow.Check(os.DirFS(dir))
	return f, files, err
}

// begin publishes the folder as it is.
func (w *flowWatch) begin(ctx context.Context) error {
	_, files, err := readFlow(w.dir)
	if err != nil {
		return err
	}
	w.handled = files
	return w.push(ctx, files)
}

func (w *flowWatch) push(ctx context.Context, files map[string]string) (err error) {
	if w.api.Token, err = w.token(); err != nil {
		return err
	}
	said, err := pushFlow(ctx, w.api, files)
	if err == nil {
		w.say("flow  " + said)
	}
	return err
}

// run reads the folder until the end. Files count as saved once two polls have found them the same: an editor may write them in parts.
func (w *flowWatch) run(ctx context.Context) {
	tick := time.NewTicker(flowPoll)
	defer tick.Stop()
	last := w.handled
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		files, err := flowFiles(os.DirFS(w.dir))
		if err != nil { // it is shown once
			files = map[string]string{"": err.Error()}
		}
		if maps.Equal(files, last) && !maps.Equal(files, w.handled) && w.again(ctx) {
			w.handled = files
		}
		last = files
	}
}

// again publishes the folder, or says why not. It reports whether that is done: what failed for another reason than the files is tried
// again.
func (w *flowWatch) again(ctx context.Context) (done bool) {
	f, files, err := readFlow(w.dir)
	if err == nil && f.Name != w.name {
		err = fmt.Errorf("%s: the flow was called %s and is %s now; stop and start paceline up for that", flow.File, w.name, f.Name)
	}
	var pushed error
	if err == nil {
		pushed = w.push(ctx, files)
		err = pushed
	}
	if err != nil && ctx.Err() == nil {
		if said := err.Error(); said != w.said {
			w.said = said
			w.say("flow  not published, the version before stays:\n      " + strings.ReplaceAll(said, "\n", "\n      "))
		}
	}
	if err == nil {
		w.said = ""
	}
	return err == nil || pushed == nil
}

func (w *flowWatch) say(line string) { _, _ = fmt.Fprintln(w.out, line) } // or the terminal is gone
