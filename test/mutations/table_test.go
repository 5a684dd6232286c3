package mutations

// mutation is one guard, how it is taken away, and the test that has to notice.
type mutation struct {
	guard   string
	file    string // from the folder of go.work
	old     string // stands there exactly once
	without string
	in, run string // arguments of go test: a package, and one test or subtest of it
}

// mutations are guards of README.md's promises, two or three for each.
func mutations() []mutation {
	return []mutation{
		// At most one SMS per step.
		{
			guard: "the claim: a key is inserted once", in: "./services/messaging/send",
			run:  "TestSend/S0_30_SamePayloadTwiceIsOneRowAndOneProviderSend",
			file: "services/messaging/send/store_claim.go",
			old:  "on conflict (org_id, idempotency_key) do nothing", without: "on conflict (org_id, idempotency_key) do update set " +
				"attempt_token = excluded.attempt_token, lease_until = excluded.lease_until, status = 'sending', twilio_sid = null, accepted_at = null",
		},
		{
			guard: "no call outlives the lease of its attempt", in: "./services/messaging/send",
			run:  "TestSend/S1_35_AttemptThatWakesUpAfterItsLeaseCallsNobody",
			file: "services/messaging/send/send.go",
			old:  "	if m.LeaseUntil.Sub(s.Now()) < left {\n		left = 0\n	}\n", without: "",
		},
		{
			guard: "an absence is confirmed before a text is sent again", in: "./services/messaging/send", run: "TestDecide",
			file: "services/messaging/send/evidence.go",
			old:  "	case l.Began.Before(confirms):", without: "	case false:",
		},
		{
			guard: "of several candidates none is taken", in: "./services/messaging/send", run: "TestDecide",
			file: "services/messaging/send/evidence.go",
			old:  "	case n == 1 && rivals == 0 && !withheld:", without: "	case n >= 1:",
		},
		{
			guard: "a text has effect once, by its SID", in: "./services/onboarding/conversation",
			run:  "TestReplyTakesEffectOnce/S0_45_RepeatedCallbackTakesEffectOnce",
			file: "services/onboarding/inbound/receive.go",
			old:  "EventMessage, m.SID, named.From", without: "EventMessage, fmt.Sprintf(\"%p\", &named), named.From",
		},
		// Every conversation ends.
		{
			guard: "a lost alarm is set again", in: "./services/onboarding/conversation",
			run:  "TestSweeper/TwoAtOnceSetOneAlarm",
			file: "services/onboarding/conversation/store_overdue.go",
			old:  ") newest on newest.published_at is not null", without: ") newest on newest.published_at is not null and false",
		},
		// Order and spacing.
		{
			guard: "the compare-and-set of a session", in: "./services/onboarding/conversation",
			run:  "TestMove/FromAnotherStepChangesNothing",
			file: "services/onboarding/conversation/store_moves.go",
			old: "and s.status = (@was::text[])[u.n] and s.turn = (@turn::int[])[u.n]\n      and s.state_token = (@from::text[])[u.n] " +
				"and s.next_step_id is not distinct from nullif((@step::text[])[u.n], '')", without: "",
		},
		{
			guard: "a step that is not due is stale", in: "./services/onboarding/conversation",
			run:  "TestExecuteStepSkips/S0_15_StepThatIsNotDueYetAsStale",
			file: "services/onboarding/session/step.go",
			old:  "{SkipStale, view.Token == alarm.ExpectedToken && view.NextStep == alarm.StepID}", without: "{SkipStale, true}",
		},
		{
			guard: "an alarm of another token is stale", in: "./services/onboarding/conversation",
			run:  "TestExecuteStepSkips/S0_15_TokenThatDiffersAsStale",
			file: "services/onboarding/session/step.go",
			old:  "{SkipStale, view.Token == alarm.ExpectedToken && view.NextStep == alarm.StepID}", without: "{SkipStale, view.NextStep == alarm.StepID}",
		},
		// Nothing after STOP.
		{
			guard: "the consent check inside the claim", in: "./services/messaging/send",
			run:  "TestSendAndConsent/S0_41_OptedOutBeforeTheFirstAttemptStoresAndSendsNothing",
			file: "services/messaging/send/store_claim.go",
			old:  "	where c.state = 'opted_in' and not (", without: "	where not (",
		},
		{
			guard: "a STOP is answered when nothing is on its way", in: "./services/messaging/inbound",
			run:  "TestStopIsAnsweredAfterWhatIsOnItsWay/OperatorsOptOutWaitsAsWell",
			file: "services/messaging/send/in_flight.go",
			old:  "		if !busy {", without: "		if !busy || true {",
		},
		// State and alarm are one.
		{
			guard: "the alarm is written with the move", in: "./services/onboarding/conversation",
			run:  "TestMove/TakesEffectTogetherWithItsAlarmItsTimelineAndItsJob",
			file: "services/onboarding/conversation/store_alarms.go",
			old:  "from moved m where (@alarm::uuid[])[m.n] is not null", without: "from moved m where (@alarm::uuid[])[m.n] is not null and false",
		},
		{
			guard: "a process deletes no alarm that the relay has taken over", in: "./services/onboarding/alarmclock",
			run:  "TestTimer/DeletesOnlyWhatIsUnderItsLease",
			file: "services/onboarding/conversation/store_alarms.go",
			old:  " and a.lease_token = r.lease`", without: "`",
		},
		{
			guard: "the alarms of a process that stops go back to the relays", in: "./services/onboarding/alarmclock",
			run:  "TestTimer/OfAProcessThatStops",
			file: "platform/outbox/table.go",
			old:  "set lease_token = null, lease_until = @at from unnest", without: "set lease_token = null from unnest",
		},
		{
			guard: "an alarm under a lease that is over is the relay's", in: "./services/onboarding/alarmclock",
			run:  "TestTimer/OfAProcessThatStoodStill",
			file: "services/onboarding/alarmclock/timer.go",
			old:  "if !t.Now().Before(a.LeaseUntil) {", without: "if false {",
		},
		{
			guard: "an alarm that was not published is published", in: "./services/onboarding/conversation",
			run:  "TestRelay/RelayLeavesAFreshAlarmToTheRequestThatWroteIt",
			file: "platform/outbox/table.go",
			old:  "where a.published_at is null and a.lease_until <= @now and", without: "where a.published_at is null and a.lease_until <= @now and false and",
		},
		// Forged callbacks change nothing.
		{
			guard: "QStash's signature", in: "./gateway", run: "TestStepCallback",
			file: "gateway/qstash/qstash.go",
			old:  "	if err := a.verifier.Verify(signature, body, route.PublicURL(a.Origin, r)); err != nil {", without: "	if err := a.verifier.Verify(signature, body, route.PublicURL(a.Origin, r)); err != nil && false {",
		},
		{
			guard: "without a key the process does not start", in: "./gateway/twilio", run: "TestTwilioSignature/EmptyTokenIsRefused",
			file: "gateway/twilio/signature.go",
			old:  "	if len(tokens) == 0 {", without: "	if false {",
		},
	}
}
