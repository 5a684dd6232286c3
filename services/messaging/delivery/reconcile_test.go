package delivery_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	emulator "paceline.internal/emulators/twilio"
	platform "paceline.internal/platform/process"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/delivery"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// directory is what Twilio has, with something in the way.
type directory struct {
	*twilio.Client

	list  func(ctx context.Context, to string, since time.Time) ([]twilio.Stored, error)
	fetch func(ctx context.Context, sid string) (twilio.Stored, error)
}

func (d directory) List(ctx context.Context, to string, since time.Time) ([]twilio.Stored, error) {
	if d.list != nil {
		return d.list(ctx, to, since)
	}
	return d.Client.List(ctx, to, since)
}

func (d directory) Fetch(ctx context.Context, sid string) (twilio.Stored, error) {
	if d.fetch != nil {
		return d.fetch(ctx, sid)
	}
	return d.Client.Fetch(ctx, sid)
}

// reconciler is one on the bundle's database, with something changed.
func (b *bundle) reconciler(change func(*delivery.ReconcilerConfig)) *delivery.Reconciler {
	cfg := delivery.ReconcilerConfig{
		Store: b.store, Twilio: b.carrier, Interval: interval, Timeout: b.config.Timeout, Now: b.clock.Now,
		Log: b.config.Log, Metrics: b.config.Metrics,
	}
	if change != nil {
		change(&cfg)
	}
	return delivery.NewReconciler(cfg)
}

func (b *bundle) reconcile() {
	b.t.Helper()
	_, err := b.reconciler(nil).Once(b.t.Context())
	require.NoError(b.t, err)
}

func (b *bundle) send(key string) delivery.Result {
	b.t.Helper()
	r := b.request()
	if key != "" {
		r.Key = key
	}
	result, err := b.service(nil).Send(b.t.Context(), r)
	require.NoError(b.t, err)
	return result
}

func (b *bundle) evidence(id uuid.UUID) delivery.Evidence {
	b.t.Helper()
	evidence, err := b.store.Evidence(b.t.Context(), b.config.Sender.OrgID, id)
	require.NoError(b.t, err)
	return evidence
}

func findings(e delivery.Evidence) []delivery.Finding {
	found := []delivery.Finding{}
	for _, l := range e.Looks {
		found = append(found, l.Finding)
	}
	return found
}

// mute loses every receipt, and the first answer in the way that is given.
func mute(answer emulator.Answer, commit bool) emulator.Script {
	script := lose(answer, commit)
	script.OnCallback = func(emulator.Message) emulator.CallbackFault { return emulator.CallbackFault{Drop: true} }
	return script
}

func TestReconcileUnknown(t *testing.T) {
	t.Parallel()

	t.Run("S0_65_TextThatTwilioHasIsAdoptedFromItsList", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(mute(emulator.AnswerReset, true))
		require.Equal(t, delivery.Unknown, b.send("").Outcome)
		b.reconcile()
		row := b.stored()
		require.Equal(t, b.sent()[0].SID, row.SID)
		require.Equal(t, sms.Queued, row.Status)
		require.Equal(t, delivery.AlreadyAccepted, b.send("").Outcome)
		evidence := b.evidence(row.ID)
		require.Equal(t, []delivery.Finding{delivery.Found}, findings(evidence))
		require.Equal(t, []delivery.Candidate{{SID: row.SID, Status: "queued", CreatedAt: b.clock.Now()}}, evidence.Looks[0].Candidates)
		require.Contains(t, b.logged.String(), `"as":"adopted"`)
		require.Len(t, b.sent(), 1)
	})

	t.Run("S0_65_AbsentTwiceIsSentAgainExactlyOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(lose(emulator.AnswerServerError, false))
		require.Equal(t, delivery.Unknown, b.send("").Outcome)
		for _, wait := range []time.Duration{0, lease + time.Second, interval} {
			b.clock.Advance(wait)
			require.Equal(t, delivery.Unknown, b.send("").Outcome)
			b.reconcile()
			b.reconcile() // nothing is due any more
		}
		require.Equal(t, []delivery.Finding{delivery.Absent, delivery.Absent, delivery.Absent}, findings(b.evidence(b.stored().ID)),
			"one that is too early to count, and two that do")
		require.Equal(t, sms.Throttled, b.stored().Status)
		require.Empty(t, b.sent(), "the reconciler never sends: only the caller knows of holds, resets and pauses")
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { _, _ = b.service(nil).Send(t.Context(), b.request()) })
		}
		all.Wait()
		require.Equal(t, delivery.AlreadyAccepted, b.send("").Outcome)
		require.Equal(t, 2, b.stored().Attempts)
		require.Len(t, b.sent(), 1)
	})

	t.Run("S0_41_AbsentTextIsNotSentAgainAfterSTOP", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(lose(emulator.AnswerServerError, false))
		b.send("")
		_, err := b.service(nil).RecordInbound(t.Context(), b.text("SM1", "STOP"))
		require.NoError(t, err, "its call is over, so nothing is waited for")
		b.clock.Advance(lease + time.Second)
		b.reconcile()
		b.clock.Advance(interval)
		b.reconcile()
		require.Equal(t, sms.Throttled, b.stored().Status)
		require.Equal(t, delivery.OptedOut, b.send("").Outcome)
		require.Empty(t, b.sent())
	})

	t.Run("S1_36_AbandonedAttemptIsNoticedWithoutAnybodyAsking", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(mute(emulator.AnswerNormal, true))
		within(func() { _, _ = b.on(&process{at: 2, mishap: dieAfter}).Send(t.Context(), b.request()) })
		b.clock.Advance(lease + b.config.Timeout - time.Nanosecond)
		b.reconcile()
		require.Equal(t, sms.Sending, b.stored().Status)
		b.clock.Advance(time.Nanosecond)
		b.reconcile()
		require.Equal(t, b.sent()[0].SID, b.stored().SID)
	})

	t.Run("ReceiptOfTheFirstAttemptWinsOverTheSecond", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(lose(emulator.AnswerReset, true)) // Twilio has it, and its list does not say so in time
		b.send("")
		blind := b.reconciler(func(c *delivery.ReconcilerConfig) {
			c.Twilio = directory{list: func(context.Context, string, time.Time) ([]twilio.Stored, error) { return []twilio.Stored{}, nil }}
		})
		for _, at := range []time.Duration{lease + time.Second, interval} {
			step := b.clock.Now().Add(at)
			b.emulator.SetScript(emulator.Script{OnCallback: func(emulator.Message) emulator.CallbackFault {
				return emulator.CallbackFault{Delay: time.Hour}
			}})
			b.clock.Advance(step.Sub(b.clock.Now()))
			_, err := blind.Once(t.Context())
			require.NoError(t, err)
		}
		first := b.sent()[0].SID
		second := b.service(func(c *delivery.Config) {
			c.Carrier = carrierFunc(func(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
				_, err := b.service(nil).RecordStatus(ctx, delivery.Receipt{MessageID: b.stored().ID, SID: first, Status: "sent"})
				require.NoError(t, err)
				return twilio.Outcome{Kind: twilio.Accepted, SID: "SM2", Status: "queued"}
			})
		})
		result, err := second.Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.AlreadyAccepted, result.Outcome)
		require.Equal(t, first, b.stored().SID)
		require.Contains(t, b.logged.String(), "messaging.sms_answer_not_adopted")
	})

	t.Run("LateReceiptWinsOverParked", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.parked()
		matched, err := b.service(nil).RecordStatus(t.Context(), delivery.Receipt{MessageID: m.ID, SID: "SM9", Status: "delivered"})
		require.NoError(t, err)
		require.True(t, matched)
		require.Equal(t, sms.Delivered, b.stored().Status)
		require.Equal(t, delivery.AlreadyAccepted, b.send("").Outcome)
	})

	t.Run("S0_65_NeverDuplicateIsParkedAndSendSaysWhatToDo", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.parked()
		result := b.send("")
		require.Equal(t, delivery.Parked, result.Outcome)
		require.Zero(t, result.RetryAfter)
		require.Contains(t, result.Explanation, "not at Twilio in two looks")
		require.Contains(t, result.Explanation, "POST /v1/messages/"+m.ID.String()+":resolve")
		b.clock.Advance(24 * time.Hour)
		b.reconcile()
		require.Equal(t, sms.Parked, b.stored().Status)
		require.Empty(t, b.sent())
	})

	t.Run("S0_65_SeveralCandidatesAreParkedWithTheEvidence", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(mute(emulator.AnswerReset, true))
		b.send("")
		b.carrier.Send(t.Context(), twilio.Outgoing{To: theirs, Body: body}) // somebody else with the same account and words
		b.clock.Advance(lease + time.Second)
		b.reconcile()
		require.Equal(t, sms.Parked, b.stored().Status)
		look := b.evidence(b.stored().ID).Looks[0]
		require.Equal(t, delivery.Ambiguous, look.Finding)
		require.Len(t, look.Candidates, 2)
		require.Contains(t, b.send("").Explanation, "Twilio has 2 messages")
	})

	t.Run("TwoInDoubtWithTheSameWordsAreParked", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(mute(emulator.AnswerReset, true))
		b.send("")
		b.emulator.SetScript(emulator.Script{
			OnCreate: func(int, emulator.Message) emulator.CreateFault {
				return emulator.CreateFault{Answer: emulator.AnswerServerError}
			},
			OnCallback: func(emulator.Message) emulator.CallbackFault { return emulator.CallbackFault{Drop: true} },
		})
		require.Equal(t, delivery.Unknown, b.send("another").Outcome)
		b.clock.Advance(lease + time.Second)
		b.reconcile()
		require.Equal(t, sms.Parked, b.stored().Status)
		require.Equal(t, delivery.Parked, b.send("another").Outcome)
	})

	t.Run("WhatWasParkedLongBeforeIsNoRival", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.parked()
		b.clock.Advance(time.Hour)
		b.emulator.SetScript(emulator.Script{
			OnCreate: func(int, emulator.Message) emulator.CreateFault {
				return emulator.CreateFault{Answer: emulator.AnswerReset, Commit: true}
			},
			OnCallback: func(emulator.Message) emulator.CallbackFault { return emulator.CallbackFault{Drop: true} },
		})
		doubt := b.send("another")
		require.Equal(t, delivery.Unknown, doubt.Outcome)
		b.clock.Advance(lease + time.Second)
		b.reconcile()
		require.Equal(t, delivery.AlreadyAccepted, b.send("another").Outcome)
		require.Equal(t, sms.Parked, b.stored().Status)
	})

	t.Run("S0_65_TextThatTwilioRewroteIsParkedAndNotSentAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(lose(emulator.AnswerServerError, false))
		b.send("")
		b.carrier.Send(t.Context(), twilio.Outgoing{To: theirs, Body: "Hi Ana, see twil.io/x"})
		b.clock.Advance(lease + time.Second)
		b.reconcile()
		require.Equal(t, sms.Parked, b.stored().Status)
		require.Contains(t, b.send("").Explanation, "Twilio has a message to this person with other words")
		require.Len(t, b.evidence(b.stored().ID).Looks[0].Candidates, 1)
	})

	t.Run("AcceptedIsWhenTwilioTookItAndNotWhenItWasFound", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(mute(emulator.AnswerReset, true))
		b.send("")
		began := b.clock.Now()
		b.clock.Advance(time.Hour)
		b.reconcile()
		row := b.stored()
		require.Equal(t, began.Add(time.Second), row.AcceptedAt, "Twilio's time is cut to the second, and a gap is never too short")
		require.Equal(t, b.clock.Now(), row.UpdatedAt)
	})

	t.Run("SIDOfAnotherMessageIsNotTaken", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.Equal(t, delivery.Accepted, b.send("another").Outcome)
		b.emulator.SetScript(emulator.Script{OnCreate: func(int, emulator.Message) emulator.CreateFault {
			return emulator.CreateFault{Answer: emulator.AnswerServerError}
		}})
		b.send("")
		b.clock.Advance(lease + time.Second)
		b.reconcile()
		require.Equal(t, sms.Unknown, b.stored().Status)
		require.Equal(t, []delivery.Finding{delivery.Absent}, findings(b.evidence(b.stored().ID)))
	})

	t.Run("S0_63_FailedListingIsRecordedOnceAndLookedAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(mute(emulator.AnswerReset, true))
		b.send("")
		down := b.reconciler(func(c *delivery.ReconcilerConfig) {
			c.Twilio = directory{list: func(context.Context, string, time.Time) ([]twilio.Stored, error) {
				return nil, errors.New("twilio: list messages: HTTP status 500 without a usable answer")
			}}
		})
		for range 5 {
			_, err := down.Once(t.Context())
			require.NoError(t, err)
			b.clock.Advance(interval)
		}
		evidence := b.evidence(b.stored().ID)
		require.Equal(t, []delivery.Finding{delivery.Failed}, findings(evidence), "their number is no evidence")
		require.Equal(t, 5, evidence.Message.Looks)
		b.reconcile()
		require.True(t, b.stored().Accepted())
	})

	t.Run("LookThatIsBrokenOffIsNoEvidence", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(mute(emulator.AnswerReset, true))
		b.send("")
		ctx, stop := context.WithCancel(t.Context())
		_, err := b.reconciler(func(c *delivery.ReconcilerConfig) {
			c.Twilio = directory{list: func(ctx context.Context, _ string, _ time.Time) ([]twilio.Stored, error) {
				stop()
				return nil, ctx.Err()
			}}
		}).Once(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, b.evidence(b.stored().ID).Looks)
		b.clock.Advance(interval)
		b.reconcile()
		require.True(t, b.stored().Accepted())
	})

	t.Run("S1_36_TwoReconcilersShareTheWork", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(emulator.Script{OnCreate: func(int, emulator.Message) emulator.CreateFault {
			return emulator.CreateFault{Answer: emulator.AnswerServerError}
		}})
		const rows = 12
		for i := range rows {
			b.send(string(rune('a' + i)))
		}
		var mu sync.Mutex
		looks := 0
		counting := directory{Client: b.carrier, list: func(ctx context.Context, to string, since time.Time) ([]twilio.Stored, error) {
			mu.Lock()
			looks++
			mu.Unlock()
			return b.carrier.List(ctx, to, since)
		}}
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				_, err := b.reconciler(func(c *delivery.ReconcilerConfig) { c.Twilio = counting }).Once(t.Context())
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.Equal(t, rows, looks)
	})

	t.Run("R_02_ALockedMessageHoldsUpNoOther", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		script := silent // a receipt would settle the doubt, too
		script.OnCreate = func(int, emulator.Message) emulator.CreateFault {
			return emulator.CreateFault{Answer: emulator.AnswerReset, Commit: true}
		}
		b.emulator.SetScript(script)
		var inDoubt []uuid.UUID
		for _, words := range []string{"The first.", "The second.", "The third."} {
			r := b.request()
			r.Key, r.Body = words, sms.Body(words)
			result, err := b.service(nil).Send(t.Context(), r)
			require.NoError(t, err)
			require.Equal(t, delivery.Unknown, result.Outcome)
			inDoubt = append(inDoubt, result.Message.ID)
		}
		unknown := func() []uuid.UUID {
			return slices.DeleteFunc(slices.Clone(inDoubt), func(id uuid.UUID) bool { return b.evidence(id).Message.Accepted() })
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		holder, err := b.pool.Begin(ctx) // a process that freezes between its claim of the row and its end
		require.NoError(t, err)
		defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
		lock := sync.OnceValue(func() error {
			_, err := holder.Exec(ctx, `select from sms_messages where id = $1 for update`, inDoubt[0])
			return err
		})
		reconciler := b.reconciler(func(c *delivery.ReconcilerConfig) {
			c.Twilio = directory{Client: b.carrier, list: func(ctx context.Context, to string, since time.Time) ([]twilio.Stored, error) {
				if err := lock(); err != nil {
					return nil, err
				}
				return b.carrier.List(ctx, to, since)
			}}
		})
		reader := sdkmetric.NewManualReader()
		loops, err := platform.NewLoops(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"), b.config.Log, platform.PassBound)
		require.NoError(t, err)

		require.NoError(t, loops.Loop("reconciler", func(ctx context.Context) error {
			_, err := reconciler.Once(ctx)
			return err
		}).Run(ctx))
		require.Equal(t, inDoubt[:1], unknown())
		require.Contains(t, b.logged.String(), `"msg":"messaging.message_locked","message_id":"`+inDoubt[0].String())
		var measured metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(ctx, &measured))
		passedOver := slices.IndexFunc(measured.ScopeMetrics[0].Metrics, func(m metricdata.Metrics) bool { return m.Name == "loop_rows_passed_over" })
		require.EqualValues(t, 1, measured.ScopeMetrics[0].Metrics[passedOver].Data.(metricdata.Sum[int64]).DataPoints[0].Value)

		require.NoError(t, holder.Rollback(ctx))
		b.clock.Advance(interval)
		b.reconcile()
		require.Empty(t, unknown())
	})

	t.Run("S1_35_LookAtAnAttemptThatIsOverChangesNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(lose(emulator.AnswerServerError, false))
		b.send("")
		late := delivery.Sighting{
			MessageID: b.stored().ID, Token: b.stored().AttemptToken, Began: b.clock.Now().Add(time.Hour), At: b.clock.Now().Add(time.Hour),
			Interval: interval, Timeout: time.Second,
		}
		b.clock.Advance(lease + time.Second)
		b.reconcile()
		b.clock.Advance(interval)
		b.reconcile()
		require.Equal(t, delivery.Accepted, b.send("").Outcome)
		before := b.stored()
		looked, err := b.store.RecordSighting(t.Context(), late)
		require.NoError(t, err)
		require.Empty(t, looked.Settled)
		require.Equal(t, before, b.stored())
	})
}

// parked leaves the one row parked: never_duplicate, and absent twice.
func (b *bundle) parked() delivery.Message {
	b.t.Helper()
	b.emulator.SetScript(lose(emulator.AnswerServerError, false))
	r := b.request()
	r.UnknownPolicy = delivery.NeverDuplicate
	_, err := b.service(nil).Send(b.t.Context(), r)
	require.NoError(b.t, err)
	b.clock.Advance(lease + time.Second)
	b.reconcile()
	b.clock.Advance(interval)
	b.reconcile()
	m := b.stored()
	require.Equal(b.t, sms.Parked, m.Status)
	return m
}

func TestReconcilePolls(t *testing.T) {
	t.Parallel()
	drop := emulator.Script{OnCallback: func(emulator.Message) emulator.CallbackFault { return emulator.CallbackFault{Drop: true} }}

	t.Run("StatusWhoseReceiptsWereLostIsFetched", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(drop)
		b.send("")
		b.pass(time.Second)
		b.clock.Advance(58 * time.Second)
		b.reconcile()
		require.Equal(t, sms.Queued, b.stored().Status, "a receipt is given a minute")
		b.clock.Advance(time.Second)
		b.reconcile()
		row := b.stored()
		require.Equal(t, sms.Delivered, row.Status)
		require.Zero(t, row.NextLookAt)
		require.Len(t, b.evidence(row.ID).Receipts, 1)
		require.Contains(t, b.logged.String(), "messaging.sms_status_fetched")
	})

	t.Run("DeliveredIsNeverAskedAbout", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.send("")
		b.pass(time.Second)
		require.Equal(t, sms.Delivered, b.stored().Status)
		require.Zero(t, b.stored().NextLookAt)
	})

	t.Run("PollsComeHalfAsOftenEachTimeAndEndAfterADay", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(emulator.Script{OnFate: func(emulator.Message) emulator.Fate { // a carrier without receipts
			return emulator.Fate{Final: emulator.StatusSent}
		}})
		b.send("")
		b.pass(time.Second)
		accepted := b.stored().AcceptedAt
		var polls []time.Duration
		for b.stored().NextLookAt != (time.Time{}) {
			b.clock.Advance(b.stored().NextLookAt.Sub(b.clock.Now()))
			polls = append(polls, b.clock.Now().Sub(accepted)/time.Minute)
			b.reconcile()
		}
		require.Equal(t, []time.Duration{1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 1440}, polls)
		require.Equal(t, sms.Sent, b.stored().Status)
	})

	t.Run("S0_63_FailedPollIsRepeated", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(drop)
		b.send("")
		b.pass(time.Second)
		b.clock.Advance(time.Minute)
		_, err := b.reconciler(func(c *delivery.ReconcilerConfig) {
			c.Twilio = directory{fetch: func(context.Context, string) (twilio.Stored, error) { return twilio.Stored{}, errors.New("down") }}
		}).Once(t.Context())
		require.NoError(t, err)
		require.Equal(t, sms.Queued, b.stored().Status)
		b.clock.Advance(2 * time.Minute)
		b.reconcile()
		require.Equal(t, sms.Delivered, b.stored().Status)
	})

	t.Run("MessageThatTwilioNoLongerHasIsNotAskedAboutAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(drop)
		b.send("")
		b.clock.Advance(time.Minute)
		_, err := b.reconciler(func(c *delivery.ReconcilerConfig) {
			c.Twilio = directory{fetch: func(context.Context, string) (twilio.Stored, error) { return twilio.Stored{}, twilio.ErrNotFound }}
		}).Once(t.Context())
		require.NoError(t, err)
		row := b.stored()
		require.Zero(t, row.NextLookAt)
		require.Equal(t, sms.Queued, row.Status)
		require.Equal(t, []delivery.Finding{delivery.Absent}, findings(b.evidence(row.ID)))
	})

	t.Run("FetchedOptOutIsRecorded", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		script := drop
		script.OnFate = func(emulator.Message) emulator.Fate { return emulator.Fate{Final: emulator.StatusFailed, Code: 21610} }
		b.emulator.SetScript(script)
		b.send("")
		b.clock.Advance(time.Minute)
		b.reconcile()
		require.Equal(t, sms.Failed, b.stored().Status)
		require.Equal(t, consent.OptedOut, b.ledger().State)
	})

	t.Run("LookThatAnOlderReleaseLeftBehindIsDropped", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(lose(emulator.AnswerTooMany, false))
		b.send("")
		_, err := b.pool.Exec(t.Context(), "update sms_messages set next_look_at = lease_until")
		require.NoError(t, err)
		b.clock.Advance(time.Minute)
		b.reconcile()
		require.Zero(t, b.stored().NextLookAt)
		require.Equal(t, sms.Throttled, b.stored().Status)
	})

	t.Run("DoubtThatAnOlderReleaseLeftWithoutALookIsLookedAt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(mute(emulator.AnswerReset, true))
		b.send("")
		_, err := b.pool.Exec(t.Context(), "update sms_messages set next_look_at = null, attempted_at = null")
		require.NoError(t, err)
		b.clock.Advance(lease + b.config.Timeout)
		b.reconcile()
		require.True(t, b.stored().Accepted())
	})

	t.Run("LookOfAFinalStatusIsDroppedWhateverTwilioSays", func(t *testing.T) {
		t.Parallel()
		for _, failure := range []error{twilio.ErrNotFound, errors.New("down")} {
			b := setup(t)
			b.send("")
			b.pass(time.Second)
			require.Equal(t, sms.Delivered, b.stored().Status)
			_, err := b.pool.Exec(t.Context(), "update sms_messages set next_look_at = updated_at")
			require.NoError(t, err)
			_, err = b.reconciler(func(c *delivery.ReconcilerConfig) {
				c.Twilio = directory{fetch: func(context.Context, string) (twilio.Stored, error) { return twilio.Stored{}, failure }}
			}).Once(t.Context())
			require.NoError(t, err)
			require.Zero(t, b.stored().NextLookAt)
			require.Equal(t, sms.Delivered, b.stored().Status)
		}
	})
}

// TestCrashMatrixOfReconcile asks again and again while a reconciler looks, and lets no receipt arrive. Whatever happened at
// whichever call, Twilio takes exactly one text in the end, and the row says so.
func TestCrashMatrixOfReconcile(t *testing.T) {
	t.Parallel()
	for _, scenario := range []struct {
		name   string
		script emulator.Script
		first  mishap // of a process that claimed the send before, and left the row behind
	}{
		{name: "S0_65_AnswerLost", script: mute(emulator.AnswerReset, true)},
		{name: "S0_65_ProcessDiedBeforeTheCall", script: mute(emulator.AnswerNormal, true), first: dieBefore},
		{name: "ReceiptsLost", script: mute(emulator.AnswerNormal, true)},
	} {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			matrix(t, func(t *testing.T, p *process) {
				b := setup(t)
				b.emulator.SetScript(scenario.script)
				first := &process{}
				if scenario.first != "" {
					first = &process{at: 2, mishap: scenario.first}
				}
				within(func() { _, _ = b.on(first).Send(t.Context(), b.request()) })
				b.clock.Advance(lease + time.Second)
				b.on(p)
				sick := b.reconciler(func(c *delivery.ReconcilerConfig) { c.Store, c.Twilio = p, p })
				healthy := b.reconciler(nil)
				for round := 0; round < 10 && b.stored().Status != sms.Delivered; round++ {
					reconciler := sick
					if p.over() {
						reconciler = healthy
					}
					within(func() { _, _ = reconciler.Once(t.Context()) })
					_, err := b.service(nil).Send(t.Context(), b.request())
					require.NoError(t, err)
					b.clock.Advance(interval + time.Second)
				}
				require.Len(t, b.sent(), 1)
				require.Equal(t, b.sent()[0].SID, b.stored().SID)
				require.Equal(t, sms.Delivered, b.stored().Status)
			})
		})
	}
}

func TestRowOfANewerRelease(t *testing.T) {
	t.Parallel()

	t.Run("R_14_IsPassedOverAndTheOthersAreLookedAt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(silent)
		newer, ours := b.send("newer"), b.send("ours")
		_, err := b.pool.Exec(t.Context(), `alter table sms_messages drop constraint outbound_has_a_sid_exactly_when_twilio_has_it`)
		require.NoError(t, err)
		_, err = b.pool.Exec(t.Context(), `update sms_messages set status = 'read' where id = $1`, newer.Message.ID)
		require.NoError(t, err)
		b.clock.Advance(time.Hour)
		b.reconcile()
		var status string
		require.NoError(t, b.pool.QueryRow(t.Context(), `select status from sms_messages where id = $1`, ours.Message.ID).Scan(&status))
		require.Equal(t, "delivered", status)
		require.Contains(t, b.logged.String(), "messaging.row_unread")
		require.Contains(t, b.logged.String(), newer.Message.ID.String(), "it is named")
	})
}
