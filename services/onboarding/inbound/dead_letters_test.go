package inbound_test

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
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

func TestDeadLetter(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "IsKeptOnceAndWithoutAPayloadToo", setup, func(t *testing.T, b *bundle) {
		in := &onboardingv1.RecordStepFailureRequest{SourceMessageId: "msg_1", DlqId: "1-0", DeliveryId: "msg_2"}
		for range 2 {
			_, err := b.Current().Server.RecordStepFailure(t.Context(), in)
			require.NoError(t, err)
		}
		require.Equal(t, 1, b.Count(`select count(*) from dead_letters where session_id is null and payload = ''`))
	})
}

func TestDeadLetterIsHandled(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		name string
		ends func(b *bundle, p people.Profile, r session.Record)
	}{
		{name: "WhenItsStepIsSentAnotherWay", ends: func(b *bundle, _ people.Profile, r session.Record) {
			b.Clock.Advance(10 * time.Second)
			b.Executes(r)
		}},
		{name: "WhenThePersonStops", ends: func(b *bundle, p people.Profile, _ session.Record) {
			b.Reply(p, "STOP")
			b.Work()
		}},
		{name: "WhenItsSessionIsReset", ends: func(b *bundle, _ people.Profile, r session.Record) { b.Resets(r) }},
	} {
		onboardingtest.Subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, r := b.InBurst(2)
			_, other := b.InBurst(2)
			kept := b.GivesUp(other, nil)
			deadLetter := b.GivesUp(r, nil)
			tt.ends(b, p, r)
			open := b.DeadLetters(&onboardingv1.ListDeadLettersRequest{Open: true})
			require.Len(t, open, 1)
			require.Equal(t, kept.GetDeadLetterId(), open[0].GetDeadLetterId(), "of another session it stays open")
			all := b.DeadLetters(&onboardingv1.ListDeadLettersRequest{SessionId: r.ID})
			require.Equal(t, deadLetter.GetDeadLetterId(), all[0].GetDeadLetterId())
			require.Equal(t, b.Clock.Now(), all[0].GetHandledAt().AsTime())
			late := b.GivesUp(r, nil)
			require.NotNil(t, late.GetHandledAt(), "QStash reports one later")
			require.Len(t, b.DeadLetters(&onboardingv1.ListDeadLettersRequest{Open: true}), 1)
		})
	}

	onboardingtest.Subtest(t, "NotBeforeItsStepIsOver", setup, func(t *testing.T, b *bundle) {
		_, r := b.InBurst(2)
		deadLetter := b.GivesUp(r, nil)
		e, err := b.Current().Service.ExplainStep(t.Context(), onboardingtest.OrgID, r.ID)
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(e.Gates), "QStash gave its alarm up: dead letter "+deadLetter.GetDeadLetterId())
		b.Clock.Advance(10 * time.Second)
		e, err = b.Current().Service.ExplainStep(t.Context(), onboardingtest.OrgID, r.ID)
		require.NoError(t, err)
		require.Equal(t, "POST /v1/dead-letters/"+deadLetter.GetDeadLetterId()+":replay, which sets the alarm at once", e.Advice)
		require.NoError(t, b.Store.Move(t.Context(), session.Park(r, b.Clock.Now(), session.Stuck, session.TriggerOperator, "", "a test"), nil))
		require.True(t, b.open())
	})

	onboardingtest.Subtest(t, "WhenItIsReportedWhileItsStepIsSent", setup, func(t *testing.T, b *bundle) {
		_, r := b.InBurst(2)
		tx, err := b.Pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `update conversation_sessions set next_step_id = $2 where id = $1`, r.ID, string(onboardingtest.Step(3)))
		require.NoError(t, err)
		kept := make(chan *onboardingv1.DeadLetter)
		go func() { kept <- b.GivesUp(r, nil) }()
		require.Eventually(t, func() bool {
			return b.Count(`select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`) == 1
		}, 10*time.Second, 10*time.Millisecond)
		require.NoError(t, tx.Commit(t.Context()))
		require.NotNil(t, (<-kept).GetHandledAt())
	})
}

// open reports whether a dead letter waits for an operator.
func (b *bundle) open() bool {
	b.T.Helper()
	return len(b.DeadLetters(&onboardingv1.ListDeadLettersRequest{Open: true})) > 0
}

func TestReplay(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S0_70_S1_39_ExhaustedStepIsListedAndGoesOn", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		b.Unmute()
		b.Messaging.Script(func(int, *messagingv1.SendRequest) messagingtest.Outcome { return messagingtest.Throttle })
		b.Until(func() bool { return len(b.DeadLetters(&onboardingv1.ListDeadLettersRequest{})) > 0 })
		deadLetter := b.DeadLetters(&onboardingv1.ListDeadLettersRequest{SessionId: r.ID})[0]
		require.Equal(t, []any{r.ID, string(onboardingtest.Step(2)), int32(503), int32(5)},
			[]any{deadLetter.GetSessionId(), deadLetter.GetStepId(), deadLetter.GetStatus(), deadLetter.GetRetried()})
		require.Nil(t, deadLetter.GetReplayedAt())
		failed := b.Entry(r.ID, session.KindFailed)
		require.Equal(t, onboardingtest.Step(2), failed.Step)
		require.Contains(t, failed.Detail, deadLetter.GetDeadLetterId())

		b.Messaging.Script(nil)
		out := b.Replay(deadLetter)
		require.True(t, out.GetAlarmSet())
		require.Equal(t, r.ID, out.GetSession().GetSessionId())
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms where cause = 'replayed' and session_id = $1`, r.ID))
		require.Equal(t, onboardingtest.Step(2), b.Entry(r.ID, session.KindReplayed).Step)
		b.Completes(p)
		require.NotNil(t, b.DeadLetters(&onboardingv1.ListDeadLettersRequest{})[0].GetReplayedAt())
	})

	onboardingtest.Subtest(t, "S0_65_S0_70_ExhaustedStepAlwaysGoesOnOrEndsVisiblyStuck", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		b.Unmute()
		b.Messaging.Script(func(int, *messagingv1.SendRequest) messagingtest.Outcome { return messagingtest.Throttle })
		b.Until(func() bool { return b.Session(r.ID).Status != session.Active })
		require.Equal(t, "stuck", b.Shown(r.ID).GetStatus())
		require.Contains(t, b.Shown(r.ID).GetReason(), "POST /v1/sessions/"+r.ID+":resume")
		story := b.Story(r.ID)
		require.Contains(t, story, session.KindFailed)
		require.Contains(t, story, session.KindParked)

		b.Messaging.Script(nil)
		out := b.Replay(b.DeadLetters(&onboardingv1.ListDeadLettersRequest{SessionId: r.ID})[0])
		require.True(t, out.GetAlarmSet(), "it is stuck at this very step")
		require.Equal(t, "active", out.GetSession().GetStatus())
		b.Completes(p)
	})

	onboardingtest.Subtest(t, "S0_56_S0_70_AnyNumberOfTimesAtAnyTimeIsOneMessage", setup, func(t *testing.T, b *bundle) {
		for n := 1; n <= 4; n++ {
			p, r := b.InBurst(n)
			b.Clock.Advance(8 * time.Second)
			var deadLetters []*onboardingv1.DeadLetter
			for m := 1; m <= n; m++ {
				of := r
				of.NextStep = onboardingtest.Step(m)
				deadLetters = append(deadLetters, b.GivesUp(of, nil))
			}
			b.Unmute()
			for range 2 {
				for m, deadLetter := range deadLetters {
					out := b.Replay(deadLetter)
					require.Equal(t, m+1 == n, out.GetAlarmSet(), "only the step that is due")
				}
				for m := 1; m < n; m++ { // and by hand, those that were sent
					sent := r
					sent.NextStep = onboardingtest.Step(m)
					b.Skips(session.SkipStale, onboardingtest.Payload(sent))
				}
			}
			b.Quiet()
			for _, deadLetter := range deadLetters {
				require.Equal(t, string(session.SkipStale), b.Replay(deadLetter).GetSkipReason())
			}
			b.Completes(p)
			b.KeepsPace(p)
			b.At(r.ID, session.AwaitingInterviewStart, "")
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
			b.Clock.Advance(10 * time.Second)
			b.Executes(r)
		}, want: session.SkipStale},
		{name: "S1_39_OfAStoppedSession", bend: func(b *bundle, r session.Record) {
			b.Exec(`update conversation_sessions set status = 'stopped' where id = $1`, r.ID)
		}, want: session.SkipOptedOut},
		{name: "S1_39_OfAClosedSession", bend: func(b *bundle, r session.Record) {
			b.Resets(r)
		}, want: session.SkipSessionInactive},
		{name: "S1_39_OfAnUndeliverableSessionThatOnlyAResumeBringsBack", bend: func(b *bundle, r session.Record) {
			b.Fails(r, messagingtest.Reject)
		}, want: session.SkipSessionInactive, open: true},
		{name: "S1_39_OfAPersonOnHold", bend: func(b *bundle, r session.Record) {
			_, err := b.Current().Persons.Hold(b.T.Context(), onboardingtest.OrgID, r.ProfileID, "")
			require.NoError(b.T, err)
		}, want: session.SkipSafetyHold, open: true},
	} {
		onboardingtest.Subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			_, r := b.InBurst(2)
			deadLetter := b.GivesUp(r, nil)
			tt.bend(b, r)
			before, alarms := b.Session(r.ID), b.Count(`select count(*) from step_alarms`)
			out := b.Replay(deadLetter)
			require.False(t, out.GetAlarmSet())
			require.Equal(t, string(tt.want), out.GetSkipReason())
			require.Equal(t, string(before.Status), out.GetSession().GetStatus())
			require.Equal(t, before, b.Session(r.ID))
			require.Equal(t, alarms, b.Count(`select count(*) from step_alarms`))
			require.Zero(t, b.Count(`select sum(replays) from dead_letters`))
			require.Equal(t, tt.open, b.open(), "nothing is left to do, unless the step can still come")
		})
	}

	onboardingtest.Subtest(t, "OfAPayloadThatCannotBeReadFindsNoSession", setup, func(t *testing.T, b *bundle) {
		_, r := b.InBurst(2)
		foreign, err := session.NewStepPayload(onboardingtest.NewID(), onboardingtest.NewID(), onboardingtest.Step(2)).Encode()
		require.NoError(t, err)
		for _, body := range [][]byte{{}, []byte("not a payload"), foreign} {
			deadLetter := b.GivesUp(r, body)
			require.Empty(t, deadLetter.GetSessionId())
			out := b.Replay(deadLetter)
			require.Equal(t, string(session.SkipSessionNotFound), out.GetSkipReason())
			require.Nil(t, out.GetSession())
			require.False(t, b.open(), "an operator can close it")
		}
	})

	onboardingtest.Subtest(t, "OfAnotherOrganisationIsNotFound", setup, func(t *testing.T, b *bundle) {
		_, r := b.InBurst(2)
		elsewhere := rpc.WithPrincipal(t.Context(), rpc.Principal{Subject: "o", Role: rpc.RoleOperator, OrgID: onboardingtest.NewID()})
		for _, id := range []string{onboardingtest.NewID(), b.GivesUp(r, nil).GetDeadLetterId(), b.GivesUp(r, []byte("x")).GetDeadLetterId()} {
			_, err := b.Current().Server.ReplayDeadLetter(elsewhere, &onboardingv1.ReplayDeadLetterRequest{DeadLetterId: id})
			onboardingtest.Refused(t, err, codes.NotFound, onboardingv1.Reason_REASON_DEAD_LETTER_NOT_FOUND)
		}
		listed, err := b.Current().Server.ListDeadLetters(elsewhere, &onboardingv1.ListDeadLettersRequest{})
		require.NoError(t, err)
		require.Empty(t, listed.GetDeadLetters())
	})

	onboardingtest.Subtest(t, "IsRefusedWhileAStuckPersonHasAnotherOpenSession", setup, func(t *testing.T, b *bundle) {
		p, r, _ := b.ParkedAtStep(messagingtest.ParkMissed)
		deadLetter := b.GivesUp(r, nil)
		b.Exec(`update conversation_sessions set status = 'closed' where id = $1`, r.ID)
		b.Activate(p)
		b.Exec(`update conversation_sessions set status = $2 where id = $1`, r.ID, string(r.Status)) // as releases before 0011 left it
		_, err := onboardingtest.Ask(b.Bundle, b.Current().Server.ReplayDeadLetter, &onboardingv1.ReplayDeadLetterRequest{DeadLetterId: deadLetter.GetDeadLetterId()})
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_CONFLICT)
		require.Equal(t, r, b.Session(r.ID))
		require.NotContains(t, b.Story(r.ID), session.KindReplayed)
	})
}

func TestListDeadLetters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, r := b.InBurst(2)
	_, other := b.InBurst(1)
	var ids, hers []string
	for n := range 5 {
		of := r
		if n == 2 {
			of = other
		}
		deadLetter := b.GivesUp(of, nil)
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
			for _, deadLetter := range b.DeadLetters(tt.in) {
				found = append(found, deadLetter.GetDeadLetterId())
			}
			require.Equal(t, tt.want, found)
		})
	}
	t.Run("RefusesWhatItCannotRead", func(t *testing.T) {
		t.Parallel()
		for _, in := range []*onboardingv1.ListDeadLettersRequest{{SessionId: "x"}, {PageSize: 501}, {PageSize: -1}, {PageToken: "x"}} {
			_, err := onboardingtest.Ask(b.Bundle, b.Current().Server.ListDeadLetters, in)
			onboardingtest.Refused(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
		}
	})

	onboardingtest.Subtest(t, "ResponseIsMessageWhateverWasAnswered", setup, func(t *testing.T, b *bundle) {
		for _, body := range [][]byte{nil, []byte("déjà vu"), {0xff, 0xfe, 'x'}, []byte(strings.Repeat("é", 5000)), slices.Repeat([]byte{0xff}, 9000)} {
			n := b.Serial.Add(1)
			_, err := b.Current().Server.RecordStepFailure(t.Context(), &onboardingv1.RecordStepFailureRequest{
				SourceMessageId: fmt.Sprintf("raw_%d", n), DeliveryId: fmt.Sprintf("raw_failure_%d", n), Status: -1, Body: body,
			})
			require.NoError(t, err)
			shown := b.DeadLetters(&onboardingv1.ListDeadLettersRequest{})[0]
			require.True(t, utf8.ValidString(shown.GetResponse()))
			require.LessOrEqual(t, len(shown.GetResponse()), 3*2000)
			require.Zero(t, shown.GetStatus())
			if utf8.Valid(body) && len(body) < 100 {
				require.Equal(t, string(body), shown.GetResponse())
			}
		}
	})
}
