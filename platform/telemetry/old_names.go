package telemetry

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// oldNames maps the names of metrics to the names that 0.1.0 gave them. One release serves both, so that an operator can change alerts and
// dashboards before or after the upgrade. Delete this file in the release after.
var oldNames = map[string]string{
	"paceline_alarms_unpublished":                     "alarms_unpublished",
	"paceline_alarms_unpublished_oldest_seconds":      "alarms_unpublished_oldest_seconds",
	"paceline_api_rate_limited_total":                 "api_rate_limited_total",
	"paceline_dead_letters_open":                      "dead_letters_open",
	"paceline_device_streams":                         "device_streams",
	"paceline_device_streams_ended_total":             "device_stream_ends_total",
	"paceline_devices_connected":                      "devices_connected",
	"paceline_engagement_outreach_total":              "engagement_outreach_total",
	"paceline_engagement_people":                      "engagement_people",
	"paceline_engagement_run_lag_seconds":             "engagement_run_lag_seconds",
	"paceline_engagement_run_people_total":            "engagement_run_people_total",
	"paceline_engagement_run_seconds":                 "engagement_run_seconds",
	"paceline_engagement_transitions_total":           "engagement_transitions_total",
	"paceline_erasures_open_oldest_seconds":           "erasures_open_oldest_seconds",
	"paceline_event_subscription_lag_seconds":         "event_subscriptions_behind_seconds",
	"paceline_event_subscriptions":                    "event_subscriptions",
	"paceline_events_recorded_total":                  "events_recorded_total",
	"paceline_events_waiting_oldest_seconds":          "events_waiting_seconds",
	"paceline_goal_alarms_offline_total":              "goal_alarms_offline_total",
	"paceline_goal_alarms_unpublished_oldest_seconds": "goal_alarms_unpublished_oldest_seconds",
	"paceline_goal_call_seconds":                      "goal_call_seconds",
	"paceline_goal_lag_seconds":                       "goal_lag_seconds",
	"paceline_goal_lateness_seconds":                  "goal_lateness_seconds",
	"paceline_goal_offers_total":                      "goal_offers_total",
	"paceline_goals_ended_total":                      "goals_ended_total",
	"paceline_inbound_late_total":                     "inbound_late_total",
	"paceline_inbound_missed_stops_total":             "inbound_missed_stops_total",
	"paceline_inbound_sweeps_total":                   "inbound_audits_total",
	"paceline_job_age_seconds":                        "job_age_seconds",
	"paceline_job_attempts_total":                     "jobs_ended_total",
	"paceline_jobs_backlog":                           "jobs_backlog",
	"paceline_jobs_failed":                            "jobs_failed",
	"paceline_jobs_oldest_due_seconds":                "jobs_oldest_due_seconds",
	"paceline_jobs_running":                           "jobs_running",
	"paceline_jobs_scheduled":                         "jobs_scheduled",
	"paceline_ledgers_unanchored_seconds":             "ledgers_unanchored_seconds",
	"paceline_loop_rows_lock_skipped_total":           "loop_rows_passed_over_total",
	"paceline_loop_stalled":                           "loop_stands_still",
	"paceline_loop_timeouts_total":                    "loop_passes_overdue_total",
	"paceline_organisations_paused":                   "organisations_paused",
	"paceline_postgres_pool_acquire_timeouts_total":   "postgres_connection_wait_given_up_total",
	"paceline_postgres_pool_connections":              "postgres_connections",
	"paceline_postgres_pool_wait_seconds_total":       "postgres_connection_wait_seconds_total",
	"paceline_postgres_pool_waits_total":              "postgres_connection_waits_total",
	"paceline_retention_lag_seconds":                  "retention_late_seconds",
	"paceline_retention_rows_total":                   "retention_rows_total",
	"paceline_row_decode_errors_total":                "rows_unread_total",
	"paceline_rpc_handled_total":                      "rpc_server_handled_total",
	"paceline_sequence_lag_seconds":                   "sequence_lag_seconds",
	"paceline_sessions_in_burst":                      "sessions_in_burst",
	"paceline_sessions_parked":                        "sessions_parked",
	"paceline_sms_consent_replies_total":              "sms_consent_replies_total",
	"paceline_sms_in_doubt":                           "sms_in_doubt",
	"paceline_sms_in_doubt_oldest_seconds":            "sms_in_doubt_oldest_seconds",
	"paceline_sms_inbound_total":                      "sms_inbound_total",
	"paceline_sms_receipts_missing":                   "sms_receipts_missing",
	"paceline_sms_receipts_total":                     "sms_receipts_total",
	"paceline_sms_refused_total":                      "sms_refused_total",
	"paceline_sms_segments_accepted_total":            "sms_segments_accepted_total",
	"paceline_sms_sends_total":                        "sms_sent_total",
	"paceline_sms_statuses_fetched_total":             "sms_statuses_fetched_total",
	"paceline_sms_unknown_settled_total":              "sms_unknown_settled_total",
	"paceline_step_lateness_seconds":                  "step_lateness_seconds",
	"paceline_step_spacing_error_seconds":             "step_spacing_error_seconds",
}

// withOldNames adds to what it gathers a copy of each family that oldNames has, under its old name.
type withOldNames struct{ prometheus.Gatherer }

// Gather implements prometheus.Gatherer.
func (g withOldNames) Gather() ([]*dto.MetricFamily, error) {
	families, err := g.Gatherer.Gather()
	for _, f := range families {
		if old, renamed := oldNames[f.GetName()]; renamed {
			help := "Deprecated: use " + f.GetName() + "."
			families = append(families, &dto.MetricFamily{Name: &old, Help: &help, Type: f.Type, Metric: f.GetMetric()})
		}
	}
	slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return families, err
}
