package onboarding_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

// refuses asserts the code and the reason of a call that was refused.
func refuses(t *testing.T, err error, code codes.Code, reason onboardingv1.Reason) {
	t.Helper()
	require.Error(t, err)
	answer, ok := rpc.ErrorFrom(err)
	require.True(t, ok, "%v", err)
	require.Equal(t, code, answer.Code)
	require.Equal(t, reason.String(), answer.Reason)
}

func TestExecuteStepRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		bend func(in *onboardingv1.ExecuteStepRequest)
		want onboardingv1.Reason
	}{
		{name: "S0_10_ProfileThatIsNoID", bend: func(in *onboardingv1.ExecuteStepRequest) { in.ProfileId = "ana" }, want: onboardingv1.Reason_REASON_INVALID},
		{name: "S0_10_MissingSession", bend: func(in *onboardingv1.ExecuteStepRequest) { in.SessionId = "" }, want: onboardingv1.Reason_REASON_INVALID},
		{name: "S0_38_UnregisteredToken", bend: func(in *onboardingv1.ExecuteStepRequest) { in.ExpectedStateToken = "onboarding:awaiting_nothing" }, want: onboardingv1.Reason_REASON_INVALID},
		{name: "S0_11_KeyOfAnotherStep", bend: func(in *onboardingv1.ExecuteStepRequest) { in.StepId = string(step(2)) }, want: onboardingv1.Reason_REASON_KEY_MISMATCH},
		{name: "S0_11_KeyOfAnotherShape", bend: func(in *onboardingv1.ExecuteStepRequest) { in.IdempotencyKey = "x" }, want: onboardingv1.Reason_REASON_KEY_MISMATCH},
		{name: "S0_10_StepThatTheFlowDoesNotHave", bend: func(in *onboardingv1.ExecuteStepRequest) {
			in.StepId = "onboarding_message_9"
			in.IdempotencyKey = session.Key(in.GetProfileId(), in.GetSessionId(), session.StepID(in.GetStepId()))
		}, want: onboardingv1.Reason_REASON_UNKNOWN_STEP},
	} {
		subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			_, r := b.inBurst(1)
			in := payload(r)
			tt.bend(in)
			_, err := b.execute(in)
			refuses(t, err, codes.InvalidArgument, tt.want)
			require.Equal(t, r, b.session(r.ID))
			require.Len(t, b.messaging.Attempts(), 2)
		})
	}
}

func TestExecuteStepSkips(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		bend func(b *bundle, r session.Record, in *onboardingv1.ExecuteStepRequest)
		want session.SkipReason
	}{
		{name: "S0_13_UnknownSessionAsNotFound", bend: func(_ *bundle, _ session.Record, in *onboardingv1.ExecuteStepRequest) {
			in.SessionId = newID()
			in.IdempotencyKey = session.Key(in.GetProfileId(), in.GetSessionId(), session.StepID(in.GetStepId()))
		}, want: session.SkipSessionNotFound},
		{name: "S0_12_SessionOfAnotherPersonAsNotFound", bend: func(_ *bundle, _ session.Record, in *onboardingv1.ExecuteStepRequest) {
			in.ProfileId = newID()
			in.IdempotencyKey = session.Key(in.GetProfileId(), in.GetSessionId(), session.StepID(in.GetStepId()))
		}, want: session.SkipSessionNotFound},
		{name: "S0_14_OtherModeAsInactive", bend: func(b *bundle, r session.Record, _ *onboardingv1.ExecuteStepRequest) {
			b.exec(`update conversation_sessions set mode = 'interviewing' where id = $1`, r.ID)
		}, want: session.SkipSessionInactive},
		{name: "S0_14_ClosedSessionAsInactive", bend: func(b *bundle, r session.Record, _ *onboardingv1.ExecuteStepRequest) {
			b.resets(r)
		}, want: session.SkipSessionInactive},
		{name: "S0_15_TokenThatDiffersAsStale", bend: func(_ *bundle, _ session.Record, in *onboardingv1.ExecuteStepRequest) {
			in.ExpectedStateToken = string(session.AwaitingInterviewStart)
		}, want: session.SkipStale},
		{name: "S0_15_StepThatIsNotDueYetAsStale", bend: func(_ *bundle, r session.Record, in *onboardingv1.ExecuteStepRequest) {
			r.NextStep = step(3)
			ahead := payload(r)
			in.StepId, in.IdempotencyKey = ahead.GetStepId(), ahead.GetIdempotencyKey()
		}, want: session.SkipStale},
		{name: "S0_16_HeldPersonAsSafetyHold", bend: func(b *bundle, r session.Record, _ *onboardingv1.ExecuteStepRequest) {
			_, err := b.current().service.Hold(b.t.Context(), orgID, r.ProfileID, "under review")
			require.NoError(b.t, err)
		}, want: session.SkipSafetyHold},
		{name: "S0_17_PausedSession", bend: func(b *bundle, r session.Record, _ *onboardingv1.ExecuteStepRequest) {
			b.exec(`update conversation_sessions set paused_at = now() where id = $1`, r.ID)
		}, want: session.SkipPaused},
		{name: "S0_18_InactiveBeforeStale", bend: func(b *bundle, r session.Record, in *onboardingv1.ExecuteStepRequest) {
			b.exec(`update conversation_sessions set status = 'stuck', paused_at = now() where id = $1`, r.ID)
			in.ExpectedStateToken = string(session.AwaitingInterviewStart)
		}, want: session.SkipSessionInactive},
		{name: "S0_18_StaleBeforeHold", bend: func(b *bundle, _ session.Record, in *onboardingv1.ExecuteStepRequest) {
			b.exec(`update profiles set hold = true`)
			in.ExpectedStateToken = string(session.AwaitingInterviewStart)
		}, want: session.SkipStale},
		{name: "S0_18_HoldBeforePause", bend: func(b *bundle, _ session.Record, _ *onboardingv1.ExecuteStepRequest) {
			b.exec(`update profiles set hold = true`)
			b.exec(`update conversation_sessions set paused_at = now()`)
		}, want: session.SkipSafetyHold},
		{name: "S0_41_PersonWhoTextedStop", bend: func(b *bundle, _ session.Record, _ *onboardingv1.ExecuteStepRequest) {
			b.exec(`update conversation_sessions set status = 'stopped'`)
		}, want: session.SkipOptedOut},
	} {
		subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			_, r := b.inBurst(2)
			in := payload(r)
			tt.bend(b, r, in)
			b.skips(tt.want, in)
			skipped := b.log.of(t, "onboarding.step_skipped")
			require.Len(t, skipped, 1)
			require.Equal(t, string(tt.want), skipped[0]["reason"])
		})
	}
}

func TestExecuteStep(t *testing.T) {
	t.Parallel()

	subtest(t, "S0_21_S0_23_SendsOneMessageAndSetsTheNextAlarm", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(1)
		out, err := b.execute(payload(r))
		require.NoError(t, err)
		require.Equal(t, onboardingv1.StepOutcome_STEP_OUTCOME_SENT, out.GetOutcome())
		require.Equal(t, string(step(2)), out.GetNextStepId())
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
		require.Equal(t, b.messaging.Taken(p.Phone)[2].MessageID, out.GetMessageId())
		b.at(r.ID, session.AwaitingBurst, step(2))
		require.Equal(t, 1, b.count(`select count(*) from step_alarms where step_id = $1 and published_at is not null`, string(step(2))))
		require.Equal(t, 2, b.count(`select count(*) from step_alarms`))
	})

	// Also: S0-29
	subtest(t, "S0_24_S0_62_KeepsOrderAndDelays", setup, func(t *testing.T, b *bundle) {
		p, r := b.explained()
		b.reply(p, "yes")
		b.completes(p)
		taken := b.messaging.Taken(p.Phone)[2:]
		require.Equal(t, 8*time.Second, taken[1].At.Sub(taken[0].At))
		require.Equal(t, 8*time.Second, taken[2].At.Sub(taken[1].At))
		require.Zero(t, taken[3].At.Sub(taken[2].At))
		told := map[any]any{}
		for _, scheduled := range b.log.of(t, "onboarding.step_next_scheduled") {
			told[scheduled["step_id"]] = scheduled["delay_ms"]
		}
		require.Equal(t, map[any]any{"onboarding_message_1": 8000.0, "onboarding_message_2": 8000.0, "onboarding_message_3": 0.0}, told)
		b.at(r.ID, session.AwaitingInterviewStart, "")
		require.Equal(t, []session.Kind{
			session.KindActivated, session.KindSent, session.KindReplied, session.KindSent, session.KindAdvanced, session.KindReplied, session.KindAdvanced,
			session.KindSent, session.KindAdvanced, session.KindSent, session.KindAdvanced, session.KindSent, session.KindAdvanced, session.KindSent, session.KindAdvanced,
		}, b.story(r.ID))
	})

	subtest(t, "S0_23_S0_25_SetsNoAlarmAfterTheLastStep", setup, func(t *testing.T, b *bundle) {
		_, r := b.inBurst(4)
		out, err := b.execute(payload(r))
		require.NoError(t, err)
		require.Empty(t, out.GetNextStepId())
		b.at(r.ID, session.AwaitingInterviewStart, "")
		require.Equal(t, 4, b.count(`select count(*) from step_alarms`))
	})

	subtest(t, "S0_26_S0_27_S0_28_S0_29_LogsWhatItDoes", setup, func(t *testing.T, b *bundle) {
		_, r := b.inBurst(1)
		in := payload(r)
		_, err := b.execute(in)
		require.NoError(t, err)
		b.skips(session.SkipStale, in)
		invoked := b.log.of(t, "onboarding.step_handler_invoked")
		require.Len(t, invoked, 2)
		require.Equal(t, []any{"onboarding_message_1", r.ID, "request-7"}, []any{invoked[0]["step_id"], invoked[0]["session_id"], invoked[0]["correlation_id"]})
		sent := b.log.of(t, "onboarding.step_sent")
		require.Len(t, sent, 1)
		require.Equal(t, []any{"onboarding_message_1", in.GetIdempotencyKey()}, []any{sent[0]["step_id"], sent[0]["idempotency_key"]})
		skipped := b.log.of(t, "onboarding.step_skipped")
		require.Len(t, skipped, 1)
		require.Equal(t, []any{"onboarding_message_1", "stale"}, []any{skipped[0]["step_id"], skipped[0]["reason"]})
		scheduled := b.log.of(t, "onboarding.step_next_scheduled")
		require.Len(t, scheduled, 1)
		require.Equal(t, []any{"onboarding_message_1", "onboarding_message_2", 8000.0},
			[]any{scheduled[0]["step_id"], scheduled[0]["next_step_id"], scheduled[0]["delay_ms"]})
	})

	subtest(t, "S0_19_S0_64_StepThatWasSentIsNotSentAgainButFinished", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(1)
		b.messaging.Script(messagingtest.First(messagingtest.AcceptLost))
		_, err := b.execute(payload(r))
		refuses(t, err, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE)
		b.at(r.ID, session.AwaitingBurst, step(1))
		b.clock.Advance(3 * time.Second)
		out, err := b.execute(payload(r))
		require.NoError(t, err)
		require.Equal(t, onboardingv1.StepOutcome_STEP_OUTCOME_SKIPPED, out.GetOutcome())
		require.Equal(t, string(session.SkipAlreadySent), out.GetSkipReason())
		require.Equal(t, string(step(2)), out.GetNextStepId())
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
		b.at(r.ID, session.AwaitingBurst, step(2))
		require.Equal(t, 1, b.count(`select count(*) from step_alarms where step_id = $1 and due_at = $2`,
			string(step(2)), b.clock.Now().Add(5*time.Second)), "eight seconds after it was accepted, not after the retry")
	})

	subtest(t, "S0_20_S0_22_AcceptanceWithoutARowChangesNothing", setup, func(t *testing.T, b *bundle) {
		for _, broken := range []messagingtest.Outcome{messagingtest.AcceptNoRow, messagingtest.AcceptNoSID} {
			p, r := b.inBurst(1)
			b.messaging.Script(messagingtest.First(broken))
			_, err := b.execute(payload(r))
			refuses(t, err, codes.Internal, onboardingv1.Reason_REASON_MESSAGE_MISSING)
			b.at(r.ID, session.AwaitingBurst, step(1))
			b.executes(r)
			b.at(r.ID, session.AwaitingBurst, step(2))
			require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
		}
	})
}

func TestGetSessionSaysWhenTheStepThatIsDueComes(t *testing.T) {
	t.Parallel()
	due := func(b *bundle, id string) time.Time {
		b.t.Helper()
		out, err := asks(b, b.current().server.GetSession, &onboardingv1.GetSessionRequest{SessionId: id})
		require.NoError(b.t, err)
		if out.GetSession().GetNextDueAt() == nil {
			return time.Time{}
		}
		return out.GetSession().GetNextDueAt().AsTime()
	}
	subtest(t, "ByItsNewestAlarm", setup, func(t *testing.T, b *bundle) {
		_, r := b.inBurst(2)
		var want time.Time
		require.NoError(t, b.pool.QueryRow(t.Context(),
			`select due_at from step_alarms where session_id = $1 and step_id = $2 order by generation desc limit 1`, r.ID, string(step(2))).Scan(&want))
		require.True(t, want.After(b.clock.Now()))
		require.True(t, want.Equal(due(b, r.ID)))
	})
	subtest(t, "NotWhereAPersonIsWaitedFor", setup, func(t *testing.T, b *bundle) {
		_, r := b.activated()
		require.Zero(t, due(b, r.ID))
	})
	subtest(t, "NotOfASessionThatIsParked", setup, func(t *testing.T, b *bundle) {
		_, r, _ := b.parkedAtStep(messagingtest.Reject)
		require.Zero(t, due(b, r.ID))
	})
}

func TestExecuteStepOnce(t *testing.T) {
	t.Parallel()

	subtest(t, "S0_30_S0_66_S1_27_SamePayloadTwiceIsOneMessageAndOneAdvance", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(1)
		in := payload(r)
		_, err := b.execute(in)
		require.NoError(t, err)
		moved := b.session(r.ID)
		b.skips(session.SkipStale, in)
		require.Equal(t, moved, b.session(r.ID))
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
	})

	subtest(t, "S0_66_S1_27_LateDuplicateNeverMovesTheTokenBack", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(1)
		late := payload(r)
		for b.session(r.ID).NextStep != "" {
			b.executes(b.session(r.ID))
		}
		b.reply(p, "yes")
		done := b.at(r.ID, session.InterviewActivity01, "")
		b.skips(session.SkipSessionInactive, late)
		require.Equal(t, done, b.session(r.ID))
	})

	subtest(t, "S0_31_S1_06_FailedAttemptAndItsRetryAreOneMessage", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(1)
		b.exec(`alter table session_transitions rename to elsewhere`)
		_, err := b.execute(payload(r))
		require.Error(t, err)
		b.at(r.ID, session.AwaitingBurst, step(1))
		b.exec(`alter table elsewhere rename to session_transitions`)
		out, err := b.execute(payload(r))
		require.NoError(t, err)
		require.Equal(t, string(session.SkipAlreadySent), out.GetSkipReason())
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
		b.at(r.ID, session.AwaitingBurst, step(2))
	})

	subtest(t, "S0_32_ConcurrentCallsAreOneMessageAndOneAlarm", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(1)
		var sent atomic.Int64
		_ = atOnce(12, func() error { // those that lose the race may be asked to come back
			out, err := b.execute(payload(r))
			if out.GetOutcome() == onboardingv1.StepOutcome_STEP_OUTCOME_SENT {
				sent.Add(1)
			}
			return err
		})
		require.EqualValues(t, 1, sent.Load())
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
		b.at(r.ID, session.AwaitingBurst, step(2))
		require.Equal(t, 1, b.count(`select count(*) from step_alarms where step_id = $1`, string(step(2))))
	})

	subtest(t, "S0_32_S1_26_CallDuringAnotherIsAskedToRetry", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(1)
		calling, goOn := make(chan struct{}), make(chan struct{})
		b.messaging.Gate(func(*messagingv1.SendRequest) { close(calling); <-goOn })
		done := make(chan error, 1)
		go func() {
			_, err := b.execute(payload(r))
			done <- err
		}()
		<-calling
		_, err := b.execute(payload(r))
		refuses(t, err, codes.Unavailable, onboardingv1.Reason_REASON_SEND_IN_FLIGHT)
		require.Equal(t, messagingtest.RetryAfter, rpc.RetryAfter(err))
		close(goOn)
		require.NoError(t, <-done)
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
	})
}

func TestExecuteStepWhoseMessageIsNotTaken(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		name    string
		outcome messagingtest.Outcome
		want    onboardingv1.Reason
		sent    int
	}{
		{name: "S0_65_UnknownOutcomeWaitsUntilItIsSettledAsTaken", outcome: messagingtest.UnknownTaken, want: onboardingv1.Reason_REASON_SEND_UNKNOWN},
		{name: "S0_65_UnknownOutcomeWaitsUntilItIsSettledAsMissed", outcome: messagingtest.UnknownMissed, want: onboardingv1.Reason_REASON_SEND_UNKNOWN},
		{name: "ThrottledStepComesBack", outcome: messagingtest.Throttle, want: onboardingv1.Reason_REASON_THROTTLED},
		{name: "UnreachableMessagingComesBack", outcome: messagingtest.Unavailable, want: onboardingv1.Reason_REASON_UNAVAILABLE},
	} {
		subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, r := b.inBurst(1)
			b.messaging.Script(messagingtest.First(tt.outcome))
			_, err := b.execute(payload(r))
			refuses(t, err, codes.Unavailable, tt.want)
			require.Positive(t, rpc.RetryAfter(err))
			b.at(r.ID, session.AwaitingBurst, step(1))
			b.messaging.Settle()
			b.executes(r)
			require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
			b.at(r.ID, session.AwaitingBurst, step(2))
		})
	}

	subtest(t, "RefusedMessageParksTheSessionAsUndeliverable", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		b.messaging.Script(messagingtest.First(messagingtest.Reject))
		_, err := b.execute(payload(r))
		refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_UNDELIVERABLE)
		parked := b.session(r.ID)
		require.Equal(t, session.Undeliverable, parked.Status)
		require.Contains(t, parked.Reason, "21211")
		b.skips(session.SkipSessionInactive, payload(r))
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
	})

	subtest(t, "KeyUsedForAnotherMessageParksTheSessionAsStuck", setup, func(t *testing.T, b *bundle) {
		_, r := b.inBurst(2)
		in := payload(r)
		_, err := b.messaging.Send(t.Context(), &messagingv1.SendRequest{OrgId: orgID, To: "+5511900000000", Body: "x", IdempotencyKey: in.GetIdempotencyKey()})
		require.NoError(t, err)
		_, err = b.execute(in)
		refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED)
		require.Equal(t, session.Stuck, b.session(r.ID).Status)
	})

	subtest(t, "S0_41_OptOutThatOnlyMessagingKnowsEndsTheSequence", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		_, err := b.messaging.RecordInbound(t.Context(), &messagingv1.RecordInboundRequest{TwilioSid: "SMx", From: p.Phone, To: ours, Body: "STOP"})
		require.NoError(t, err)
		b.skips(session.SkipOptedOut, payload(r))
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
		b.skips(session.SkipOptedOut, payload(r))
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
	})

	subtest(t, "DefectShowsTheCallerNothingAndLosesNothing", setup, func(t *testing.T, b *bundle) {
		_, r := b.inBurst(1)
		b.exec(`alter table profiles rename to elsewhere`)
		_, err := b.execute(payload(r))
		_, known := rpc.ErrorFrom(err)
		require.False(t, known, "the chain answers Internal with a fixed text for what is not in the table")
		b.exec(`alter table elsewhere rename to profiles`)
		b.executes(r)
	})
}

func TestSpacingUnderClockSkew(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{"Ahead": 3 * time.Second, "Behind": -3 * time.Second} {
		subtest(t, "R_13_GapsAreOfOurOwnClockWhenMessagingsIs"+name, setup, func(t *testing.T, b *bundle) {
			b.skew.Store(int64(skew))
			p, r := b.explained()
			b.reply(p, "ok")
			b.quiet()
			b.at(r.ID, session.AwaitingInterviewStart, "")
			taken := b.messaging.Taken(p.Phone)[2:]
			require.Equal(t, 8*time.Second, taken[1].At.Sub(taken[0].At))
			require.Equal(t, 8*time.Second, taken[2].At.Sub(taken[1].At))
		})
		subtest(t, "R_13_GapAfterAMessageThatIsFoundTakenIsOfOurOwnClockWhenMessagingsIs"+name, setup, func(t *testing.T, b *bundle) {
			b.skew.Store(int64(skew))
			_, r := b.inBurst(1)
			b.fails(r, messagingtest.AcceptLost)
			b.clock.Advance(2 * time.Second)
			b.executes(r)
			require.Equal(t, 1, b.count(`select count(*) from step_alarms where step_id = $1 and due_at = $2`,
				string(step(2)), b.clock.Now().Add(6*time.Second)))
		})
	}
}

// byOperator is a call of ExecuteStep by an operator.
func (b *bundle) byOperator(in *onboardingv1.ExecuteStepRequest) (*onboardingv1.ExecuteStepResponse, error) {
	ctx := rpc.WithPrincipal(b.t.Context(), rpc.Principal{Subject: "ada", OrgID: orgID, Role: rpc.RoleOperator})
	return b.current().server.ExecuteStep(ctx, in)
}

func TestOperatorBeforeAStepIsDue(t *testing.T) {
	t.Parallel()
	// waiting is a person to whom message 2 is due in 7 s.
	waiting := func(b *bundle) (conversation.Profile, session.Record) {
		b.t.Helper()
		p, r := b.inBurst(1)
		b.executes(r)
		b.clock.Advance(time.Second)
		return p, b.at(r.ID, session.AwaitingBurst, step(2))
	}

	subtest(t, "R_13_IsRefusedWithTheTimeLeft", setup, func(t *testing.T, b *bundle) {
		p, r := waiting(b)
		_, err := b.byOperator(payload(r))
		refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_STEP_NOT_DUE)
		require.Equal(t, 7*time.Second, rpc.RetryAfter(err))
		require.ErrorContains(t, err, "due in 7s")
		require.ErrorContains(t, err, "before_due")
		require.Equal(t, r, b.session(r.ID))
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
		b.clock.Advance(7 * time.Second)
		out, err := b.byOperator(payload(r))
		require.NoError(t, err)
		require.Equal(t, onboardingv1.StepOutcome_STEP_OUTCOME_SENT, out.GetOutcome())
		require.NotContains(t, b.story(r.ID), session.KindReplayed)
	})

	subtest(t, "R_13_WithBeforeDueIsRecorded", setup, func(t *testing.T, b *bundle) {
		p, r := waiting(b)
		in := payload(r)
		in.BeforeDue = true
		out, err := b.byOperator(in)
		require.NoError(t, err)
		require.Equal(t, onboardingv1.StepOutcome_STEP_OUTCOME_SENT, out.GetOutcome())
		require.Equal(t, []string{opening, explanation, first, second}, b.sequence(p))
		entry := b.entry(r.ID, session.KindReplayed)
		require.Equal(t, session.TriggerOperator, entry.Trigger)
		require.Equal(t, "before_due: 7s before it was due", entry.Detail)
		require.Equal(t, step(2), entry.Step)
		out, err = b.byOperator(in)
		require.NoError(t, err)
		require.Equal(t, string(session.SkipStale), out.GetSkipReason(), "a second replay does nothing")
	})

	subtest(t, "R_13_AlarmThatRingsEarlyIsAsBefore", setup, func(t *testing.T, b *bundle) {
		_, r := waiting(b)
		in := payload(r)
		in.BeforeDue = true // only an operator may say so
		out, err := b.execute(in)
		require.NoError(t, err)
		require.Equal(t, onboardingv1.StepOutcome_STEP_OUTCOME_SENT, out.GetOutcome())
		require.NotContains(t, b.story(r.ID), session.KindReplayed)
	})

	subtest(t, "R_13_StepThatOnlyWaitsForAReceiptIsDue", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		b.exec(`insert into step_alarms (id, org_id, session_id, profile_id, step_id, expected_state_token, generation, cause, due_at, lease_until, created_at)
			values ($1, $2, $3, $4, $5, 'onboarding:awaiting_burst', 2, 'delivery', $6, $6, $6)`,
			newID(), orgID, r.ID, p.ID, string(step(2)), b.clock.Now().Add(time.Hour))
		b.clock.Advance(8 * time.Second)
		_, err := b.byOperator(payload(r))
		require.NoError(t, err)
		b.at(r.ID, session.AwaitingBurst, step(3))
	})
}
