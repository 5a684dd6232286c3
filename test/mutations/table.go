package main

// mutation is one guard and how it is taken away.
type mutation struct {
	guard   string
	file    string // from the folder of go.work
	old     string // stands there exactly once
	without string
	tests   []string // arguments of go test: the suite of the package that has to notice
}

// Where the tests are that have to notice.
var (
	messagingSuite  = []string{"./services/messaging/send", "./services/messaging/inbox", "./services/messaging/postgres"}
	onboardingSuite = []string{"./services/onboarding"}
	jobsSuite       = []string{"./platform/queue"}
)

// mutations are the guards that at most one SMS, order, consent and liveness rest on.
func mutations() []mutation {
	return []mutation{
		{
			guard: "the fence: an attempt that lost its row may not speak about another's", tests: messagingSuite,
			file: "services/messaging/send/message.go",
			old:  "	if m.AttemptToken != a.Token {\n		return m, false\n	}\n	if outcome.Kind == twilio.Accepted {", without: "	if outcome.Kind == twilio.Accepted {",
		},
		{
			guard: "the claim: the key is inserted once", tests: messagingSuite,
			file: "services/messaging/postgres/send.go",
			old:  "on conflict (org_id, idempotency_key) do nothing", without: "on conflict (org_id, idempotency_key) do update set attempt_token = @token, status = 'sending', twilio_sid = null, accepted_at = null",
		},
		{
			guard: "the consent check inside the claim", tests: messagingSuite,
			file:    "services/messaging/postgres/send.go",
			old:     "const sqlPermitted = `\nwith permitted as (\n	select 1 from consents where org_id = @org and phone = @to and state = 'opted_in' and",
			without: "const sqlPermitted = `\nwith permitted as (\n	select 1 from consents where org_id = @org and phone = @to and",
		},
		{
			guard: "the check of a safety hold inside a claim", tests: messagingSuite,
			file: "services/messaging/postgres/send.go",
			old:  "not @despite_hold::boolean and exists (", without: "not @despite_hold::boolean and false and exists (",
		},
		{
			guard: "the check of reminders inside a claim", tests: messagingSuite,
			file: "services/messaging/postgres/send.go",
			old:  "const sqlRemindersOff = `@reminds::boolean and exists (", without: "const sqlRemindersOff = `@reminds::boolean and false and exists (",
		},
		{
			guard: "an older word about reminders does not undo a later one", tests: messagingSuite,
			file: "services/messaging/postgres/reminders.go",
			old:  "\nwhere r.said_at < excluded.said_at and", without: "\nwhere",
		},
		{
			guard: "an operator changes no reminders that the person has switched off", tests: messagingSuite,
			file: "services/messaging/postgres/reminders.go",
			old:  " and not (r.off and r.source = 'person' and excluded.source = 'operator')`", without: "`",
		},
		{
			guard: "whoever switches reminders off waits for a claim", tests: messagingSuite,
			file: "services/messaging/postgres/reminders.go",
			old:  "exec(ctx, tx, sqlLock, args)", without: "exec(ctx, tx, `select @org::uuid, @phone::text`, args)",
		},
		{
			guard: "reminders off is answered when nothing is on its way", tests: messagingSuite,
			file: "services/messaging/inbox/inbound.go",
			old:  " || m.Preferences.Reminders == consent.Off {", without: " {",
		},
		{
			guard: "outreach waits for its turn", tests: messagingSuite,
			file: "services/messaging/send/send.go",
			old:  "			if wait > 0 {", without: "			if false {",
		},
		{
			guard: "only an attempt takes a turn of outreach", tests: messagingSuite,
			file: "services/messaging/send/send.go",
			old:  "		if seen.open(a) {", without: "		if true {",
		},
		{
			guard: "outreach waits while conversations use the sender's rate up", tests: []string{"./services/messaging/outbound"},
			file: "services/messaging/outbound/outreach.go",
			old:  "return o.Rates.Take(ctx, from, o.Pace.Cost(segments), o.Pace.Slack(false), now)", without: "return 0, nil",
		},
		{
			guard: "whoever has read that a hold is lifted is not held by it, but by a later one", tests: messagingSuite,
			file: "services/messaging/postgres/send.go",
			old:  "to and held and version > @hold_version)", without: "to and held and @hold_version::bigint = 0)",
		},
		{
			guard: "an older word about a hold does not undo a later one", tests: messagingSuite,
			file: "services/messaging/postgres/ledger.go",
			old:  "\nwhere h.version < excluded.version`", without: "`",
		},
		{
			guard: "a claim waits for whoever sets a hold, and they for it", tests: messagingSuite,
			file: "services/messaging/postgres/send.go",
			old:  "batch.Queue(sqlShareLock, args)", without: "batch.Queue(`select @org::uuid, @phone::text`, args)",
		},
		{
			guard: "words about consent of one phone are taken one after the other, also the first ones", tests: messagingSuite,
			file: "services/messaging/postgres/ledger.go",
			old:  "batch.Queue(sqlLock, args)", without: "batch.Queue(`select @org::uuid, @phone::text`, args)",
		},
		{
			guard: "a renewed claim only on what was certainly not processed", tests: messagingSuite,
			file: "services/messaging/postgres/send.go",
			old:  "	and status = 'throttled' and twilio_sid is null", without: "	and status <> 'sending' and twilio_sid is null",
		},
		{
			guard: "the same key with another text is an error", tests: messagingSuite,
			file: "services/messaging/postgres/send.go",
			old:  "case !m.Matches(a):", without: "case false:",
		},
		{
			guard: "no call outlives the lease of its attempt", tests: messagingSuite,
			file: "services/messaging/send/send.go",
			old:  "min(s.Timeout, m.LeaseUntil.Sub(s.Now()))", without: "s.Timeout",
		},
		{
			guard: "an absence is confirmed before a text is sent again", tests: messagingSuite,
			file: "services/messaging/send/evidence.go",
			old:  "	case l.Began.Before(confirms):", without: "	case false:",
		},
		{
			guard: "no absence counts while the attempt may be on its way", tests: messagingSuite,
			file: "services/messaging/send/evidence.go",
			old:  "	case nothing && l.Began.Before(settles):", without: "	case false:",
		},
		{
			guard: "several candidates are nobody's", tests: messagingSuite,
			file: "services/messaging/send/evidence.go",
			old:  "	case n == 1 && rivals == 0 && !withheld:", without: "	case n >= 1:",
		},
		{
			guard: "never_duplicate leaves it to an operator", tests: messagingSuite,
			file: "services/messaging/send/evidence.go",
			old:  "	case m.UnknownPolicy == NeverDuplicate:", without: "	case false:",
		},
		{
			guard: "a STOP is answered when nothing is on its way", tests: messagingSuite,
			file: "services/messaging/send/quiet.go",
			old:  "		if !busy {", without: "		if !busy || true {",
		},
		{
			guard: "a person who has moved since they were read is decided anew", tests: onboardingSuite,
			file:    "services/onboarding/postgres/engagement.go",
			old:     "u.state = @was and u.transition_id is not distinct from nullif(@newest, '')::uuid\n",
			without: "coalesce(@was::text, @newest::text) is not null\n",
		},
		{
			guard: "a transition is not made over activity that it has not seen", tests: onboardingSuite,
			file: "services/onboarding/postgres/engagement.go",
			old:  "\n  and u.last_activity_at = @was_activity`", without: "`",
		},
		{
			guard: "an action is counted once", tests: onboardingSuite,
			file: "services/onboarding/postgres/engagement_actions.go",
			old:  "on conflict on constraint engagement_actions_once do nothing", without: "on conflict on constraint engagement_actions_once do update set answer = excluded.answer",
		},
		{
			guard: "an action is counted on the progress that there is", tests: onboardingSuite,
			file: "services/onboarding/postgres/engagement_actions.go",
			old:  "p.onboarding_tier_progress = @was_progress::jsonb", without: "@was_progress::jsonb is not null",
		},
		{
			guard: "an action is counted on the expenses that there are", tests: onboardingSuite,
			file: "services/onboarding/postgres/engagement_actions.go",
			old:  "and p.expense_count = @was_expenses\n", without: "and @was_expenses::int is not null\n",
		},
		{
			guard: "an action is counted by the switch of the tips that there is", tests: onboardingSuite,
			file: "services/onboarding/postgres/engagement_actions.go",
			old:  "\n  and p.onboarding_tips_enabled <> @was_tips_off", without: "\n  and @was_tips_off::bool is not null",
		},
		{
			guard: "the magic moment is once", tests: onboardingSuite,
			file: "services/onboarding/postgres/engagement_actions.go",
			old:  " and (p.magic_moment_at is null or not @magic)", without: "",
		},
		{
			guard: "an old action moves nobody", tests: onboardingSuite,
			file: "services/onboarding/engagement/actions.go",
			old:  "	case !s.Rules.News(v.Person, a, now):", without: "	case false:",
		},
		{
			guard: "a wish about tips that is worked late does not undo a later one", tests: onboardingSuite,
			file: "services/onboarding/postgres/engagement_preferences.go",
			old:  "(was.tips_changed_at is null or was.tips_changed_at < @said)", without: "true",
		},
		{
			guard: "only the person switches on again what their own words have switched off", tests: onboardingSuite,
			file: "services/onboarding/engagement/preferences.go",
			old:  "		return ErrRemindersOffByPerson", without: "		return nil",
		},
		{
			guard: "the compare-and-set of a session", tests: onboardingSuite,
			file:    "services/onboarding/postgres/sessions.go",
			old:     "where id = @id and status = @was and turn = @turn and state_token = @from and next_step_id is not distinct from nullif(@step, '')`",
			without: "where id = @id and (@was, @turn::int, @from, @step) is not null`",
		},
		{
			guard: "the outbox: the alarm is written with the move", tests: onboardingSuite,
			file: "services/onboarding/postgres/sessions.go",
			old:  "		if m.Alarm != nil {\n			if err := inOutbox", without: "		if false {\n			if err := inOutbox",
		},
		{
			guard: "the relay: what was not published is published", tests: onboardingSuite,
			file: "platform/outbox/table.go",
			old:  "    where published_at is null and lease_until <= @now", without: "    where published_at is null and lease_until <= @now and false",
		},
		{
			guard: "a step that is not due is stale", tests: onboardingSuite,
			file: "services/onboarding/session/step.go",
			old:  "	case view.Token != alarm.ExpectedToken || view.NextStep != alarm.StepID:", without: "	case false:",
		},
		{
			guard: "the deduplication of a text by its SID", tests: onboardingSuite,
			file: "services/onboarding/conversation/receive.go",
			old:  "EventMessage, m.SID, m.From", without: "EventMessage, c.Now().String(), m.From",
		},
		{
			guard: "the fence of a job that is not done", tests: jobsSuite,
			file: "platform/queue/finish.go",
			old:  "where j.id = any($1::uuid[]) and j.id = f.id and j.lease_token = f.token", without: "where j.id = any($1::uuid[]) and j.id = f.id and f.token is not null",
		},
		{
			guard: "the fence of a job that is done", tests: jobsSuite,
			file: "platform/queue/finish.go",
			old:  "where j.id = any($1::uuid[]) and j.lease_token = $2::uuid", without: "where j.id = any($1::uuid[]) and $2::uuid is not null",
		},
		{
			guard: "a resumed reply answers only what it was for", tests: onboardingSuite,
			file: "services/onboarding/conversation/replies.go",
			old:  "	case m.Place != anyPlace && m.Place != s.Place():", without: "	case false:",
		},
		{
			guard: "only a parked session is resumed", tests: onboardingSuite,
			file: "services/onboarding/postgres/recovery.go",
			old:  "		case resumed.Status.Parked():\n			resumed, err = resume(", without: "		case resumed.Status != \"\":\n			resumed, err = resume(",
		},
		{
			guard: "a step is not sent by hand before it is due", tests: onboardingSuite,
			file: "services/onboarding/conversation/steps.go",
			old:  "	if early == EarlyRefused {", without: "	if false {",
		},
		{
			guard: "each of the listed negatives", tests: []string{"./services/onboarding/session"},
			file: "services/onboarding/session/intent.go",
			old:  `"nope", "nah", "not yet",`, without: `"nope", "not yet",`,
		},
		{
			guard: "another organisation's failed job is not retried", tests: jobsSuite,
			file:    "platform/queue/operators.go",
			old:     "\n    updated_at = $3::timestamptz\nwhere j.org_id = $1::uuid and j.id = $2::uuid",
			without: "\n    updated_at = $3::timestamptz\nwhere $1::uuid is not null and j.id = $2::uuid",
		},
		{
			guard: "the fence of a reservation", tests: []string{"./services/onboarding/reservation"},
			file: "services/onboarding/postgres/reservations.go",
			old:  "    where key = @key and owner = @owner and expires_at > @now\n    returning 1", without: "    where key = @key and (@owner::text, @now::timestamptz) is not null\n    returning 1",
		},
		{
			guard: "the deduplication id of a publish", tests: []string{"./platform/qstash", "./services/onboarding"},
			file: "platform/qstash/publisher.go",
			old:  "set(HeaderDeduplicationID, job.DedupID.id)", without: `set(HeaderDeduplicationID, "")`,
		},
		{
			guard: "a delivery without the id of its message is refused for good", tests: []string{"./gateway"},
			file: "gateway/qstash.go",
			old:  "if d.verified(r.Header); d.messageID == \"\" {", without: "if d.verified(r.Header); false {",
		},
		{
			guard: "who may call a method of /v1", tests: []string{"./gateway"},
			file: "gateway/rules.go",
			old:  "	case !slices.Contains(rule.Callers, p.Role):\n", without: "	case false:\n",
		},
		{
			guard: "why a person is held is shown to operators alone", tests: onboardingSuite,
			file: "services/onboarding/server/sessions.go",
			old:  "if caller.Role != rpc.RoleOperator && (e.Trigger", without: "if caller.Role == rpc.RoleUser && (e.Trigger",
		},
		{
			guard: "why a session is parked is shown to operators alone", tests: onboardingSuite,
			file:    "services/onboarding/server/sessions.go",
			old:     "	if caller, _ := rpc.PrincipalFrom(ctx); caller.Role != rpc.RoleOperator {\n",
			without: "	if caller, _ := rpc.PrincipalFrom(ctx); caller.Role == rpc.RoleUser {\n",
		},
		{
			guard: "a webhook is answered before its vendor gives up", tests: []string{"./gateway"},
			file: "gateway/webhooks.go",
			old:  "webhookTimeout = 4 * time.Second", without: "webhookTimeout = 6 * time.Second",
		},
		{
			guard: "QStash's signature has one spelling", tests: []string{"./platform/qstash"},
			file: "platform/qstash/verifier.go",
			old:  "			jwt.WithStrictDecoding(), // else the last character has four spellings\n", without: "",
		},
		{
			guard: "QStash's signature", tests: []string{"./platform/qstash", "./gateway"},
			file:    "gateway/qstash.go",
			old:     "	if err := a.verifier.Verify(signature, body, publicURL(a.origin, r)); err != nil {",
			without: "	if err := a.verifier.Verify(signature, body, publicURL(a.origin, r)); err != nil && false {",
		},
	}
}
