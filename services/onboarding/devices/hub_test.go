package devices_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/devices"
	"paceline.internal/services/onboarding/goals"
)

// hub is a process that holds streams, with its first lease.
func (b *bundle) hub() *devices.Hub {
	b.t.Helper()
	h := devices.NewHub(devices.HubConfig{
		Store: hubStore{b.store, b}, Goals: hubGoals{b.service, b}, RunLease: runLease, Log: slog.New(slog.DiscardHandler), Now: b.clock.Now,
	})
	require.NoError(b.t, h.Keep(b.t.Context()))
	return h
}

// gadget is a stream device with what it remembers, which outlives its streams.
type gadget struct {
	*bundle

	id, token string
	seen      map[string]bool // the runs that it has begun, and whether they have ended
	began     map[string]int  // how often it has begun each
	connected *connection
}

func (b *bundle) gadget() *gadget {
	b.t.Helper()
	registry := b.registry()
	d, token, err := registry.Register(b.t.Context(), goals.Device{OrgID: orgID, ProfileID: b.owner, Name: uuid.NewString()})
	require.NoError(b.t, err)
	return &gadget{bundle: b, id: d.ID, token: token, seen: map[string]bool{}, began: map[string]int{}}
}

// connection is a stream between a gadget and a hub, without gRPC.
type connection struct {
	cancel context.CancelFunc
	ctx    context.Context //nolint:containedctx // of the stream
	in     chan devices.Frame
	out    chan devices.Command
	ended  chan struct{} // closed when the hub has let go of it
	err    error         // why; read after ended
}

func (c *connection) Receive() (devices.Frame, error) {
	select {
	case f, open := <-c.in:
		if !open {
			return nil, io.EOF
		}
		return f, nil
	case <-c.ctx.Done():
		return nil, c.ctx.Err()
	}
}

func (c *connection) Send(command devices.Command) error {
	select {
	case c.out <- command:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// opens is a stream on which nothing has been said.
func (b *bundle) opens(h *devices.Hub) *connection {
	b.t.Helper()
	c := &connection{in: make(chan devices.Frame), out: make(chan devices.Command, 100), ended: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(b.t.Context())
	go func() {
		defer close(c.ended)
		c.err = h.Connect(c.ctx, c)
	}()
	b.t.Cleanup(func() {
		c.cancel()
		<-c.ended
	})
	return c
}

// next is the next command; nil once the stream has ended.
func (c *connection) next() devices.Command {
	select {
	case command := <-c.out:
		return command
	case <-c.ended:
	}
	select { // what was sent before
	case command := <-c.out:
		return command
	default:
		return nil
	}
}

// says sends a frame, unless the stream has ended.
func (c *connection) says(f devices.Frame) {
	select {
	case c.in <- f:
	case <-c.ended:
	}
}

// closes is the device's end of the stream.
func (c *connection) closes() {
	close(c.in)
	<-c.ended
}

// connects says hello, and returns the welcome.
func (g *gadget) connects(h *devices.Hub) (*connection, devices.Welcome) {
	g.t.Helper()
	c := g.opens(h)
	c.says(devices.Hello{DeviceID: g.id, Token: g.token, Client: "gadget"})
	command := c.next()
	welcome, ok := command.(devices.Welcome)
	require.True(g.t, ok, "%#v", command)
	return c, welcome
}

// called is a goal after its alarm has found the device connected.
func (g *gadget) called() goals.Goal {
	g.t.Helper()
	goal := g.bundle.says(g.id, 0)
	require.NoError(g.t, g.store.Call(g.t.Context(), goal, g.clock.Now()))
	return goal
}

// offered is the next command, which has to be an offer of the goal.
func (c *connection) offered(t *testing.T, g goals.Goal) devices.Offer {
	t.Helper()
	command := c.next()
	offer, ok := command.(devices.Offer)
	require.True(t, ok, "%#v", command)
	require.Equal(t, g.ID, offer.GoalID)
	return offer
}

// settled waits until what a device has said took effect.
func (c *connection) settled(t *testing.T) {
	t.Helper()
	c.says(devices.Said{}) // an invalid one, which is answered when its turn comes
	for {
		switch command := c.next().(type) {
		case devices.Answer:
			require.ErrorIs(t, command.Err, goals.ErrInvalid)
			return
		case nil:
			require.Fail(t, "the stream has ended", "%v", c.err)
		default:
			require.Failf(t, "unexpected", "%#v", command)
		}
	}
}

func TestRunOfADevice(t *testing.T) {
	t.Parallel()

	t.Run("S3_18_AGoalRunsOnItsDeviceAlone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h, mine, other := b.hub(), b.gadget(), b.gadget()
		c, welcome := mine.connects(h)
		require.Empty(t, welcome.Runs)
		require.Equal(t, runLease, welcome.RunLease)
		o, _ := other.connects(h)
		c.settled(t)
		o.settled(t)
		g := mine.called()

		require.NoError(t, h.Offer(t.Context()))
		offer := c.offered(t, g)
		require.Equal(t, g.Goal, offer.Goal)
		require.Equal(t, g.ScheduledFor.Unix(), offer.ScheduledFor.Unix())
		require.NoError(t, h.Offer(t.Context()), "once")
		c.says(devices.Acknowledge{RunID: offer.RunID})
		b.clock.Advance(2 * time.Second)
		c.says(devices.Progress{RunID: offer.RunID, Text: "half"})
		c.settled(t)
		v := b.is(g, goals.Running)
		require.Equal(t, "half", v.Progress)
		require.Equal(t, b.clock.Now().Unix(), v.HeardAt.Unix())

		o.says(devices.Ended{RunID: offer.RunID, OK: false, Detail: "not mine"})
		o.says(devices.Acknowledge{RunID: offer.RunID})
		require.Equal(t, devices.StopRun{RunID: offer.RunID}, o.next(), "what is not open on a device is to stop there")
		o.settled(t)
		b.is(g, goals.Running)

		for range 2 {
			c.says(devices.Ended{RunID: offer.RunID, OK: true, Detail: "done"})
		}
		c.settled(t)
		b.is(g, goals.Completed)
		require.Equal(t, 1, b.count(`select count(*) from event_outbox where type = 'goal.completed'`))
		require.Equal(t, 1, b.count(`select count(*) from event_outbox where type = 'goal.started'`))
		require.Equal(t, 1, b.count(`select count(*) from goal_transitions where goal_id = $1 and event = 'acknowledged'`, g.ID))
	})

	t.Run("S3_32_ARunThatTheDeviceHasSpokenOfIsNotOfferedAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h, d := b.hub(), b.gadget()
		c, _ := d.connects(h)
		c.settled(t)
		g := d.called()
		require.NoError(t, h.Offer(t.Context()))
		run := c.offered(t, g).RunID
		c.says(devices.Progress{RunID: run, Text: "half"}) // and no acknowledgement
		c.settled(t)
		c.closes()
		c, _ = d.connects(h)
		c.says(devices.Report{RunID: run, State: devices.RunNeverSaw})
		c.settled(t)
		require.Equal(t, goals.ReasonLost, b.is(g, goals.Failed).Reason)
	})

	t.Run("AStopIsSentOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h, d := b.hub(), b.gadget()
		c, _ := d.connects(h)
		c.settled(t)
		g := d.called()
		require.NoError(t, h.Offer(t.Context()))
		offer := c.offered(t, g)
		_, err := b.service.Stop(t.Context(), b.me(), g.ID)
		require.NoError(t, err)
		require.NoError(t, h.Offer(t.Context()))
		require.Equal(t, devices.StopRun{RunID: offer.RunID}, c.next())
		require.NoError(t, h.Offer(t.Context()))
		c.says(devices.Ended{RunID: offer.RunID, Detail: "stopped"})
		c.settled(t)
		require.Equal(t, goals.ReasonDevice, b.is(g, goals.Failed).Reason)
	})

	t.Run("S3_07_FromRESTDeviceAndVoiceAlike", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h, d := b.hub(), b.gadget()
		c, _ := d.connects(h)
		const words = "open the door in 5 minutes"
		rest := b.creates(d.id, words, time.Time{})
		accepted := map[goals.Source]goals.Goal{goals.SourceREST: rest}
		for source, said := range map[goals.Source]string{goals.SourceDevice: "", goals.SourceVoice: "voice"} {
			c.says(devices.Said{Key: string(source), Goal: words, Source: said})
			answer, ok := c.next().(devices.Answer)
			require.True(t, ok)
			require.NoError(t, answer.Err)
			accepted[source] = answer.Goal
		}
		b.clock.Advance(5 * time.Minute)
		require.NoError(t, h.Keep(t.Context()))
		for source, g := range accepted {
			require.Equal(t, source, g.Source)
			require.Equal(t, []any{d.id, "open the door", 5 * time.Minute, goals.Scheduled}, []any{g.DeviceID, g.Goal, g.Delay, g.Status})
			require.NoError(t, b.store.Call(t.Context(), g, b.clock.Now()))
			require.NoError(t, h.Offer(t.Context()))
			c.says(devices.Ended{RunID: c.offered(t, g).RunID, OK: true})
			c.settled(t)
			b.is(g, goals.Completed)
		}
	})

	t.Run("WhatIsSaidToADeviceIsAnswered", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h, d := b.hub(), b.gadget()
		c, _ := d.connects(h)
		says := func(f devices.Said) devices.Answer {
			c.says(f)
			command := c.next()
			answer, ok := command.(devices.Answer)
			require.True(t, ok, "%#v", command)
			require.Equal(t, f.Key, answer.Key)
			return answer
		}
		first := says(devices.Said{Key: "k", Goal: "open the door in 5 minutes", Source: "voice"})
		require.NoError(t, first.Err)
		require.Equal(t, d.id, first.Goal.DeviceID)
		require.Equal(t, goals.SourceVoice, first.Goal.Source)
		require.Equal(t, 5*time.Minute, first.Goal.Delay)
		again := says(devices.Said{Key: "k", Goal: "open the door in 5 minutes", Source: "voice"})
		require.Equal(t, first.Goal.ID, again.Goal.ID)
		require.ErrorIs(t, says(devices.Said{Key: "k", Goal: "close it"}).Err, goals.ErrKeyReused)
		for _, f := range []devices.Said{
			{Key: "source", Goal: "open", Source: "text"},
			{Key: "zone", Goal: "open", Zone: "Local"},
			{Key: "empty"},
			{Goal: "open"},
			{Key: "nul", Goal: "open\x00"},
		} {
			require.ErrorIs(t, says(f).Err, goals.ErrInvalid, f.Key)
		}
		b.mishap(0, false)
		require.ErrorIs(t, says(devices.Said{Key: "later", Goal: "open the door"}).Err, errMishap, "the stream goes on")
		require.NoError(t, says(devices.Said{Key: "later", Goal: "open the door"}).Err)
	})
}

// TestReports is about what a device says after it has connected again.
func TestReports(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		acknowledged bool // before the stream was lost
		report       devices.Report
		again        bool // it is offered again
		want         goals.Status
		reason       string
	}{
		{name: "ARunThatItNeverSawIsOfferedAgain", report: devices.Report{State: devices.RunNeverSaw}, again: true, want: goals.Running},
		{name: "ARunThatItHasBegunGoesOn", report: devices.Report{State: devices.RunStarted}, want: goals.Running},
		{name: "ARunThatHasCompletedIsOver", report: devices.Report{State: devices.RunEnded, OK: true}, want: goals.Completed},
		{
			name: "ARunThatHasFailedIsOver", report: devices.Report{State: devices.RunEnded, Detail: "stuck"}, want: goals.Failed, reason: goals.ReasonDevice,
		},
		{
			name: "ARunThatItHadNotedAndForgotIsNotOfferedAgain", acknowledged: true, report: devices.Report{State: devices.RunNeverSaw},
			want: goals.Failed, reason: goals.ReasonLost,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			d, died := b.gadget(), b.hub()
			c, _ := d.connects(died)
			c.settled(t)
			g := d.called()
			require.NoError(t, died.Offer(t.Context()))
			lost := c.offered(t, g) // or never arrived: the server cannot tell
			if tt.acknowledged {
				c.says(devices.Acknowledge{RunID: lost.RunID})
				c.settled(t)
			}
			b.clock.Advance(time.Second)

			c, welcome := d.connects(b.hub())
			require.Equal(t, []string{lost.RunID}, welcome.Runs)
			tt.report.RunID = lost.RunID
			c.says(tt.report)
			if tt.again {
				require.Equal(t, lost, c.offered(t, g))
			}
			c.settled(t)
			v := b.is(g, tt.want)
			require.Equal(t, tt.reason, v.Reason)
			require.Equal(t, lost.RunID, v.RunID)
			require.Equal(t, b.clock.Now().Unix(), v.HeardAt.Unix())
			require.Equal(t, 1, b.count(`select count(*) from event_outbox where type = 'goal.started'`))
		})
	}
}

func TestPresence(t *testing.T) {
	t.Parallel()
	online := func(b *bundle, d *gadget) bool {
		found, err := b.store.Devices(t.Context(), b.owner, "", 50, b.clock.Now())
		require.NoError(b.t, err)
		for _, known := range found {
			if known.ID == d.id {
				return known.Online
			}
		}
		return false
	}

	t.Run("ADeviceIsOnlineForAsLongAsItsNodeIsHeardOf", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h, d := b.hub(), b.gadget()
		require.False(t, online(b, d))
		c, _ := d.connects(h)
		c.settled(t)
		require.True(t, online(b, d))
		b.clock.Advance(14 * time.Second)
		require.NoError(t, h.Keep(t.Context()))
		b.clock.Advance(14 * time.Second)
		require.True(t, online(b, d), "the lease was renewed")
		b.clock.Advance(2 * time.Second) // and then the process froze
		require.False(t, online(b, d))
		g := d.bundle.says(d.id, 0)
		_, err := b.service.Execute(t.Context(), g.ID)
		require.ErrorIs(t, err, goals.ErrOffline)
		require.NoError(t, b.store.Call(t.Context(), g, b.clock.Now()))
		require.NoError(t, h.Offer(t.Context()), "a node without a lease begins nothing")
		b.is(g, goals.Scheduled)
		require.NoError(t, h.Keep(t.Context()))
		require.NoError(t, h.Offer(t.Context()))
		c.offered(t, g)
		c.closes()
		require.NoError(t, c.err)
		require.False(t, online(b, d), "its end is told at once")
	})

	t.Run("ADeviceOfAnOrganisationThatEndsIsCutOff", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h, d := b.hub(), b.gadget()
		c, _ := d.connects(h)
		c.settled(t)
		const change = `
			insert into organisations (org_id, name, status, wanted, erase_after, changed_at, created_at)
			values ($1, 'A', $2, $2, case when $2 = 'ended' then now() end, now(), now())
			on conflict (org_id) do update set status = excluded.status, wanted = excluded.wanted, erase_after = excluded.erase_after`
		b.exec(change, orgID, "suspended")
		require.NoError(t, h.Keep(t.Context()))
		require.True(t, online(b, d), "it is offered nothing, and stays")
		b.exec(change, orgID, "ended")
		require.NoError(t, h.Keep(t.Context()))
		<-c.ended
		require.ErrorIs(t, c.err, goals.ErrOver)
		require.False(t, online(b, d))
	})

	t.Run("AnOldCallBeginsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h, d := b.hub(), b.gadget()
		g := d.called()
		b.clock.Advance(goals.CallWindow + time.Second)
		c, _ := d.connects(h)
		c.settled(t)
		require.NoError(t, h.Keep(t.Context()))
		require.NoError(t, h.Offer(t.Context()))
		b.is(g, goals.Scheduled)
	})

	t.Run("TheNewerOfTwoStreamsOnTwoNodesWins", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d, one, two := b.gadget(), b.hub(), b.hub()
		older, first := d.connects(one)
		older.settled(t)
		newer, second := d.connects(two)
		newer.settled(t)
		require.Greater(t, second.Epoch, first.Epoch)
		g := d.called()
		require.NoError(t, one.Offer(t.Context()), "the older one's node begins nothing")
		b.is(g, goals.Scheduled)
		require.NoError(t, two.Offer(t.Context()))
		newer.offered(t, g)
		require.NoError(t, one.Keep(t.Context()))
		require.Equal(t, devices.Refusal{Err: goals.ErrReplaced}, older.next())
		require.Nil(t, older.next())
		require.ErrorIs(t, older.err, goals.ErrReplaced)
		require.True(t, online(b, d), "its end takes nothing from the newer one")
		third, _ := d.connects(two)
		require.Equal(t, devices.Refusal{Err: goals.ErrReplaced}, newer.next(), "on one node the older one ends at once")
		third.closes()
	})

	t.Run("AStreamThatEndedWhileItConnectedTakesNothingFromTheOneThatCameAfterIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d, one, two := b.gadget(), b.hub(), b.hub()
		var newer *connection
		var welcome devices.Welcome
		older := b.opens(one)
		b.beforeConnect = func() {
			close(older.in) // the device has gone, and comes again
			b.clock.Advance(time.Second)
			newer, welcome = d.connects(two)
			newer.settled(t)
		}
		older.says(devices.Hello{DeviceID: d.id, Token: d.token})
		<-older.ended
		require.ErrorIs(t, older.err, goals.ErrOvertaken)
		require.NoError(t, two.Keep(t.Context()))
		newer.settled(t)
		require.Equal(t, 1, b.count(`select count(*) from devices where id = $1 and epoch = $2 and node_id is not null`, d.id, welcome.Epoch))

		b.exec(`update devices set connected_at = $2 where id = $1`, d.id, b.clock.Now().Add(time.Hour)) // by a clock that was wrong
		again, _ := d.connects(one)
		again.settled(t)
	})

	t.Run("ADeviceOfAnOrganisationThatHasEndedIsNotConnected", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h, d := b.hub(), b.gadget()
		b.exec(`insert into organisations (org_id, name, status, wanted, changed_at, created_at, erase_after, next_try_at)
values ($1, 'Acme', 'active', 'ended', $2, $2, $2, $2)`, orgID, b.clock.Now())
		c := b.opens(h)
		c.says(devices.Hello{DeviceID: d.id, Token: d.token})
		<-c.ended
		require.ErrorIs(t, c.err, goals.ErrOver)
		require.False(t, online(b, d))
		b.exec(`update organisations set wanted = 'active', erase_after = null where org_id = $1`, orgID)
		again, _ := d.connects(h)
		again.settled(t)
	})

	t.Run("ADeviceThatWasTakenAwayLosesItsStream", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		registry := b.registry()
		h := b.hub()
		for reason, take := range map[string]func(d *gadget) error{
			"":                  func(d *gadget) error { _, _, err := registry.Rotate(t.Context(), b.me(), d.id); return err },
			goals.ReasonRemoved: func(d *gadget) error { return registry.Remove(t.Context(), b.me(), d.id) },
		} {
			d := b.gadget()
			c, _ := d.connects(h)
			c.settled(t)
			g := d.bundle.says(d.id, time.Hour)
			require.NoError(t, take(d)) // by another process
			require.NoError(t, h.Keep(t.Context()))
			require.Equal(t, devices.Refusal{Err: goals.ErrReplaced}, c.next())
			require.Nil(t, c.next())
			c = b.opens(h)
			c.says(devices.Hello{DeviceID: d.id, Token: d.token})
			require.Equal(t, devices.Refusal{Err: goals.ErrToken}, c.next(), "and does not come back")
			if err := take(d); errors.Is(err, goals.ErrNoDevice) {
				require.Fail(t, "a repeat has to be answered")
			}
			v, err := b.store.Goal(t.Context(), orgID, g.ID, b.clock.Now())
			require.NoError(t, err)
			require.Equal(t, reason, v.Reason)
		}
	})

	t.Run("ADeviceThatIsDeletedWhileItRunsAGoalFailsItAtOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h, d := b.hub(), b.gadget()
		c, _ := d.connects(h)
		c.settled(t)
		g := d.called()
		require.NoError(t, h.Offer(t.Context()))
		offer := c.offered(t, g)
		waits := d.bundle.says(d.id, time.Hour)
		registry := b.registry()
		for range 2 {
			require.NoError(t, registry.Remove(t.Context(), b.me(), d.id))
			for _, open := range []goals.Goal{g, waits} {
				require.Equal(t, goals.ReasonRemoved, b.is(open, goals.Failed).Reason)
			}
			require.Equal(t, "scheduled started failed", b.told(g))
			require.Equal(t, "scheduled failed", b.told(waits))
		}
		c.says(devices.Ended{RunID: offer.RunID, OK: true}) // before the stream is closed
		require.NoError(t, h.Keep(t.Context()))
		require.Equal(t, devices.Refusal{Err: goals.ErrReplaced}, c.next())
		b.is(g, goals.Failed)
	})

	t.Run("AStreamWhoseEndDidNotReachItsRowIsFoundOut", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h, d := b.hub(), b.gadget()
		c, _ := d.connects(h)
		c.settled(t)
		b.mishap(0, false)
		c.closes()
		require.True(t, online(b, d))
		require.NoError(t, h.Keep(t.Context()))
		require.False(t, online(b, d))
	})

	t.Run("ADrainedHubTakesNoDeviceAndHasNone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h, d := b.hub(), b.gadget()
		c, _ := d.connects(h)
		c.settled(t)
		drained := make(chan error, 1)
		go func() { drained <- h.Drain(context.WithoutCancel(t.Context())) }()
		_, ok := c.next().(devices.Reconnect)
		require.True(t, ok)
		require.Nil(t, c.next())
		require.NoError(t, c.err)
		require.NoError(t, <-drained)
		refused := b.opens(h)
		<-refused.ended
		require.ErrorIs(t, refused.err, devices.ErrDraining)
		require.Zero(t, b.count(`select count(*) from device_nodes`))
		require.Zero(t, b.count(`select count(*) from devices where node_id is not null`))
		require.NoError(t, h.Keep(t.Context()))
		require.Zero(t, b.count(`select count(*) from device_nodes`), "it does not come back")
	})
}
