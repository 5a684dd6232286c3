package cells

// Table describes how the rows of one table move with their organisation.
type Table struct {
	Name string
	// Of selects the rows of the organisation ORG; empty is org_id = ORG. A table that has none comes after the one that its rows are of.
	Of string
	// Shift has the columns that the target numbers by itself, and by which counter: see counters. The ids of both cells would collide.
	Shift map[string]string
	// Reset has columns that mean something in one deployment alone, and what they become. They are not compared.
	Reset map[string]string
	// Sealed are columns that are sealed with the keyset of a deployment. They are not compared.
	Sealed []string
	// Shown is visible at the source after the organisation has left. See fence.
	Shown access
}

// access bounds the services' use of a table while a fence stands.
type access int

const (
	nothing    access = iota
	reading           // rows are read, and not changed
	correcting        // rows are read and updated; none is made or deleted
)

// Not moved, and why.
const (
	written   = "the command writes it"
	republish = "the target publishes the alarms anew, from step_alarms and goal_alarms"
	shortly   = "it lives for minutes, and a state token or an idempotency key repeats the check"
	process   = "it is about processes of the deployment"
	migration = "migrations write it"
	pacing    = "the pace of a sender begins anew"
	ofCell    = "it counts or proves for the whole deployment"
)

const (
	ofSession = "session_id in (select id from conversation_sessions where org_id = ORG)"
	ofMessage = "message_id in (select id from sms_messages where org_id = ORG)"
)

// feed is the counter of events.
const feed = "event_feed"

// Onboarding are the tables of onboarding that move, parents first.
func Onboarding() []Table {
	return []Table{
		{Name: "organisation_settings"},
		{Name: "settings_versions"},
		{Name: "scheduling_pauses"},
		// A key is known until the caller is told that the organisation has moved.
		{Name: "api_keys", Shown: reading},
		{Name: "flow_versions"},
		{Name: "flow_publications"},
		{Name: "flow_drafts"},
		{Name: "profiles"},
		{Name: "profile_fields"},
		{Name: "household_members"},
		{Name: "erasures"},
		{Name: "webhook_jobs"},
		{Name: "dead_letters"},
		{Name: "inbound_sweeps"},
		{Name: "conversation_sessions"},
		{Name: "session_transitions", Of: ofSession, Shift: map[string]string{"id": "session_transitions.id"}},
		{Name: "held_replies", Of: ofSession},
		{Name: "step_alarms"},
		{Name: "flow_counts"},
		{Name: "flow_count_changes", Shift: map[string]string{"id": "flow_count_changes.id"}},
		{Name: "flow_runs"},
		{Name: "flow_run_people"},
		{Name: "engagement_state_transitions"},
		{Name: "user_engagement_states"},
		{Name: "engagement_outreach"},
		{Name: "engagement_actions"},
		{Name: "engagement_runs"},
		{Name: "devices", Reset: map[string]string{"node_id": "null"}},
		{Name: "goals"},
		{Name: "goal_alarms"},
		{Name: "goal_transitions", Shift: map[string]string{"id": "goal_transitions.id"}},
		{Name: "goal_readings"},
		{Name: "tickets"},
		{Name: "ticket_answers"},
		{Name: "ticket_notes"},
		{Name: "saved_replies"},
		{Name: "event_outbox", Shift: map[string]string{"id": "event_outbox.id"}},
		{Name: "events", Shift: map[string]string{"seq": feed}},
		{Name: "event_log_starts", Shift: map[string]string{"deleted_seq": feed}},
		{Name: "event_subscriptions", Shift: map[string]string{"cursor_seq": feed}},
		{Name: "event_deliveries", Shift: map[string]string{"seq": feed}},
		{Name: "audit"},
	}
}

// OnboardingStays has the tables of onboarding that do not move, and why.
func OnboardingStays() map[string]string {
	return map[string]string{
		"organisations": written, "alarm_jobs": republish, "delivery_reservations": shortly, "device_nodes": process, "event_types": migration,
		"event_feed": ofCell, "histories": process, "beats": process, "restores": ofCell,
	}
}

// Messaging are the tables of messaging that move, parents first. The ledgers of consent stay readable at the source: its anchors are
// held to them. The target anchors them anew.
func Messaging() []Table {
	return []Table{
		{Name: "organisation_settings"},
		{Name: "senders", Sealed: []string{"api_key_secret", "auth_token", "next_auth_token"}},
		{Name: "sms_messages"},
		{Name: "sms_receipts", Of: ofMessage, Shift: map[string]string{"id": "sms_receipts.id"}},
		{Name: "sms_looks", Of: ofMessage, Shift: map[string]string{"id": "sms_looks.id"}},
		{Name: "sms_outbound_jobs"},
		{Name: "sms_counts"},
		{Name: "sms_quarters"},
		{Name: "consents", Reset: map[string]string{"anchored": "0"}, Shown: correcting},
		{Name: "consent_events", Shift: map[string]string{"id": "consent_events.id"}, Shown: reading},
		{Name: "consent_replies"},
		{Name: "holds"},
		{Name: "reminder_preferences"},
		{Name: "suppressions"},
		{Name: "erased_profiles"},
		{Name: "erased_ledgers", Shown: reading},
		{Name: "forgotten_ledgers", Shown: reading},
		{Name: "readbacks"},
		{Name: "event_outbox", Shift: map[string]string{"id": "event_outbox.id"}},
		{Name: "audit"},
	}
}

// MessagingStays has the tables of messaging that do not move, and why.
func MessagingStays() map[string]string {
	return map[string]string{
		"organisations": written, "sender_rates": pacing, "event_types": migration, "ledger_anchors": ofCell, "sms_quarters_counted": ofCell,
		"histories": process, "beats": process,
	}
}
