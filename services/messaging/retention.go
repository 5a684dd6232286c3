package messaging

import (
	"context"
	"log/slog"
	"time"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/retention"
)

// kept holds the times for which the environment keeps rows that are over.
type kept struct{ Messages, Receipts, Consent, Outbound, Audit time.Duration }

// sqlSettled is true where a message is at its end. A status that a newer release wrote is not among these.
const sqlSettled = `r.next_look_at is null
    and r.status in ('received', 'accepted', 'queued', 'sent', 'delivered', 'undelivered', 'failed', 'rejected', 'given_up', 'throttled')`

// ownRetention reads how long organisations have decided to keep something. A ledger is kept for as long as the words of its messages.
func ownRetention(ctx context.Context, db postgres.DB, kept kept, log *slog.Logger) (retention.Own, error) {
	own, err := retention.ReadOwn(ctx, db, log)
	own.Keep(retention.Consent, kept.Consent, retention.Messages, kept.Messages)
	return own, err
}

const (
	sqlTakeWords = `update sms_messages r set body = '' where r.ctid = any (array(select place from free)) returning 1`

	sqlForgetMessages = `select forget_messages(array(select r.id from sms_messages r where r.ctid = any (array(select place from free))))`

	// sqlForgetLedgers takes ledgers whole, for a chain without its beginning proves nothing.
	sqlForgetLedgers = `select l from consents r cross join lateral forget_ledger(r.org_id, r.phone, @now) l
    where r.ctid = any (array(select place from free))`
)

// retentionRules say how long each table's rows are kept. docs/security-and-privacy.md shows them, and a test knows a table without one. A
// ledger comes before the messages that it names.
func retentionRules(kept kept) []retention.Rule {
	const person = "the person is erased"
	return append([]retention.Rule{
		{
			Table: "sms_messages", Holds: "messages: the words",
			Kept:     "{for} after it was begun or came, once nothing is to become of it; the words are taken out, the record stays",
			Variable: "MESSAGES_RETENTION", Setting: retention.Messages, For: kept.Messages, Over: &retention.Over{
				At: "created_at", Of: "r.body <> ''", If: sqlSettled, Do: sqlTakeWords,
			},
		},
		{
			Table: "consents", Holds: "whether a number may be texted",
			Kept:     "{for} after the last line of its ledger and the last message to the number; never while it is opted out",
			Variable: "CONSENT_RETENTION", Setting: retention.Consent, For: kept.Consent, Over: &retention.Over{
				At: "updated_at", Of: "r.state = 'opted_in' and not r.carrier_blocks",
				If: `not exists (select from consent_events e where e.org_id = r.org_id and e.phone = r.phone and e.at >= @before)
                    and not exists (select from sms_messages m
                        where m.org_id = r.org_id and m.to_number = r.phone and m.direction = 'outbound' and m.created_at >= @before)`,
				Do: sqlForgetLedgers,
			},
		},
		{Table: "consent_events", Holds: "what a person said about consent, in their words, chained", Kept: "its `consents` row goes"},
		{
			Table: "sms_messages", Holds: "records of messages: to whom, when, status, idempotency key",
			Kept:     "{for} after it was begun or came, once its words are gone and no ledger or preference names it",
			Variable: "CONSENT_RETENTION", Setting: retention.Consent, For: kept.Consent, Over: &retention.Over{
				At: "created_at", Of: "r.body = ''", Do: sqlForgetMessages,
				If: sqlSettled + ` and not exists (select from consent_events e where e.message_id = r.id)
                    and not exists (select from reminder_preferences p where p.message_id = r.id)`,
			},
		},
		{
			Table: "sms_receipts", Holds: "what Twilio reported, word for word", Kept: "{for} after it came",
			Variable: "RECEIPTS_RETENTION", Setting: retention.Receipts, For: kept.Receipts, Over: &retention.Over{
				At: "received_at", Of: "r.org_id is not null", Still: true,
			},
		},
		{
			Table: "sms_receipts", Holds: "the same about no message of ours, or kept by a release before",
			Kept: "{for} after it came", Variable: "RECEIPTS_RETENTION", For: kept.Receipts, Over: &retention.Over{
				At: "received_at", Of: "r.org_id is null", Still: true,
			},
		},
		{Table: "sms_looks", Holds: "what was looked up, and what an operator said, about a message in doubt", Kept: "its message goes"},
		{
			Table: "consent_replies", Holds: "our own replies about consent, with their words", Kept: "{for} after it was due, once it is settled",
			Variable: "MESSAGES_RETENTION", Setting: retention.Messages, For: kept.Messages, Over: &retention.Over{
				At: "created_at", If: "r.due_at is null and r.expires_at < @before",
			},
		},
		{Table: "reminder_preferences", Holds: "who wants no reminders", Kept: person},
		{
			Table: "suppressions", Holds: "that an erased person had opted out, under a pseudonym",
			Kept: "the person texts START",
		},
		{Table: "erased_profiles", Holds: "which profiles are erased: ids", Kept: "never"},
		{Table: "erased_ledgers", Holds: "what an erasure left of a ledger under a pseudonym, its lines encrypted", Kept: "never"},
		{Table: "forgotten_ledgers", Holds: "what signed anchors hold of a deleted ledger: hashes", Kept: "never"},
		{Table: "ledger_anchors", Holds: "which anchors are outside: hashes and counts", Kept: "never"},
		{Table: "holds", Holds: "whom nothing is sent to for now, and which message of theirs may be an opt-out", Kept: person},
	}, append(rulesOfTheQueue(kept), rulesOfTheService(kept)...)...)
}

// rulesOfTheQueue returns the rules of what waits, and of what is counted.
func rulesOfTheQueue(kept kept) []retention.Rule {
	return []retention.Rule{
		{
			Table: "sms_outbound_jobs", Holds: "messages of the outbound queue, with their words", Kept: "{for} after its end",
			Variable: "OUTBOUND_RETENTION", Setting: retention.Outbound, For: kept.Outbound,
		},
		{
			Table: "sms_counts", Holds: "how much was sent, by organisation or prefix: counts", Kept: "two days after its hour",
			For: 48 * time.Hour, Over: &retention.Over{At: "hour"},
		},
		{
			Table: "sms_quarters", Holds: "how messages ended, by organisation and country: counts",
			Kept: "35 days after its quarter", For: 35 * 24 * time.Hour, Over: &retention.Over{At: "quarter"},
		},
		{
			Table: "sms_quarters_counted", Holds: "when a quarter of an hour was counted", Kept: "35 days after its quarter",
			For: 35 * 24 * time.Hour, Over: &retention.Over{At: "quarter"},
		},
		{Table: "senders", Holds: "what organisations send from, with sealed credentials", Kept: "never; a deleted one has no credentials"},
		{Table: "sender_rates", Holds: "how far a sender has used up its rate", Kept: "never"},
		{
			Table: "event_outbox", Holds: "events for onboarding to fetch: ids and the phone",
			Kept: "onboarding has it, within seconds; a week at the most",
		},
		{Table: "event_types", Holds: "which events are written", Kept: "onboarding asks for the type no more"},
	}
}

// rulesOfTheService returns the rules of what is about no message.
func rulesOfTheService(kept kept) []retention.Rule {
	return []retention.Rule{
		{
			Table: "audit", Holds: "who changed what, and which operator read what of whom", Kept: "{for} after the call",
			Variable: "AUDIT_RETENTION", Setting: retention.Audit, For: kept.Audit, Over: &retention.Over{At: "at"},
		},
		{Table: "organisations", Holds: "which organisations may not send: a status", Kept: "never"},
		{
			Table: "histories", Holds: "which servers and timelines the database was of", Kept: "never",
		},
		{Table: "beats", Holds: "what each process has counted, and when", Kept: "30 days after the process"},
		{
			Table: "readbacks", Holds: "for which organisations Twilio's record was read back: counts",
			Kept: "never; that of a start after a stop goes with the next one",
		},
		{
			Table: "organisation_settings", Holds: "what an organisation has decided about sending and retention",
			Kept: "the organisation goes",
		},
		{Table: "goose_db_version", Holds: "which migrations were run", Kept: "never"},
	}
}
