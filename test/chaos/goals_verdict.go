package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"paceline.internal/deploy/device"
)

// DeviceEvent is one line that a process with devices writes.
type DeviceEvent struct {
	At     time.Time `json:"at"`
	Device string    `json:"device"`
	What   string    `json:"what"`
	Run    string    `json:"run,omitempty"`
	Goal   string    `json:"goal,omitempty"`
	OK     bool      `json:"ok,omitempty"`
}

// What happens to a device.
const (
	DeviceConnected    = device.Connected
	DeviceDisconnected = device.Disconnected
	DeviceOffered      = device.Offered
	DeviceBegins       = "begins"
	DeviceEnded        = "ended"
	DeviceGaveUp       = "gave_up" // it was told that coming again is of no use
)

// GoalsVerdict counts the goals by their ends, and the breaches of the promises about them.
type GoalsVerdict struct {
	Devices int            `json:"devices"`
	Holders int            `json:"device_processes"`
	Goals   int            `json:"goals"`
	Ends    map[string]int `json:"ends"` // by status, and of failed ones by reason
	Runs    int            `json:"runs"` // that devices began

	BegunTwice  int `json:"begun_twice"`  // runs that began twice
	RanTwice    int `json:"ran_twice"`    // goals of which two runs began
	Elsewhere   int `json:"elsewhere"`    // runs on a device that is not the goal's, or of no goal
	Lost        int `json:"lost"`         // goals that were accepted and are not there
	Open        int `json:"open"`         // goals that have not ended
	Unexplained int `json:"unexplained"`  // goals that failed without a reason
	Untrue      int `json:"untrue"`       // goals that ended otherwise than the device knows
	CancelLies  int `json:"cancel_lies"`  // answers to cancellations that were not true
	GaveUp      int `json:"gave_up"`      // devices that were told not to come again, or their process ended by itself
	Granted     int `json:"cancelled"`    // cancellations that were granted
	Refused     int `json:"cancel_tried"` // and that were refused, because the goal had begun

	Connections int `json:"connections"` // of devices, in all
	Cuts        int `json:"cuts"`
	Severed     int `json:"connections_cut"`
	Repeated    int `json:"calls_repeated"` // of the API, for want of an answer

	// From the instant at which QStash sent the callback that a run began by to the offer at the device, on this machine's clock.
	// Undisturbed is one with a device that was connected and had nothing to run, and no process was down, from calm before the callback until
	// the offer.
	ToOfferUndisturbed Spread `json:"to_offer_undisturbed"`
	ToOfferAll         Spread `json:"to_offer_all"`
	// Why the others are disturbed, each counted once: the device was busy, its connection came or went, a process was down.
	Disturbed map[string]int `json:"disturbed"`
}

// calm is the time for which everything must have been well.
const calm = 5 * time.Second

// GoalsReport is the report of a run with goals.
type GoalsReport struct {
	Report
	GoalsVerdict

	CPUs       int     `json:"cpus"`
	LoadBefore float64 `json:"load_before"` // of the machine; -1 is unknown
	LoadAfter  float64 `json:"load_after"`
}

func (v *GoalsVerdict) promises() []promise {
	return []promise{
		{"runs that began twice", &v.BegunTwice},
		{"goals that ran twice", &v.RanTwice},
		{"runs on another device", &v.Elsewhere},
		{"goals lost", &v.Lost},
		{"goals still open", &v.Open},
		{"failed without a reason", &v.Unexplained},
		{"ends that are not true", &v.Untrue},
		{"untrue answers to cancellations", &v.CancelLies},
		{"devices that gave up", &v.GaveUp},
	}
}

// Print writes the report for people.
func (r *GoalsReport) Print(out io.Writer) error {
	var s page
	s.WriteString("\n")
	s.linef("goals", "%d on %d devices in %d processes, seed %d; %s", r.Goals, r.Devices, r.Holders, r.Seed, counts(r.Ends))
	s.linef("runs begun at the devices", "%d", r.GoalsVerdict.Runs)
	for _, p := range r.GoalsVerdict.promises() {
		s.linef(p.name, "%d%s", *p.count, map[bool]string{false: "   BROKEN"}[*p.count == 0])
	}
	s.linef("cancellations at the last moment", "%d granted, %d refused", r.Granted, r.Refused)
	s.linef("callback to offer, undisturbed", "%s", r.ToOfferUndisturbed)
	s.linef("callback to offer, all", "%s; disturbed: %s", r.ToOfferAll, counts(r.Disturbed))
	s.linef("connections of devices", "%d, of which %d were cut, in %d cuts", r.Connections, r.Severed, r.Cuts)
	s.linef("kills", "%s; ended by themselves: %s", counts(r.Kills), counts(r.EndedByThemselves))
	s.linef("recovery, kill to ready", "%s", r.RecoveryToReady)
	s.linef("calls repeated", "%d", r.Repeated)
	s.linef("time", "%.1f s of faults, %.1f s in all, the last %.1f s to settle",
		seconds(r.DurationMS), seconds(r.TotalMS), seconds(r.SettleMS))
	r.describeKnobs(&s)
	s.linef("machine", "%d CPUs, load %.1f when it began and %.1f at its end", r.CPUs, r.LoadBefore, r.LoadAfter)
	return s.end(out, &r.Report)
}

// goalRow is a goal as it stands in the end.
type goalRow struct {
	id, device, status, reason, run, startedAt string
}

const (
	sqlGoalRows = `
select id::text, device_id::text, status, reason, coalesce(run_id::text, ''),
       coalesce(to_char(started_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), '')
from goals`
	sqlGoalAlarms = `select goal_id::text, generation, cause from goal_alarms order by goal_id, generation`
)

// ledger holds everything that is known of a run when it is judged.
type ledger struct {
	*GoalsVerdict

	site   *site
	report *Report
	rows   map[string]goalRow
	events []DeviceEvent            // oldest first
	of     map[string][]DeviceEvent // by device
	begun  map[string][]DeviceEvent // by goal
}

// examineGoals compares what the devices wrote down with the rows, and with what callers were answered.
func (s *site) examineGoals(ctx context.Context, r *Report) error {
	g := s.goals
	s.end()
	s.leave()
	if err := s.still(ctx); err != nil {
		return err
	}
	g.close() // what they wrote does not change any more
	l := &ledger{
		GoalsVerdict: &g.verdict, site: s, report: r,
		rows: map[string]goalRow{}, of: map[string][]DeviceEvent{}, begun: map[string][]DeviceEvent{},
	}
	l.Devices, l.Holders, l.Ends, l.Disturbed = g.Devices, g.fleets(), map[string]int{}, map[string]int{}
	l.Cuts, l.Severed, l.Repeated = g.cuts, g.severed, g.repeated
	for name, k := range g.holders {
		if ends := k.endedByItself(); ends > 0 {
			r.breakf(&l.GaveUp, "%s ended by itself %d times", name, ends)
		}
	}
	var row goalRow
	err := each(ctx, s.onboardingDB, sqlGoalRows, []any{&row.id, &row.device, &row.status, &row.reason, &row.run, &row.startedAt}, func() {
		l.rows[row.id] = row
	})
	if err := errors.Join(err, l.readEvents(g.logs)); err != nil {
		return err
	}
	l.Goals = len(l.rows)
	l.judgeRuns()
	l.judgeGoals()
	l.judgeCancellations()
	return l.measure(ctx)
}

// readEvents reads what the devices wrote down. A line that a kill has cut off is no event: what it told had just begun to be told.
func (l *ledger) readEvents(logs []string) error {
	for _, path := range logs {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			var e DeviceEvent
			if json.Unmarshal(lines.Bytes(), &e) == nil && e.Device != "" {
				l.events = append(l.events, e)
			}
		}
		if err := errors.Join(lines.Err(), file.Close()); err != nil {
			return err
		}
	}
	slices.SortStableFunc(l.events, func(a, b DeviceEvent) int { return a.At.Compare(b.At) })
	for _, e := range l.events {
		l.of[e.Device] = append(l.of[e.Device], e)
		switch e.What {
		case DeviceConnected:
			l.Connections++
		case DeviceGaveUp:
			l.report.breakf(&l.GaveUp, "device %s was told at %s not to come again", e.Device, e.At.Format(time.RFC3339Nano))
		}
	}
	return nil
}

// judgeRuns looks at every run that really began.
func (l *ledger) judgeRuns() {
	seen := map[string]bool{}
	for _, e := range l.events {
		if e.What != DeviceBegins {
			continue
		}
		l.Runs++
		if seen[e.Run] {
			l.report.breakf(&l.BegunTwice, "run %s of goal %s began twice on device %s", e.Run, e.Goal, e.Device)
		}
		seen[e.Run] = true
		l.begun[e.Goal] = append(l.begun[e.Goal], e)
		if row, ok := l.rows[e.Goal]; !ok || row.device != e.Device {
			l.report.breakf(&l.Elsewhere, "run %s of goal %s began on device %s", e.Run, e.Goal, e.Device)
		}
	}
	for goal, runs := range l.begun {
		if len(runs) > 1 && runs[0].Run != runs[1].Run {
			l.report.breakf(&l.RanTwice, "goal %s ran as %s and as %s", goal, runs[0].Run, runs[1].Run)
		}
	}
}

// neverBegan are the reasons that say that the device did nothing.
var neverBegan = []string{"device_offline", "device_busy", "alarm_lost", "device_removed"}

// judgeGoals looks at how every goal ended.
func (l *ledger) judgeGoals() {
	for id, e := range l.site.goals.said {
		if _, ok := l.rows[id]; !ok {
			l.report.breakf(&l.Lost, "goal %s, the %d. of the plan, was accepted and is not there", id, e.n)
		}
	}
	ended := map[string]DeviceEvent{}
	for _, e := range l.events {
		if e.What == DeviceEnded {
			ended[e.Run] = e
		}
	}
	for id, row := range l.rows {
		runs := l.begun[id]
		end, told := ended[row.run]
		switch {
		case row.status == "completed":
			l.Ends[row.status]++
			if len(runs) != 1 || runs[0].Run != row.run || !told || !end.OK {
				l.report.breakf(&l.Untrue, "goal %s is completed by run %s, and devices began %d runs", id, row.run, len(runs))
			}
		case row.status == cancelled:
			l.Ends[row.status]++
			if len(runs) > 0 {
				l.report.breakf(&l.Untrue, "goal %s is cancelled, and ran", id)
			}
		case row.status != "failed":
			l.Ends[row.status]++
			l.report.breakf(&l.Open, "goal %s is still %s", id, row.status)
		case row.reason == "":
			l.report.breakf(&l.Unexplained, "goal %s failed without a reason", id)
		default:
			l.Ends[row.reason]++
			if len(runs) > 0 && slices.Contains(neverBegan, row.reason) || row.reason == "device_failed" && (len(runs) == 0 || told && end.OK) {
				l.report.breakf(&l.Untrue, "goal %s failed as %s, and devices began %d runs", id, row.reason, len(runs))
			}
		}
	}
}

// judgeCancellations compares what callers were answered with what came of it.
func (l *ledger) judgeCancellations() {
	for id, answer := range l.site.goals.answers {
		row, runs := l.rows[id], l.begun[id]
		if answer == cancelled {
			l.Granted++
			if row.status != cancelled || len(runs) > 0 {
				l.report.breakf(&l.CancelLies, "goal %s was cancelled by the answer; it is %s, and devices began %d runs", id, row.status, len(runs))
			}
			continue
		}
		l.Refused++
		at, err := time.Parse(time.RFC3339Nano, answer)
		began, rowErr := time.Parse(time.RFC3339Nano, row.startedAt)
		if row.status == cancelled || (answer != "" || row.startedAt != "") && (err != nil || rowErr != nil || !at.Equal(began)) {
			l.report.breakf(&l.CancelLies, "goal %s ran since %q by the answer; it is %s, and ran since %q", id, answer, row.status, row.startedAt)
		}
	}
}

// measure finds how long offers took from the callbacks that they came by.
func (l *ledger) measure(ctx context.Context) error {
	var goal, cause string
	var generation int
	sent := map[string][]time.Time{} // the first callback of each alarm that a goal was to begin by
	err := each(ctx, l.site.onboardingDB, sqlGoalAlarms, []any{&goal, &generation, &cause}, func() {
		at, arrived := l.site.goals.arrived[fmt.Sprintf("goal-%s-%d", goal, generation)]
		if arrived && (cause == "due" || cause == "free") { // one that replaces an alarm that was lost counts from that one on
			sent[goal] = append(sent[goal], at)
		}
	})
	if err != nil {
		return err
	}
	outages := l.site.outages.list()
	offered := map[string]bool{}
	var all, undisturbed []time.Duration
	for _, e := range l.events {
		if e.What != DeviceOffered || offered[e.Goal] {
			continue
		}
		offered[e.Goal] = true
		var from time.Time
		for _, at := range sent[e.Goal] {
			if at.Before(e.At) {
				from = at
			}
		}
		if from.IsZero() {
			l.report.breakf(nil, "goal %s was offered before any callback of it", e.Goal)
			continue
		}
		all = append(all, e.At.Sub(from))
		if why := l.disturbed(e, from, outages); why != "" {
			l.Disturbed[why]++
		} else {
			undisturbed = append(undisturbed, e.At.Sub(from))
		}
	}
	l.ToOfferAll, l.ToOfferUndisturbed = spreadOf(all), spreadOf(undisturbed)
	return nil
}

// disturbed returns what kept an offer from being a plain one; empty for nothing.
func (l *ledger) disturbed(offer DeviceEvent, from time.Time, outages []outage) string {
	since := from.Add(-calm)
	connected, running := false, map[string]bool{}
	for _, e := range l.of[offer.Device] {
		if !e.At.Before(offer.At) {
			break
		}
		before := e.At.Before(since)
		switch e.What {
		case DeviceConnected, DeviceDisconnected:
			if e.What == DeviceConnected && connected { // its process was killed, and what ran with it
				clear(running)
			}
			connected = e.What == DeviceConnected
			if !before {
				return "reconnected"
			}
		case DeviceBegins:
			running[e.Run] = true
		case DeviceEnded:
			if e.At.Before(from.Add(-time.Second)) { // what it said of its end takes a moment
				delete(running, e.Run)
			}
		}
	}
	switch {
	case !connected:
		return "reconnected"
	case struckWithin(outages, since, offer.At):
		return "process down"
	case len(running) > 0:
		return "device busy"
	}
	return ""
}
