package onboarding_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

func TestDeadLetter(t *testing.T) {
	t.Parallel()

	subtest(t, "IsKeptOnceAndWithoutAPayloadToo", setup, func(t *testing.T, b *bundle) {
		in := &recordStepFailure{SourceMessageId: "msg_1", DlqId: "1-0", DeliveryId: "msg_2"}
		for range 2 {
			_, err := b.current().server.RecordStepFailure(t.Context(), in)
			require.NoError(t, err)
		}
		require.Equal(t, 1, b.count(`select count(*) from dead_letters where session_id is null and payload = ''`))
	})
}

func TestDeadLetterIsHandled(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		name string
		ends func(b *bundle, p conversation.Profile, r session.Record)
	}{
		{name: "WhenItsStepIsSentAnotherWay", ends: func(b *bundle, _ conversation.Profile, r session.Record) {
			b.clock.Advance(10 * time.Second)
			b.executes(r)
		}},
		{name: "WhenThePersonStops", ends: func(b *bundle, p conversation.Profile, _ session.Record) {
			b.reply(p, "STOP")
			b.work()
		}},
		{name: "WhenItsSessionIsReset", ends: func(b *bundle, _ conversation.Profile, r session.Record) { b.resets(r) }},
	} {
		subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, r := b.inBurst(2)
			_, other := b.inBurst(2)
			kept := b.givesUp(other, nil)
			deadLetter := b.givesUp(r, nil)
			tt.ends(b, p, r)
			open := b.deadLetters(&onboardingv1.ListDeadLettersRequest{Open: true})
			require.Len(t, open, 1)
			require.Equal(t, kept.GetDeadLetterId(), open[0].GetDeadLetterId(), "of another session it stays open")
			all := b.deadLetters(&onboardingv1.ListDeadLettersRequest{SessionId: r.ID})
			require.Equal(t, deadLetter.GetDeadLetterId(), all[0].GetDeadLetterId())
			require.Equal(t, b.clock.Now(), all[0].GetHandledAt().AsTime())
			late := b.givesUp(r, nil)
			require.NotNil(t, late.GetHandledAt(), "QStash reports one later")
			require.Len(t, b.deadLetters(&onboardingv1.ListDeadLettersRequest{Open: true}), 1)
		})
	}

	subtest(t, "NotBeforeItsStepIsOver", setup, func(t *testing.T, b *bundle) {
		_, r := b.inBurst(2)
		deadLetter := b.givesUp(r, nil)
		e, err := b.current().service.ExplainStep(t.Context(), orgID, r.ID)
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(e.Gates), "QStash gave its alarm up: dead letter "+deadLetter.GetDeadLetterId())
		b.clock.Advance(10 * time.Second)
		e, err = b.current().service.ExplainStep(t.Context(), orgID, r.ID)
		require.NoError(t, err)
		require.Equal(t, "POST /v1/dead-letters/"+deadLetter.GetDeadLetterId()+":replay, which sets the alarm at once", e.Advice)
		require.NoError(t, b.store.Move(t.Context(), session.Park(r, b.clock.Now(), session.Stuck, session.TriggerOperator, "", "a test"), nil))
		require.True(t, b.open())
	})

	subtest(t, "WhenItIsReportedWhileItsStepIsSent", setup, func(t *testing.T, b *bundle) {
		_, r := b.inBurst(2)
		tx, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `update conversation_sessions set next_step_id = $2 where id = $1`, r.ID, string(step(3)))
		require.NoError(t, err)
		kept := make(chan *onboardingv1.DeadLetter)
		go func() { kept <- b.givesUp(r, nil) }()
		require.Eventually(t, func() bool {
			return b.count(`select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`) == 1
		}, 10*time.Second, 10*time.Millisecond)
		require.NoError(t, tx.Commit(t.Context()))
		require.NotNil(t, (<-kept).GetHandledAt())
	})
}

func (b *bundle) deadLetters(in *onboardingv1.ListDeadLettersRequest) []*onboardingv1.DeadLetter {
	b.t.Helper()
	var found []*onboardingv1.DeadLetter
	for {
		out, err := asks(b, b.current().server.ListDeadLetters, in)
		require.NoError(b.t, err)
		found = append(found, out.GetDeadLetters()...)
		if in.PageToken = out.GetNextPageToken(); in.GetPageToken() == "" {
			return found
		}
	}
}

// open says whether a dead letter waits for an operator.
func (b *bundle) open() bool {
	b.t.Helper()
	return len(b.deadLetters(&onboardingv1.ListDeadLettersRequest{Open: true})) > 0
}

func (b *bundle) replay(deadLetter *onboardingv1.DeadLetter) *onboardingv1.ReplayDeadLetterResponse {
	b.t.Helper()
	out, err := asks(b, b.current().server.ReplayDeadLetter, &onboardingv1.ReplayDeadLetterRequest{DeadLetterId: deadLetter.GetDeadLetterId()})
	require.NoError(b.t, err)
	require.Equal(b.t, out.GetAlarmSet(), out.GetSkipReason() == "")
	return out
}

// givesUp has QStash report an alarm that it gave up.
func (b *bundle) givesUp(r session.Record, body []byte) *onboardingv1.DeadLetter {
	b.t.Helper()
	if body == nil {
		var err error
		body, err = session.NewStepPayload(r.ProfileID, r.ID, r.NextStep).Encode()
		require.NoError(b.t, err)
	}
	n := b.serial.Add(1)
	_, err := b.current().server.RecordStepFailure(b.t.Context(), &recordStepFailure{
		SourceMessageId: fmt.Sprintf("msg_%d", n), DlqId: fmt.Sprintf("%d-0", n), DeliveryId: fmt.Sprintf("msg_failure_%d", n), SourceBody: body,
		Status: 503, Body: []byte("later"), Retried: 5,
	})
	require.NoError(b.t, err)
	return b.deadLetters(&onboardingv1.ListDeadLettersRequest{})[0]
}

func TestReplay(t *testing.T) {
	t.Parallel()

	subtest(t, "S0_70_S1_39_ExhaustedStepIsListedAndGoesOn", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		b.unmute()
		b.messaging.Script(func(int, *sendRequest) messagingtest.Outcome { return messagingtest.Throttle })
		b.until(func() bool { return len(b.deadLetters(&onboardingv1.ListDeadLettersRequest{})) > 0 })
		deadLetter := b.deadLetters(&onboardingv1.ListDeadLettersRequest{SessionId: r.ID})[0]
		require.Equal(t, []any{r.ID, string(step(2)), int32(503), int32(5)},
			[]any{deadLetter.GetSessionId(), deadLetter.GetStepId(), deadLetter.GetStatus(), deadLetter.GetRetried()})
		require.Nil(t, deadLetter.GetReplayedAt())
		failed := b.entry(r.ID, session.KindFailed)
		require.Equal(t, step(2), failed.Step)
		require.Contains(t, failed.Detail, deadLetter.GetDeadLetterId())

		b.messaging.Script(nil)
		out := b.replay(deadLetter)
		require.True(t, out.GetAlarmSet())
		require.Equal(t, r.ID, out.GetSession().GetSessionId())
		require.Equal(t, 1, b.count(`select count(*) from step_alarms where cause = 'replayed' and session_id = $1`, r.ID))
		require.Equal(t, step(2), b.entry(r.ID, session.KindReplayed).Step)
		b.completes(p)
		require.NotNil(t, b.deadLetters(&onboardingv1.ListDeadLettersRequest{})[0].GetReplayedAt())
	})

	subtest(t, "S0_65_S0_70_ExhaustedStepAlwaysGoesOnOrEndsVisiblyStuck", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		b.unmute()
		b.messaging.Script(func(int, *sendRequest) messagingtest.Outcome { return messagingtest.Throttle })
		b.until(func() bool { return b.session(r.ID).Status != session.Active })
		require.Equal(t, "stuck", b.shown(r.ID).GetStatus())
		require.Contains(t, b.shown(r.ID).GetReason(), "POST /v1/sessions/"+r.ID+":resume")
		story := b.story(r.ID)
		require.Contains(t, story, session.KindFailed)
		require.Contains(t, story, session.KindParked)

		b.messaging.Script(nil)
		out := b.replay(b.deadLetters(&onboardingv1.ListDeadLettersRequest{SessionId: r.ID})[0])
		require.True(t, out.GetAlarmSet(), "it is stuck at this very step")
		require.Equal(t, "active", out.GetSession().GetStatus())
		b.completes(p)
	})

	subtest(t, "S0_56_S0_70_AnyNumberOfTimesAtAnyTimeIsOneMessage", setup, func(t *testing.T, b *bundle) {
		for n := 1; n <= 4; n++ {
			p, r := b.inBurst(n)
			b.clock.Advance(8 * time.Second)
			var deadLetters []*onboardingv1.DeadLetter
			for m := 1; m <= n; m++ {
				of := r
				of.NextStep = step(m)
				deadLetters = append(deadLetters, b.givesUp(of, nil))
			}
			b.unmute()
			for range 2 {
				for m, deadLetter := range deadLetters {
					out := b.replay(deadLetter)
					require.Equal(t, m+1 == n, out.GetAlarmSet(), "only the step that is due")
				}
				for m := 1; m < n; m++ { // and by hand, those that were sent
					sent := r
					sent.NextStep = step(m)
					b.skips(session.SkipStale, payload(sent))
				}
			}
			b.quiet()
			for _, deadLetter := range deadLetters {
				require.Equal(t, string(session.SkipStale), b.replay(deadLetter).GetSkipReason())
			}
			b.completes(p)
			b.keepsPace(p)
			b.at(r.ID, session.AwaitingInterviewStart, "")
		}
	})
}

func TestReplayChangesNothing(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		name string
		bend func(b *bundle, r session.Record)
		want session.SkipReason
		open bool
	}{
		{name: "S1_39_OfAStepThatWasSentIsStale", bend: func(b *bundle, r session.Record) {
			b.clock.Advance(10 * time.Second)
			b.executes(r)
		}, want: session.SkipStale},
		{name: "S1_39_OfAStoppedSession", bend: func(b *bundle, r session.Record) {
			b.exec(`update conversation_sessions set status = 'stopped' where id = $1`, r.ID)
		}, want: session.SkipOptedOut},
		{name: "S1_39_OfAClosedSession", bend: func(b *bundle, r session.Record) {
			b.resets(r)
		}, want: session.SkipSessionInactive},
		{name: "S1_39_OfAnUndeliverableSessionThatOnlyAResumeBringsBack", bend: func(b *bundle, r session.Record) {
			b.fails(r, messagingtest.Reject)
		}, want: session.SkipSessionInactive, open: true},
		{name: "S1_39_OfAPersonOnHold", bend: func(b *bundle, r session.Record) {
			_, err := b.current().service.Hold(b.t.Context(), orgID, r.ProfileID, "")
			require.NoError(b.t, err)
		}, want: session.SkipSafetyHold, open: true},
	} {
		subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			_, r := b.inBurst(2)
			deadLetter := b.givesUp(r, nil)
			tt.bend(b, r)
			before, alarms := b.session(r.ID), b.count(`select count(*) from step_alarms`)
			out := b.replay(deadLetter)
			require.False(t, out.GetAlarmSet())
			require.Equal(t, string(tt.want), out.GetSkipReason())
			require.Equal(t, string(before.Status), out.GetSession().GetStatus())
			require.Equal(t, before, b.session(r.ID))
			require.Equal(t, alarms, b.count(`select count(*) from step_alarms`))
			require.Zero(t, b.count(`select sum(replays) from dead_letters`))
			require.Equal(t, tt.open, b.open(), "nothing is left to do, unless the step can still come")
		})
	}

	subtest(t, "OfAPayloadThatCannotBeReadFindsNoSession", setup, func(t *testing.T, b *bundle) {
		_, r := b.inBurst(2)
		foreign, err := session.NewStepPayload(newID(), newID(), step(2)).Encode()
		require.NoError(t, err)
		for _, body := range [][]byte{{}, []byte("not a payload"), foreign} {
			deadLetter := b.givesUp(r, body)
			require.Empty(t, deadLetter.GetSessionId())
			out := b.replay(deadLetter)
			require.Equal(t, string(session.SkipSessionNotFound), out.GetSkipReason())
			require.Nil(t, out.GetSession())
			require.False(t, b.open(), "an operator can close it")
		}
	})

	subtest(t, "OfAnotherOrganisationIsNotFound", setup, func(t *testing.T, b *bundle) {
		_, r := b.inBurst(2)
		elsewhere := rpc.WithPrincipal(t.Context(), rpc.Principal{Subject: "o", Role: rpc.RoleOperator, OrgID: newID()})
		for _, id := range []string{newID(), b.givesUp(r, nil).GetDeadLetterId(), b.givesUp(r, []byte("x")).GetDeadLetterId()} {
			_, err := b.current().server.ReplayDeadLetter(elsewhere, &onboardingv1.ReplayDeadLetterRequest{DeadLetterId: id})
			refuses(t, err, codes.NotFound, onboardingv1.Reason_REASON_DEAD_LETTER_NOT_FOUND)
		}
		listed, err := b.current().server.ListDeadLetters(elsewhere, &onboardingv1.ListDeadLettersRequest{})
		require.NoError(t, err)
		require.Empty(t, listed.GetDeadLetters())
	})

	subtest(t, "IsRefusedWhileAStuckPersonHasAnotherOpenSession", setup, func(t *testing.T, b *bundle) {
		p, r, _ := b.parkedAtStep(messagingtest.ParkMissed)
		deadLetter := b.givesUp(r, nil)
		b.exec(`update conversation_sessions set status = 'closed' where id = $1`, r.ID)
		b.activate(p)
		b.exec(`update conversation_sessions set status = $2 where id = $1`, r.ID, string(r.Status)) // as releases before 0011 left it
		_, err := asks(b, b.current().server.ReplayDeadLetter, &onboardingv1.ReplayDeadLetterRequest{DeadLetterId: deadLetter.GetDeadLetterId()})
		refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_CONFLICT)
		require.Equal(t, r, b.session(r.ID))
		require.NotContains(t, b.story(r.ID), session.KindReplayed)
	})
}

func TestListDeadLetters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, r := b.inBurst(2)
	_, other := b.inBurst(1)
	var ids, hers []string
	for n := range 5 {
		of := r
		if n == 2 {
			of = other
		}
		deadLetter := b.givesUp(of, nil)
		ids = append([]string{deadLetter.GetDeadLetterId()}, ids...)
		if n == 2 {
			hers = append(hers, deadLetter.GetDeadLetterId())
		}
	}
	for _, tt := range []struct {
		name string
		in   *onboardingv1.ListDeadLettersRequest
		want []string
	}{
		{name: "S0_70_NewestFirst", in: &onboardingv1.ListDeadLettersRequest{}, want: ids},
		{name: "PageByPage", in: &onboardingv1.ListDeadLettersRequest{PageSize: 2}, want: ids},
		{name: "FullPageIsTheLast", in: &onboardingv1.ListDeadLettersRequest{PageSize: 5}, want: ids},
		{name: "OfOneSession", in: &onboardingv1.ListDeadLettersRequest{SessionId: other.ID}, want: hers},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var found []string
			for _, deadLetter := range b.deadLetters(tt.in) {
				found = append(found, deadLetter.GetDeadLetterId())
			}
			require.Equal(t, tt.want, found)
		})
	}
	t.Run("RefusesWhatItCannotRead", func(t *testing.T) {
		t.Parallel()
		for _, in := range []*onboardingv1.ListDeadLettersRequest{{SessionId: "x"}, {PageSize: 501}, {PageSize: -1}, {PageToken: "x"}} {
			_, err := asks(b, b.current().server.ListDeadLetters, in)
			refuses(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
		}
	})

	subtest(t, "ResponseIsMessageWhateverWasAnswered", setup, func(t *testing.T, b *bundle) {
		for _, body := range [][]byte{nil, []byte("déjà vu"), {0xff, 0xfe, 'x'}, []byte(strings.Repeat("é", 5000)), slices.Repeat([]byte{0xff}, 9000)} {
			n := b.serial.Add(1)
			_, err := b.current().server.RecordStepFailure(t.Context(), &recordStepFailure{
				SourceMessageId: fmt.Sprintf("raw_%d", n), DeliveryId: fmt.Sprintf("raw_failure_%d", n), Status: -1, Body: body,
			})
			require.NoError(t, err)
			shown := b.deadLetters(&onboardingv1.ListDeadLettersRequest{})[0]
			require.True(t, utf8.ValidString(shown.GetResponse()))
			require.LessOrEqual(t, len(shown.GetResponse()), 3*2000)
			require.Zero(t, shown.GetStatus())
			if utf8.Valid(body) && len(body) < 100 {
				require.Equal(t, string(body), shown.GetResponse())
			}
		}
	})
}
