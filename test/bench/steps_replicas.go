package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"paceline.internal/deploy/stack"
)

// With replicas the rig stands where a load balancer and the Services of a cluster do: connections to the gateways are made in turn, and
// each gateway, as each onboarding, has the one gRPC connection that it has in production, here to the replica of its own number. A Service
// may be less even, for the minutes that a connection lives.

func (s Steps) checkSizes() error {
	for _, n := range s.Replicas {
		if n < 1 || n > slices.Min(s.Callers) || n > 1 && s.work() != "steps" {
			return errors.New("--replicas must be 1 or more, none more than the least of --callers, and are for steps alone")
		}
	}
	if len(s.Connections) > 0 && slices.Min(s.Connections) < 0 {
		return errors.New("--connections must be 0 or more")
	}
	return nil
}

// sizes are this program in every size that is measured.
func (s Steps) sizes() (all []*build) {
	for _, n := range orElse(s.Replicas, 1) {
		for _, connections := range orElse(s.Connections, 0) {
			var name []string
			if n > 1 {
				name = append(name, fmt.Sprintf("%d of each", n))
			}
			if connections > 0 {
				name = append(name, fmt.Sprintf("pool of %d", connections))
			}
			all = append(all, &build{
				name: cmp.Or(strings.Join(name, ", "), "this"), program: s.Program, runs: map[int][]StepsRun{},
				replicas: n, connections: connections,
			})
		}
	}
	if s.Events {
		for _, e := range []events{subscribed, unwritten} {
			all = append(all, &build{name: string(e), program: s.Program, runs: map[int][]StepsRun{}, replicas: 1, events: e})
		}
	}
	return all
}

func orElse(given []int, n int) []int {
	if len(given) == 0 {
		return []int{n}
	}
	return given
}

// replicas are the environments of all replicas of the three services.
func (s Steps) replicas(ctx context.Context, stubs *stubs, b *build, urls map[string]string) ([]map[string]string, error) {
	all := make([]map[string]string, max(1, b.replicas))
	for i := range all {
		environ, err := s.environ(ctx, stubs, urls)
		if err != nil {
			return nil, err
		}
		if b.connections > 0 {
			environ["DATABASE_CONNECTIONS"] = strconv.Itoa(b.connections)
		}
		b.events.environ(environ)
		all[i] = environ
		for _, shared := range []string{"PUBLIC_BASE_URL", "SERVICE_AUTH_SECRET"} {
			environ[shared] = all[0][shared]
		}
	}
	return all, nil
}

// balanced makes connections to the gateways in turn, whichever of them is asked for; those to ops ports go where they are meant to.
func balanced(replicas []map[string]string, callers int) *http.Transport {
	var next atomic.Int64
	return &http.Transport{
		MaxIdleConnsPerHost: callers, MaxConnsPerHost: callers,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == replicas[0]["GATEWAY_ADDR"] {
				addr = replicas[int(next.Add(1)-1)%len(replicas)]["GATEWAY_ADDR"]
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}
}

// replicaOf names a replica of a service, and serviceOf is its service.
func replicaOf(service string, n int) string {
	if n == 0 {
		return service
	}
	return service + "-" + strconv.Itoa(n+1)
}

func serviceOf(replica string) string {
	service, _, _ := strings.Cut(replica, "-")
	return service
}

var sentTotal = regexp.MustCompile(`(?m)^sms_sent_total(?:{[^}]*})? ([0-9.e+]+)$`)

// sumOf adds up a metric over its labels.
func sumOf(page []byte, metric *regexp.Regexp) (sum float64) {
	for _, found := range metric.FindAllSubmatch(page, -1) {
		n, _ := strconv.ParseFloat(string(found[1]), 64) // it is a number
		sum += n
	}
	return sum
}

// shares are the parts of what was sent that each replica sent, in its order; none when nothing was.
func (u StepUse) shares() []float64 {
	all, sum := make([]float64, len(u.sent)), 0.0
	for i := range all {
		all[i] = u.sent[replicaOf(stack.Messaging, i)]
		sum += all[i]
	}
	if sum == 0 {
		return nil
	}
	for i := range all {
		all[i] /= sum
	}
	return all
}

// fairness is the least share over the greatest.
func fairness(r StepsRun) float64 {
	if len(r.Shares) == 0 {
		return 1
	}
	return slices.Min(r.Shares) / slices.Max(r.Shares)
}

// pinFrom is how many processors there have to be before replicas get some of their own; half of all are for Postgres and the load.
const pinFrom = 4

// processors are those that the replica of a number has, in the form of taskset; empty where it has none of its own.
func (s Steps) processors(of []string, n int) string {
	most := slices.Max(append([]int{1}, s.Replicas...))
	if most == 1 || len(of) < pinFrom {
		return ""
	}
	each := max(1, len(of)/(2*most))
	first := n * each % len(of)
	return strings.Join(of[first:min(first+each, len(of))], ",")
}

// pin is what a replica's command begins with.
func (s Steps) pin(n int) []string {
	taskset, err := exec.LookPath("taskset")
	if to := s.processors(allowed(), n); err == nil && to != "" {
		return []string{taskset, "-c", to}
	}
	return nil
}

// pinned says what pin does.
func (s Steps) pinned() string {
	if command := s.pin(0); command != nil {
		return fmt.Sprintf("Each replica of the three services together has %d of %d processors, Postgres and the load have all",
			1+strings.Count(command[2], ","), runtime.NumCPU())
	}
	return fmt.Sprintf("All processes share %d processors", runtime.NumCPU())
}

// allowed are the processors that we may use, by Linux's /proc; none elsewhere.
func allowed() (all []string) {
	status, _ := os.ReadFile("/proc/self/status") // there is none elsewhere
	_, list, _ := strings.Cut(string(status), "Cpus_allowed_list:")
	list, _, _ = strings.Cut(list, "\n")
	for span := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		from, to, many := strings.Cut(span, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			continue
		}
		last := first
		if many {
			last, _ = strconv.Atoi(to) // a number, as the first one
		}
		for ; first <= last; first++ {
			all = append(all, strconv.Itoa(first))
		}
	}
	return all
}
