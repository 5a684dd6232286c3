package telemetry_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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

// TestAlertsFire plays what was measured to Prometheus' own engine, a value a minute, in the notation of promtool's rule tests: each alert
// is provoked, and clears once the cause is gone.
func TestAlertsFire(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	const never = -1
	refused := `http_server_request_duration_seconds_count{http_route="%s",http_response_status_code="%s"} `
	provoked := map[string]bool{}
	for _, tt := range []struct {
		name, alert   string
		series        []string
		fires, clears int // the minute in which it fires first, and the minute in which it is gone again
	}{
		{name: "ASequenceStandsStill", alert: "SequenceStandsStill", series: []string{`paceline_sequence_lag_seconds 0x5 60+60x20 0x60`}, fires: 13, clears: 27},
		{
			// Two instances are asked, and one of them could not ask the database for a while.
			name: "ASequenceThatOneInstanceStillSees", alert: "SequenceStandsStill", fires: 8, clears: 21,
			series: []string{`paceline_sequence_lag_seconds{instance="a"} 0+60x20 0x60`, `paceline_sequence_lag_seconds{instance="b"} _x20`},
		},
		{name: "ASequenceThatTheSweeperMends", alert: "SequenceStandsStill", series: []string{`paceline_sequence_lag_seconds 0+60x6 0x14`}, fires: never},
		{name: "AnAlarmTheRelayPublishes", alert: "AlarmsNotPublished", series: []string{`paceline_alarms_unpublished_oldest_seconds 0 60 120 0x10`}, fires: never},
		{name: "AnOutageOfQStash", alert: "AlarmsNotPublished", series: []string{`paceline_alarms_unpublished_oldest_seconds 0+60x10 0x60`}, fires: 5, clears: 11},
		{name: "AnOrganisationThatIsPausedForHalfAnHour", alert: "SchedulingPaused", series: []string{`paceline_organisations_paused 0x30 1x30 0x30`}, fires: never},
		{name: "AnOrganisationThatIsPausedForAnHour", alert: "SchedulingPaused", series: []string{`paceline_organisations_paused 0x5 1x70 0x30`}, fires: 66, clears: 77},
		{
			name: "EveryFifthStepIsLate", alert: "StepsLate", fires: 20, clears: 63, // from the 18th minute on it is 14.4 % of all
			series: []string{
				`paceline_step_lateness_seconds_bucket{outcome="sent",le="2.0"} 0+10x5 58+8x55 508+10x80`, `paceline_step_lateness_seconds_count{outcome="sent"} 0+10x141`,
			},
		},
		{
			name: "OneStepInAHundredIsLate", alert: "StepsLate", fires: never,
			series: []string{`paceline_step_lateness_seconds_bucket{outcome="sent",le="2.0"} 0+99x65`, `paceline_step_lateness_seconds_count{outcome="sent"} 0+100x65`},
		},
		{
			name: "SkippedStepsAreNotLate", alert: "StepsLate", fires: never,
			series: []string{
				`paceline_step_lateness_seconds_bucket{outcome="sent",le="2.0"} 0+10x65`, `paceline_step_lateness_seconds_count{outcome="sent"} 0+10x65`,
				`paceline_step_lateness_seconds_bucket{outcome="skipped",le="2.0"} 0x65`, `paceline_step_lateness_seconds_count{outcome="skipped"} 0+10x65`,
			},
		},
		{name: "TwoMessagesTooClose", alert: "StepsTooClose", series: []string{`paceline_step_spacing_error_seconds_bucket{le="-0.25"} 0x5 1x60`}, fires: 7, clears: 20},
		{name: "OneIsParked", alert: "SessionsParked", series: []string{`paceline_sessions_parked{status="stuck"} 0x5 1x30 0x60`}, fires: 21, clears: 37},
		{
			name: "ManyAtOnceAreParked", alert: "ManySessionsParked", fires: 11, clears: 65,
			series: []string{`paceline_sessions_parked{status="stuck"} 3x5 30x80`, `paceline_sessions_parked{status="undeliverable"} 100x85`},
		},
		{name: "AStepThatQStashGaveUp", alert: "DeadLetters", series: []string{`paceline_dead_letters_open 0x5 1x30 0x60`}, fires: 16, clears: 37},
		{
			name: "ForeignSignaturesOfAlarms", alert: "AlarmsRefused", fires: 15, clears: 43,
			series: []string{fmt.Sprintf(refused, "/api/onboarding/step", "401") + `0x5 0+10x30 300x60`},
		},
		{name: "AnOutcomeThatStaysUnknown", alert: "SendsInDoubt", series: []string{`paceline_sms_in_doubt_oldest_seconds{status="unknown"} 0+60x40 0x60`}, fires: 21, clears: 41},
		{name: "AMessageThatAnOperatorMustResolve", alert: "SendsParked", series: []string{`paceline_sms_in_doubt{status="parked"} 0x5 1x30 0x60`}, fires: 16, clears: 37},
		{
			name: "SendsAreRefused", alert: "SendsFail", fires: 7, clears: 56, // five minutes after there were 20
			series: []string{`paceline_sms_sends_total{outcome="accepted"} 0+10x120`, `paceline_sms_sends_total{outcome="rejected"} 0+5x45 225x75`},
		},
		{
			name: "SendsAreRefusedWhileOutreachWaitsForItsTurn", alert: "SendsFail", fires: 7, clears: 56,
			series: []string{
				`paceline_sms_sends_total{outcome="accepted"} 0+10x120`, `paceline_sms_sends_total{outcome="rejected"} 0+5x45 225x75`, `paceline_sms_sends_total{outcome="paced"} 0+900x120`,
			},
		},
		{
			name: "AHandfulIsRefused", alert: "SendsFail", fires: never,
			series: []string{`paceline_sms_sends_total{outcome="accepted"} 0 0 0 0 1x60`, `paceline_sms_sends_total{outcome="rejected"} 0 0 0 0 4x60`},
		},
		{
			name: "NoReceiptsCome", alert: "ReceiptsMissing", fires: 21, clears: 61,
			series: []string{`paceline_sms_receipts_missing 0+2x60 0x60`, `paceline_sms_sends_total{outcome="accepted"} 0+1x120`},
		},
		{
			name: "AKeyThatWasDeletedAtTwilio", alert: "AccountRefused", fires: 9, clears: 50,
			series: []string{`paceline_sms_account_refusals_total 0x5 0+2x30 60x60`},
		},
		{name: "RefusalsOfYesterday", alert: "AccountRefused", series: []string{`paceline_sms_account_refusals_total 7x100`}, fires: never},
		{name: "AnOrganisationThatIsSuspendedWithWork", alert: "SuspendedWithWork", series: []string{`paceline_organisations_suspended_waiting 0x5 1x70 0x30`}, fires: 66, clears: 77},
		{name: "TheFirstMissedStop", alert: "StopMissed", series: []string{`paceline_inbound_missed_stops_total 0x5 1x90`}, fires: 7, clears: 65},
		{name: "AMissedStopOfYesterday", alert: "StopMissed", series: []string{`paceline_inbound_missed_stops_total 1x100`}, fires: never},
		{
			name: "TwiliosListCannotBeRead", alert: "InboundSweepsFail", fires: 6, clears: 69,
			series: []string{`paceline_inbound_sweeps_total{outcome="swept"} 5x60 5+1x60`, `paceline_inbound_sweeps_total{outcome="failed"} 0+1x60 60x60`},
		},
		{
			name: "TwilioRefusesOneOrganisation", alert: "InboundSweepsFail", fires: 26, clears: 69,
			series: []string{`paceline_inbound_sweeps_total{outcome="swept"} 0+9x120`, `paceline_inbound_sweeps_total{outcome="failed"} 0+1x60 60x60`},
		},
		{
			name: "SomeLooksFail", alert: "InboundSweepsFail", fires: never,
			series: []string{`paceline_inbound_sweeps_total{outcome="swept"} 0+9x120`, `paceline_inbound_sweeps_total{outcome="failed"} 0+1x15 15x60`},
		},
		{
			name: "OnboardingIsAway", alert: "WebhooksFail", fires: 6, clears: 34,
			series: []string{
				fmt.Sprintf(refused, "/api/webhooks/twilio/inbound", "200") + `0+10x120`,
				fmt.Sprintf(refused, "/api/webhooks/twilio/inbound", "503") + `0+5x30 150x90`,
			},
		},
		{
			name: "ForeignSignaturesOfMessages", alert: "TextsRefused", fires: 15, clears: 43,
			series: []string{fmt.Sprintf(refused, "/api/webhooks/twilio/inbound", "403") + `0x5 0+10x30 300x60`},
		},
		{
			name: "ARunThatBeginsAtOnce", alert: "EngagementRunLate", fires: never,
			series: []string{`paceline_engagement_run_lag_seconds{job="daily"} 0x5 0 60 120 0x60`},
		},
		{
			name: "ARunThatDoesNotBegin", alert: "EngagementRunLate", fires: 42, clears: 61,
			series: []string{`paceline_engagement_run_lag_seconds{job="daily"} 0x5 0+60x54 0x60`, `paceline_engagement_run_lag_seconds{job="weekly"} 0x120`},
		},
		{
			name: "APersonWhomARunCannotWrite", alert: "EngagementRunFailsPeople", fires: 7, clears: 65,
			series: []string{`paceline_engagement_run_people_total{job="daily",result="failed"} 0x5 1x90`},
		},
		{
			name: "OutreachIsRejected", alert: "OutreachFails", fires: 11, clears: 85,
			series: []string{
				`paceline_engagement_outreach_total{type="welcome",outcome="sent"} 0+3x120`, `paceline_engagement_outreach_total{type="welcome",outcome="rejected"} 0+1x45 45x80`,
			},
		},
		{
			name: "AFewAreRejected", alert: "OutreachFails", fires: never,
			series: []string{
				`paceline_engagement_outreach_total{type="welcome",outcome="sent"} 0+30x120`, `paceline_engagement_outreach_total{type="welcome",outcome="rejected"} 0+1x120`,
			},
		},
		{
			name: "GoodbyesExpire", alert: "GoodbyesNotAccepted", fires: 7, clears: never,
			series: []string{
				`paceline_engagement_outreach_total{type="goodbye",outcome="sent"} 0+10x120`, `paceline_engagement_outreach_total{type="goodbye",outcome="expired"} 0+1x120`,
			},
		},
		{
			name: "PeopleWhoReturnBeforeTheirGoodbye", alert: "GoodbyesNotAccepted", fires: never,
			series: []string{
				`paceline_engagement_outreach_total{type="goodbye",outcome="sent"} 0+10x120`, `paceline_engagement_outreach_total{type="goodbye",outcome="returned"} 0+10x120`,
			},
		},
		{
			name: "OutreachThatIsNotBegun", alert: "OutreachGrowsOld", fires: 26, clears: 61,
			series: []string{`paceline_jobs_oldest_due_seconds{queue="engagement_outreach"} 0+60x60 0x60`},
		},
		{name: "AGoalWhoseAlarmDoesNotCome", alert: "GoalsWaitForAlarms", series: []string{`paceline_goal_lag_seconds 0x5 60+60x20 0x60`}, fires: 13, clears: 27},
		{
			name: "AlarmsOfGoalsThatQStashDoesNotTake", alert: "GoalsWaitForAlarms", fires: 5, clears: 11,
			series: []string{`paceline_goal_lag_seconds 0x90`, `paceline_goal_alarms_unpublished_oldest_seconds 0+60x10 0x60`},
		},
		{name: "EventsThatGetNoNumber", alert: "EventsNotRecorded", series: []string{`paceline_events_waiting_oldest_seconds 0x5 60+60x20 0x60`}, fires: 12, clears: 27},
		{name: "EventsThatAreASecondOld", alert: "EventsNotRecorded", series: []string{`paceline_events_waiting_oldest_seconds 1x30`}, fires: never},
		{name: "ASubscriptionThatPausedItself", alert: "SubscriptionPaused", series: []string{`paceline_event_subscriptions{status="paused"} 0x5 1x40 0x20`}, fires: 21, clears: 47},
		{name: "ASubscriberThatIsTooSlow", alert: "SubscriptionBehind", series: []string{`paceline_event_subscription_lag_seconds 0+120x60 0x20`}, fires: 41, clears: 61},
		{name: "AGoalThatTheSweeperMends", alert: "GoalsWaitForAlarms", series: []string{`paceline_goal_lag_seconds 0+60x6 0x14`}, fires: never},
		{
			name: "EveryFifthGoalIsLate", alert: "GoalsLate", fires: 20, clears: 63,
			series: []string{
				`paceline_goal_lateness_seconds_bucket{device="stream",waited="nothing",le="2.0"} 0+10x5 58+8x55 508+10x80`,
				`paceline_goal_lateness_seconds_count{device="stream",waited="nothing"} 0+10x141`,
			},
		},
		{
			name: "GoalsThatWaitForTheirDevicesAreNotLate", alert: "GoalsLate", fires: never,
			series: []string{
				`paceline_goal_lateness_seconds_bucket{device="stream",waited="nothing",le="2.0"} 0+10x65`,
				`paceline_goal_lateness_seconds_count{device="stream",waited="nothing"} 0+10x65`,
				`paceline_goal_lateness_seconds_bucket{device="stream",waited="busy",le="2.0"} 0x65`,
				`paceline_goal_lateness_seconds_count{device="stream",waited="busy"} 0+10x65`,
			},
		},
		{
			name: "OneLateGoalOfAHandful", alert: "GoalsLate", fires: never,
			series: []string{
				`paceline_goal_lateness_seconds_bucket{device="phone",waited="nothing",le="2.0"} 0x90`,
				`paceline_goal_lateness_seconds_count{device="phone",waited="nothing"} 0x5 1x20 2x65`,
			},
		},
		{
			name: "DevicesThatAllAreOffline", alert: "GoalsFail", fires: 11, clears: 85,
			series: []string{
				`paceline_goals_ended_total{device="stream",outcome="completed"} 0+3x120`, `paceline_goals_ended_total{device="stream",outcome="device_offline"} 0+1x45 45x80`,
			},
		},
		{
			name: "DevicesThatSayThatTheyFailed", alert: "GoalsFail", fires: never,
			series: []string{
				`paceline_goals_ended_total{device="stream",outcome="completed"} 0+3x120`, `paceline_goals_ended_total{device="stream",outcome="device_failed"} 0+3x120`,
			},
		},
		{name: "OutreachThatWaitsForItsTurn", alert: "BacklogGrowsOld", series: []string{`paceline_jobs_oldest_due_seconds{queue="engagement_outreach"} 0+10x120`}, fires: never},
		{name: "AJobThatWaits", alert: "BacklogGrowsOld", series: []string{`paceline_jobs_oldest_due_seconds{queue="webhook_jobs"} 0+60x20 0x60`}, fires: 8, clears: 21},
		{name: "AJobThatFailedForGood", alert: "JobsFailed", series: []string{`paceline_jobs_failed{queue="outbound"} 0x5 1x30 0x60`}, fires: 21, clears: 37},
		{name: "AnErasureThatIsDoneWithinADay", alert: "ErasureStaysOpen", series: []string{`paceline_erasures_open_oldest_seconds 83000+60x55 0x60`}, fires: never},
		{name: "AnErasureThatStaysOpen", alert: "ErasureStaysOpen", series: []string{`paceline_erasures_open_oldest_seconds 86100+60x40 0x60`}, fires: 21, clears: 41},
		{name: "ABacklogThatRetentionClears", alert: "RetentionLate", series: []string{`paceline_retention_lag_seconds{table="audit"} 0x5 7200x300 0x500`}, fires: never},
		{name: "RetentionThatFallsBehind", alert: "RetentionLate", series: []string{`paceline_retention_lag_seconds{table="audit"} 0x5 7200x400 0x400`}, fires: 366, clears: 407},
		{name: "LedgersThatMissedAFewAnchors", alert: "LedgersNotAnchored", series: []string{`paceline_ledgers_unanchored_seconds 0+60x350 0x60`}, fires: never},
		{name: "LedgersThatNoAnchorHolds", alert: "LedgersNotAnchored", series: []string{`paceline_ledgers_unanchored_seconds 21300+60x40 0x60`}, fires: 21, clears: 41},
		{name: "ATextThatTheDatabaseHadLost", alert: "DatabaseWentBack", series: []string{`paceline_readback_found_total{direction="outbound"} 0x5 1x90`}, fires: 7, clears: 65},
		{name: "ASwitchoverThatLostNothing", alert: "DatabaseWentBack", series: []string{`paceline_readback_found_total{direction="outbound"} 0x90`}, fires: never},
		{name: "AnAccountThatCannotBeRead", alert: "ReadbackStandsStill", series: []string{`paceline_readbacks_open 0x5 1x10 0x20`}, fires: 9, clears: 17},
		{name: "AStandbyThatIsTakenForThePrimary", alert: "DatabaseRefusesWrites", series: []string{`paceline_postgres_read_only 0x5 1x10 0x20`}, fires: 7, clears: 17},
		{name: "ASwitchover", alert: "DatabaseRefusesWrites", series: []string{`paceline_postgres_read_only 0x5 1 0x20`}, fires: never},
		{name: "TooFewConnections", alert: "PoolExhausted", series: []string{`paceline_postgres_pool_wait_seconds_total{instance="a"} 0+120x30 3600x60`}, fires: 8, clears: 32},
		{
			name: "ALoopOfOneInstance", alert: "LoopStandsStill", fires: 8, clears: 21,
			series: []string{`paceline_loop_stalled{instance="a",loop="relay"} 0x5 1x14 0x60`, `paceline_loop_stalled{instance="b",loop="relay"} 0x80`},
		},
		{name: "ALoopThatGotAnotherConnection", alert: "LoopStandsStill", series: []string{`paceline_loop_stalled{loop="relay"} 0x5 1 0x60`}, fires: never},
		{name: "ASilenceThatComesAgain", alert: "LoopsBrokenOff", series: []string{`paceline_loop_timeouts_total{loop="relay"} 0x5 0+1x20 20x60`}, fires: 15, clears: 53},
		{name: "OneSilence", alert: "LoopsBrokenOff", series: []string{`paceline_loop_timeouts_total{loop="relay"} 0x5 1x60`}, fires: never},
		{name: "ARowThatStaysLocked", alert: "RowsPassedOver", series: []string{`paceline_loop_rows_lock_skipped_total{loop="sweeper"} 0x5 0+4x20 80x60`}, fires: 14, clears: 38},
		{name: "APersonWhoWaitsInTheInbox", alert: "TicketsWait", series: []string{`paceline_tickets_overdue 0x5 1x10 0x20`}, fires: 8, clears: 17},
		{name: "AFewSendsThatMeetACap", alert: "SendsCapped", series: []string{`paceline_sms_refused_total{why="cap"} 0x5 10x90`}, fires: never},
		{name: "NumbersThatAreNotTexted", alert: "SendsCapped", series: []string{`paceline_sms_refused_total{why="number"} 0+5x90`}, fires: never},
		{name: "APhoneThatIsBombed", alert: "SendsCapped", series: []string{`paceline_sms_refused_total{why="cap"} 0x5 40x120`}, fires: 11, clears: 65},
		{
			name: "SegmentsToACountryWithoutPeopleOfOurs", alert: "SpendRises", fires: 33, clears: 79,
			series: []string{`paceline_sms_segments_accepted_total{country="US"} 0+0.1x240`, `paceline_sms_segments_accepted_total{country="ZW"} 0x10 0+30x15 450x150`},
		},
		{name: "AFewSegmentsMore", alert: "SpendRises", series: []string{`paceline_sms_segments_accepted_total{country="US"} 0x60 0+3x120`}, fires: never},
		{
			name: "NoServiceCanBeScraped", alert: "Blind", fires: 13, clears: 21,
			series: []string{
				`paceline_sequence_lag_seconds 0x90`, `paceline_sms_in_doubt{status="unknown"} 0x5 _x15 0x60`,
				`paceline_jobs_oldest_due_seconds{queue="webhook_jobs"} 0x90`, `paceline_jobs_oldest_due_seconds{queue="outbound"} 0x90`,
				`paceline_device_streams 0x90`,
			},
		},
		{
			name: "NoGatewayRuns", alert: "Blind", fires: 13, clears: 21,
			series: []string{
				`paceline_sequence_lag_seconds 0x90`, `paceline_sms_in_doubt{status="unknown"} 0x90`,
				`paceline_jobs_oldest_due_seconds{queue="webhook_jobs"} 0x90`, `paceline_jobs_oldest_due_seconds{queue="outbound"} 0x90`,
				`paceline_device_streams 0x5 _x15 0x60`,
			},
		},
	} {
		provoked[tt.alert] = provoked[tt.alert] || tt.fires != never
		if tt.fires == never {
			tt.clears = never
		}
		t.Run("R_17_"+tt.name, func(t *testing.T) {
			t.Parallel()
			for _, described := range tt.series {
				require.Empty(t, conversation(t).metrics.storable(described), "what is played must be what a real scrape stores")
			}
			fires, clears := burns(t, alertOf(t, tt.alert), stored(t, tt.series))
			require.Equal(t, []int{tt.fires, tt.clears}, []int{fires, clears})
		})
	}
	t.Run("R_17_EveryAlertIsProvoked", func(t *testing.T) {
		t.Parallel()
		for _, rule := range rules(t) {
			require.True(t, provoked[rule.Alert], rule.Alert)
		}
	})
}

// storable returns what of a described series no service exports: its name, a label, or a bucket. Whether a label has another value depends
// on what went wrong.
func (e exported) storable(described string) (found []string) {
	series, _, err := promql.ParseSeriesDesc(described)
	if err != nil {
		return []string{err.Error()}
	}
	has, ok := e.labels[series.Get(model.MetricNameLabel)]
	if !ok {
		return []string{"no service exports " + described}
	}
	series.Range(func(l labels.Label) {
		if values, known := has[l.Name]; !known || l.Name == model.BucketLabel && !values[l.Value] {
			found = append(found, fmt.Sprintf("there is no %s=%q", l.Name, l.Value))
		}
	})
	return found
}

func rules(t *testing.T) (all []rulefmt.Rule) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(root, "deploy/telemetry/alerts.yaml"))
	require.NoError(t, err)
	groups, errs := rulefmt.Parse(file, false, model.UTF8Validation, promql, slog.New(slog.DiscardHandler))
	require.Empty(t, errs)
	for _, group := range groups.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

func alertOf(t *testing.T, name string) rulefmt.Rule {
	t.Helper()
	for _, rule := range rules(t) {
		if rule.Alert == name {
			return rule
		}
	}
	require.FailNow(t, "there is no such alert: "+name)
	return rulefmt.Rule{}
}

// burns evaluates a rule every minute for two hours, and for twice its time, and says in which minute any of its alerts has first been
// pending for its time, and in which none is any more; -1 for what does not happen.
func burns(t *testing.T, rule rulefmt.Rule, series storage.Queryable) (fires, clears int) {
	t.Helper()
	fires = -1
	ng := engine.NewEngine(engine.EngineOpts{MaxSamples: 1e6, Timeout: longest, Parser: promql})
	pending := map[string]int{}
	for minute := range 120 + 2*int(time.Duration(rule.For)/time.Minute) {
		at := begin.Add(time.Duration(minute) * time.Minute)
		query, err := ng.NewInstantQuery(t.Context(), series, nil, rule.Expr, at)
		require.NoError(t, err)
		result := query.Exec(t.Context())
		require.NoError(t, result.Err)
		vector, err := result.Vector()
		require.NoError(t, err)
		still, burning := map[string]int{}, false
		for _, sample := range vector {
			since, was := pending[sample.Metric.String()]
			if !was {
				since = minute
			}
			still[sample.Metric.String()] = since
			burning = burning || time.Duration(minute-since)*time.Minute >= time.Duration(rule.For)
		}
		pending = still
		query.Close()
		switch {
		case burning && fires < 0:
			fires = minute
		case !burning && fires >= 0:
			return fires, minute
		}
	}
	return fires, -1
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
