package onboarding_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/emulators/messagingtest"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

// activates is an operator's call.
func (b *bundle) activates(p conversation.Profile, consent *onboardingv1.ConsentRecord) (*onboardingv1.Session, error) {
	b.t.Helper()
	out, err := asks(b, b.current().server.ActivateProfile, &onboardingv1.ActivateProfileRequest{ProfileId: p.ID, Consent: consent})
	return out.GetSession(), err
}

func (b *bundle) sessions() int {
	b.t.Helper()
	return b.count(`select count(*) from conversation_sessions`)
}

func TestActivationIsRefused(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct {
		name string
		park func(b *bundle) (conversation.Profile, session.Record)
		why  string
	}{
		{"Stuck", func(b *bundle) (conversation.Profile, session.Record) {
			p, r, _ := b.parkedAtStep(messagingtest.ParkMissed)
			return p, r
		}, ":resolve"},
		{"Undeliverable", func(b *bundle) (conversation.Profile, session.Record) {
			p := b.person()
			b.messaging.Script(messagingtest.First(messagingtest.Reject))
			return p, b.activate(p)
		}, "this is no phone number"},
		{"WithWordsThatMayBeAnOptOut", func(b *bundle) (conversation.Profile, session.Record) {
			p := b.person()
			r := b.activate(p)
			b.reply(p, "leave me alone")
			return p, r
		}, "may want no more texts"},
	} {
		t.Run("R_06_WhileASessionIsParked"+tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p, r := tt.park(b)
			heard, attempts := b.sequence(p), len(b.messaging.Attempts())
			_, err := b.activates(p, nil)
			refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_SESSION_PARKED)
			for _, told := range []string{r.ID, string(b.session(r.ID).Status), ":resume", ":reset", ":resolve", tt.why} {
				require.ErrorContains(t, err, told)
			}
			require.NotContains(t, err.Error(), p.Phone)
			b.quiet()
			require.Equal(t, 1, b.sessions())
			require.Equal(t, heard, b.sequence(p))
			require.Len(t, b.messaging.Attempts(), attempts)

			_, err = b.current().service.Reset(t.Context(), orgID, r.ID)
			require.NoError(t, err)
			b.messaging.Script(nil)
			require.NotEqual(t, r.ID, b.activate(p).ID)
			require.Equal(t, opening, b.sequence(p)[len(b.sequence(p))-1])
		})
	}

	t.Run("R_06_NotOnceTheParkedSessionWasResumed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		r := b.activate(p)
		b.reply(p, "leave me alone")
		b.resumed(r)
		require.Equal(t, r.ID, b.activate(p).ID)
		require.Equal(t, []string{opening}, b.sequence(p))
	})

	// What is happening while the activation looks is decided before it is: the change is made, and not committed yet.
	for _, tt := range []struct {
		name, change string
		want         func(err error) bool
	}{
		{
			"SessionIsBeingParked", `update conversation_sessions set status = 'stuck' where profile_id = $1`,
			func(err error) bool { return errors.As(err, new(*conversation.SessionParked)) },
		},
		{
			"PersonIsBeingHeld", `update profiles set hold = true where id = $1`,
			func(err error) bool { return errors.Is(err, conversation.ErrOnHold) },
		},
	} {
		t.Run("R_06_WhileThe"+tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.person()
			b.activate(p)
			tx, err := b.pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(t.Context()) }()
			_, err = tx.Exec(t.Context(), tt.change, p.ID)
			require.NoError(t, err)
			answered := make(chan error, 1)
			go func() {
				_, err := b.current().service.Activate(t.Context(), orgID, p.ID, nil)
				answered <- err
			}()
			require.Eventually(t, func() bool {
				return b.count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) == 1
			}, 10*time.Second, 5*time.Millisecond)
			require.NoError(t, tx.Commit(t.Context()))
			err = <-answered
			require.Truef(t, tt.want(err), "%v", err)
			require.Equal(t, 1, b.sessions())
			require.Equal(t, []string{opening}, b.sequence(p))
		})
	}

	t.Run("R_06_WithoutOpeningAnythingAfterSTOPAlsoInQuietHours", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		b.reply(p, "STOP")
		for range 2 {
			_, err := b.activates(p, nil)
			refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_OPTED_OUT)
			require.ErrorContains(t, err, "START")
			b.sleepsAtNight()
			b.turns(23, 0)
		}
		require.Zero(t, b.sessions())
		b.reply(p, "START")
		require.Equal(t, session.Active, b.activate(p).Status)
	})

	t.Run("R_06_WhileWordsFromBeforeAnySessionWaitForAnOperator", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		b.reply(p, "leave me alone")
		_, err := b.activates(p, nil)
		refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_AWAITS_OPERATOR)
		require.ErrorContains(t, err, "/v1/webhook-jobs")
		require.Zero(t, b.sessions())
		var job string
		require.NoError(t, b.pool.QueryRow(t.Context(), `select id from webhook_jobs where status = 'failed'`).Scan(&job))
		_, err = b.store.CancelJob(t.Context(), orgID, job, b.clock.Now())
		require.NoError(t, err)
		require.Equal(t, session.Active, b.activate(p).Status)
	})
}

// TestOpeningWhoseSessionIsParked: what waits for the morning is not sent to a session that was parked in the night, and not lost either.
func TestOpeningWhoseSessionIsParked(t *testing.T) {
	t.Parallel()
	for name, doubtAt := range map[string]time.Duration{"BeforeItIsDue": -time.Hour, "InTheTurnBeforeIt": 0} {
		t.Run("R_06_IsNotSentUntilItIsResumed_"+name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.sleepsAtNight()
			b.turns(23, 0)
			p := b.person()
			r := b.activate(p)
			b.clock.Advance(morning.Add(doubtAt).Sub(b.clock.Now()))
			if doubtAt == 0 {
				b.exec(`update webhook_jobs set status = 'pending', next_retry_at = $1, subject = $2 where subject = $3`,
					b.clock.Now(), p.Phone, "opening:"+r.ID) // it has come back, and its turn has not
				b.exec(`update conversation_sessions set status = 'stuck', turn = turn + 1, detours = detours + 1 where id = $1`, r.ID)
			} else {
				b.reply(p, "leave me alone")
			}
			require.Equal(t, session.Stuck, b.session(r.ID).Status)
			b.clock.Advance(2 * time.Hour)
			b.work()
			b.pass(5 * time.Minute)
			require.Empty(t, b.sequence(p))
			b.reply(p, "hello?") // nothing of the person waits behind it
			require.Equal(t, session.KindHeld, b.story(r.ID)[len(b.story(r.ID))-1])
			b.exec(`delete from held_replies`)
			b.resumed(r)
			b.pass(time.Minute)
			require.Equal(t, []string{opening}, b.sequence(p))
			b.at(r.ID, session.AwaitingOpeningResponse, "")
		})
	}

	t.Run("R_06_IsNotSentOnceItWasReset", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.sleepsAtNight()
		b.turns(23, 0)
		p := b.person()
		r := b.activate(p)
		b.reply(p, "leave me alone")
		_, err := b.current().service.Reset(t.Context(), orgID, r.ID)
		require.NoError(t, err)
		b.clock.Advance(morning.Sub(b.clock.Now()))
		b.quiet()
		require.Empty(t, b.sequence(p))
	})
}

func TestConsentRecord(t *testing.T) {
	t.Parallel()
	agreed := func(b *bundle) *onboardingv1.ConsentRecord {
		return &onboardingv1.ConsentRecord{
			Source: " web_form ", WordsShown: "I want texts.\nSTOP ends them.", CollectedAt: timestamppb.New(b.clock.Now().Add(-time.Hour)),
		}
	}
	given := func(b *bundle) *messagingv1.ConsentRecord {
		b.t.Helper()
		attempts := b.messaging.Attempts()
		require.NotEmpty(b.t, attempts)
		for _, later := range attempts[1:] {
			require.Nil(b.t, later.GetConsent(), "it comes with the opening")
		}
		return attempts[0].GetConsent()
	}
	requires := func(b *bundle, wanted *bool) bool {
		b.t.Helper()
		out, err := asks(b, b.current().server.UpdateSettings, &onboardingv1.UpdateSettingsRequest{
			Settings: &onboardingv1.Settings{QuietHours: &onboardingv1.QuietHours{}, RequireConsentRecord: wanted},
		})
		require.NoError(b.t, err)
		return out.GetSettings().GetRequireConsentRecord()
	}

	t.Run("R_07_GoesToMessagingWithTheOpening", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		collected := b.clock.Now().Add(-time.Hour)
		_, err := b.activates(p, agreed(b))
		require.NoError(t, err)
		b.reply(p, "yes")
		require.Equal(t, &messagingv1.ConsentRecord{
			Source: "web_form", WordsShown: "I want texts.\nSTOP ends them.", CollectedAt: timestamppb.New(collected),
		}, given(b))
	})

	t.Run("R_07_GoesWithAnOpeningThatWasParkedAndWaitsForTheMorning", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.sleepsAtNight()
		p := b.person()
		b.messaging.Script(messagingtest.First(messagingtest.Reject))
		_, err := b.activates(p, agreed(b))
		require.NoError(t, err)
		b.messaging.ResolveAll()
		b.messaging.Script(nil)
		b.turns(23, 0)
		b.resumed(b.standing(p))
		b.clock.Advance(morning.Sub(b.clock.Now()))
		b.quiet()
		require.Equal(t, []string{opening}, b.sequence(p))
		require.Equal(t, "web_form", given(b).GetSource())
	})

	t.Run("R_07_IsRequiredWhenTheOrganisationSaysSo", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		early := b.person()
		open := b.activate(early)
		require.True(t, requires(b, new(true)))
		require.True(t, requires(b, nil), "who does not speak of it changes nothing")
		p := b.person()
		_, err := b.activates(p, nil)
		refuses(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_CONSENT_RECORD_REQUIRED)
		require.ErrorContains(t, err, "consent {source, words_shown, collected_at}")
		require.Equal(t, 1, b.sessions())
		require.Equal(t, open.ID, b.activate(early).ID, "a session that is open already needs none")
		_, err = b.activates(p, agreed(b))
		require.NoError(t, err)
		require.False(t, requires(b, new(false)))
		b.activate(b.person())
	})

	for _, tt := range []struct {
		name   string
		change func(b *bundle, c *onboardingv1.ConsentRecord)
		field  string
	}{
		{"WithoutASource", func(_ *bundle, c *onboardingv1.ConsentRecord) { c.Source = " " }, "consent.source"},
		{"WithASourceOfTwoLines", func(_ *bundle, c *onboardingv1.ConsentRecord) { c.Source = "a\nb" }, "consent.source"},
		{"WithoutWords", func(_ *bundle, c *onboardingv1.ConsentRecord) { c.WordsShown = "" }, "consent.words_shown"},
		{"WithALongText", func(_ *bundle, c *onboardingv1.ConsentRecord) { c.WordsShown = strings.Repeat("é", 1001) }, "consent.words_shown"},
		{"WithoutATime", func(_ *bundle, c *onboardingv1.ConsentRecord) { c.CollectedAt = nil }, "consent.collected_at"},
		{"FromTheFuture", func(b *bundle, c *onboardingv1.ConsentRecord) {
			c.CollectedAt = timestamppb.New(b.clock.Now().Add(time.Hour))
		}, "consent.collected_at"},
	} {
		t.Run("R_07_IsRefused"+tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			record := agreed(b)
			tt.change(b, record)
			_, err := b.activates(b.person(), record)
			refuses(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
			require.ErrorContains(t, err, tt.field)
			require.Zero(t, b.sessions())
		})
	}
}
