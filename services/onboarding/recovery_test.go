package onboarding_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

func TestResumeSessions(t *testing.T) {
	t.Parallel()
	// parks leaves people in their bursts with a QStash that loses everything, until they are parked.
	parks := func(b *bundle, people int) []session.Record {
		var parked []session.Record
		for range people {
			_, r := b.inBurst(2)
			parked = append(parked, r)
		}
		b.lasts(15 * time.Minute)
		for _, r := range parked {
			require.Equal(b.t, session.Stuck, b.session(r.ID).Status)
		}
		return parked
	}
	all := func(b *bundle, in *onboardingv1.ResumeSessionsRequest) *onboardingv1.ResumeSessionsResponse {
		out, err := asks(b, b.current().server.ResumeSessions, in)
		require.NoError(b.t, err)
		return out
	}

	subtest(t, "R_11_AfterADryRunWhatWasParkedGoesOnPageByPage", setup, func(t *testing.T, b *bundle) {
		parked := parks(b, 3)
		began := b.session(parked[0].ID).UpdatedAt
		dry := all(b, &onboardingv1.ResumeSessionsRequest{ReasonContains: "Brought Nothing", DryRun: true})
		require.EqualValues(t, 3, dry.GetMatched())
		require.Equal(t, []string{parked[2].ID, parked[1].ID, parked[0].ID}, dry.GetSessionIds())
		require.Equal(t, 3, b.count(`select count(*) from conversation_sessions where status = 'stuck'`), "nothing has happened")
		for name, none := range map[string]*onboardingv1.ResumeSessionsRequest{
			"another reason": {ReasonContains: "21614"},
			"later":          {ReasonContains: "nothing", ParkedSince: timestamppb.New(b.clock.Now())},
			"earlier":        {ReasonContains: "nothing", ParkedUntil: timestamppb.New(began)},
		} {
			require.Zero(t, all(b, none).GetMatched(), name)
		}
		b.unmute()
		first := all(b, &onboardingv1.ResumeSessionsRequest{ReasonContains: "nothing", ParkedSince: timestamppb.New(began), PageSize: 2})
		require.Equal(t, []string{parked[2].ID, parked[1].ID}, first.GetSessionIds())
		rest := all(b, &onboardingv1.ResumeSessionsRequest{
			ReasonContains: "nothing", ParkedSince: timestamppb.New(began), PageSize: 2, PageToken: first.GetNextPageToken(),
		})
		require.Equal(t, []string{parked[0].ID}, rest.GetSessionIds())
		require.Empty(t, rest.GetNextPageToken())
		b.quiet()
		for _, r := range parked {
			b.at(r.ID, session.AwaitingInterviewStart, "")
		}
		require.Zero(t, all(b, &onboardingv1.ResumeSessionsRequest{ReasonContains: "nothing"}).GetMatched())
	})

	subtest(t, "R_11_SessionsOfAnotherOrganisationAreNotTouched", setup, func(t *testing.T, b *bundle) {
		parked := parks(b, 1)
		ctx := rpc.WithPrincipal(t.Context(), rpc.Principal{Subject: "eve", Role: rpc.RoleOperator, OrgID: newID()})
		out, err := b.current().server.ResumeSessions(ctx, &onboardingv1.ResumeSessionsRequest{ReasonContains: "nothing"})
		require.NoError(t, err)
		require.Zero(t, out.GetMatched())
		require.Empty(t, out.GetSessionIds())
		require.Equal(t, session.Stuck, b.session(parked[0].ID).Status)
	})

	subtest(t, "R_11_OneThatCannotBeResumedIsNamedAndTheOthersAre", setup, func(t *testing.T, b *bundle) {
		parked := parks(b, 2)
		b.exec(`insert into conversation_sessions (id, org_id, profile_id, mode, state_token, status, copy_version, created_at, updated_at)
			select gen_random_uuid(), org_id, profile_id, mode, $2, 'active', copy_version, created_at, updated_at
			from conversation_sessions where id = $1`, parked[1].ID, string(session.AwaitingInterviewStart))
		out := all(b, &onboardingv1.ResumeSessionsRequest{ReasonContains: "nothing"})
		require.Equal(t, []string{parked[0].ID}, out.GetSessionIds())
		require.Len(t, out.GetUnresumed(), 1)
		require.Equal(t, parked[1].ID, out.GetUnresumed()[0].GetSessionId())
		require.Contains(t, out.GetUnresumed()[0].GetReason(), "reset that one first")
	})

	subtest(t, "R_11_WordsThatChooseEverythingAreRefused", setup, func(t *testing.T, b *bundle) {
		for _, in := range []*onboardingv1.ResumeSessionsRequest{
			{},
			{ReasonContains: "an"},
			{ReasonContains: "nothing", PageSize: 501},
			{ReasonContains: "nothing", PageToken: "?"},
			{ReasonContains: "nothing", ParkedSince: &timestamppb.Timestamp{Nanos: -1}},
		} {
			_, err := asks(b, b.current().server.ResumeSessions, in)
			refusal, _ := rpc.ErrorFrom(err)
			require.Equal(t, codes.InvalidArgument, refusal.Code)
		}
	})
}

const (
	wasSent    = messagingv1.Resolution_RESOLUTION_SENT
	wasNotSent = messagingv1.Resolution_RESOLUTION_NOT_SENT
	giveUp     = messagingv1.Resolution_RESOLUTION_GIVE_UP
)

// asks calls on behalf of an operator of our organisation.
func asks[In, Out any](b *bundle, method func(context.Context, In) (Out, error), in In) (Out, error) {
	return method(rpc.WithPrincipal(b.t.Context(), rpc.Principal{Subject: "operator-1", Role: rpc.RoleOperator, OrgID: orgID}), in)
}

func (b *bundle) resume(r session.Record) (*onboardingv1.Session, error) {
	out, err := asks(b, b.current().server.ResumeSession, &onboardingv1.ResumeSessionRequest{SessionId: r.ID})
	return out.GetSession(), err
}

func (b *bundle) resumed(r session.Record) {
	b.t.Helper()
	s, err := b.resume(r)
	require.NoError(b.t, err)
	require.Equal(b.t, []string{"active", ""}, []string{s.GetStatus(), s.GetReason()})
}

// entry is the last entry of a kind in a session's timeline.
func (b *bundle) entry(id string, kind session.Kind) session.Entry {
	b.t.Helper()
	story, err := b.store.Session(b.t.Context(), orgID, id)
	require.NoError(b.t, err)
	var last session.Entry
	for _, e := range story.Entries {
		if e.Kind == kind {
			last = e
		}
	}
	require.NotEmpty(b.t, last.Kind, "no %s in the timeline", kind)
	return last
}

// shown is a session as an operator sees it.
func (b *bundle) shown(id string) *onboardingv1.Session {
	b.t.Helper()
	out, err := asks(b, b.current().server.GetSession, &onboardingv1.GetSessionRequest{SessionId: id})
	require.NoError(b.t, err)
	return out.GetSession()
}

// parkedAtStep is a person whose second step met an outcome that parked the session, while QStash is mute.
func (b *bundle) parkedAtStep(outcome messagingtest.Outcome) (conversation.Profile, session.Record, error) {
	b.t.Helper()
	p, r := b.inBurst(2)
	b.clock.Advance(8 * time.Second)
	b.messaging.Script(messagingtest.First(outcome))
	_, err := b.execute(payload(r))
	require.Error(b.t, err)
	b.messaging.Script(nil)
	return p, b.session(r.ID), err
}

// completesAfter resolves the message of the second step, resumes its session, and holds the conversation to going on to its end.
func (b *bundle) completesAfter(p conversation.Profile, r session.Record, word messagingv1.Resolution) {
	b.t.Helper()
	require.True(b.t, b.messaging.Resolve(stepKey(r, 2), word))
	b.unmute()
	b.resumed(r)
	b.completes(p)
}

// resumeAtOnce is many operators who resume a session at once.
func (b *bundle) resumeAtOnce(r session.Record) error {
	return atOnce(8, func() error {
		_, err := b.resume(r)
		return err
	})
}

func stepKey(r session.Record, n int) string { return session.Key(r.ProfileID, r.ID, step(n)) }

func TestResumeOfAStep(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		name    string
		outcome messagingtest.Outcome
		word    messagingv1.Resolution
	}{
		{name: "S0_65_UndecidedStepThatWasSentIsNotSentAgain", outcome: messagingtest.ParkTaken, word: wasSent},
		{name: "S0_65_UndecidedStepThatWasNotSentIsSent", outcome: messagingtest.ParkMissed, word: wasNotSent},
	} {
		subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, r, err := b.parkedAtStep(tt.outcome)
			refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_STUCK)
			require.Equal(t, session.Stuck, r.Status)
			parked := b.entry(r.ID, session.KindParked)
			for _, reason := range []string{b.shown(r.ID).GetReason(), parked.Detail, err.Error()} {
				require.Contains(t, reason, "GET /v1/messages/"+parked.MessageID+"/evidence")
				require.Contains(t, reason, "POST /v1/messages/"+parked.MessageID+":resolve")
				require.Contains(t, reason, "POST /v1/sessions/"+r.ID+":resume")
			}
			b.skips(session.SkipSessionInactive, payload(r))
			require.True(t, b.messaging.Resolve(stepKey(r, 2), tt.word))
			b.unmute()
			b.resumed(r)
			require.Equal(t, 1, b.count(`select count(*) from step_alarms where session_id = $1 and generation = 2 and cause = 'resumed'`, r.ID))
			require.Equal(t, session.TriggerOperator, b.entry(r.ID, session.KindResumed).Trigger)
			b.completes(p)
			b.keepsPace(p)
			b.at(r.ID, session.AwaitingInterviewStart, "")
		})
	}

	subtest(t, "ResumedBeforeTheMessageIsResolvedItIsParkedAgain", setup, func(t *testing.T, b *bundle) {
		p, r, _ := b.parkedAtStep(messagingtest.ParkTaken)
		for range 3 {
			b.resumed(r)
			_, err := b.execute(payload(r))
			refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_STUCK)
		}
		require.Equal(t, []string{opening, explanation, first, second}, b.sequence(p))
	})

	subtest(t, "GivenUpStepWaitsUntilItIsSentAfterAll", setup, func(t *testing.T, b *bundle) {
		p, r, _ := b.parkedAtStep(messagingtest.ParkMissed)
		require.True(t, b.messaging.Resolve(stepKey(r, 2), giveUp))
		b.resumed(r)
		_, err := b.execute(payload(r))
		refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_STUCK)
		require.Contains(t, b.shown(r.ID).GetReason(), "was given up")
		require.Contains(t, b.shown(r.ID).GetReason(), ":resolve with RESOLUTION_NOT_SENT")
		b.completesAfter(p, r, wasNotSent)
	})

	subtest(t, "S0_65_UndeliverableSaysWhyWithTwiliosCodeAndWhatToDo", setup, func(t *testing.T, b *bundle) {
		p, r, err := b.parkedAtStep(messagingtest.Reject)
		refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_UNDELIVERABLE)
		parked := b.entry(r.ID, session.KindParked)
		require.Equal(t, "undeliverable", b.shown(r.ID).GetStatus())
		for _, reason := range []string{b.shown(r.ID).GetReason(), parked.Detail, err.Error()} {
			require.Contains(t, reason, "Twilio 21211: this is no phone number; correct it")
			require.Contains(t, reason, "POST /v1/messages/"+parked.MessageID+":resolve with RESOLUTION_NOT_SENT")
			require.Contains(t, reason, "POST /v1/sessions/"+r.ID+":resume")
		}
		b.completesAfter(p, r, wasNotSent)
	})

	subtest(t, "DoesNotRingBeforeTheStepIsDue", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		b.exec(`update conversation_sessions set status = 'stuck', turn = turn + 1, detours = detours + 1 where id = $1`, r.ID)
		b.unmute()
		b.resumed(r)
		b.quiet()
		b.keepsPace(p)
		require.Equal(t, whole, b.sequence(p))
	})

	subtest(t, "S0_16_WaitsForTheReleaseOfAPersonOnHold", setup, func(t *testing.T, b *bundle) {
		p, r, _ := b.parkedAtStep(messagingtest.ParkMissed)
		require.True(t, b.messaging.Resolve(stepKey(r, 2), wasNotSent))
		b.unmute()
		b.hold(p)
		b.resumed(r)
		b.pass(10 * time.Minute)
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
		require.Equal(t, session.Active, b.session(r.ID).Status)
		b.release(p)
		b.completes(p)
	})
}

func TestResumeOfADirectMessage(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	for _, tt := range []struct {
		name  string
		begin func(b *bundle) (p conversation.Profile, key func(r session.Record) string) // parks
		want  []string                                                                    // after it went on
		token session.Token
	}{
		{
			name: "Opening", want: []string{opening}, token: session.AwaitingOpeningResponse,
			begin: func(b *bundle) (conversation.Profile, func(r session.Record) string) {
				p := b.person()
				_, _ = b.current().service.Activate(b.t.Context(), orgID, p.ID, nil)
				return p, func(r session.Record) string { return session.OpeningKey(r.ProfileID, r.ID) }
			},
		},
		{
			name: "Explanation", want: []string{opening, explanation}, token: session.AwaitingExplanationResponse,
			begin: func(b *bundle) (conversation.Profile, func(r session.Record) string) {
				p := b.person()
				b.unscripted(func() { b.activate(p) })
				b.reply(p, "yes")
				return p, func(r session.Record) string { return session.DirectKey(r.ProfileID, r.ID, session.TextExplanation, 1) }
			},
		},
		{
			name: "Later", want: []string{opening, explanation, later}, token: session.AwaitingOpeningResponse,
			begin: func(b *bundle) (conversation.Profile, func(r session.Record) string) {
				var p conversation.Profile
				b.unscripted(func() { p, _ = b.explained() })
				b.reply(p, "not now")
				return p, func(r session.Record) string { return session.DirectKey(r.ProfileID, r.ID, session.TextLater, 2) }
			},
		},
	} {
		for _, met := range []struct {
			name    string
			outcome messagingtest.Outcome
			word    messagingv1.Resolution
		}{
			{name: "ThatWasSentIsNotSentAgain", outcome: messagingtest.ParkTaken, word: wasSent},
			{name: "ThatWasNotSentIsSent", outcome: messagingtest.ParkMissed, word: wasNotSent},
			{name: "OfWhichNothingWasHeardIsNotSentAgain", outcome: messagingtest.UnknownForever, word: wasSent},
			{name: "ThatTwilioRefusedIsSent", outcome: messagingtest.Reject, word: wasNotSent},
		} {
			subtest(t, "S0_65_"+tt.name+met.name, setup, func(t *testing.T, b *bundle) {
				b.outcome = met.outcome
				b.messaging.Script(messagingtest.First(met.outcome))
				p, key := tt.begin(b)
				if met.outcome == messagingtest.UnknownForever {
					b.lasts(31 * time.Minute)
				}
				require.True(t, b.newest(p).Status.Parked())
				b.messaging.Script(nil)
				r := b.newest(p)
				require.Contains(t, r.Reason, "POST /v1/sessions/"+r.ID+":resume")
				require.True(t, b.messaging.Resolve(key(r), met.word))
				b.clock.Advance(time.Minute)
				for range 2 { // the second finds it active and changes nothing
					b.resumed(r)
				}
				b.quiet()
				require.Equal(t, tt.want, b.sequence(p))
				gone := b.at(r.ID, tt.token, "")
				require.Equal(t, session.Active, gone.Status)
				b.reply(p, "yes")
				b.quiet()
				require.NotEqual(t, gone, b.session(r.ID), "the conversation goes on")
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
		{name: "S0_65_ReplyWhileItWasParkedAnswersTheMessageThatWasSent", met: messagingtest.ParkTaken, word: wasSent, want: whole},
		{name: "S0_65_ReplyWhileItWasParkedDoesNotAnswerAMessageThatCameAfterIt", met: messagingtest.ParkMissed, word: wasNotSent, want: whole[:2]},
		{name: "S0_65_ReplyIsAnsweredEvenIfNothingIsKnownOfWhatWasUnderWay", met: messagingtest.ParkTaken, word: wasSent, forget: true, want: whole},
	} {
		subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, r := b.activated()
			b.messaging.Script(messagingtest.First(tt.met))
			b.reply(p, "yes")
			b.clock.Advance(time.Minute)
			b.reply(p, "sure, go on")
			require.Equal(t, session.KindHeld, b.entry(r.ID, session.KindHeld).Kind)
			if tt.forget { // as when old jobs were cleared away
				b.exec(`update conversation_sessions set parked_job_id = null where id = $1`, r.ID)
			}
			b.clock.Advance(time.Minute)
			require.True(t, b.messaging.Resolve(explanationKey(r), tt.word))
			b.resumed(r)
			b.quiet()
			require.Equal(t, tt.want, b.sequence(p))
			require.Equal(t, len(tt.want) == 2, b.session(r.ID).Token == session.AwaitingExplanationResponse)
		})
	}

	subtest(t, "S0_65_ReplyToAnOpeningThatWasParkedIsAnswered", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.messaging.Script(messagingtest.First(messagingtest.ParkTaken))
		r := b.activate(p)
		b.clock.Advance(time.Minute)
		b.reply(p, "yes")
		require.True(t, b.messaging.Resolve(session.OpeningKey(p.ID, r.ID), wasSent))
		b.resumed(r)
		b.quiet()
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
	})

	subtest(t, "S0_65_ReplyThatFailedForGoodIsTakenUpAgain", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.exec(`update conversation_sessions set state_token = 'onboarding:awaiting_nothing' where id = $1`, r.ID)
		b.reply(p, "yes")
		b.quiet()
		require.Equal(t, "stuck", b.shown(r.ID).GetStatus())
		require.Contains(t, b.shown(r.ID).GetReason(), "failed for good")
		b.exec(`update conversation_sessions set state_token = $2 where id = $1`, r.ID, string(session.AwaitingOpeningResponse))
		b.resumed(r)
		b.quiet()
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
		b.at(r.ID, session.AwaitingExplanationResponse, "")
	})

	subtest(t, "S0_65_ReplyThatFailedForGoodInTheBurstIsConsideredAfterIt", setup, func(t *testing.T, b *bundle) {
		p, r := b.failedAtLast(messagingtest.AcceptLost)
		b.clock.Advance(time.Second)
		b.exec(`alter table held_replies rename to elsewhere`)
		b.reply(p, "yes")
		b.until(func() bool { return b.session(r.ID).Status == session.Stuck })
		b.exec(`alter table elsewhere rename to held_replies`)
		b.unmute()
		b.resumed(r)
		b.quiet()
		b.at(r.ID, session.InterviewActivity01, "")
		require.Equal(t, whole, b.sequence(p))
	})

	subtest(t, "ReplyThatWasTakenUpIsHeldLikeAnyOther", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.messaging.Script(messagingtest.First(messagingtest.ParkMissed))
		b.reply(p, "yes")
		require.True(t, b.messaging.Resolve(explanationKey(r), wasNotSent))
		b.hold(p)
		b.resumed(r)
		b.quiet()
		require.Equal(t, []string{opening}, b.sequence(p))
		b.release(p)
		b.quiet()
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
		require.Zero(t, b.count(`select count(*) from webhook_jobs where status = 'failed'`))
	})

	subtest(t, "ReplyThatWasOvertakenAnswersNothing", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.messaging.Script(messagingtest.First(messagingtest.ParkMissed))
		b.reply(p, "yes")
		require.True(t, b.messaging.Resolve(explanationKey(r), wasNotSent))
		b.resumed(r)
		b.exec(`update conversation_sessions set turn = turn + 1 where id = $1`, r.ID) // another message was answered in between
		b.quiet()
		require.Equal(t, "overtaken", b.entry(r.ID, session.KindReplied).Detail)
		require.Equal(t, []string{opening}, b.sequence(p))
	})
}

func TestResume(t *testing.T) {
	t.Parallel()

	subtest(t, "ManyAtOnceAreOne", setup, func(t *testing.T, b *bundle) {
		_, r, _ := b.parkedAtStep(messagingtest.ParkTaken)
		require.NoError(t, b.resumeAtOnce(r))
		require.Equal(t, 2, b.count(`select count(*) from step_alarms where session_id = $1 and step_id = $2`, r.ID, string(step(2))))
		require.Equal(t, 1, b.count(`select count(*) from session_transitions where session_id = $1 and kind = 'resumed'`, r.ID))
	})

	subtest(t, "ManyAtOnceSendOneOpening", setup, func(t *testing.T, b *bundle) {
		p := stuckOpening(b)
		require.NoError(t, b.resumeAtOnce(b.newest(p)))
		require.Equal(t, 1, b.count(`select count(*) from webhook_jobs where event_type = $1 and status <> 'completed'`, conversation.EventOpening))
		b.quiet()
		require.Equal(t, []string{opening}, b.sequence(p))
		require.Equal(t, 1, b.count(`select count(*) from session_transitions where kind = 'resumed'`))
	})

	subtest(t, "ActiveSessionIsLeftAsItIs", setup, func(t *testing.T, b *bundle) {
		_, r := b.inBurst(2)
		b.resumed(r)
		require.Equal(t, r, b.session(r.ID))
		require.Equal(t, 2, b.count(`select count(*) from step_alarms`))
	})

	subtest(t, "S0_41_StopEndsAParkedSessionForGood", setup, func(t *testing.T, b *bundle) {
		p, r, _ := b.parkedAtStep(messagingtest.ParkMissed)
		b.reply(p, "STOP")
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
		require.Contains(t, b.shown(r.ID).GetReason(), "opted out")
		_, err := b.resume(r)
		refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_SESSION_ENDED)
		require.ErrorContains(t, err, "START")
		b.quiet()
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
	})

	subtest(t, "S0_69_ResetOfAStoppedSessionLiftsNoOptOut", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		b.reply(p, "STOP")
		closed := b.resets(r)
		require.Equal(t, session.Closed, closed.Status)
		_, err := b.resume(r)
		refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_SESSION_ENDED)
		require.Empty(t, b.shown(r.ID).GetReason())
		_, err = b.current().service.Activate(t.Context(), orgID, p.ID, nil)
		require.ErrorIs(t, err, conversation.ErrOptedOut)
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
		b.reply(p, "START")
		require.Equal(t, session.Active, b.activate(p).Status)
	})

	subtest(t, "IsRefusedWhileThePersonHasAnotherOpenSession", setup, func(t *testing.T, b *bundle) {
		p, old, _ := b.parkedAtStep(messagingtest.ParkMissed)
		b.exec(`update conversation_sessions set status = 'closed' where id = $1`, old.ID)
		newer := b.activate(p)
		b.exec(`update conversation_sessions set status = $2 where id = $1`, old.ID, string(old.Status)) // as releases before 0011 left it
		_, err := b.resume(old)
		refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_CONFLICT)
		require.ErrorContains(t, err, "reset that one first")
		require.Equal(t, old, b.session(old.ID))

		b.resets(newer)
		require.True(t, b.messaging.Resolve(stepKey(old, 2), wasNotSent))
		b.unmute()
		b.resumed(old)
		b.quiet()
		b.reply(p, "yes") // goes to the open session, although a newer one was closed
		b.at(old.ID, session.InterviewActivity01, "")
	})
}
