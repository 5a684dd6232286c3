package onboarding_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

// auditEvery is the interval of the auditors of the tests.
const auditEvery = 5 * time.Minute

// measured gives a process metrics, and returns what reads them.
func (b *bundle) measured(p *running) *sdkmetric.ManualReader {
	b.t.Helper()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	b.t.Cleanup(func() { require.NoError(b.t, provider.Shutdown(context.WithoutCancel(b.t.Context()))) })
	var err error
	p.service.Metrics, err = conversation.NewMetrics(provider.Meter("test"))
	require.NoError(b.t, err)
	return reader
}

// sweep has the process that serves sweep, up to the present.
func (b *bundle) sweep() *sdkmetric.ManualReader {
	b.t.Helper()
	service := b.current().service
	metrics := b.measured(b.current())
	for more := true; more; {
		var err error
		more, err = service.AuditInbound(b.t.Context(), auditEvery)
		require.NoError(b.t, err)
	}
	return metrics
}

// unheard is a message that Twilio has and whose webhook never comes.
func (b *bundle) unheard(p conversation.Profile, body string) *messagingv1.InboundText {
	return b.messaging.Hear(&messagingv1.InboundText{
		TwilioSid: fmt.Sprintf("SM%032d", b.serial.Add(1)), From: p.Phone, To: ours, Body: body, Segments: 1,
	}, b.clock.Now())
}

// counted is the sum of a counter, over the points with an attribute.
func counted(t *testing.T, reader *sdkmetric.ManualReader, name, key, value string) (n int64) {
	t.Helper()
	var got metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &got))
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			for i := 0; ok && m.Name == name && i < len(sum.DataPoints); i++ {
				if v, has := sum.DataPoints[i].Attributes.Value(attribute.Key(key)); key == "" || has && v.AsString() == value {
					n += sum.DataPoints[i].Value
				}
			}
		}
	}
	return n
}

func TestAuditFindsLateMessages(t *testing.T) {
	t.Parallel()

	subtest(t, "MissedStopAppliesAtOnceAndIsReported", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.clock.Advance(time.Second)
		stop := b.unheard(p, "STOP")
		b.clock.Advance(7*time.Minute + 30*time.Second)
		metrics := b.sweep()
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
		require.Equal(t, "late by 7m30s", b.entry(r.ID, session.KindStopped).Detail)
		reported := b.log.of(t, "onboarding.missed_stop")
		require.Len(t, reported, 1)
		require.Equal(t, stop.GetTwilioSid(), reported[0]["twilio_sid"])
		require.InDelta(t, 450_000, reported[0]["late_ms"], 0)
		require.EqualValues(t, 1, counted(t, metrics, "inbound_missed_stops", "", ""))
		require.EqualValues(t, 1, counted(t, metrics, "inbound_late", "consent_effect", "opt_out"))
		require.EqualValues(t, 1, counted(t, metrics, "inbound_audits", "outcome", "swept"))
		require.Equal(t, []string{opening}, b.sequence(p))
	})

	subtest(t, "MissedStopThatSTARTHasOvertakenEndsNothing", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.clock.Advance(time.Second)
		b.unheard(p, "STOP")
		b.clock.Advance(time.Minute)
		b.reply(p, "START")
		b.clock.Advance(2 * time.Minute)
		b.sweep()
		require.Equal(t, "overtaken; late by 3m0s", b.entry(r.ID, session.KindReplied).Detail)
		b.reply(p, "yes")
		b.at(r.ID, session.AwaitingExplanationResponse, "")
	})

	subtest(t, "LateRepliesAreAnsweredInTheOrderTheyWereSaid", setup, func(t *testing.T, b *bundle) {
		p, r := b.explained()
		b.clock.Advance(time.Minute)
		b.unheard(p, "not now")
		b.clock.Advance(time.Minute)
		b.unheard(p, "ok, yes")
		b.unheard(b.person(), "from a person whom we never texted")
		b.clock.Advance(2 * time.Minute)
		metrics := b.sweep()
		// No, to the explanation, is answered by LATER now. The yes was said before that: it does not answer it.
		require.Equal(t, []string{opening, explanation, later}, b.sequence(p))
		require.True(t, b.at(r.ID, session.AwaitingOpeningResponse, "").Paused)
		require.Equal(t, "early; late by 2m0s", b.entry(r.ID, session.KindReplied).Detail)
		require.EqualValues(t, 3, counted(t, metrics, "inbound_late", "", ""))
		require.Zero(t, counted(t, metrics, "inbound_missed_stops", "", ""))
		require.Equal(t, 4, b.messaging.Recorded(), "what was said in time included")
	})

	subtest(t, "LateReplyDoesNotAnswerALaterQuestion", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.clock.Advance(10 * time.Second)
		b.unheard(p, "yes") // to the opening
		b.clock.Advance(2 * time.Minute)
		b.reply(p, "hello? I said yes")
		before := b.at(r.ID, session.AwaitingExplanationResponse, "")
		b.sweep()
		require.Equal(t, before, b.session(r.ID), "it is no answer to the explanation")
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
		require.Equal(t, "early; late by 2m0s", b.entry(r.ID, session.KindReplied).Detail)
	})

	subtest(t, "LateReplyOfTheBurstIsHeldByWhenItWasSaid", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		b.clock.Advance(time.Second)
		b.unheard(p, "my answer to the first message")
		b.clock.Advance(2 * time.Minute)
		b.sweep()
		require.Equal(t, "burst; late by 2m0s", b.entry(r.ID, session.KindHeld).Detail)
		require.Equal(t, 1, b.count(`select count(*) from held_replies where session_id = $1 and received_at = $2`, r.ID, b.clock.Now().Add(-2*time.Minute)))
		for range 3 {
			b.clock.Advance(8 * time.Second)
			b.executes(b.session(r.ID))
		}
		b.work()
		b.at(r.ID, session.AwaitingInterviewStart, "")
	})

	subtest(t, "MessageOfAnEpisodeThatIsOverAnswersNothing", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		old := b.activate(p)
		b.clock.Advance(10 * time.Second)
		b.unheard(p, "yes")
		b.clock.Advance(time.Minute)
		_, err := b.store.CloseSession(t.Context(), orgID, old.ID, b.clock.Now())
		require.NoError(t, err)
		r := b.activate(p)
		b.clock.Advance(time.Minute)
		b.sweep()
		b.at(r.ID, session.AwaitingOpeningResponse, "")
		require.Equal(t, "before_session; late by 2m0s", b.entry(r.ID, session.KindReplied).Detail)
	})

	subtest(t, "MessageThatCannotBeTakenDoesNotStandInTheWayOfOthers", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.clock.Advance(time.Second)
		b.messaging.Hear(&messagingv1.InboundText{TwilioSid: "SMshort", From: "32665", To: ours, Body: "a short code"}, b.clock.Now())
		b.messaging.Hear(&messagingv1.InboundText{TwilioSid: "SMforeign", From: p.Phone, To: "+14155550999", Body: "to no number of ours"}, b.clock.Now())
		b.unheard(p, "STOP")
		b.clock.Advance(2 * time.Minute)
		b.sweep()
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
		b.quiet()
		require.Equal(t, 2, b.count(`select count(*) from webhook_jobs where status = 'failed'`))
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
	})
}

func TestAuditLeavesMessagesToTheirWebhook(t *testing.T) {
	t.Parallel()

	subtest(t, "MessagesThatCameAreLeftAlone", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		m := b.message(p, "yes")
		b.receives(m)
		b.messaging.Hear(&messagingv1.InboundText{TwilioSid: m.GetTwilioSid(), From: p.Phone, To: ours, Body: "yes"}, b.clock.Now())
		before := b.session(r.ID)
		b.clock.Advance(2 * time.Minute)
		metrics := b.sweep()
		require.Equal(t, before, b.session(r.ID))
		require.Equal(t, 1, b.count(`select count(*) from webhook_jobs where event_type = 'twilio.message.received'`))
		require.Zero(t, counted(t, metrics, "inbound_late", "", ""))
		require.Equal(t, 1, b.count(`select count(*) from inbound_audits where listed = 1 and found = 0`))
	})

	subtest(t, "MessageWhoseOwnJobIsStillOpenIsLeftToIt", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		m := b.message(p, "STOP")
		b.messaging.SetDown(true)
		_, err := b.current().server.ReceiveMessage(t.Context(), m)
		require.Error(t, err, "Twilio comes again, and gives up")
		b.messaging.Hear(&messagingv1.InboundText{TwilioSid: m.GetTwilioSid(), From: p.Phone, To: ours, Body: "STOP"}, b.clock.Now())
		b.messaging.SetDown(false)
		b.clock.Advance(2 * time.Minute)
		metrics := b.sweep()
		require.Zero(t, counted(t, metrics, "inbound_late", "", ""))
		b.quiet()
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
		require.Equal(t, 1, b.count(`select count(*) from webhook_jobs where idempotency_key = $1`, m.GetTwilioSid()))
	})

	subtest(t, "WebhookThatComesAfterAllChangesNothing", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.clock.Advance(time.Second)
		missed := b.unheard(p, "yes")
		b.clock.Advance(2 * time.Minute)
		b.sweep()
		before := b.session(r.ID)
		m := b.message(p, "yes")
		m.TwilioSid = missed.GetTwilioSid()
		_, err := b.current().server.ReceiveMessage(t.Context(), m)
		require.Error(t, err, "the gateway acknowledges this refusal")
		require.Equal(t, before, b.session(r.ID))
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
	})

	subtest(t, "FreshMessagesAreLeftToTheirWebhook", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.clock.Advance(time.Minute)
		b.unheard(p, "STOP")
		b.clock.Advance(59 * time.Second)
		b.sweep()
		require.Equal(t, session.Active, b.session(r.ID).Status)
		b.clock.Advance(auditEvery)
		b.sweep()
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
	})
}

func TestAuditMark(t *testing.T) {
	t.Parallel()

	subtest(t, "SweepsOverlapAndTheMarkNeverPassesWhatWasNotStored", setup, func(t *testing.T, b *bundle) {
		p, _ := b.activated()
		b.sweep()
		mark := func(at time.Time) int {
			return b.count(`select count(*) from inbound_audits where sender = $1 and swept_until = $2 and lease_token is null`, ours, at)
		}
		require.Equal(t, 1, mark(b.clock.Now().Add(-time.Minute)))
		swept := b.clock.Now().Add(-time.Minute)
		b.clock.Advance(auditEvery)
		// Twilio's list had not had it when its time was swept.
		lagged := b.messaging.Hear(&messagingv1.InboundText{TwilioSid: "SMlagged", From: p.Phone, To: ours, Body: "hi"}, swept.Add(-9*time.Minute))
		auditor := b.current().service
		b.messaging.SetDown(true)
		_, err := auditor.AuditInbound(t.Context(), auditEvery)
		require.Error(t, err)
		require.Equal(t, 0, b.messaging.Recorded())
		require.Equal(t, 1, mark(swept))
		b.messaging.SetDown(false)
		b.sweep()
		require.Equal(t, 1, b.count(`select count(*) from webhook_jobs where idempotency_key = $1`, lagged.GetTwilioSid()))
		require.Equal(t, 1, mark(b.clock.Now().Add(-time.Minute)))
	})

	subtest(t, "FirstSweepLooksBackADay", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.messaging.Hear(&messagingv1.InboundText{TwilioSid: "SMold", From: p.Phone, To: ours, Body: "STOP"}, b.clock.Now().Add(-25*time.Hour))
		b.messaging.Hear(&messagingv1.InboundText{TwilioSid: "SMnew", From: p.Phone, To: ours, Body: "STOP"}, b.clock.Now().Add(-23*time.Hour))
		b.sweep()
		require.Equal(t, 1, b.messaging.Recorded())
		require.Zero(t, b.count(`select count(*) from webhook_jobs where idempotency_key = 'SMold'`))
	})

	subtest(t, "LongOutageIsSweptDayByDayTheOldestFirst", setup, func(t *testing.T, b *bundle) {
		b.sweep()
		p := b.person()
		for range 4 {
			b.clock.Advance(20 * time.Hour)
			b.unheard(p, "are you there?")
		}
		b.clock.Advance(10 * time.Minute)
		auditor := b.current().service
		var found []int
		for more := true; more; {
			var err error
			more, err = auditor.AuditInbound(t.Context(), auditEvery)
			require.NoError(t, err)
			found = append(found, b.count(`select count(*) from webhook_jobs`))
		}
		require.Equal(t, []int{1, 2, 3, 4}, found)
		require.Equal(t, 1, b.count(`select count(*) from inbound_audits where found_total = 4 and swept_until = $1`, b.clock.Now().Add(-time.Minute)))
	})

	subtest(t, "OneProcessSweepsAtATime", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.clock.Advance(time.Second)
		b.unheard(p, "STOP")
		b.clock.Advance(2 * time.Minute)
		var sweeps sync.WaitGroup
		for range 8 {
			auditor := b.start(b.healthy()).service
			sweeps.Go(func() {
				_, err := auditor.AuditInbound(t.Context(), auditEvery)
				require.NoError(t, err)
			})
		}
		sweeps.Wait()
		require.Equal(t, 1, b.messaging.Listed())
		require.Len(t, b.log.of(t, "onboarding.missed_stop"), 1)
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
	})

	subtest(t, "SweepThatWasTakenOverDoesNotMoveTheMark", setup, func(t *testing.T, b *bundle) {
		of := conversation.Sender{OrgID: orgID, Name: ours}
		now := b.clock.Now()
		slow, ok, err := b.store.ClaimAudit(t.Context(), of, now.Add(-time.Hour), now, now.Add(time.Minute))
		require.NoError(t, err)
		require.True(t, ok)
		_, ok, err = b.store.ClaimAudit(t.Context(), of, now, now, now.Add(time.Minute))
		require.NoError(t, err)
		require.False(t, ok)
		b.clock.Advance(time.Minute)
		later := b.clock.Now()
		quick, ok, err := b.store.ClaimAudit(t.Context(), of, later, later, later.Add(time.Minute))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, now.Add(-time.Hour), quick.SweptUntil.UTC())
		require.ErrorIs(t, b.store.ExtendAudit(t.Context(), slow, later.Add(time.Hour)), conversation.ErrAuditLost)
		require.ErrorIs(t, b.store.ReleaseAudit(t.Context(), slow), conversation.ErrAuditLost)
		require.ErrorIs(t, b.store.FinishAudit(t.Context(), slow, conversation.AuditEnd{SweptUntil: later, At: later, DueAt: later}), conversation.ErrAuditLost)
		require.NoError(t, b.store.FinishAudit(t.Context(), quick, conversation.AuditEnd{SweptUntil: now.Add(-2 * time.Hour), At: later, DueAt: later}))
		require.Equal(t, 1, b.count(`select count(*) from inbound_audits where swept_until = $1`, now.Add(-time.Hour)), "never back")
	})

	subtest(t, "OrganisationWithoutASenderHasNothingToSweep", setup, func(t *testing.T, b *bundle) {
		auditor := b.current().service
		auditor.OrgID = "00000000-0000-7000-8000-000000000002"
		more, err := auditor.AuditInbound(t.Context(), auditEvery)
		require.NoError(t, err)
		require.False(t, more)
		require.Zero(t, b.count(`select count(*) from inbound_audits`))
	})
}

// TestAuditSurvivesAnyMishap fails or ends the process at every call that a sweep makes, and sweeps again.
func TestAuditSurvivesAnyMishap(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	b := setup(t)
	audited := func() int { return b.count(`select coalesce(sum(found_total), 0) from inbound_audits`) }
	b.everyMishap(12, func(struck *ports) {
		recorded, stops, found := b.messaging.Recorded(), len(b.log.of(t, "onboarding.missed_stop")), audited()
		ana, bea := b.person(), b.person()
		first, second := b.activate(ana), b.activate(bea)
		b.clock.Advance(time.Second)
		b.unheard(ana, "STOP")
		b.unheard(bea, "yes")
		b.unheard(bea, "a second message")
		b.clock.Advance(auditEvery)
		b.measured(b.current()) // whose loop may come to report it
		_, err := b.start(struck).service.AuditInbound(t.Context(), auditEvery)
		require.True(t, struck.happened() || err == nil, "%v", err)
		b.clock.Advance(auditEvery) // leases end
		b.sweep()
		b.quiet()
		require.Equal(t, session.Stopped, b.session(first.ID).Status)
		b.at(second.ID, session.AwaitingExplanationResponse, "")
		require.Equal(t, []string{opening, explanation}, b.sequence(bea))
		require.Equal(t, []string{opening}, b.sequence(ana))
		require.Equal(t, 3, b.messaging.Recorded()-recorded)
		require.Greater(t, len(b.log.of(t, "onboarding.missed_stop")), stops)
		require.LessOrEqual(t, audited()-found, 3)
		require.Equal(t, 1, b.count(`select count(*) from inbound_audits where lease_token is null`))
	})
}
