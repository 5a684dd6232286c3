package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"paceline.internal/deploy/stack"
)

// Goals is a run of processes, two of each service, with a population of stream devices: real WebSockets, some hundred in another
// process. Their goals are said over the API and fall due while connections are cut and processes are killed, those that hold devices
// among them. In the end each goal must have run exactly once, or say why not, by what the devices wrote down.
type Goals struct {
	Processes // without people and silences

	Devices, Count int           // how many devices, and goals for them
	CutEvery       time.Duration // how often connections of devices are cut, on average; 0 cuts none
	Cancel         float64       // the share of goals that are cancelled while their callback is under way
	Fleet          []string      // how this program is started so that it holds devices; see errands.hold
}

const (
	// MaxDevices is the most that one gateway takes when the other is dead.
	MaxDevices = 1024
	// maxGoals bounds what is remembered of a run.
	maxGoals = 1_000_000
	// fleetSize sets the number of devices that a process holds.
	fleetSize = 250
	// devicesEach is the number of devices that a person has.
	devicesEach = 4
)

// GoalKnobs shortens the waits, as Knobs does. QStash's five retries come within the grace that goals get, as they do unshortened.
func GoalKnobs() map[string]string {
	return merged(Knobs(), map[string]string{"RUN_LEASE": "10s", "QSTASH_RETRY_DELAY": "1000 * pow(2, retried)"})
}

// devicesVictim is the name of a kill of a process that holds devices.
const devicesVictim = "devices"

// goalsVictims say who is killed in a run with goals, each as often as it stands here.
var goalsVictims = []string{
	stack.Onboarding, stack.Onboarding, stack.Gateway, stack.Gateway, stack.Messaging, devicesVictim, devicesVictim, postgresVictim,
}

func (g *Goals) fleets() int { return (g.Devices + fleetSize - 1) / fleetSize }

func (g *Goals) check() error {
	var problems []error
	if g.Devices < 1 || g.Devices > MaxDevices {
		problems = append(problems, fmt.Errorf("--devices must be 1 to %d, which is what one gateway takes when the other is dead", MaxDevices))
	}
	if g.Count < 1 || g.Count > maxGoals {
		problems = append(problems, fmt.Errorf("--goals must be 1 to %d", maxGoals))
	}
	if g.Duration < time.Second || g.KillEvery < 0 || g.CutEvery < 0 || g.Settle < time.Second {
		problems = append(problems, errors.New("--duration and --settle must be 1s or more, --kill-every and --cut-every 0 or more"))
	}
	if g.Cancel < 0 || g.Cancel > 1 {
		problems = append(problems, errors.New("--cancel must be 0 to 1"))
	}
	return errors.Join(problems...)
}

// Run plays and examines, as that of Processes.
func (g *Goals) Run(ctx context.Context) (GoalsReport, error) {
	if err := g.check(); err != nil {
		return GoalsReport{}, err
	}
	p := g.Processes
	p.goals = g
	site, report, err := p.run(ctx)
	if err != nil {
		return GoalsReport{Report: report}, err
	}
	return GoalsReport{Report: report, GoalsVerdict: site.goals.verdict}, nil
}

// errand is one goal of the plan.
type errand struct {
	n, device int
	said      time.Duration // when it is said, from the beginning of the run on
	due       time.Duration
	words     string
	cancelled bool          // while its callback is under way
	hesitates time.Duration // from the callback to the cancellation
}

// plan is the n-th goal.
func (g *Goals) plan(n int) errand {
	leastLead := 3 * time.Second
	mostLead := min(15*time.Second, leastLead+g.Duration/4)
	r := dice(g.Seed).roll("goal", n)
	e := errand{n: n, device: r.IntN(g.Devices)}
	e.said = time.Duration(r.Int64N(int64(g.Duration)))
	e.due = e.said + between(r, leastLead, mostLead)
	e.words = errandWords(r)
	e.cancelled = r.Float64() < g.Cancel
	e.hesitates = time.Duration(r.Int64N(int64(mostHesitation)))
	return e
}

// mostHesitation has cancellations come before and after the device's node begins the goal, which takes about ten milliseconds.
const mostHesitation = 12 * time.Millisecond

// errandWords say how long the device works, and that it fails, which one in twenty does.
func errandWords(r *rand.Rand) string {
	words := "work for " + between(r, 0, 2*time.Second).String()
	if oneIn(r, 20) {
		words += " and fail"
	}
	return words
}

// Work does what a device is asked for by a goal of the plan.
func Work(ctx context.Context, goal string) (ok bool, detail string) {
	var word, forWord, lasts, and, fail string
	_, _ = fmt.Sscan(goal, &word, &forWord, &lasts, &and, &fail) // the last two may be missing
	d, err := time.ParseDuration(lasts)
	if err != nil {
		return false, "this device works for a while, and knows nothing else"
	}
	if !pause(ctx, d) {
		return false, "it was stopped"
	}
	return fail == "", "worked"
}
