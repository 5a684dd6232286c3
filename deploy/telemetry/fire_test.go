package telemetry_test

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	engine "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
)

// begin is the first minute of every series.
var begin = time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC)

// TestAlertsFire plays what was measured to Prometheus' own engine, a value a minute, in the notation of promtool's rule tests.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	const never = -1
	for _, tt := range []struct {
		name, alert string
		series      []string
		want        int // the minute in which it fires first
	}{
		{name: "ASequenceStandsStill", alert: "SequenceStandsStill", series: []string{`sequence_lag_seconds 0x5 60+60x20`}, want: 13},
		{
			// Two instances are asked, and one of them could not ask the database for a while.
			name: "ASequenceThatOneInstanceStillSees", alert: "SequenceStandsStill", want: 8,
			series: []string{`sequence_lag_seconds{instance="a"} 0+60x20`, `sequence_lag_seconds{instance="b"} _x20`},
		},
		{name: "ASequenceThatTheSweeperMends", alert: "SequenceStandsStill", series: []string{`sequence_lag_seconds 0+60x6 0x14`}, want: never},
		{name: "AnAlarmTheRelayPublishes", alert: "AlarmsNotPublished", series: []string{`alarms_unpublished_oldest_seconds 0 60 120 0x10`}, want: never},
		{name: "AnOutageOfQStash", alert: "AlarmsNotPublished", series: []string{`alarms_unpublished_oldest_seconds 0+60x10`}, want: 5},
		{
			name: "EveryFifthStepIsLate", alert: "StepsLate", want: 20, // from the 18th minute on it is 14.4 % of all
			series: []string{
				`step_lateness_seconds_bucket{outcome="sent",le="2"} 0+10x5 58+8x60`, `step_lateness_seconds_count{outcome="sent"} 0+10x65`,
			},
		},
		{
			name: "OneStepInAHundredIsLate", alert: "StepsLate", want: never,
			series: []string{`step_lateness_seconds_bucket{outcome="sent",le="2"} 0+99x65`, `step_lateness_seconds_count{outcome="sent"} 0+100x65`},
		},
		{
			name: "SkippedStepsAreNotLate", alert: "StepsLate", want: never,
			series: []string{
				`step_lateness_seconds_bucket{outcome="sent",le="2"} 0+10x65`, `step_lateness_seconds_count{outcome="sent"} 0+10x65`,
				`step_lateness_seconds_bucket{outcome="skipped",le="2"} 0x65`, `step_lateness_seconds_count{outcome="skipped"} 0+10x65`,
			},
		},
		{name: "TheFirstMissedStop", alert: "StopMissed", series: []string{`inbound_missed_stops_total 0x5 1x60`}, want: 7},
		{name: "AMissedStopOfYesterday", alert: "StopMissed", series: []string{`inbound_missed_stops_total 1x100`}, want: never},
		{
			name: "ManyAtOnceAreParked", alert: "ManySessionsParked", want: 11,
			series: []string{`sessions_parked{status="stuck"} 3x5 30x60`, `sessions_parked{status="undeliverable"} 100x65`},
		},
		{
			name: "SendsAreRefused", alert: "SendsFail", want: 7, // five minutes after there were 20
			series: []string{`sms_sent_total{outcome="accepted"} 0+10x60`, `sms_sent_total{outcome="rejected"} 0+5x60`},
		},
		{
			name: "AHandfulIsRefused", alert: "SendsFail", want: never,
			series: []string{`sms_sent_total{outcome="accepted"} 0 0 0 0 1x60`, `sms_sent_total{outcome="rejected"} 0 0 0 0 4x60`},
		},
		{
			name: "NobodyIsThereToBeAsked", alert: "Blind", want: 13,
			series: []string{
				`sequence_lag_seconds 0x30`, `sms_in_doubt{status="unknown"} 0x5`,
				`jobs_oldest_due_seconds{queue="webhook_jobs"} 0x30`, `jobs_oldest_due_seconds{queue="outbound"} 0x30`,
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, firstFires(t, alertOf(t, tt.alert), stored(t, tt.series)))
		})
	}
}

func alertOf(t *testing.T, name string) rulefmt.Rule {
	t.Helper()
	file, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	groups, errs := rulefmt.Parse(file, false, model.UTF8Validation, promql, slog.New(slog.DiscardHandler))
	require.Empty(t, errs)
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			if rule.Alert == name {
				return rule
			}
		}
	}
	require.FailNow(t, "there is no such alert: "+name)
	return rulefmt.Rule{}
}

// firstFires evaluates a rule every minute for 65 minutes, and says in which one any of its alerts has been pending for its time.
func firstFires(t *testing.T, rule rulefmt.Rule, series storage.Queryable) int {
	t.Helper()
	ng := engine.NewEngine(engine.EngineOpts{MaxSamples: 1e6, Timeout: patience, Parser: promql})
	pending := map[string]int{}
	for minute := range 66 {
		at := begin.Add(time.Duration(minute) * time.Minute)
		query, err := ng.NewInstantQuery(t.Context(), series, nil, rule.Expr, at)
		require.NoError(t, err)
		result := query.Exec(t.Context())
		require.NoError(t, result.Err)
		vector, err := result.Vector()
		require.NoError(t, err)
		still := map[string]int{}
		for _, sample := range vector {
			since, was := pending[sample.Metric.String()]
			if !was {
				since = minute
			}
			still[sample.Metric.String()] = since
			if time.Duration(minute-since)*time.Minute >= time.Duration(rule.For) {
				return minute
			}
		}
		pending = still
		query.Close()
	}
	return -1
}

// stored is a database of these series.
func stored(t *testing.T, series []string) storage.Queryable {
	t.Helper()
	var all []*storage.SeriesEntry
	var names []labels.Labels
	for _, described := range series {
		name, values, err := promql.ParseSeriesDesc(described)
		require.NoError(t, err, described)
		var samples []chunks.Sample
		for minute, value := range values {
			if !value.Omitted {
				samples = append(samples, sample{at: begin.Add(time.Duration(minute) * time.Minute).UnixMilli(), value: value.Value})
			}
		}
		all, names = append(all, storage.NewListSeries(name, samples)), append(names, name)
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			found := &set{}
			for i, entry := range all {
				if matches(names[i], matchers) {
					found.series = append(found.series, entry)
				}
			}
			return found
		},
	}}
}

func matches(name labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(name.Get(m.Name)) {
			return false
		}
	}
	return true
}

// set is a storage.SeriesSet of what was found.
type set struct {
	series []*storage.SeriesEntry
	at     int
}

func (s *set) Next() bool         { s.at++; return s.at <= len(s.series) }
func (s *set) At() storage.Series { return s.series[s.at-1] }
func (s *set) Err() error         { return nil }

func (s *set) Warnings() annotations.Annotations { return nil }

// sample is one measurement.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
