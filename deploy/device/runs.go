package device

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	// stopGrace is the time that a command gets between SIGTERM and SIGKILL.
	stopGrace = 10 * time.Second
	// maxRuns bounds the commands at once. The server has one run per device; another may be left of one that it gave up.
	maxRuns = 4
	// maxRemembered bounds the ended runs in the file: the server asks of those that it believes to be open, of which there are few.
	maxRemembered = 1000
	// maxDetail and maxTail bound the bytes that a run may end with and the kept end of a command's output.
	maxDetail, maxTail = 200, 4 << 10
)

// runState holds the facts about a run, in the words of a report.
type runState string

const (
	runNeverSaw runState = "never_saw"
	runStarted  runState = "started"
	runEnded    runState = "ended"
)

// notedRun is one that the device has seen.
type notedRun struct {
	State  runState  `json:"state"`
	OK     bool      `json:"ok,omitempty"`
	Detail string    `json:"detail,omitempty"`
	At     time.Time `json:"at"`
}

// Book is the file of the runs. It is the device's alone: a lock keeps a second process away.
type Book struct {
	mu   sync.Mutex
	path string
	lock *os.File
	runs map[string]notedRun
}

// OpenBook reads the file. A run that had begun and has no end ended with the process that ran it.
func OpenBook(path string) (*Book, error) {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("--state: another process uses %s: %w", path, err), lock.Close())
	}
	b := &Book{path: path, lock: lock, runs: map[string]notedRun{}}
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, &b.runs)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil { // to begin with an empty one would begin runs twice
		return nil, errors.Join(fmt.Errorf("--state: %w", err), lock.Close())
	}
	for id, known := range b.runs {
		if known.State == runStarted {
			known.State, known.OK, known.Detail = runEnded, false, "the device restarted"
			b.runs[id] = known
		}
	}
	if err := b.write(); err != nil {
		return nil, errors.Join(fmt.Errorf("--state: %w", err), lock.Close())
	}
	return b, nil
}

// Close lets another process have the file.
func (b *Book) Close() error { return b.lock.Close() }

// find returns the state of a run.
func (b *Book) find(id string) notedRun {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, ok := b.runs[id]; ok {
		return known
	}
	return notedRun{State: runNeverSaw}
}

// begin notes a run, and reports whether it is new. When it returns the run is on disk, or there is an error and it is not known.
func (b *Book) begin(id string) (fresh bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, seen := b.runs[id]; seen {
		return false, nil
	}
	b.runs[id] = notedRun{State: runStarted, At: time.Now()}
	if err := b.write(); err != nil {
		delete(b.runs, id)
		return false, err
	}
	return true, nil
}

// end notes how a run ended. If that cannot be written the run ends with the process, as any other.
func (b *Book) end(id string, ok bool, detail string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.runs[id]
	known.State, known.OK, known.Detail = runEnded, ok, detail
	b.runs[id] = known
	return b.write()
}

// write puts the runs onto the disk, with the lock: into a new file that takes the place of the old one.
func (b *Book) write() error {
	b.forget()
	content, err := json.Marshal(b.runs)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(b.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(b.path+".new", b.path); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(b.path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// forget drops the oldest ended runs of too many.
func (b *Book) forget() {
	ended := slices.DeleteFunc(slices.Collect(maps.Keys(b.runs)), func(id string) bool { return b.runs[id].State != runEnded })
	if len(ended) <= maxRemembered {
		return
	}
	slices.SortFunc(ended, func(x, y string) int { return b.runs[x].At.Compare(b.runs[y].At) })
	for _, id := range ended[:len(ended)-maxRemembered] {
		delete(b.runs, id)
	}
}

// Execute runs a goal until it ends, or ctx asks it to.
type Execute func(ctx context.Context, o *onboardingv1.DeviceOffer) (ok bool, detail string)

// runs holds the runs that go on.
type runs struct {
	execute Execute
	book    *Book
	changed chan struct{} // has an element when a run has ended

	mu      sync.Mutex
	stops   map[string]context.CancelFunc
	ended   []string // not told yet
	working sync.WaitGroup
}

func newRuns(do Execute, book *Book) *runs {
	return &runs{execute: do, book: book, changed: make(chan struct{}, 1), stops: map[string]context.CancelFunc{}}
}

// note puts a run that is new onto the disk.
func (r *runs) note(id string) (fresh bool, err error) { return r.book.begin(id) }

// begin executes a run that was noted.
func (r *runs) begin(o *onboardingv1.DeviceOffer) {
	ctx, stop := context.WithCancel(context.Background())
	r.mu.Lock()
	full := len(r.stops) >= maxRuns
	r.stops[o.GetRunId()] = stop
	r.mu.Unlock()
	r.working.Go(func() {
		defer stop()
		ok, detail := false, "the device runs as many goals as it can"
		if !full {
			ok, detail = r.execute(ctx, o)
		}
		if err := r.book.end(o.GetRunId(), ok, detail); err != nil {
			fmt.Fprintln(os.Stderr, "paceline: the end of a run cannot be noted:", err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.stops, o.GetRunId())
		r.ended = append(r.ended, o.GetRunId())
		select {
		case r.changed <- struct{}{}:
		default:
		}
	})
}

// Program returns an Execute that runs a command to its end, in a new process group, of which nothing is left afterwards.
func Program(command string) Execute {
	return func(ctx context.Context, o *onboardingv1.DeviceOffer) (ok bool, detail string) {
		return runProgram(ctx, command, o)
	}
}

func runProgram(ctx context.Context, command string, o *onboardingv1.DeviceOffer) (ok bool, detail string) {
	configuration, err := protojson.Marshal(o.GetConfiguration())
	if o.GetConfiguration() == nil || err != nil {
		configuration = []byte("{}")
	}
	output := new(tail)
	cmd := exec.CommandContext(ctx, command)
	cmd.Stdin, cmd.Stdout = strings.NewReader(o.GetGoal()), output
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, TokenVariable+"=") })
	cmd.Env = append(cmd.Env, "PACELINE_RUN_ID="+o.GetRunId(), "PACELINE_GOAL_ID="+o.GetGoalId(),
		"PACELINE_CONFIGURATION="+string(configuration), "PACELINE_SCHEDULED_FOR="+o.GetScheduledFor().AsTime().Format(time.RFC3339))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace // then it is killed; also what holds its output open for so long
	if err := cmd.Start(); err != nil {
		return false, clipDetail("the command cannot be started: " + err.Error())
	}
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left behind; mostly nothing
	switch {
	case ctx.Err() != nil && err != nil:
		return false, "it was stopped"
	case err != nil:
		return false, clipDetail(strings.TrimSpace(output.lastLine() + " (" + err.Error() + ")"))
	}
	return true, clipDetail(output.lastLine())
}

// going returns the runs with a running command.
func (r *runs) going() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.stops))
}

// takeEnded are the runs that have ended since it was asked last.
func (r *runs) takeEnded() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := r.ended
	r.ended = nil
	return ended
}

// stop asks a run to end.
func (r *runs) stop(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if stop, going := r.stops[id]; going {
		stop()
	}
}

// stopAll ends every run, within stopGrace.
func (r *runs) stopAll() {
	for _, id := range r.going() {
		r.stop(id)
	}
	r.working.Wait()
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if excess := len(t.kept) - maxTail; excess > 0 {
		t.kept = append(t.kept[:0], t.kept[excess:]...)
	}
	return len(p), nil
}

// lastLine is the last line that says something.
func (t *tail) lastLine() string {
	text := bytes.TrimSpace(t.kept)
	return strings.TrimSpace(string(text[bytes.LastIndexByte(text, '\n')+1:]))
}

// clipDetail cuts to what a detail may be.
func clipDetail(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxDetail)], "")
}
