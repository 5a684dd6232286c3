package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"paceline.internal/deploy/operator"
	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/qstash"
	"paceline.internal/emulators/wire"
)

// errands are the devices of a run, and the goals that they are asked for.
type errands struct {
	Goals

	c       *population
	began   time.Time
	wire    *wire.Wire // between the devices and the gateways
	devices []held
	holders map[string]*supervisor
	logs    []string // what the holders write
	verdict GoalsVerdict

	mu       sync.Mutex
	said     map[string]errand    // by the id of the goal, once it was answered
	arrived  map[string]time.Time // when the first callback of each alarm was sent, by its deduplication id
	answers  map[string]string    // of cancellations: cancelled, or since when it runs
	cuts     int
	severed  int
	repeated int // calls that had no answer, or one of an outage
}

// held is a device, for the process that holds it.
type held struct {
	DeviceID  string `json:"device_id"`
	Token     string `json:"token"`
	ProfileID string `json:"profile_id"`
}

func newErrands(g Goals, c *population) *errands {
	return &errands{
		Goals: g, c: c, holders: map[string]*supervisor{},
		said: map[string]errand{}, arrived: map[string]time.Time{}, answers: map[string]string{},
	}
}

// alarmed is told of everything that happens at QStash. A goal that is to be cancelled is cancelled while its first callback is under way.
func (g *errands) alarmed(e qstash.Event) {
	if e.Kind != qstash.Attempted {
		return
	}
	goalID := strings.TrimPrefix(e.DeduplicationID, "goal-")
	goalID = goalID[:max(0, strings.LastIndexByte(goalID, '-'))]
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.arrived[e.DeduplicationID]; known {
		return
	}
	g.arrived[e.DeduplicationID] = e.Time
	if one := g.said[goalID]; one.cancelled {
		one.cancelled = false
		g.said[goalID] = one
		g.c.spawn(func(ctx context.Context) {
			if pause(ctx, one.hesitates) {
				g.cancel(ctx, goalID)
			}
		})
	}
}

// registering sets the number of calls that are made at once to register devices.
const registering = 8

// openGoals registers the devices, has processes hold them, and waits until all are connected.
func (s *site) openGoals(ctx context.Context) (err error) {
	g := s.goals
	if g == nil {
		return nil
	}
	if g.wire, err = wire.Open(ctx, "tcp", s.listening(stack.Gateway)...); err != nil {
		return err
	}
	s.balancers[devicesVictim] = g.wire
	if err := g.register(ctx); err != nil {
		return err
	}
	for i := range g.fleets() {
		if err := s.hold(replica(devicesVictim, i, g.fleets()), g.devices[i*fleetSize:min((i+1)*fleetSize, len(g.devices))]); err != nil {
			return err
		}
	}
	for {
		var connected int
		if err := s.onboardingDB.QueryRow(ctx, `select count(*) from devices where node_id is not null`).Scan(&connected); err != nil {
			return err
		}
		if connected == g.Devices {
			return nil
		}
		if !pause(ctx, lookAgain) {
			return fmt.Errorf("%d of %d devices have connected; see %s", connected, g.Devices, s.dir)
		}
	}
}

// register makes the devices and their people.
func (g *errands) register(ctx context.Context) error {
	g.devices = make([]held, g.Devices)
	problems := make([]error, registering)
	var all sync.WaitGroup
	for part := range registering {
		all.Go(func() {
			for person := part; person*devicesEach < g.Devices && problems[part] == nil; person += registering {
				problems[part] = g.enrol(ctx, person)
			}
		})
	}
	all.Wait()
	return errors.Join(problems...)
}

func (g *errands) enrol(ctx context.Context, person int) error {
	profile, err := g.c.api.Enrol(ctx, operator.Person{Phone: fmt.Sprintf("+1415555%04d", person+1), FirstName: "Zuleika", Locale: "en"})
	if err != nil {
		return err
	}
	for n := person * devicesEach; n < min((person+1)*devicesEach, g.Devices); n++ {
		var answer struct {
			Device struct {
				DeviceID string `json:"device_id"`
			}
			Token string
		}
		in := map[string]string{"profile_id": profile.ProfileID, "name": fmt.Sprintf("device %d", n)}
		if err := g.c.api.Call(ctx, http.MethodPost, "/v1/devices", in, &answer); err != nil {
			return err
		}
		g.devices[n] = held{answer.Device.DeviceID, answer.Token, profile.ProfileID}
	}
	return nil
}

// hold starts a process that holds devices, of which a file has a line of JSON each. It writes a line of JSON for each DeviceEvent.
func (s *site) hold(name string, devices []held) error {
	var lines strings.Builder
	encoder := json.NewEncoder(&lines)
	for _, d := range devices {
		if err := encoder.Encode(d); err != nil {
			return err
		}
	}
	file, state, log := filepath.Join(s.dir, name+".json"), filepath.Join(s.dir, name), filepath.Join(s.dir, name+".log")
	if err := errors.Join(os.WriteFile(file, []byte(lines.String()), 0o600), os.Mkdir(state, 0o700)); err != nil {
		return err
	}
	s.goals.logs = append(s.goals.logs, log)
	s.goals.holders[name] = supervise(stack.ChildConfig{
		Name: name, Environ: s.cfg.Environ, Log: log,
		Command: append(append([]string{}, s.goals.Fleet...), "--url", "http://"+s.goals.wire.Addr, "--devices", file, "--state", state),
	}, "", s.log)
	return nil
}

func (g *errands) close() {
	for _, k := range g.holders {
		k.close()
	}
}

// begin says each goal at its time.
func (g *errands) begin() {
	g.began = g.c.clock.Now()
	for n := range g.Count {
		e := g.plan(n)
		g.c.after(e.said, func(ctx context.Context) { g.say(ctx, e) })
	}
}

const (
	// sayAgain is the pause before a call that was not answered is made again; a device's user would wait longer.
	sayAgain = 250 * time.Millisecond
	// sayBound bounds the time of one such call.
	sayBound = 10 * time.Second
	// soon sets the least time ahead for which a goal is scheduled, however late it is said.
	soon = 2 * time.Second
)

// say says a goal until it is answered, by the same key.
func (g *errands) say(ctx context.Context, e errand) {
	var answer struct {
		Goal struct {
			GoalID string `json:"goal_id"`
		}
	}
	device := g.devices[e.device]
	refused := g.insist(ctx, func(ctx context.Context) error {
		due := g.began.Add(e.due)
		if least := g.c.clock.Now().Add(soon); due.Before(least) {
			due = least
		}
		return g.c.api.Call(ctx, http.MethodPost, "/v1/goals", map[string]string{
			"profile_id": device.ProfileID, "device_id": device.DeviceID, "goal": e.words, "idempotency_key": fmt.Sprint("goal-", e.n),
			"scheduled_for": due.UTC().Truncate(time.Second).Format(time.RFC3339),
		}, &answer)
	})
	if refused != nil {
		g.c.problemf("goal %d was refused: %v", e.n, refused)
		return
	}
	g.mu.Lock()
	g.said[answer.Goal.GoalID] = e
	g.mu.Unlock()
}

// cancelled is the answer to a cancellation that was granted.
const cancelled = "cancelled"

func (g *errands) cancel(ctx context.Context, goalID string) {
	err := g.insist(ctx, func(ctx context.Context) error {
		return g.c.api.Call(ctx, http.MethodDelete, "/v1/goals/"+goalID+"/schedule", nil, nil)
	})
	answer := cancelled
	if err != nil {
		var refused struct {
			Details []struct {
				Reason   string `json:"reason"`
				Metadata struct {
					StartedAt string `json:"started_at"`
				} `json:"metadata"`
			} `json:"details"`
		}
		status, ok := errors.AsType[*operator.StatusError](err)
		if !ok || json.Unmarshal([]byte(status.Answer), &refused) != nil || len(refused.Details) == 0 ||
			refused.Details[0].Reason != "REASON_GOAL_STATUS" {
			g.c.problemf("goal %s could not be cancelled: %v", goalID, err)
			return
		}
		answer = refused.Details[0].Metadata.StartedAt
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answers[goalID] = answer
}

// insist makes a call until it is answered, and returns a refusal that no repeat helps.
func (g *errands) insist(ctx context.Context, call func(ctx context.Context) error) error {
	for {
		bounded, cancel := context.WithTimeout(ctx, sayBound)
		err := call(bounded)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if status, ok := errors.AsType[*operator.StatusError](err); ok && !status.Transient() {
			return err
		}
		g.mu.Lock()
		g.repeated++
		g.mu.Unlock()
		if !pause(ctx, sayAgain) {
			return err
		}
	}
}

// cut cuts connections of devices until the time is over: mostly a few, now and then up to a tenth of all.
func (g *errands) cut(ctx context.Context, duration time.Duration) {
	if g.CutEvery == 0 {
		return
	}
	until := g.c.clock.Now().Add(duration)
	for n := 0; ; n++ {
		r := g.c.dice.roll("cut", n)
		rest := g.CutEvery/2 + time.Duration(r.Int64N(int64(g.CutEvery)+1))
		if rest >= until.Sub(g.c.clock.Now()) || !pause(ctx, rest) {
			return
		}
		most := max(1, g.Devices/100)
		if oneIn(r, 10) {
			most = max(1, g.Devices/10)
		}
		severed := g.wire.CutSome(1 + r.IntN(most))
		g.mu.Lock()
		g.cuts, g.severed = g.cuts+1, g.severed+severed
		g.mu.Unlock()
	}
}

const sqlGoalsMoving = `
select exists (select from goals where status in ('scheduled', 'running')) or exists (select from goal_alarms where published_at is null)`

// moving reports whether a goal is still to come to its end.
func (g *errands) moving(ctx context.Context) bool {
	moves := true
	err := g.c.onboardingDB.QueryRow(ctx, sqlGoalsMoving).Scan(&moves)
	return err != nil || moves
}
