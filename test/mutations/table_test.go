package mutations

// mutation is one guard, how it is taken away, and the tests that have to notice.
type mutation struct {
	guard   string
	file    string // from the folder of go.work
	old     string // stands there exactly once
	without string
	in, run string // arguments of go test: a package, and the names of its tests
}

// mutations are the guards of what README.md promises.
func mutations() []mutation {
	return []mutation{
		// Never twice.
		{
			guard: "the claim: the key is inserted once", in: "./services/messaging/send", run: "TestSend",
			file: "services/messaging/send/store_claim.go",
			old:  "on conflict (org_id, idempotency_key) do nothing", without: "on conflict (org_id, idempotency_key) do update set attempt_token = @token, status = 'sending', twilio_sid = null, accepted_at = null",
		},
		{
			guard: "the fence: an attempt that lost its row may not speak about another's", in: "./services/messaging/send", run: "TestMessageSettle",
			file: "services/messaging/send/message.go",
			old:  "	if m.AttemptToken != a.Token {\n		return m, false\n	}\n	if outcome.Status == sms.Accepted {", without: "	if outcome.Status == sms.Accepted {",
		},
		{
			guard: "a row is settled as its attempt claimed it, or is read again", in: "./services/messaging/send", run: "TestCrashMatrixOfSend|TestReconcileUnknown|TestSend",
			file: "services/messaging/send/store_settle.go",
			old:  " and m.status = 'sending' and m.twilio_sid is null and m.attempt_token = u.token", without: "",
		},
		{
			guard: "a renewed claim only on what was certainly not processed", in: "./services/messaging/send", run: "TestReclaimOfARowInDoubt",
			file: "services/messaging/send/store_claim.go",
			old:  "	and m.status = 'throttled' and m.twilio_sid is null", without: "	and m.status <> 'sending' and m.twilio_sid is null",
		},
		{
			guard: "no call outlives the lease of its attempt", in: "./services/messaging/send", run: "TestSend",
			file: "services/messaging/send/send.go",
			old:  "	if m.LeaseUntil.Sub(s.Now()) < left {\n		left = 0\n	}\n", without: "",
		},
		{
			guard: "an absence is confirmed before a text is sent again", in: "./services/messaging/send", run: "TestDecide",
			file: "services/messaging/send/evidence.go",
			old:  "	case l.Began.Before(confirms):", without: "	case false:",
		},
		{
			guard: "no absence counts while the attempt may be on its way", in: "./services/messaging/send", run: "TestDecide",
			file: "services/messaging/send/evidence.go",
			old:  "	case nothing && l.Began.Before(settles):", without: "	case false:",
		},
		{
			guard: "of several candidates none is taken", in: "./services/messaging/send", run: "TestDecide",
			file: "services/messaging/send/evidence.go",
			old:  "	case n == 1 && rivals == 0 && !withheld:", without: "	case n >= 1:",
		},
		{
			guard: "never_duplicate leaves it to an operator", in: "./services/messaging/send", run: "TestDecide",
			file: "services/messaging/send/evidence.go",
			old:  "	case m.UnknownPolicy == NeverDuplicate:", without: "	case false:",
		},
		{
			guard: "a receipt is merged into what was read", in: "./services/messaging/send", run: "TestRecordStatus",
			file: "services/messaging/send/store_receipts.go",
			old:  "m.id = any(@id::uuid[]) and m.xmin::text = u.version", without: "m.id = any(@id::uuid[]) and u.version is not null",
		},
		{
			guard: "the deduplication of a text by its SID", in: "./services/onboarding/conversation", run: "TestReplyTakesEffectOnce",
			file: "services/onboarding/inbound/receive.go",
			old:  "EventMessage, m.SID, named.From", without: "EventMessage, in.Now().String(), named.From",
		},
		{
			guard: "the deduplication id of a publish", in: "./platform/qstash", run: "TestPublisher",
			file: "platform/qstash/publisher.go",
			old:  "set(HeaderDeduplicationID, job.DedupID.id)", without: `set(HeaderDeduplicationID, "")`,
		},
		{
			guard: "outreach that may have been sent is not cancelled", in: "./services/onboarding/engagement", run: "TestOperatorsOfOutreach",
			file: "services/onboarding/engagement/store_outreach.go",
			old:  "		if begun {", without: "		if false {",
		},
		{
			guard: "the text of a goal has the goal's key at every try", in: "./services/onboarding/goals", run: "TestTextOfAGoal|TestCrashOfGoalsByText",
			file: "services/onboarding/goals/phone.go",
			old:  "	key := \"goal:\" + g.ID\n", without: "	key := \"goal:\" + g.ID + p.Now().String()\n",
		},
		// Never out of order.
		{
			guard: "the compare-and-set of a session", in: "./services/onboarding/conversation", run: "TestMove",
			file: "services/onboarding/conversation/store_moves.go",
			old:  "and s.status = u.was and s.turn = u.turn and s.state_token = u.came\n      and s.next_step_id is not distinct from nullif(u.step, '')", without: "",
		},
		{
			guard: "a step that is not due is stale", in: "./services/onboarding/conversation", run: "TestExecuteStepSkips",
			file: "services/onboarding/session/step.go",
			old:  "{SkipStale, view.Token == alarm.ExpectedToken && view.NextStep == alarm.StepID}", without: "{SkipStale, true}",
		},
		{
			guard: "a step is not sent by hand before it is due", in: "./services/onboarding/conversation", run: "TestOperatorBeforeAStepIsDue",
			file: "services/onboarding/conversation/steps.go",
			old:  "	if early == EarlyRefused {", without: "	if false {",
		},
		{
			guard: "the fence of a job that is done", in: "./platform/queue", run: "TestLeases|TestEnds|TestModel",
			file: "platform/queue/finish.go",
			old:  "where j.id = done.id and j.id = any($1::uuid[]) and j.lease_token = $2::uuid", without: "where j.id = done.id and j.id = any($1::uuid[]) and $2::uuid is not null",
		},
		{
			guard: "alarms that wait go in the order of their due times", in: "./gateway/route", run: "TestLimiter",
			file: "gateway/route/limiter.go",
			old:  "b.due.Compare(a.due), ", without: "",
		},
		// Never after STOP.
		{
			guard: "the consent check inside the claim", in: "./services/messaging/send", run: "TestSendAndConsent",
			file: "services/messaging/send/store_claim.go",
			old:  "	where c.state = 'opted_in' and not (", without: "	where not (",
		},
		{
			guard: "the check of a safety hold inside a claim", in: "./services/messaging/inbound", run: "TestSafetyHold",
			file: "services/messaging/consent/ledger/store_claims.go",
			old:  "not u.despite_hold and exists (", without: "not u.despite_hold and false and exists (",
		},
		{
			guard: "the check of reminders inside a claim", in: "./services/messaging/inbound", run: "TestReminders",
			file: "services/messaging/consent/ledger/store_claims.go",
			old:  "const SQLRemindersOff = `u.reminds and exists (", without: "const SQLRemindersOff = `u.reminds and false and exists (",
		},
		{
			guard: "a STOP is answered when nothing is on its way", in: "./services/messaging/inbound", run: "TestStopIsAnsweredAfterWhatIsOnItsWay",
			file: "services/messaging/send/in_flight.go",
			old:  "		if !busy {", without: "		if !busy || true {",
		},
		{
			guard: "words that may be an opt-out hold the person inside a claim", in: "./services/messaging/inbound", run: "TestWordsThatMayBeAnOptOut",
			file: "services/messaging/consent/ledger/store_claims.go",
			old:  " or h.unjudged_id is not null))`", without: "))`",
		},
		{
			guard: "a person whose STOP was erased is not texted as a new one", in: "./services/messaging/consent/ledger", run: "TestSuppressions",
			file: "services/messaging/consent/ledger/store_erasure.go",
			old:  "s.org_id = @org and s.pseudonym = @pseudonym)`", without: "s.org_id = @org and s.pseudonym = @pseudonym and false)`",
		},
		{
			guard: "an opt-out holds for ever", in: "./services/messaging", run: "TestRetention",
			file: "services/messaging/schema/migrations/0024_floors.sql",
			old: "(c.state <> 'opted_in' OR c.carrier_blocks))\n        OR (SELECT e.state FROM consent_events e " +
				"WHERE e.org_id = of_org AND e.phone = of_phone ORDER BY e.id DESC LIMIT 1) <> 'opted_in'\n        OR EXISTS", without: "c.carrier_blocks)\n        OR EXISTS",
		},
		// Never stranded.
		{
			guard: "the outbox: the alarm is written with the move", in: "./services/onboarding/conversation", run: "TestMove",
			file: "services/onboarding/conversation/store_alarms.go",
			old:  "on u.n = m.n and u.id is not null", without: "on u.n = m.n and u.id is null",
		},
		{
			guard: "the relay: what was not published is published", in: "./services/onboarding/conversation", run: "TestRelay",
			file: "platform/outbox/table.go",
			old:  "where a.published_at is null and a.lease_until <= @now and", without: "where a.published_at is null and a.lease_until <= @now and false and",
		},
		{
			guard: "the alarms of a step that is still due stay", in: "./services/onboarding", run: "TestRetention",
			file: "services/onboarding/retention.go",
			old:  "(s.next_step_id = r.step_id or r.published_at is null)", without: "false",
		},
		{
			guard: "a combined transaction that is refused is tried piece by piece", in: "./platform/postgres", run: "TestCombinedStatements",
			file: "platform/postgres/combiner.go",
			old:  "	if undone(err) && (len(batch) > 1 ||", without: "	if undone(err) && (false ||",
		},
		// No secret and no number in a log, and nothing by a forged callback.
		{
			guard: "the audit keeps no number that an erasure would not find", in: "./platform/rpc", run: "TestWhomACall",
			file: "platform/rpc/audit.go",
			old:  "!strings.HasPrefix(text, \" \") {", without: "!strings.HasPrefix(text, \" \") && false {",
		},
		{
			guard: "no number in a log", in: "./services/messaging/sms", run: "TestPhoneIsMaskedInLogs",
			file: "services/messaging/sms/phone.go",
			old:  "	if p.IsZero() {\n		return slog.StringValue(\"\")\n	}\n", without: "	if !p.IsZero() {\n		return slog.StringValue(p.e164)\n	}\n",
		},
		{
			guard: "no text of a person in a log", in: "./services/messaging/sms", run: "TestBodyIsMaskedInLogs",
			file: "services/messaging/sms/body.go",
			old:  "slog.StringValue(fmt.Sprintf(\"[%d characters]\", utf8.RuneCountInString(string(b))))", without: "slog.StringValue(string(b))",
		},
		{
			guard: "no secret in a log", in: "./platform/config", run: "TestSecret$",
			file: "platform/config/types.go",
			old:  "	return masked\n", without: "	return *s.value\n",
		},
		{
			guard: "QStash's signature", in: "./gateway", run: "TestStepCallback",
			file: "gateway/qstash/qstash.go",
			old:  "	if err := a.verifier.Verify(signature, body, route.PublicURL(a.Origin, r)); err != nil {", without: "	if err := a.verifier.Verify(signature, body, route.PublicURL(a.Origin, r)); err != nil && false {",
		},
		{
			guard: "a process's key speaks for that process alone", in: "./platform/rpc", run: "TestEachKey",
			file: "platform/rpc/tokens.go",
			old:  "		if err := mayClaim(process, p); err != nil {\n			return Principal{}", without: "		if err := mayClaim(process, p); err != nil && false {\n			return Principal{}",
		},
	}
}
