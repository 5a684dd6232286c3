package conversation_test

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
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

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
		{name: "S0_11_KeyOfAnotherStep", bend: func(in *onboardingv1.ExecuteStepRequest) { in.StepId = string(onboardingtest.Step(2)) }, want: onboardingv1.Reason_REASON_KEY_MISMATCH},
		{name: "S0_11_KeyOfAnotherShape", bend: func(in *onboardingv1.ExecuteStepRequest) { in.IdempotencyKey = "x" }, want: onboardingv1.Reason_REASON_KEY_MISMATCH},
		{name: "S0_10_StepThatTheFlowDoesNotHave", bend: func(in *onboardingv1.ExecuteStepRequest) {
			in.StepId = "onboarding_message_9"
			in.IdempotencyKey = session.Key(in.GetProfileId(), in.GetSessionId(), session.StepID(in.GetStepId()))
		}, want: onboardingv1.Reason_REASON_UNKNOWN_STEP},
	} {
		onboardingtest.Subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			_, r := b.InBurst(1)
			in := onboardingtest.Payload(r)
			tt.bend(in)
			_, err := b.Execute(in)
			onboardingtest.Refused(t, err, codes.InvalidArgument, tt.want)
			require.Equal(t, r, b.Session(r.ID))
			require.Len(t, b.Messaging.Attempts(), 2)
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
			in.SessionId = onboardingtest.NewID()
			in.IdempotencyKey = session.Key(in.GetProfileId(), in.GetSessionId(), session.StepID(in.GetStepId()))
		}, want: session.SkipSessionNotFound},
		{name: "S0_12_SessionOfAnotherPersonAsNotFound", bend: func(_ *bundle, _ session.Record, in *onboardingv1.ExecuteStepRequest) {
			in.ProfileId = onboardingtest.NewID()
			in.IdempotencyKey = session.Key(in.GetProfileId(), in.GetSessionId(), session.StepID(in.GetStepId()))
		}, want: session.SkipSessionNotFound},
		{name: "S0_14_OtherModeAsInactive", bend: func(b *bundle, r session.Record, _ *onboardingv1.ExecuteStepRequest) {
			b.Exec(`update conversation_sessions set mode = 'interviewing' where id = $1`, r.ID)
		}, want: session.SkipSessionInactive},
		{name: "S0_14_ClosedSessionAsInactive", bend: func(b *bundle, r session.Record, _ *onboardingv1.ExecuteStepRequest) {
			b.Resets(r)
		}, want: session.SkipSessionInactive},
		{name: "S0_15_TokenThatDiffersAsStale", bend: func(_ *bundle, _ session.Record, in *onboardingv1.ExecuteStepRequest) {
			in.ExpectedStateToken = string(session.AwaitingInterviewStart)
		}, want: session.SkipStale},
		{name: "S0_15_StepThatIsNotDueYetAsStale", bend: func(_ *bundle, r session.Record, in *onboardingv1.ExecuteStepRequest) {
			r.NextStep = onboardingtest.Step(3)
			ahead := onboardingtest.Payload(r)
			in.StepId, in.IdempotencyKey = ahead.GetStepId(), ahead.GetIdempotencyKey()
		}, want: session.SkipStale},
		{name: "S0_16_HeldPersonAsSafetyHold", bend: func(b *bundle, r session.Record, _ *onboardingv1.ExecuteStepRequest) {
			_, err := b.Current().Persons.Hold(b.T.Context(), onboardingtest.OrgID, r.ProfileID, "under review")
			require.NoError(b.T, err)
		}, want: session.SkipSafetyHold},
		{name: "S0_17_PausedSession", bend: func(b *bundle, r session.Record, _ *onboardingv1.ExecuteStepRequest) {
			b.Exec(`update conversation_sessions set paused_at = now() where id = $1`, r.ID)
		}, want: session.SkipPaused},
		{name: "S0_18_InactiveBeforeStale", bend: func(b *bundle, r session.Record, in *onboardingv1.ExecuteStepRequest) {
			b.Exec(`update conversation_sessions set status = 'stuck', paused_at = now() where id = $1`, r.ID)
			in.ExpectedStateToken = string(session.AwaitingInterviewStart)
		}, want: session.SkipSessionInactive},
		{name: "S0_18_StaleBeforeHold", bend: func(b *bundle, _ session.Record, in *onboardingv1.ExecuteStepRequest) {
			b.Exec(`update profiles set hold = true`)
			in.ExpectedStateToken = string(session.AwaitingInterviewStart)
		}, want: session.SkipStale},
		{name: "S0_18_HoldBeforePause", bend: func(b *bundle, _ session.Record, _ *onboardingv1.ExecuteStepRequest) {
			b.Exec(`update profiles set hold = true`)
			b.Exec(`update conversation_sessions set paused_at = now()`)
		}, want: session.SkipSafetyHold},
		{name: "S0_41_PersonWhoTextedStop", bend: func(b *bundle, _ session.Record, _ *onboardingv1.ExecuteStepRequest) {
			b.Exec(`update conversation_sessions set status = 'stopped'`)
		}, want: session.SkipOptedOut},
	} {
		onboardingtest.Subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			_, r := b.InBurst(2)
			in := onboardingtest.Payload(r)
			tt.bend(b, r, in)
			b.Skips(tt.want, in)
			skipped := b.Log.Of(t, "onboarding.step_skipped")
			require.Len(t, skipped, 1)
			require.Equal(t, string(tt.want), skipped[0]["reason"])
		})
	}
}

func TestExecuteStep(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S0_21_S0_23_SendsOneMessageAndSetsTheNextAlarm", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(1)
		out, err := b.Execute(onboardingtest.Payload(r))
		require.NoError(t, err)
		require.Equal(t, onboardingv1.StepOutcome_STEP_OUTCOME_SENT, out.GetOutcome())
		require.Equal(t, string(onboardingtest.Step(2)), out.GetNextStepId())
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
		require.Equal(t, b.Messaging.Taken(p.Phone)[2].MessageID, out.GetMessageId())
		b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(2))
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms where step_id = $1 and published_at is not null`, string(onboardingtest.Step(2))))
		require.Equal(t, 2, b.Count(`select count(*) from step_alarms`))
	})

	// Also: S0-29
	onboardingtest.Subtest(t, "S0_24_S0_62_KeepsOrderAndDelays", setup, func(t *testing.T, b *bundle) {
		p, r := b.Explained()
		b.Reply(p, "yes")
		b.Completes(p)
		taken := b.Messaging.Taken(p.Phone)[2:]
		require.Equal(t, 8*time.Second, taken[1].At.Sub(taken[0].At))
		require.Equal(t, 8*time.Second, taken[2].At.Sub(taken[1].At))
		require.Zero(t, taken[3].At.Sub(taken[2].At))
		told := map[any]any{}
		for _, scheduled := range b.Log.Of(t, "onboarding.step_next_scheduled") {
			told[scheduled["step_id"]] = scheduled["delay_ms"]
		}
		require.Equal(t, map[any]any{"onboarding_message_1": 8000.0, "onboarding_message_2": 8000.0, "onboarding_message_3": 0.0}, told)
		b.At(r.ID, session.AwaitingInterviewStart, "")
		require.Equal(t, []session.Kind{
			session.KindActivated, session.KindSent, session.KindReplied, session.KindSent, session.KindAdvanced, session.KindReplied, session.KindAdvanced,
			session.KindSent, session.KindAdvanced, session.KindSent, session.KindAdvanced, session.KindSent, session.KindAdvanced, session.KindSent, session.KindAdvanced,
		}, b.Story(r.ID))
	})

	onboardingtest.Subtest(t, "S0_23_S0_25_SetsNoAlarmAfterTheLastStep", setup, func(t *testing.T, b *bundle) {
		_, r := b.InBurst(4)
		out, err := b.Execute(onboardingtest.Payload(r))
		require.NoError(t, err)
		require.Empty(t, out.GetNextStepId())
		b.At(r.ID, session.AwaitingInterviewStart, "")
		require.Equal(t, 4, b.Count(`select count(*) from step_alarms`))
	})

	onboardingtest.Subtest(t, "S0_26_S0_27_S0_28_S0_29_LogsWhatItDoes", setup, func(t *testing.T, b *bundle) {
		_, r := b.InBurst(1)
		in := onboardingtest.Payload(r)
		_, err := b.Execute(in)
		require.NoError(t, err)
		b.Skips(session.SkipStale, in)
		invoked := b.Log.Of(t, "onboarding.step_handler_invoked")
		require.Len(t, invoked, 2)
		require.Equal(t, []any{"onboarding_message_1", r.ID, "request-7"}, []any{invoked[0]["step_id"], invoked[0]["session_id"], invoked[0]["correlation_id"]})
		sent := b.Log.Of(t, "onboarding.step_sent")
		require.Len(t, sent, 1)
		require.Equal(t, []any{"onboarding_message_1", in.GetIdempotencyKey()}, []any{sent[0]["step_id"], sent[0]["idempotency_key"]})
		skipped := b.Log.Of(t, "onboarding.step_skipped")
		require.Len(t, skipped, 1)
		require.Equal(t, []any{"onboarding_message_1", "stale"}, []any{skipped[0]["step_id"], skipped[0]["reason"]})
		scheduled := b.Log.Of(t, "onboarding.step_next_scheduled")
		require.Len(t, scheduled, 1)
		require.Equal(t, []any{"onboarding_message_1", "onboarding_message_2", 8000.0},
			[]any{scheduled[0]["step_id"], scheduled[0]["next_step_id"], scheduled[0]["delay_ms"]})
	})

	onboardingtest.Subtest(t, "S0_19_S0_64_StepThatWasSentIsNotSentAgainButFinished", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(1)
		b.Messaging.Script(messagingtest.First(messagingtest.AcceptLost))
		_, err := b.Execute(onboardingtest.Payload(r))
		onboardingtest.Refused(t, err, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE)
		b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(1))
		b.Clock.Advance(3 * time.Second)
		out, err := b.Execute(onboardingtest.Payload(r))
		require.NoError(t, err)
		require.Equal(t, onboardingv1.StepOutcome_STEP_OUTCOME_SKIPPED, out.GetOutcome())
		require.Equal(t, string(session.SkipAlreadySent), out.GetSkipReason())
		require.Equal(t, string(onboardingtest.Step(2)), out.GetNextStepId())
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
		b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(2))
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms where step_id = $1 and due_at = $2`,
			string(onboardingtest.Step(2)), b.Clock.Now().Add(5*time.Second)), "eight seconds after it was accepted, not after the retry")
	})

	onboardingtest.Subtest(t, "S0_20_S0_22_AcceptanceWithoutARowChangesNothing", setup, func(t *testing.T, b *bundle) {
		for _, broken := range []messagingtest.Outcome{messagingtest.AcceptNoRow, messagingtest.AcceptNoSID} {
			p, r := b.InBurst(1)
			b.Messaging.Script(messagingtest.First(broken))
			_, err := b.Execute(onboardingtest.Payload(r))
			onboardingtest.Refused(t, err, codes.Internal, onboardingv1.Reason_REASON_MESSAGE_MISSING)
			b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(1))
			b.Executes(r)
			b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(2))
			require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
		}
	})
}

func TestGetSessionSaysWhenTheStepThatIsDueComes(t *testing.T) {
	t.Parallel()
	due := func(b *bundle, id string) time.Time {
		b.T.Helper()
		out, err := onboardingtest.Ask(b.Bundle, b.Current().Server.GetSession, &onboardingv1.GetSessionRequest{SessionId: id})
		require.NoError(b.T, err)
		if out.GetSession().GetNextDueAt() == nil {
			return time.Time{}
		}
		return out.GetSession().GetNextDueAt().AsTime()
	}
	onboardingtest.Subtest(t, "ByItsNewestAlarm", setup, func(t *testing.T, b *bundle) {
		_, r := b.InBurst(2)
		var want time.Time
		require.NoError(t, b.Pool.QueryRow(t.Context(),
			`select due_at from step_alarms where session_id = $1 and step_id = $2 order by generation desc limit 1`, r.ID, string(onboardingtest.Step(2))).Scan(&want))
		require.True(t, want.After(b.Clock.Now()))
		require.True(t, want.Equal(due(b, r.ID)))
	})
	onboardingtest.Subtest(t, "NotWhereAPersonIsWaitedFor", setup, func(t *testing.T, b *bundle) {
		_, r := b.Activated()
		require.Zero(t, due(b, r.ID))
	})
	onboardingtest.Subtest(t, "NotOfASessionThatIsParked", setup, func(t *testing.T, b *bundle) {
		_, r, _ := b.ParkedAtStep(messagingtest.Reject)
		require.Zero(t, due(b, r.ID))
	})
}

func TestExecuteStepOnce(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S0_30_S0_66_S1_27_SamePayloadTwiceIsOneMessageAndOneAdvance", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(1)
		in := onboardingtest.Payload(r)
		_, err := b.Execute(in)
		require.NoError(t, err)
		moved := b.Session(r.ID)
		b.Skips(session.SkipStale, in)
		require.Equal(t, moved, b.Session(r.ID))
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "S0_66_S1_27_LateDuplicateNeverMovesTheTokenBack", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(1)
		late := onboardingtest.Payload(r)
		for b.Session(r.ID).NextStep != "" {
			b.Executes(b.Session(r.ID))
		}
		b.Reply(p, "yes")
		done := b.At(r.ID, session.InterviewActivity01, "")
		b.Skips(session.SkipSessionInactive, late)
		require.Equal(t, done, b.Session(r.ID))
	})

	onboardingtest.Subtest(t, "S0_31_S1_06_FailedAttemptAndItsRetryAreOneMessage", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(1)
		b.Exec(`alter table session_transitions rename to elsewhere`)
		_, err := b.Execute(onboardingtest.Payload(r))
		require.Error(t, err)
		b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(1))
		b.Exec(`alter table elsewhere rename to session_transitions`)
		out, err := b.Execute(onboardingtest.Payload(r))
		require.NoError(t, err)
		require.Equal(t, string(session.SkipAlreadySent), out.GetSkipReason())
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
		b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(2))
	})

	onboardingtest.Subtest(t, "S0_32_ConcurrentCallsAreOneMessageAndOneAlarm", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(1)
		var sent atomic.Int64
		_ = onboardingtest.AtOnce(12, func() error { // those that lose the race may be asked to come back
			out, err := b.Execute(onboardingtest.Payload(r))
			if out.GetOutcome() == onboardingv1.StepOutcome_STEP_OUTCOME_SENT {
				sent.Add(1)
			}
			return err
		})
		require.EqualValues(t, 1, sent.Load())
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
		b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(2))
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms where step_id = $1`, string(onboardingtest.Step(2))))
	})

	onboardingtest.Subtest(t, "S0_32_S1_26_CallDuringAnotherIsAskedToRetry", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(1)
		calling, goOn := make(chan struct{}), make(chan struct{})
		b.Messaging.Gate(func(*messagingv1.SendRequest) { close(calling); <-goOn })
		done := make(chan error, 1)
		go func() {
			_, err := b.Execute(onboardingtest.Payload(r))
			done <- err
		}()
		<-calling
		_, err := b.Execute(onboardingtest.Payload(r))
		onboardingtest.Refused(t, err, codes.Unavailable, onboardingv1.Reason_REASON_SEND_IN_FLIGHT)
		require.Equal(t, messagingtest.RetryAfter, rpc.RetryAfter(onboarding.Answer(err)))
		close(goOn)
		require.NoError(t, <-done)
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
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
		onboardingtest.Subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, r := b.InBurst(1)
			b.Messaging.Script(messagingtest.First(tt.outcome))
			_, err := b.Execute(onboardingtest.Payload(r))
			onboardingtest.Refused(t, err, codes.Unavailable, tt.want)
			require.Positive(t, rpc.RetryAfter(onboarding.Answer(err)))
			b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(1))
			b.Messaging.Settle()
			b.Executes(r)
			require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
			b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(2))
		})
	}

	onboardingtest.Subtest(t, "RefusedMessageParksTheSessionAsUndeliverable", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		b.Messaging.Script(messagingtest.First(messagingtest.Reject))
		_, err := b.Execute(onboardingtest.Payload(r))
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_UNDELIVERABLE)
		parked := b.Session(r.ID)
		require.Equal(t, session.Undeliverable, parked.Status)
		require.Contains(t, parked.Reason, "21211")
		b.Skips(session.SkipSessionInactive, onboardingtest.Payload(r))
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "KeyUsedForAnotherMessageParksTheSessionAsStuck", setup, func(t *testing.T, b *bundle) {
		_, r := b.InBurst(2)
		in := onboardingtest.Payload(r)
		_, err := b.Messaging.Send(t.Context(), &messagingv1.SendRequest{OrgId: onboardingtest.OrgID, To: "+5511900000000", Body: "x", IdempotencyKey: in.GetIdempotencyKey()})
		require.NoError(t, err)
		_, err = b.Execute(in)
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED)
		require.Equal(t, session.Stuck, b.Session(r.ID).Status)
	})

	onboardingtest.Subtest(t, "S0_41_OptOutThatOnlyMessagingKnowsEndsTheSequence", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		_, err := b.Messaging.RecordInbound(t.Context(), &messagingv1.RecordInboundRequest{TwilioSid: "SMx", From: p.Phone, To: onboardingtest.Ours, Body: "STOP"})
		require.NoError(t, err)
		b.Skips(session.SkipOptedOut, onboardingtest.Payload(r))
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
		b.Skips(session.SkipOptedOut, onboardingtest.Payload(r))
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "DefectShowsTheCallerNothingAndLosesNothing", setup, func(t *testing.T, b *bundle) {
		_, r := b.InBurst(1)
		b.Exec(`alter table profiles rename to elsewhere`)
		_, err := b.Execute(onboardingtest.Payload(r))
		_, known := rpc.ErrorFrom(onboarding.Answer(err))
		require.False(t, known, "the chain answers Internal with a fixed text for what is not in the table")
		b.Exec(`alter table elsewhere rename to profiles`)
		b.Executes(r)
	})
}

func TestSpacingUnderClockSkew(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{"Ahead": 3 * time.Second, "Behind": -3 * time.Second} {
		onboardingtest.Subtest(t, "R_13_GapsAreOfOurOwnClockWhenMessagingsIs"+name, setup, func(t *testing.T, b *bundle) {
			b.Skew.Store(int64(skew))
			p, r := b.Explained()
			b.Reply(p, "ok")
			b.Quiet()
			b.At(r.ID, session.AwaitingInterviewStart, "")
			taken := b.Messaging.Taken(p.Phone)[2:]
			require.Equal(t, 8*time.Second, taken[1].At.Sub(taken[0].At))
			require.Equal(t, 8*time.Second, taken[2].At.Sub(taken[1].At))
		})
		onboardingtest.Subtest(t, "R_13_GapAfterAMessageThatIsFoundTakenIsOfOurOwnClockWhenMessagingsIs"+name, setup, func(t *testing.T, b *bundle) {
			b.Skew.Store(int64(skew))
			_, r := b.InBurst(1)
			b.Fails(r, messagingtest.AcceptLost)
			b.Clock.Advance(2 * time.Second)
			b.Executes(r)
			require.Equal(t, 1, b.Count(`select count(*) from step_alarms where step_id = $1 and due_at = $2`,
				string(onboardingtest.Step(2)), b.Clock.Now().Add(6*time.Second)))
		})
	}
}

// byOperator is a call of ExecuteStep by an operator.
func (b *bundle) byOperator(in *onboardingv1.ExecuteStepRequest) (*onboardingv1.ExecuteStepResponse, error) {
	ctx := rpc.WithPrincipal(b.T.Context(), rpc.Principal{Subject: "ada", OrgID: onboardingtest.OrgID, Role: rpc.RoleOperator})
	return b.Current().Server.ExecuteStep(ctx, in)
}

func TestOperatorBeforeAStepIsDue(t *testing.T) {
	t.Parallel()
	// waiting is a person to whom message 2 is due in 7 s.
	waiting := func(b *bundle) (people.Profile, session.Record) {
		b.T.Helper()
		p, r := b.InBurst(1)
		b.Executes(r)
		b.Clock.Advance(time.Second)
		return p, b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(2))
	}

	onboardingtest.Subtest(t, "R_13_IsRefusedWithTheTimeLeft", setup, func(t *testing.T, b *bundle) {
		p, r := waiting(b)
		_, err := b.byOperator(onboardingtest.Payload(r))
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_STEP_NOT_DUE)
		require.Equal(t, 7*time.Second, rpc.RetryAfter(onboarding.Answer(err)))
		require.ErrorContains(t, err, "due in 7s")
		require.ErrorContains(t, err, "before_due")
		require.Equal(t, r, b.Session(r.ID))
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
		b.Clock.Advance(7 * time.Second)
		out, err := b.byOperator(onboardingtest.Payload(r))
		require.NoError(t, err)
		require.Equal(t, onboardingv1.StepOutcome_STEP_OUTCOME_SENT, out.GetOutcome())
		require.NotContains(t, b.Story(r.ID), session.KindReplayed)
	})

	onboardingtest.Subtest(t, "R_13_WithBeforeDueIsRecorded", setup, func(t *testing.T, b *bundle) {
		p, r := waiting(b)
		in := onboardingtest.Payload(r)
		in.BeforeDue = true
		out, err := b.byOperator(in)
		require.NoError(t, err)
		require.Equal(t, onboardingv1.StepOutcome_STEP_OUTCOME_SENT, out.GetOutcome())
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First, onboardingtest.Second}, b.Sequence(p))
		entry := b.Entry(r.ID, session.KindReplayed)
		require.Equal(t, session.TriggerOperator, entry.Trigger)
		require.Equal(t, "before_due: 7s before it was due", entry.Detail)
		require.Equal(t, onboardingtest.Step(2), entry.Step)
		out, err = b.byOperator(in)
		require.NoError(t, err)
		require.Equal(t, string(session.SkipStale), out.GetSkipReason(), "a second replay does nothing")
	})

	onboardingtest.Subtest(t, "R_13_AlarmThatRingsEarlyIsAsBefore", setup, func(t *testing.T, b *bundle) {
		_, r := waiting(b)
		in := onboardingtest.Payload(r)
		in.BeforeDue = true // only an operator may say so
		out, err := b.Execute(in)
		require.NoError(t, err)
		require.Equal(t, onboardingv1.StepOutcome_STEP_OUTCOME_SENT, out.GetOutcome())
		require.NotContains(t, b.Story(r.ID), session.KindReplayed)
	})

	onboardingtest.Subtest(t, "R_13_StepThatOnlyWaitsForAReceiptIsDue", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		b.Exec(`insert into step_alarms (id, org_id, session_id, profile_id, step_id, expected_state_token, generation, cause, due_at, lease_until, created_at)
			values ($1, $2, $3, $4, $5, 'onboarding:awaiting_burst', 2, 'delivery', $6, $6, $6)`,
			onboardingtest.NewID(), onboardingtest.OrgID, r.ID, p.ID, string(onboardingtest.Step(2)), b.Clock.Now().Add(time.Hour))
		b.Clock.Advance(8 * time.Second)
		_, err := b.byOperator(onboardingtest.Payload(r))
		require.NoError(t, err)
		b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(3))
	})
}
