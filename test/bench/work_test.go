package bench

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/process"
)

// BenchmarkWork measures how many steps, replies, receipts and webhooks a second the product does. One operation of the
// benchmark is a round of -steps pieces on fresh databases; figures are medians of the rounds. "of-first" is the rate relative
// to the first number of -callers, "of-plain" and "cpu-of-plain" relate a step to the same work in plain SQL, which pgbench does
// in the same round. With -before, "of-before", "cpu-of-before", "services-of-before" and "p99-of-before" relate it to the release
// before. "cpu-us" and "services-us" are the time of processors for a piece, of all and without Postgres.
func BenchmarkWork(b *testing.B) {
	s := newServer(b, false)
	plain := s.newPlain(b)
	for name, work := range works {
		b.Run(name, func(b *testing.B) {
			all := numbers(b, *callers)
			s.seed(b, work, *steps+warm(slices.Max(all)))
			var first float64
			for _, callers := range all {
				b.Run(strconv.Itoa(callers), func(b *testing.B) {
					var rounds, plains, befores []figures
					for b.Loop() {
						if s.before != "" {
							befores = append(befores, s.round(b, work, *steps, callers, wiring{processes: services(), alarms: "qstash", before: true}))
						}
						rounds = append(rounds, s.round(b, work, *steps, callers, apart()))
						if name == "Steps" {
							plains = append(plains, plain.round(b, *steps))
						}
					}
					rate := report(b, rounds)
					reportRatios(b, rounds, plains, "of-plain", "cpu-of-plain", "")
					reportRatios(b, rounds, befores, "of-before", "cpu-of-before", "p99-of-before")
					if first == 0 {
						first = rate
					}
					b.ReportMetric(rate/first, "of-first")
				})
			}
		})
	}
}

// numbers reads a list of numbers.
func numbers(tb testing.TB, list string) (all []int) {
	tb.Helper()
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		require.NoError(tb, err)
		all = append(all, n)
	}
	return all
}

// figures are the result of one round.
type figures struct {
	rate     float64 // done, a second
	p50, p99 float64 // milliseconds until an answer
	cpu      float64 // microseconds of a processor for each piece
	services float64 // the part of it that is not Postgres'
	cost     *cost   // nil unless it was counted
}

// report reports the medians of all rounds, and returns the median rate.
func report(b *testing.B, rounds []figures) float64 {
	b.Helper()
	metric(b, "p50-ms", rounds, func(f figures) float64 { return f.p50 })
	metric(b, "p99-ms", rounds, func(f figures) float64 { return f.p99 })
	metric(b, "cpu-us", rounds, func(f figures) float64 { return f.cpu })
	metric(b, "services-us", rounds, func(f figures) float64 { return f.services })
	b.ReportMetric(0, "ns/op") // a round is no operation
	return metric(b, "done/s", rounds, func(f figures) float64 { return f.rate })
}

// reportRatios reports the medians of the ratios to what another one did in the same round, of the rate, the processor's time and, unless
// its unit is empty, p99.
func reportRatios(b *testing.B, rounds, others []figures, rate, cpu, p99 string) {
	b.Helper()
	if len(others) == 0 {
		return
	}
	ratios := make([]figures, len(rounds))
	for i, o := range others {
		ratios[i] = figures{
			rate: rounds[i].rate / o.rate, cpu: rounds[i].cpu / o.cpu, p99: rounds[i].p99 / o.p99, services: rounds[i].services / o.services,
		}
	}
	metric(b, rate, ratios, func(f figures) float64 { return f.rate })
	metric(b, cpu, ratios, func(f figures) float64 { return f.cpu })
	if p99 != "" {
		metric(b, p99, ratios, func(f figures) float64 { return f.p99 })
		metric(b, "services-"+rate, ratios, func(f figures) float64 { return f.services })
	}
}

// metric reports the median of a value, and returns it.
func metric(b *testing.B, unit string, rounds []figures, value func(f figures) float64) float64 {
	b.Helper()
	values := make([]float64, len(rounds))
	for i, round := range rounds {
		values[i] = value(round)
	}
	median := quantile(values, 0.5)
	b.ReportMetric(median, unit)
	return median
}

// warm returns how many pieces of work come before a measurement: connections, statements, plans.
func warm(callers int) int { return 8 * callers }

// round has n pieces of work done on fresh databases. It fails unless each was done exactly once.
func (s *server) round(tb testing.TB, work workload, n, callers int, w wiring) figures {
	tb.Helper()
	databases, drop := s.clone(tb, w)
	defer drop()
	p := s.open(tb, databases, callers, w)
	defer p.close()
	s.stubs.asked.Store(0)
	warm := min(n/2, warm(callers))
	all := work.requests(tb, s, p, databases, warm+n)
	call(tb, all[:warm], callers)
	s.await(tb, work, databases, warm)
	postmaster, pids := s.postmaster(tb), []string{p.pids[stack.Gateway], p.pids[stack.Onboarding], p.pids[stack.Messaging]}
	var since mark
	if s.counts {
		since = s.mark(tb, p)
	}
	used, database, began := busy(tb, pids...), busy(tb, postmaster), now()
	took := call(tb, all[warm:], callers)
	s.await(tb, work, databases, len(all))
	elapsed := now().Sub(began)
	used, database = busy(tb, pids...)-used, busy(tb, postmaster)-database
	f := figures{
		rate: float64(n) / elapsed.Seconds(), p50: quantile(took, 0.5), p99: quantile(took, 0.99),
		cpu: (used + database) * 1e6 / float64(n), services: used * 1e6 / float64(n),
	}
	if s.counts {
		f.cost = s.costSince(tb, p, databases, since, n)
	}
	return f
}

// call makes requests, so many at once, and returns how long each took in milliseconds.
func call(tb testing.TB, all []request, callers int) []float64 {
	tb.Helper()
	took := make([]float64, len(all))
	var next atomic.Int64
	group, ctx := errgroup.WithContext(tb.Context())
	for range callers {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < len(all); i = int(next.Add(1)) - 1 {
				began := now()
				if err := all[i](ctx); err != nil {
					return err
				}
				took[i] = now().Sub(began).Seconds() * 1000
			}
			return nil
		})
	}
	require.NoError(tb, group.Wait())
	return took
}

// await waits until n pieces of work are done, which may be later than their answers, and fails unless each was done once.
func (s *server) await(tb testing.TB, work workload, databases map[string]string, n int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Minute)
	defer cancel()
	for service, sql := range work.done {
		for {
			var counts []int
			s.row(tb, databases[service], sql, &counts)
			if slices.Min(counts) == n && slices.Max(counts) == n {
				break
			}
			require.LessOrEqual(tb, slices.Max(counts), n, "%s did work twice: %v", service, counts)
			require.True(tb, process.RestOnMachineClock(ctx, 5*time.Millisecond, nil), "%s did %v of %d", service, counts, n)
		}
	}
	if work.sends {
		require.EqualValues(tb, n, s.stubs.asked.Load(), "messages that Twilio was asked for")
	}
}

// plain is the baseline: pgbench does the work of a step in plain SQL (testdata), one statement after the other on each
// connection.
type plain struct {
	server  *server
	program string
}

// plainClients is the number of connections that both services have together.
const plainClients = 16

func (s *server) newPlain(tb testing.TB) plain {
	tb.Helper()
	var bin string
	s.row(tb, "postgres", `select setting from pg_config where name = 'BINDIR'`, &bin)
	return plain{server: s, program: filepath.Join(bin, "pgbench")}
}

var tps = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

func (p plain) round(tb testing.TB, n int) figures {
	tb.Helper()
	tables, err := os.ReadFile(filepath.Join("testdata", "tables.sql"))
	require.NoError(tb, err)
	p.server.exec(tb, "postgres", "drop database if exists plain", "create database plain")
	p.server.exec(tb, "plain", string(tables), "vacuum analyze", "checkpoint")
	postmaster := p.server.postmaster(tb)
	used := busy(tb, postmaster)
	cmd := exec.CommandContext(tb.Context(), p.program, "-n", "-M", "prepared", "-c", strconv.Itoa(plainClients), "-j", "2",
		"-t", strconv.Itoa(n/plainClients), "-f", filepath.Join("testdata", "plain.sql"), p.server.private.URL("plain", "postgres"))
	out, err := cmd.CombinedOutput()
	require.NoError(tb, err, "%s", out)
	rate, err := strconv.ParseFloat(string(tps.FindSubmatch(out)[1]), 64)
	require.NoError(tb, err)
	seconds := busy(tb, postmaster) - used + cmd.ProcessState.UserTime().Seconds() + cmd.ProcessState.SystemTime().Seconds()
	return figures{rate: rate, cpu: seconds * 1e6 / float64(n/plainClients*plainClients)}
}
