package conversation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

func TestResumeSessions(t *testing.T) {
	t.Parallel()
	// parks leaves people in their bursts with a QStash that loses everything, until they are parked.
	parks := func(b *bundle, people int) []session.Record {
		var parked []session.Record
		for range people {
			_, r := b.InBurst(2)
			parked = append(parked, r)
		}
		b.lasts(15 * time.Minute)
		for _, r := range parked {
			require.Equal(b.T, session.Stuck, b.Session(r.ID).Status)
		}
		return parked
	}
	all := func(b *bundle, in *onboardingv1.ResumeSessionsRequest) *onboardingv1.ResumeSessionsResponse {
		out, err := onboardingtest.Ask(b.Bundle, b.Current().Server.ResumeSessions, in)
		require.NoError(b.T, err)
		return out
	}

	onboardingtest.Subtest(t, "R_11_AfterADryRunWhatWasParkedGoesOnPageByPage", setup, func(t *testing.T, b *bundle) {
		parked := parks(b, 3)
		began := b.Session(parked[0].ID).UpdatedAt
		dry := all(b, &onboardingv1.ResumeSessionsRequest{ReasonContains: "Brought Nothing", DryRun: true})
		require.EqualValues(t, 3, dry.GetMatched())
		require.Equal(t, []string{parked[2].ID, parked[1].ID, parked[0].ID}, dry.GetSessionIds())
		require.Equal(t, 3, b.Count(`select count(*) from conversation_sessions where status = 'stuck'`), "nothing has happened")
		for name, none := range map[string]*onboardingv1.ResumeSessionsRequest{
			"another reason": {ReasonContains: "21614"},
			"later":          {ReasonContains: "nothing", ParkedSince: timestamppb.New(b.Clock.Now())},
			"earlier":        {ReasonContains: "nothing", ParkedUntil: timestamppb.New(began)},
		} {
			require.Zero(t, all(b, none).GetMatched(), name)
		}
		b.Unmute()
		first := all(b, &onboardingv1.ResumeSessionsRequest{ReasonContains: "nothing", ParkedSince: timestamppb.New(began), PageSize: 2})
		require.Equal(t, []string{parked[2].ID, parked[1].ID}, first.GetSessionIds())
		rest := all(b, &onboardingv1.ResumeSessionsRequest{
			ReasonContains: "nothing", ParkedSince: timestamppb.New(began), PageSize: 2, PageToken: first.GetNextPageToken(),
		})
		require.Equal(t, []string{parked[0].ID}, rest.GetSessionIds())
		require.Empty(t, rest.GetNextPageToken())
		b.Quiet()
		for _, r := range parked {
			b.At(r.ID, session.AwaitingInterviewStart, "")
		}
		require.Zero(t, all(b, &onboardingv1.ResumeSessionsRequest{ReasonContains: "nothing"}).GetMatched())
	})

	onboardingtest.Subtest(t, "R_11_SessionsOfAnotherOrganisationAreNotTouched", setup, func(t *testing.T, b *bundle) {
		parked := parks(b, 1)
		ctx := rpc.WithPrincipal(t.Context(), rpc.Principal{Subject: "eve", Role: rpc.RoleOperator, OrgID: onboardingtest.NewID()})
		out, err := b.Current().Server.ResumeSessions(ctx, &onboardingv1.ResumeSessionsRequest{ReasonContains: "nothing"})
		require.NoError(t, err)
		require.Zero(t, out.GetMatched())
		require.Empty(t, out.GetSessionIds())
		require.Equal(t, session.Stuck, b.Session(parked[0].ID).Status)
	})

	onboardingtest.Subtest(t, "R_11_OneThatCannotBeResumedIsNamedAndTheOthersAre", setup, func(t *testing.T, b *bundle) {
		parked := parks(b, 2)
		b.Exec(`insert into conversation_sessions (id, org_id, profile_id, mode, state_token, status, copy_version, created_at, updated_at)
			select gen_random_uuid(), org_id, profile_id, mode, $2, 'active', copy_version, created_at, updated_at
			from conversation_sessions where id = $1`, parked[1].ID, string(session.AwaitingInterviewStart))
		out := all(b, &onboardingv1.ResumeSessionsRequest{ReasonContains: "nothing"})
		require.Equal(t, []string{parked[0].ID}, out.GetSessionIds())
		require.Len(t, out.GetUnresumed(), 1)
		require.Equal(t, parked[1].ID, out.GetUnresumed()[0].GetSessionId())
		require.Contains(t, out.GetUnresumed()[0].GetReason(), "reset that one first")
	})

	onboardingtest.Subtest(t, "R_11_WordsThatChooseEverythingAreRefused", setup, func(t *testing.T, b *bundle) {
		for _, in := range []*onboardingv1.ResumeSessionsRequest{
			{},
			{ReasonContains: "an"},
			{ReasonContains: "nothing", PageSize: 501},
			{ReasonContains: "nothing", PageToken: "?"},
			{ReasonContains: "nothing", ParkedSince: &timestamppb.Timestamp{Nanos: -1}},
		} {
			_, err := onboardingtest.Ask(b.Bundle, b.Current().Server.ResumeSessions, in)
			refusal, _ := rpc.ErrorFrom(onboarding.Answer(err))
			require.Equal(t, codes.InvalidArgument, refusal.Code)
		}
	})
}

// completesAfter resolves the message of the second step, resumes its session, and holds the conversation to going on to its end.
func (b *bundle) completesAfter(p people.Profile, r session.Record, word messagingv1.Resolution) {
	b.T.Helper()
	require.True(b.T, b.Messaging.Resolve(onboardingtest.StepKey(r, 2), word))
	b.Unmute()
	b.Resumed(r)
	b.Completes(p)
}

// resumeAtOnce is many operators who resume a session at once.
func (b *bundle) resumeAtOnce(r session.Record) error {
	return onboardingtest.AtOnce(8, func() error {
		_, err := b.Resume(r)
		return err
	})
}

func TestResumeOfAStep(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		name    string
		outcome messagingtest.Outcome
		word    messagingv1.Resolution
	}{
		{name: "S0_65_UndecidedStepThatWasSentIsNotSentAgain", outcome: messagingtest.ParkTaken, word: onboardingtest.WasSent},
		{name: "S0_65_UndecidedStepThatWasNotSentIsSent", outcome: messagingtest.ParkMissed, word: onboardingtest.WasNotSent},
	} {
		onboardingtest.Subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, r, err := b.ParkedAtStep(tt.outcome)
			onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_STUCK)
			require.Equal(t, session.Stuck, r.Status)
			parked := b.Entry(r.ID, session.KindParked)
			for _, reason := range []string{b.Shown(r.ID).GetReason(), parked.Detail, err.Error()} {
				require.Contains(t, reason, "GET /v1/messages/"+parked.MessageID+"/evidence")
				require.Contains(t, reason, "POST /v1/messages/"+parked.MessageID+":resolve")
				require.Contains(t, reason, "POST /v1/sessions/"+r.ID+":resume")
			}
			b.Skips(session.SkipSessionInactive, onboardingtest.Payload(r))
			require.True(t, b.Messaging.Resolve(onboardingtest.StepKey(r, 2), tt.word))
			b.Unmute()
			b.Resumed(r)
			require.Equal(t, 1, b.Count(`select count(*) from step_alarms where session_id = $1 and generation = 2 and cause = 'resumed'`, r.ID))
			require.Equal(t, session.TriggerOperator, b.Entry(r.ID, session.KindResumed).Trigger)
			b.Completes(p)
			b.KeepsPace(p)
			b.At(r.ID, session.AwaitingInterviewStart, "")
		})
	}

	onboardingtest.Subtest(t, "ResumedBeforeTheMessageIsResolvedItIsParkedAgain", setup, func(t *testing.T, b *bundle) {
		p, r, _ := b.ParkedAtStep(messagingtest.ParkTaken)
		for range 3 {
			b.Resumed(r)
			_, err := b.Execute(onboardingtest.Payload(r))
			onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_STUCK)
		}
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First, onboardingtest.Second}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "GivenUpStepWaitsUntilItIsSentAfterAll", setup, func(t *testing.T, b *bundle) {
		p, r, _ := b.ParkedAtStep(messagingtest.ParkMissed)
		require.True(t, b.Messaging.Resolve(onboardingtest.StepKey(r, 2), onboardingtest.GiveUp))
		b.Resumed(r)
		_, err := b.Execute(onboardingtest.Payload(r))
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_STUCK)
		require.Contains(t, b.Shown(r.ID).GetReason(), "was given up")
		require.Contains(t, b.Shown(r.ID).GetReason(), ":resolve with RESOLUTION_NOT_SENT")
		b.completesAfter(p, r, onboardingtest.WasNotSent)
	})

	onboardingtest.Subtest(t, "S0_65_UndeliverableSaysWhyWithTwiliosCodeAndWhatToDo", setup, func(t *testing.T, b *bundle) {
		p, r, err := b.ParkedAtStep(messagingtest.Reject)
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_UNDELIVERABLE)
		parked := b.Entry(r.ID, session.KindParked)
		require.Equal(t, "undeliverable", b.Shown(r.ID).GetStatus())
		for _, reason := range []string{b.Shown(r.ID).GetReason(), parked.Detail, err.Error()} {
			require.Contains(t, reason, "Twilio 21211: this is no phone number; correct it")
			require.Contains(t, reason, "POST /v1/messages/"+parked.MessageID+":resolve with RESOLUTION_NOT_SENT")
			require.Contains(t, reason, "POST /v1/sessions/"+r.ID+":resume")
		}
		b.completesAfter(p, r, onboardingtest.WasNotSent)
	})

	onboardingtest.Subtest(t, "DoesNotRingBeforeTheStepIsDue", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		b.Exec(`update conversation_sessions set status = 'stuck', turn = turn + 1, detours = detours + 1 where id = $1`, r.ID)
		b.Unmute()
		b.Resumed(r)
		b.Quiet()
		b.KeepsPace(p)
		require.Equal(t, onboardingtest.Whole, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "S0_16_WaitsForTheReleaseOfAPersonOnHold", setup, func(t *testing.T, b *bundle) {
		p, r, _ := b.ParkedAtStep(messagingtest.ParkMissed)
		require.True(t, b.Messaging.Resolve(onboardingtest.StepKey(r, 2), onboardingtest.WasNotSent))
		b.Unmute()
		b.Hold(p)
		b.Resumed(r)
		b.Pass(10 * time.Minute)
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
		require.Equal(t, session.Active, b.Session(r.ID).Status)
		b.Release(p)
		b.Completes(p)
	})
}

func TestResumeOfADirectMessage(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	for _, tt := range []struct {
		name  string
		begin func(b *bundle) (p people.Profile, key func(r session.Record) string) // parks
		want  []string                                                              // after it went on
		token session.Token
	}{
		{
			name: "Opening", want: []string{onboardingtest.Opening}, token: session.AwaitingOpeningResponse,
			begin: func(b *bundle) (people.Profile, func(r session.Record) string) {
				p := b.Person()
				_, _ = b.Current().Service.Begin(b.T.Context(), onboardingtest.OrgID, conversation.Start{ProfileID: p.ID})
				return p, func(r session.Record) string { return session.OpeningKey(r.ProfileID, r.ID) }
			},
		},
		{
			name: "Explanation", want: []string{onboardingtest.Opening, onboardingtest.Explanation}, token: session.AwaitingExplanationResponse,
			begin: func(b *bundle) (people.Profile, func(r session.Record) string) {
				p := b.Person()
				b.Unscripted(func() { b.Activate(p) })
				b.Reply(p, "yes")
				return p, func(r session.Record) string { return session.DirectKey(r.ProfileID, r.ID, session.TextExplanation, 1) }
			},
		},
		{
			name: "Later", want: []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.Later}, token: session.AwaitingOpeningResponse,
			begin: func(b *bundle) (people.Profile, func(r session.Record) string) {
				var p people.Profile
				b.Unscripted(func() { p, _ = b.Explained() })
				b.Reply(p, "not now")
				return p, func(r session.Record) string { return session.DirectKey(r.ProfileID, r.ID, session.TextLater, 2) }
			},
		},
	} {
		for _, met := range []struct {
			name    string
			outcome messagingtest.Outcome
			word    messagingv1.Resolution
		}{
			{name: "ThatWasSentIsNotSentAgain", outcome: messagingtest.ParkTaken, word: onboardingtest.WasSent},
			{name: "ThatWasNotSentIsSent", outcome: messagingtest.ParkMissed, word: onboardingtest.WasNotSent},
			{name: "OfWhichNothingWasHeardIsNotSentAgain", outcome: messagingtest.UnknownForever, word: onboardingtest.WasSent},
			{name: "ThatTwilioRefusedIsSent", outcome: messagingtest.Reject, word: onboardingtest.WasNotSent},
		} {
			onboardingtest.Subtest(t, "S0_65_"+tt.name+met.name, setup, func(t *testing.T, b *bundle) {
				b.Outcome = met.outcome
				b.Messaging.Script(messagingtest.First(met.outcome))
				p, key := tt.begin(b)
				if met.outcome == messagingtest.UnknownForever {
					b.lasts(31 * time.Minute)
				}
				require.True(t, b.Newest(p).Status.Parked())
				b.Messaging.Script(nil)
				r := b.Newest(p)
				require.Contains(t, r.Reason, "POST /v1/sessions/"+r.ID+":resume")
				require.True(t, b.Messaging.Resolve(key(r), met.word))
				b.Clock.Advance(time.Minute)
				for range 2 { // the second finds it active and changes nothing
					b.Resumed(r)
				}
				b.Quiet()
				require.Equal(t, tt.want, b.Sequence(p))
				gone := b.At(r.ID, tt.token, "")
				require.Equal(t, session.Active, gone.Status)
				b.Reply(p, "yes")
				b.Quiet()
				require.NotEqual(t, gone, b.Session(r.ID), "the conversation goes on")
			})
		}
	}
}

func TestResumeTakesUpReplies(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	for _, tt := range []struct {
		name   string
		met    messagingtest.Outcome // by the explanation
		word   messagingv1.Resolution
		forget bool
		want   []string
	}{
		{name: "S0_65_ReplyWhileItWasParkedAnswersTheMessageThatWasSent", met: messagingtest.ParkTaken, word: onboardingtest.WasSent, want: onboardingtest.Whole},
		{name: "S0_65_ReplyWhileItWasParkedDoesNotAnswerAMessageThatCameAfterIt", met: messagingtest.ParkMissed, word: onboardingtest.WasNotSent, want: onboardingtest.Whole[:2]},
		{name: "S0_65_ReplyIsAnsweredEvenIfNothingIsKnownOfWhatWasUnderWay", met: messagingtest.ParkTaken, word: onboardingtest.WasSent, forget: true, want: onboardingtest.Whole},
	} {
		onboardingtest.Subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, r := b.Activated()
			b.Messaging.Script(messagingtest.First(tt.met))
			b.Reply(p, "yes")
			b.Clock.Advance(time.Minute)
			b.Reply(p, "sure, go on")
			require.Equal(t, session.KindHeld, b.Entry(r.ID, session.KindHeld).Kind)
			if tt.forget { // as when old jobs were cleared away
				b.Exec(`update conversation_sessions set parked_job_id = null where id = $1`, r.ID)
			}
			b.Clock.Advance(time.Minute)
			require.True(t, b.Messaging.Resolve(explanationKey(r), tt.word))
			b.Resumed(r)
			b.Quiet()
			require.Equal(t, tt.want, b.Sequence(p))
			require.Equal(t, len(tt.want) == 2, b.Session(r.ID).Token == session.AwaitingExplanationResponse)
		})
	}

	onboardingtest.Subtest(t, "S0_65_ReplyToAnOpeningThatWasParkedIsAnswered", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Messaging.Script(messagingtest.First(messagingtest.ParkTaken))
		r := b.Activate(p)
		b.Clock.Advance(time.Minute)
		b.Reply(p, "yes")
		require.True(t, b.Messaging.Resolve(session.OpeningKey(p.ID, r.ID), onboardingtest.WasSent))
		b.Resumed(r)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "S0_65_ReplyThatFailedForGoodIsTakenUpAgain", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Exec(`update conversation_sessions set state_token = 'onboarding:awaiting_nothing' where id = $1`, r.ID)
		b.Reply(p, "yes")
		b.Quiet()
		require.Equal(t, "stuck", b.Shown(r.ID).GetStatus())
		require.Contains(t, b.Shown(r.ID).GetReason(), "failed for good")
		b.Exec(`update conversation_sessions set state_token = $2 where id = $1`, r.ID, string(session.AwaitingOpeningResponse))
		b.Resumed(r)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
		b.At(r.ID, session.AwaitingExplanationResponse, "")
	})

	onboardingtest.Subtest(t, "S0_65_ReplyThatFailedForGoodInTheBurstIsConsideredAfterIt", setup, func(t *testing.T, b *bundle) {
		p, r := b.FailedAtLast(messagingtest.AcceptLost)
		b.Clock.Advance(time.Second)
		b.Exec(`alter table held_replies rename to elsewhere`)
		b.Reply(p, "yes")
		b.Until(func() bool { return b.Session(r.ID).Status == session.Stuck })
		b.Exec(`alter table elsewhere rename to held_replies`)
		b.Unmute()
		b.Resumed(r)
		b.Quiet()
		b.At(r.ID, session.InterviewActivity01, "")
		require.Equal(t, onboardingtest.Whole, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "ReplyThatWasTakenUpIsHeldLikeAnyOther", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Messaging.Script(messagingtest.First(messagingtest.ParkMissed))
		b.Reply(p, "yes")
		require.True(t, b.Messaging.Resolve(explanationKey(r), onboardingtest.WasNotSent))
		b.Hold(p)
		b.Resumed(r)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
		b.Release(p)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
		require.Zero(t, b.Count(`select count(*) from webhook_jobs where status = 'failed'`))
	})

	onboardingtest.Subtest(t, "ReplyThatWasOvertakenAnswersNothing", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Messaging.Script(messagingtest.First(messagingtest.ParkMissed))
		b.Reply(p, "yes")
		require.True(t, b.Messaging.Resolve(explanationKey(r), onboardingtest.WasNotSent))
		b.Resumed(r)
		b.Exec(`update conversation_sessions set turn = turn + 1 where id = $1`, r.ID) // another message was answered in between
		b.Quiet()
		require.Equal(t, "overtaken", b.Entry(r.ID, session.KindReplied).Detail)
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
	})
}

func TestResume(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "ManyAtOnceAreOne", setup, func(t *testing.T, b *bundle) {
		_, r, _ := b.ParkedAtStep(messagingtest.ParkTaken)
		require.NoError(t, b.resumeAtOnce(r))
		require.Equal(t, 2, b.Count(`select count(*) from step_alarms where session_id = $1 and step_id = $2`, r.ID, string(onboardingtest.Step(2))))
		require.Equal(t, 1, b.Count(`select count(*) from session_transitions where session_id = $1 and kind = 'resumed'`, r.ID))
	})

	onboardingtest.Subtest(t, "ManyAtOnceSendOneOpening", setup, func(t *testing.T, b *bundle) {
		p := stuckOpening(b)
		require.NoError(t, b.resumeAtOnce(b.Newest(p)))
		require.Equal(t, 1, b.Count(`select count(*) from webhook_jobs where event_type = $1 and status <> 'completed'`, conversation.EventOpening))
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
		require.Equal(t, 1, b.Count(`select count(*) from session_transitions where kind = 'resumed'`))
	})

	onboardingtest.Subtest(t, "ActiveSessionIsLeftAsItIs", setup, func(t *testing.T, b *bundle) {
		_, r := b.InBurst(2)
		b.Resumed(r)
		require.Equal(t, r, b.Session(r.ID))
		require.Equal(t, 2, b.Count(`select count(*) from step_alarms`))
	})

	onboardingtest.Subtest(t, "S0_41_StopEndsAParkedSessionForGood", setup, func(t *testing.T, b *bundle) {
		p, r, _ := b.ParkedAtStep(messagingtest.ParkMissed)
		b.Reply(p, "STOP")
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
		require.Contains(t, b.Shown(r.ID).GetReason(), "opted out")
		_, err := b.Resume(r)
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_SESSION_ENDED)
		require.ErrorContains(t, err, "START")
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "S0_69_ResetOfAStoppedSessionLiftsNoOptOut", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		b.Reply(p, "STOP")
		closed := b.Resets(r)
		require.Equal(t, session.Closed, closed.Status)
		_, err := b.Resume(r)
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_SESSION_ENDED)
		require.Empty(t, b.Shown(r.ID).GetReason())
		_, err = b.Current().Service.Begin(t.Context(), onboardingtest.OrgID, conversation.Start{ProfileID: p.ID})
		require.ErrorIs(t, err, people.ErrOptedOut)
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
		b.Reply(p, "START")
		require.Equal(t, session.Active, b.Activate(p).Status)
	})

	onboardingtest.Subtest(t, "IsRefusedWhileThePersonHasAnotherOpenSession", setup, func(t *testing.T, b *bundle) {
		p, old, _ := b.ParkedAtStep(messagingtest.ParkMissed)
		b.Exec(`update conversation_sessions set status = 'closed' where id = $1`, old.ID)
		newer := b.Activate(p)
		b.Exec(`update conversation_sessions set status = $2 where id = $1`, old.ID, string(old.Status)) // as releases before 0011 left it
		_, err := b.Resume(old)
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_CONFLICT)
		require.ErrorContains(t, err, "reset that one first")
		require.Equal(t, old, b.Session(old.ID))

		b.Resets(newer)
		require.True(t, b.Messaging.Resolve(onboardingtest.StepKey(old, 2), onboardingtest.WasNotSent))
		b.Unmute()
		b.Resumed(old)
		b.Quiet()
		b.Reply(p, "yes") // goes to the open session, although a newer one was closed
		b.At(old.ID, session.InterviewActivity01, "")
	})
}
