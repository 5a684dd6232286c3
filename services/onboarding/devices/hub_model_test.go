package devices_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/services/onboarding/devices"
	"paceline.internal/services/onboarding/goals"
)

// obeys does what a device is told until it is told no more; false says that the stream has ended. The device remembers a run before it
// begins it, and begins none twice.
func (g *gadget) obeys(c *connection) bool {
	asked, answered := 1, 0
	c.says(devices.Said{})
	for {
		switch command := c.next().(type) {
		case devices.Offer:
			run := command.RunID
			if _, seen := g.seen[run]; !seen {
				g.seen[run] = false
				c.says(devices.Acknowledge{RunID: run})
				g.began[run]++
				g.seen[run] = true
				c.says(devices.Ended{RunID: run, OK: true})
				asked++
				c.says(devices.Said{})
			}
		case devices.Answer:
			if answered++; answered == asked {
				return true
			}
		case nil:
			return false
		default:
		}
	}
}

// visits is one stream of a device: it says what it knows, does what it is told, and leaves.
func (g *gadget) visits(h *devices.Hub) {
	c := g.opens(h)
	defer c.cancel()
	c.says(devices.Hello{DeviceID: g.id, Token: g.token})
	welcome, ok := c.next().(devices.Welcome)
	if !ok {
		return
	}
	for _, run := range welcome.Runs {
		state := devices.RunNeverSaw
		if ended, seen := g.seen[run]; ended {
			state = devices.RunEnded
		} else if seen {
			state = devices.RunStarted
		}
		c.says(devices.Report{RunID: run, State: state, OK: true})
	}
	if !g.obeys(c) {
		return
	}
	_, _ = h.Keep(g.t.Context()), h.Offer(g.t.Context())
	if g.obeys(c) {
		c.closes()
	}
}

// TestEveryCallOfAHubMayFail lets one call after the other fail, before or after its effect, as a process that dies there does.
func TestEveryCallOfAHubMayFail(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, effects := range []bool{false, true} { //nolint:paralleltest // they share a database
		for k, hit := 0, true; hit; k++ {
			t.Run(fmt.Sprintf("Call%dEffects%t", k, effects), func(t *testing.T) {
				b.t = t
				b.owner = b.person()
				d, h := b.gadget(), b.hub()
				g := d.called()
				b.mishap(k, effects)
				d.visits(h)
				b.mu.Lock()
				hit = b.left < 0
				b.mu.Unlock()
				b.mishap(-1, false)
				for range 3 {
					d.visits(h)
				}
				v := b.is(g, goals.Completed)
				require.Equal(t, map[string]int{v.RunID: 1}, d.began, "one run, begun once")
				for _, event := range []string{"goal.started", "goal.completed"} {
					require.Equal(t, 1, b.count(`select count(*) from event_outbox where type = $1 and causation_id = $2`, event, "goal:"+g.ID))
				}
				require.NoError(t, h.Keep(t.Context()))
				require.Zero(t, b.count(`select count(*) from devices where id = $1 and node_id is not null`, d.id), "it is not left online")
			})
			require.Less(t, k, 50)
		}
	}
}

// run is a run as the model knows it.
type run struct {
	goal         goals.Goal
	device       *gadget
	acknowledged bool
	ended        bool
}

// fleet is two devices and two nodes, with a model of them. The devices say anything, also about each other's runs.
type fleet struct {
	*bundle

	nodes   []*devices.Hub
	devices []*gadget
	runs    map[string]*run
	owed    map[*gadget]map[string]bool // reports
	on      map[*gadget]int             // the node that has the device
}

// hears takes what a device is told: each offer has to be one that the model allows.
func (f *fleet) hears(t *rapid.T, d *gadget) {
	d.connected.says(devices.Said{})
	for {
		switch command := d.connected.next().(type) {
		case devices.Offer:
			known := f.runs[command.RunID]
			if known == nil {
				for id, other := range f.runs {
					require.NotEqual(t, command.GoalID, other.goal.ID, "a goal has one run, which is %s", id)
				}
				f.runs[command.RunID] = &run{goal: goals.Goal{ID: command.GoalID}, device: d}
				continue
			}
			require.Equal(t, known.goal.ID, command.GoalID)
			require.Same(t, known.device, d, "it runs on its device alone")
			require.False(t, known.acknowledged || known.ended, "what the device has noted is not offered again")
		case devices.Answer:
			return
		case devices.StopRun:
		default:
			require.Failf(t, "unexpected", "%#v", command)
		}
	}
}

// breaks is a frame out of order: it ends the stream.
func (f *fleet) breaks(t *rapid.T, d *gadget) {
	for {
		switch command := d.connected.next().(type) {
		case devices.Refusal:
			require.ErrorIs(t, command.Err, devices.ErrFrame)
		case nil:
			require.ErrorIs(t, d.connected.err, devices.ErrFrame)
			d.connected = nil
			return
		default:
		}
	}
}

func (f *fleet) connect(t *rapid.T, d *gadget, node int) {
	older := d.connected
	var welcome devices.Welcome
	d.connected, welcome = d.connects(f.nodes[node])
	if older != nil {
		older.cancel()
	}
	f.on[d], f.owed[d] = node, map[string]bool{}
	var open []string
	for id, r := range f.runs {
		if r.device == d && !r.ended {
			open = append(open, id)
		}
	}
	for _, id := range welcome.Runs {
		if f.runs[id] == nil { // its offer was lost
			f.runs[id] = &run{device: d, goal: goals.Goal{ID: f.goalOf(id)}}
			open = append(open, id)
		}
		f.owed[d][id] = true
	}
	require.ElementsMatch(t, open, welcome.Runs, "the welcome names each open run")
}

func (f *fleet) goalOf(runID string) (id string) {
	require.NoError(f.t, f.pool.QueryRow(f.t.Context(), `select id::text from goals where run_id = $1`, runID).Scan(&id))
	return id
}

// saysAny has a device send a frame about a run, with what the model expects of it.
func (f *fleet) saysAny(t *rapid.T) {
	d := rapid.SampledFrom(f.devices).Draw(t, "device")
	if d.connected == nil {
		return
	}
	id := uuid.NewString()
	if known := slices.Sorted(maps.Keys(f.runs)); len(known) > 0 && rapid.IntRange(0, 9).Draw(t, "strange") > 0 {
		id = rapid.SampledFrom(known).Draw(t, "run")
	}
	mine := f.runs[id]
	if mine != nil && (mine.device != d || mine.ended) {
		mine = nil
	}
	var frame devices.Frame
	inOrder := len(f.owed[d]) == 0
	switch rapid.SampledFrom([]string{"report", "report", "acknowledge", "progress", "end", "hello"}).Draw(t, "frame") {
	case "hello":
		frame, inOrder = devices.Hello{DeviceID: d.id, Token: d.token}, false
	case "report":
		state := rapid.SampledFrom([]devices.RunState{devices.RunStarted, devices.RunEnded, devices.RunNeverSaw}).Draw(t, "state")
		frame, inOrder = devices.Report{RunID: id, State: state, OK: true}, f.owed[d][id]
		if inOrder && mine != nil {
			mine.ended = state == devices.RunEnded || state == devices.RunNeverSaw && mine.acknowledged
			mine.acknowledged = mine.acknowledged || state == devices.RunStarted
		}
		delete(f.owed[d], id)
	case "acknowledge":
		frame = devices.Acknowledge{RunID: id}
		if inOrder && mine != nil {
			mine.acknowledged = true
		}
	case "progress":
		frame = devices.Progress{RunID: id, Text: "on"}
		if inOrder && mine != nil {
			mine.acknowledged = true
		}
	case "end":
		frame = devices.Ended{RunID: id, OK: rapid.Bool().Draw(t, "ok")}
		if inOrder && mine != nil {
			mine.ended = true
		}
	}
	d.connected.says(frame)
	if !inOrder {
		f.breaks(t, d)
		return
	}
	f.hears(t, d)
}

// check compares the rows with the model.
func (f *fleet) check(t *rapid.T) {
	for id, r := range f.runs {
		var status, event string
		require.NoError(t, f.pool.QueryRow(f.t.Context(), `select status, run_id::text from goals where id = $1`, r.goal.ID).Scan(&status, &event))
		require.Equal(t, id, event)
		require.Equal(t, !r.ended, goals.Status(status) == goals.Running, "only what its device says ends a run: %s", status)
	}
}

// TestModelOfDevices has devices that come, go and lie do anything in any order.
func TestModelOfDevices(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rapid.Check(t, func(t *rapid.T) {
		b.owner = b.person()
		f := &fleet{
			bundle: b, nodes: []*devices.Hub{b.hub(), b.hub()}, devices: []*gadget{b.gadget(), b.gadget()}, runs: map[string]*run{},
			owed: map[*gadget]map[string]bool{}, on: map[*gadget]int{},
		}
		t.Repeat(map[string]func(*rapid.T){
			"": f.check,
			"connect": func(t *rapid.T) {
				f.connect(t, rapid.SampledFrom(f.devices).Draw(t, "device"), rapid.IntRange(0, 1).Draw(t, "node"))
			},
			"leave": func(t *rapid.T) {
				if d := rapid.SampledFrom(f.devices).Draw(t, "device"); d.connected != nil {
					d.connected.cancel()
					<-d.connected.ended
					d.connected = nil
				}
			},
			"die": func(t *rapid.T) { // its streams end with it, and nothing reaches the database
				n := rapid.IntRange(0, 1).Draw(t, "node")
				f.nodes[n] = b.hub()
				for _, d := range f.devices {
					if d.connected != nil && f.on[d] == n {
						d.connected.cancel()
						d.connected = nil
					}
				}
			},
			"call": func(t *rapid.T) {
				d := rapid.SampledFrom(f.devices).Draw(t, "device")
				if b.count(`select count(*) from goals where device_id = $1 and status = 'scheduled'`, d.id) < 3 {
					d.called()
				}
			},
			"offer": func(t *rapid.T) {
				b.clock.Advance(time.Second)
				n := rapid.IntRange(0, 1).Draw(t, "node")
				require.NoError(t, errors.Join(f.nodes[n].Keep(b.t.Context()), f.nodes[n].Offer(b.t.Context())))
				for _, d := range f.devices {
					if d.connected != nil && f.on[d] == n {
						f.hears(t, d)
					}
				}
			},
			"say": f.saysAny,
		})
	})
}
