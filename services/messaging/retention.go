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
	const (
		person = "the person is erased"
		ledger = "{for} after the ledger's last line and the last message to the number; never while it is opted out"
	)
	return append([]retention.Rule{
		{
			Table: "sms_messages", Holds: "the words; the record stays",
			Kept:     "{for} after it came or was due, once it is settled",
			Variable: "MESSAGES_RETENTION", Setting: retention.Messages, For: kept.Messages, Over: &retention.Over{
				At: "created_at", Of: "r.body <> ''", If: sqlSettled, Do: sqlTakeWords,
			},
		},
		{
			Table: "consents", Holds: "whether a number may be texted",
			Kept:     ledger,
			Variable: "CONSENT_RETENTION", Setting: retention.Consent, For: kept.Consent, Over: &retention.Over{
				At: "updated_at", Of: "r.state = 'opted_in' and not r.carrier_blocks",
				If: `not exists (select from consent_events e where e.org_id = r.org_id and e.phone = r.phone and e.at >= @before)
                    and not exists (select from sms_messages m
                        where m.org_id = r.org_id and m.to_number = r.phone and m.direction = 'outbound' and m.created_at >= @before)`,
				Do: sqlForgetLedgers,
			},
		},
		{
			Table: "consent_events", Holds: "the ledger, in people's words",
			Kept: ledger, Variable: "CONSENT_RETENTION", Setting: retention.Consent, For: kept.Consent,
		},
		{
			Table: "sms_messages", Holds: "the record: to whom, when, status, idempotency key",
			Kept:     "{for} after it came, once its words are gone and no ledger or preference names it",
			Variable: "CONSENT_RETENTION", Setting: retention.Consent, For: kept.Consent, Over: &retention.Over{
				At: "created_at", Of: "r.body = ''", Do: sqlForgetMessages,
				If: sqlSettled + ` and not exists (select from consent_events e where e.message_id = r.id)
                    and not exists (select from reminder_preferences p where p.message_id = r.id)`,
			},
		},
		{
			Table: "sms_receipts", Holds: "Twilio's reports, word for word", Kept: "{for} after it came",
			Variable: "RECEIPTS_RETENTION", Setting: retention.Receipts, For: kept.Receipts, Over: &retention.Over{
				At: "received_at", Of: "r.org_id is not null", Still: true,
			},
		},
		{
			Table: "sms_receipts", Holds: "about no message of ours, or from an earlier release",
			Kept: "{for} after it came", Variable: "RECEIPTS_RETENTION", For: kept.Receipts, Over: &retention.Over{
				At: "received_at", Of: "r.org_id is null", Still: true,
			},
		},
		{Table: "sms_looks", Holds: "about messages in doubt", Kept: "its message goes"},
		{
			Table: "consent_replies", Holds: "what we answered", Kept: "{for} after it came or was due, once it is settled",
			Variable: "MESSAGES_RETENTION", Setting: retention.Messages, For: kept.Messages, Over: &retention.Over{
				At: "created_at", If: "r.due_at is null and r.expires_at < @before",
			},
		},
		{Table: "reminder_preferences", Kept: person},
		{
			Table: "suppressions", Holds: "opt-outs of erased people, under pseudonyms",
			Kept: "the person texts START",
		},
		{Table: "erased_profiles", Holds: "ids", Kept: "never"},
		{Table: "erased_ledgers", Holds: "under pseudonyms, lines encrypted", Kept: "never"},
		{Table: "forgotten_ledgers", Holds: "hashes of deleted ledgers that are anchored", Kept: "never"},
		{Table: "ledger_anchors", Holds: "hashes and counts", Kept: "never"},
		{Table: "holds", Holds: "with the message that may be an opt-out", Kept: person},
	}, append(rulesOfTheQueue(kept), rulesOfTheService(kept)...)...)
}

// rulesOfTheQueue returns the rules of what waits, and of what is counted.
func rulesOfTheQueue(kept kept) []retention.Rule {
	return []retention.Rule{
		{
			Table: "sms_outbound_jobs", Holds: "with words; of codes a digest", Kept: "{for} after its end",
			Variable: "OUTBOUND_RETENTION", Setting: retention.Outbound, For: kept.Outbound,
		},
		{
			Table: "sms_counts", Holds: "by organisation or prefix", Kept: "two days after its hour",
			For: 48 * time.Hour, Over: &retention.Over{At: "hour"},
		},
		{
			Table: "sms_quarters", Holds: "how messages ended, by organisation and country",
			Kept: "35 days after its quarter", For: 35 * 24 * time.Hour, Over: &retention.Over{At: "quarter"},
		},
		{
			Table: "sms_quarters_counted", Kept: "35 days after its quarter",
			For: 35 * 24 * time.Hour, Over: &retention.Over{At: "quarter"},
		},
		{Table: "senders", Holds: "credentials are sealed, and deleted with the sender", Kept: "never"},
		{Table: "sender_rates", Kept: "never"},
		{
			Table: "event_outbox", Holds: "ids and the phone",
			Kept: "onboarding has it, a week at most",
		},
		{Table: "event_types", Kept: "onboarding stops asking for the type"},
	}
}

// rulesOfTheService returns the rules of what is about no message.
func rulesOfTheService(kept kept) []retention.Rule {
	return []retention.Rule{
		{
			Table: "audit", Holds: "who changed what, which operator read whom", Kept: "{for} after the call",
			Variable: "AUDIT_RETENTION", Setting: retention.Audit, For: kept.Audit, Over: &retention.Over{At: "at"},
		},
		{Table: "organisations", Holds: "status", Kept: "never"},
		{Table: "histories", Holds: "the database's servers and timelines", Kept: "never"},
		{Table: "beats", Holds: "what each process counted", Kept: "30 days after the process"},
		{Table: "readbacks", Holds: "counts; a later one replaces that of a restart", Kept: "never"},
		{Table: "organisation_settings", Kept: "the organisation goes"},
		{Table: "goose_db_version", Holds: "migrations", Kept: "never"},
	}
}
