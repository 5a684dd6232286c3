package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	DeviceConnected = device.Connected
	DeviceOffered   = device.Offered
	DeviceBegins    = "begins"
	DeviceEnded     = "ended"
	DeviceGaveUp    = "gave_up" // it was told that coming again is of no use
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
	ToOfferAll Spread `json:"to_offer_all"`
}

// GoalsReport is the report of a run with goals.
type GoalsReport struct {
	Report
	GoalsVerdict
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
		rows: map[string]goalRow{}, begun: map[string][]DeviceEvent{},
	}
	l.Devices, l.Holders, l.Ends = g.Devices, g.fleets(), map[string]int{}
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
	offered := map[string]bool{}
	var all []time.Duration
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
	}
	l.ToOfferAll = spreadOf(all)
	return nil
}
