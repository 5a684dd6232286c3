package send_test

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
	"paceline.internal/platform/postgres/pgtest"
	platform "paceline.internal/platform/process"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// directory is the list of what Twilio has, with something in the way.
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

func (b *bundle) evidence(id uuid.UUID) send.Evidence {
	b.T.Helper()
	evidence, err := b.Store.Evidence(b.T.Context(), b.Config.Senders.Environment.OrgID, id)
	require.NoError(b.T, err)
	return evidence
}

func findings(e send.Evidence) []send.EvidenceKind {
	found := []send.EvidenceKind{}
	for _, l := range e.Items {
		found = append(found, l.Kind)
	}
	return found
}

func TestReconcileUnknown(t *testing.T) {
	t.Parallel()
	listingSettlesWhatIsInDoubt(t)
	whatCannotBeToldIsParked(t)
	listingsThatFailOrAreLate(t)
	reconcilersShareTheWork(t)
	aLockedMessageHoldsUpNoOther(t)
}

func listingSettlesWhatIsInDoubt(t *testing.T) {
	t.Helper()
	t.Run("S0_65_TextThatTwilioHasIsAdoptedFromItsList", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Mute(emulator.AnswerReset, true))
		require.Equal(t, send.Unknown, b.Send("").Outcome)
		b.Reconcile()
		row := b.Stored()
		require.Equal(t, b.Sent()[0].SID, row.SID)
		require.Equal(t, sms.Queued, row.Status)
		require.Equal(t, send.AlreadyAccepted, b.Send("").Outcome)
		evidence := b.evidence(row.ID)
		require.Equal(t, []send.EvidenceKind{send.Found}, findings(evidence))
		require.Equal(t, []send.Candidate{{SID: row.SID, Status: "queued", CreatedAt: b.Clock.Now()}}, evidence.Items[0].Candidates)
		require.Contains(t, b.Logged.String(), `"as":"adopted"`)
		require.Len(t, b.Sent(), 1)
	})

	t.Run("S0_65_AbsentTwiceIsSentAgainExactlyOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerServerError, false))
		require.Equal(t, send.Unknown, b.Send("").Outcome)
		for _, wait := range []time.Duration{0, lease + time.Second, interval} {
			b.Clock.Advance(wait)
			require.Equal(t, send.Unknown, b.Send("").Outcome)
			b.Reconcile()
			b.Reconcile() // nothing is due any more
		}
		require.Equal(t, []send.EvidenceKind{send.Absent, send.Absent, send.Absent}, findings(b.evidence(b.Stored().ID)),
			"one that is too early to count, and two that do")
		require.Equal(t, sms.Throttled, b.Stored().Status)
		require.Empty(t, b.Sent(), "the reconciler never sends: only the caller knows of holds, resets and pauses")
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { _, _ = b.Service(nil).Send(t.Context(), b.Request()) })
		}
		all.Wait()
		require.Equal(t, send.AlreadyAccepted, b.Send("").Outcome)
		require.Equal(t, 2, b.Stored().Attempts)
		require.Len(t, b.Sent(), 1)
	})

	t.Run("S0_41_AbsentTextIsNotSentAgainAfterSTOP", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerServerError, false))
		b.Send("")
		b.Receive("SM1", "STOP")
		b.Clock.Advance(lease + time.Second)
		b.Reconcile()
		b.Clock.Advance(interval)
		b.Reconcile()
		require.Equal(t, sms.Throttled, b.Stored().Status)
		require.Equal(t, send.OptedOut, b.Send("").Outcome)
		require.Empty(t, b.Sent())
	})

	t.Run("S1_36_AbandonedAttemptIsNoticedWithoutAnybodyAsking", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Mute(emulator.AnswerNormal, true))
		sendtest.Within(func() {
			_, _ = b.On(&sendtest.Process{At: 2, Mishap: sendtest.DieAfter}).Send(t.Context(), b.Request())
		})
		b.Clock.Advance(lease + b.Config.Timeout - time.Nanosecond)
		b.Reconcile()
		require.Equal(t, sms.Sending, b.Stored().Status)
		b.Clock.Advance(time.Nanosecond)
		b.Reconcile()
		require.Equal(t, b.Sent()[0].SID, b.Stored().SID)
	})

	t.Run("ReceiptOfTheFirstAttemptWinsOverTheSecond", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerReset, true)) // Twilio has it, and its list does not say so in time
		b.Send("")
		blind := b.Reconciler(func(c *send.ReconcilerConfig) {
			c.Carrier = directory{list: func(context.Context, string, time.Time) ([]twilio.Stored, error) { return []twilio.Stored{}, nil }}
		})
		for _, at := range []time.Duration{lease + time.Second, interval} {
			step := b.Clock.Now().Add(at)
			b.Emulator.SetScript(emulator.Script{OnCallback: func(emulator.Message) emulator.CallbackFault {
				return emulator.CallbackFault{Delay: time.Hour}
			}})
			b.Clock.Advance(step.Sub(b.Clock.Now()))
			_, err := blind.Once(t.Context())
			require.NoError(t, err)
		}
		first := b.Sent()[0].SID
		second := b.Service(func(c *send.Config) {
			c.Carrier = sendtest.CarrierFunc(func(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
				b.Report(send.Receipt{MessageID: b.Stored().ID, SID: first, Status: "sent"})
				return twilio.Outcome{Status: sms.Accepted, SID: "SM2", Reported: "queued"}
			})
		})
		result, err := second.Send(t.Context(), b.Request())
		require.NoError(t, err)
		require.Equal(t, send.AlreadyAccepted, result.Outcome)
		require.Equal(t, first, b.Stored().SID)
		require.Contains(t, b.Logged.String(), "messaging.sms_answer_not_adopted")
	})
}

func whatCannotBeToldIsParked(t *testing.T) {
	t.Helper()
	t.Run("LateReceiptWinsOverParked", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.parked()
		matched := b.Report(send.Receipt{MessageID: m.ID, SID: "SM9", Status: "delivered"})
		require.True(t, matched)
		require.Equal(t, sms.Delivered, b.Stored().Status)
		require.Equal(t, send.AlreadyAccepted, b.Send("").Outcome)
	})

	t.Run("S0_65_NeverDuplicateIsParkedAndSendSaysWhatToDo", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.parked()
		result := b.Send("")
		require.Equal(t, send.Parked, result.Outcome)
		require.Zero(t, result.RetryAfter)
		require.Contains(t, result.Explanation, "not at Twilio in two looks")
		require.Contains(t, result.Explanation, "POST /v1/messages/"+m.ID.String()+":resolve")
		b.Clock.Advance(24 * time.Hour)
		b.Reconcile()
		require.Equal(t, sms.Parked, b.Stored().Status)
		require.Empty(t, b.Sent())
	})

	t.Run("S0_65_SeveralCandidatesAreParkedWithTheEvidence", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Mute(emulator.AnswerReset, true))
		b.Send("")
		b.Carrier.Send(t.Context(), twilio.Outgoing{To: theirs, Body: body}) // another program with the same account and words
		b.Clock.Advance(lease + time.Second)
		b.Reconcile()
		require.Equal(t, sms.Parked, b.Stored().Status)
		look := b.evidence(b.Stored().ID).Items[0]
		require.Equal(t, send.Ambiguous, look.Kind)
		require.Len(t, look.Candidates, 2)
		require.Contains(t, b.Send("").Explanation, "Twilio has 2 messages")
	})

	t.Run("TwoInDoubtWithTheSameWordsAreParked", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Mute(emulator.AnswerReset, true))
		b.Send("")
		b.Emulator.SetScript(emulator.Script{
			OnCreate: func(int, emulator.Message) emulator.CreateFault {
				return emulator.CreateFault{Answer: emulator.AnswerServerError}
			},
			OnCallback: func(emulator.Message) emulator.CallbackFault { return emulator.CallbackFault{Drop: true} },
		})
		require.Equal(t, send.Unknown, b.Send("another").Outcome)
		b.Clock.Advance(lease + time.Second)
		b.Reconcile()
		require.Equal(t, sms.Parked, b.Stored().Status)
		require.Equal(t, send.Parked, b.Send("another").Outcome)
	})

	t.Run("WhatWasParkedLongBeforeIsNoRival", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.parked()
		b.Clock.Advance(time.Hour)
		b.Emulator.SetScript(emulator.Script{
			OnCreate: func(int, emulator.Message) emulator.CreateFault {
				return emulator.CreateFault{Answer: emulator.AnswerReset, Commit: true}
			},
			OnCallback: func(emulator.Message) emulator.CallbackFault { return emulator.CallbackFault{Drop: true} },
		})
		doubt := b.Send("another")
		require.Equal(t, send.Unknown, doubt.Outcome)
		b.Clock.Advance(lease + time.Second)
		b.Reconcile()
		require.Equal(t, send.AlreadyAccepted, b.Send("another").Outcome)
		require.Equal(t, sms.Parked, b.Stored().Status)
	})

	t.Run("S0_65_TextThatTwilioRewroteIsParkedAndNotSentAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerServerError, false))
		b.Send("")
		b.Carrier.Send(t.Context(), twilio.Outgoing{To: theirs, Body: "Hi Ana, see twil.io/x"})
		b.Clock.Advance(lease + time.Second)
		b.Reconcile()
		require.Equal(t, sms.Parked, b.Stored().Status)
		require.Contains(t, b.Send("").Explanation, "Twilio has a message to this person with other words")
		require.Len(t, b.evidence(b.Stored().ID).Items[0].Candidates, 1)
	})
}

func listingsThatFailOrAreLate(t *testing.T) {
	t.Helper()
	t.Run("AcceptedIsWhenTwilioTookItAndNotWhenItWasFound", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Mute(emulator.AnswerReset, true))
		b.Send("")
		began := b.Clock.Now()
		b.Clock.Advance(time.Hour)
		b.Reconcile()
		row := b.Stored()
		require.Equal(t, began.Add(time.Second), row.AcceptedAt, "Twilio's time is cut to the second, and a gap is never too short")
		require.Equal(t, b.Clock.Now(), row.UpdatedAt)
	})

	t.Run("SIDOfAnotherMessageIsNotTaken", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.Equal(t, send.Accepted, b.Send("another").Outcome)
		b.Emulator.SetScript(emulator.Script{OnCreate: func(int, emulator.Message) emulator.CreateFault {
			return emulator.CreateFault{Answer: emulator.AnswerServerError}
		}})
		b.Send("")
		b.Clock.Advance(lease + time.Second)
		b.Reconcile()
		require.Equal(t, sms.Unknown, b.Stored().Status)
		require.Equal(t, []send.EvidenceKind{send.Absent}, findings(b.evidence(b.Stored().ID)))
	})

	t.Run("S0_63_FailedListingIsRecordedOnceAndLookedAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Mute(emulator.AnswerReset, true))
		b.Send("")
		down := b.Reconciler(func(c *send.ReconcilerConfig) {
			c.Carrier = directory{list: func(context.Context, string, time.Time) ([]twilio.Stored, error) {
				return nil, errors.New("twilio: list messages: HTTP status 500 without a usable answer")
			}}
		})
		for range 5 {
			_, err := down.Once(t.Context())
			require.NoError(t, err)
			b.Clock.Advance(interval)
		}
		evidence := b.evidence(b.Stored().ID)
		require.Equal(t, []send.EvidenceKind{send.Failed}, findings(evidence), "their number is no evidence")
		require.Equal(t, 5, evidence.Message.Checks)
		b.Reconcile()
		require.True(t, b.Stored().Accepted())
	})

	t.Run("LookThatIsBrokenOffIsNoEvidence", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Mute(emulator.AnswerReset, true))
		b.Send("")
		ctx, stop := context.WithCancel(t.Context())
		_, err := b.Reconciler(func(c *send.ReconcilerConfig) {
			c.Carrier = directory{list: func(ctx context.Context, _ string, _ time.Time) ([]twilio.Stored, error) {
				stop()
				return nil, ctx.Err()
			}}
		}).Once(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, b.evidence(b.Stored().ID).Items)
		b.Clock.Advance(interval)
		b.Reconcile()
		require.True(t, b.Stored().Accepted())
	})
}

func reconcilersShareTheWork(t *testing.T) {
	t.Helper()
	t.Run("S1_36_TwoReconcilersShareTheWork", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(emulator.Script{OnCreate: func(int, emulator.Message) emulator.CreateFault {
			return emulator.CreateFault{Answer: emulator.AnswerServerError}
		}})
		const rows = 12
		for i := range rows {
			b.Send(string(rune('a' + i)))
		}
		var mu sync.Mutex
		looks := 0
		counting := directory{Client: b.Carrier, list: func(ctx context.Context, to string, since time.Time) ([]twilio.Stored, error) {
			mu.Lock()
			looks++
			mu.Unlock()
			return b.Carrier.List(ctx, to, since)
		}}
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				_, err := b.Reconciler(func(c *send.ReconcilerConfig) { c.Carrier = counting }).Once(t.Context())
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.Equal(t, rows, looks)
	})
}

func aLockedMessageHoldsUpNoOther(t *testing.T) {
	t.Helper()
	t.Run("AskingAgainForALockedMessageWaitsForNoLock", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		inDoubt := b.Request()
		inDoubt.Key = "in doubt"
		for _, of := range []struct {
			request       send.Request
			script        emulator.Script
			before, again send.Outcome
		}{
			{b.Request(), emulator.Script{}, send.Accepted, send.AlreadyAccepted},
			{inDoubt, emulator.Script{OnCreate: func(int, emulator.Message) emulator.CreateFault {
				return emulator.CreateFault{Answer: emulator.AnswerServerError}
			}}, send.Unknown, send.Unknown},
		} {
			b.Emulator.SetScript(of.script)
			first, err := b.Service(nil).Send(t.Context(), of.request)
			require.NoError(t, err)
			require.Equal(t, of.before, first.Outcome)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			holder, err := b.Pool.Begin(ctx)
			require.NoError(t, err)
			defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
			_, err = holder.Exec(ctx, `select from sms_messages where id = $1 for update`, first.Message.ID)
			require.NoError(t, err)
			again, err := b.Service(nil).Send(ctx, of.request) // with the row's lock in the way it would end with the claim's time
			require.NoError(t, err)
			require.Equal(t, of.again, again.Outcome)
		}
	})

	t.Run("R_02_ALockedMessageHoldsUpNoOther", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		script := sendtest.Silent // a receipt would settle the doubt, too
		script.OnCreate = func(int, emulator.Message) emulator.CreateFault {
			return emulator.CreateFault{Answer: emulator.AnswerReset, Commit: true}
		}
		b.Emulator.SetScript(script)
		var inDoubt []uuid.UUID
		for _, words := range []string{"The first.", "The second.", "The third."} {
			r := b.Request()
			r.Key, r.Body = words, sms.Body(words)
			result, err := b.Service(nil).Send(t.Context(), r)
			require.NoError(t, err)
			require.Equal(t, send.Unknown, result.Outcome)
			inDoubt = append(inDoubt, result.Message.ID)
		}
		unknown := func() []uuid.UUID {
			return slices.DeleteFunc(slices.Clone(inDoubt), func(id uuid.UUID) bool { return b.evidence(id).Message.Accepted() })
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		holder, err := b.Pool.Begin(ctx) // a process that freezes between its claim of the row and its end
		require.NoError(t, err)
		defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
		lock := sync.OnceValue(func() error {
			_, err := holder.Exec(ctx, `select from sms_messages where id = $1 for update`, inDoubt[0])
			return err
		})
		reconciler := b.Reconciler(func(c *send.ReconcilerConfig) {
			c.Carrier = directory{Client: b.Carrier, list: func(ctx context.Context, to string, since time.Time) ([]twilio.Stored, error) {
				if err := lock(); err != nil {
					return nil, err
				}
				return b.Carrier.List(ctx, to, since)
			}}
		})
		reader := sdkmetric.NewManualReader()
		loops, err := platform.NewLoops(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"), b.Config.Log, platform.PassBound)
		require.NoError(t, err)

		require.NoError(t, loops.Loop("reconciler", func(ctx context.Context) error {
			_, err := reconciler.Once(ctx)
			return err
		}).Run(ctx))
		require.Equal(t, inDoubt[:1], unknown())
		require.Contains(t, b.Logged.String(), `"msg":"messaging.message_locked","message_id":"`+inDoubt[0].String())
		var measured metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(ctx, &measured))
		passedOver := slices.IndexFunc(measured.ScopeMetrics[0].Metrics, func(m metricdata.Metrics) bool { return m.Name == "paceline_loop_rows_lock_skipped_total" })
		require.EqualValues(t, 1, measured.ScopeMetrics[0].Metrics[passedOver].Data.(metricdata.Sum[int64]).DataPoints[0].Value)

		require.NoError(t, holder.Rollback(ctx))
		b.Clock.Advance(interval)
		b.Reconcile()
		require.Empty(t, unknown())
	})

	t.Run("S1_35_LookAtAnAttemptThatIsOverChangesNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerServerError, false))
		b.Send("")
		late := send.Listing{
			MessageID: b.Stored().ID, Token: b.Stored().AttemptToken, Began: b.Clock.Now().Add(time.Hour), At: b.Clock.Now().Add(time.Hour),
			Interval: interval, Timeout: time.Second,
		}
		b.Clock.Advance(lease + time.Second)
		b.Reconcile()
		b.Clock.Advance(interval)
		b.Reconcile()
		require.Equal(t, send.Accepted, b.Send("").Outcome)
		before := b.Stored()
		looked, err := b.Store.RecordListing(t.Context(), late)
		require.NoError(t, err)
		require.Empty(t, looked.Settled)
		require.Equal(t, before, b.Stored())
	})
}

// parked leaves the one row parked: never_duplicate, and absent twice.
func (b *bundle) parked() send.Message {
	b.T.Helper()
	b.Emulator.SetScript(sendtest.Lose(emulator.AnswerServerError, false))
	r := b.Request()
	r.UnknownPolicy = send.NeverDuplicate
	_, err := b.Service(nil).Send(b.T.Context(), r)
	require.NoError(b.T, err)
	b.Clock.Advance(lease + time.Second)
	b.Reconcile()
	b.Clock.Advance(interval)
	b.Reconcile()
	m := b.Stored()
	require.Equal(b.T, sms.Parked, m.Status)
	return m
}

func TestReconcilePolls(t *testing.T) {
	t.Parallel()
	statusesAreFetched(t)
	pollsEnd(t)
}

func statusesAreFetched(t *testing.T) {
	t.Helper()
	t.Run("StatusWhoseReceiptsWereLostIsFetched", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Silent)
		b.Send("")
		b.Pass(time.Second)
		b.Clock.Advance(58 * time.Second)
		b.Reconcile()
		require.Equal(t, sms.Queued, b.Stored().Status, "a receipt is given a minute")
		b.Clock.Advance(time.Second)
		b.Reconcile()
		row := b.Stored()
		require.Equal(t, sms.Delivered, row.Status)
		require.Zero(t, row.NextCheckAt)
		require.Len(t, b.evidence(row.ID).Receipts, 1)
		require.Contains(t, b.Logged.String(), "messaging.sms_status_fetched")
	})

	t.Run("DeliveredIsNeverAskedAbout", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Send("")
		b.Pass(time.Second)
		require.Equal(t, sms.Delivered, b.Stored().Status)
		require.Zero(t, b.Stored().NextCheckAt)
	})

	t.Run("PollsComeHalfAsOftenEachTimeAndEndAfterADay", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(emulator.Script{OnFate: func(emulator.Message) emulator.Fate { // a carrier without receipts
			return emulator.Fate{Final: emulator.StatusSent}
		}})
		b.Send("")
		b.Pass(time.Second)
		accepted := b.Stored().AcceptedAt
		var polls []time.Duration
		for b.Stored().NextCheckAt != (time.Time{}) {
			b.Clock.Advance(b.Stored().NextCheckAt.Sub(b.Clock.Now()))
			polls = append(polls, b.Clock.Now().Sub(accepted)/time.Minute)
			b.Reconcile()
		}
		require.Equal(t, []time.Duration{1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 1440}, polls)
		require.Equal(t, sms.Sent, b.Stored().Status)
	})

	t.Run("S0_63_FailedPollIsRepeated", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Silent)
		b.Send("")
		b.Pass(time.Second)
		b.Clock.Advance(time.Minute)
		_, err := b.Reconciler(func(c *send.ReconcilerConfig) {
			c.Carrier = directory{fetch: func(context.Context, string) (twilio.Stored, error) { return twilio.Stored{}, errors.New("down") }}
		}).Once(t.Context())
		require.NoError(t, err)
		require.Equal(t, sms.Queued, b.Stored().Status)
		b.Clock.Advance(2 * time.Minute)
		b.Reconcile()
		require.Equal(t, sms.Delivered, b.Stored().Status)
	})
}

func pollsEnd(t *testing.T) {
	t.Helper()
	t.Run("MessageThatTwilioNoLongerHasIsNotAskedAboutAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Silent)
		b.Send("")
		b.Clock.Advance(time.Minute)
		_, err := b.Reconciler(func(c *send.ReconcilerConfig) {
			c.Carrier = directory{fetch: func(context.Context, string) (twilio.Stored, error) { return twilio.Stored{}, twilio.ErrNotFound }}
		}).Once(t.Context())
		require.NoError(t, err)
		row := b.Stored()
		require.Zero(t, row.NextCheckAt)
		require.Equal(t, sms.Queued, row.Status)
		require.Equal(t, []send.EvidenceKind{send.Absent}, findings(b.evidence(row.ID)))
	})

	t.Run("FetchedOptOutIsRecorded", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		script := sendtest.Silent
		script.OnFate = func(emulator.Message) emulator.Fate { return emulator.Fate{Final: emulator.StatusFailed, Code: 21610} }
		b.Emulator.SetScript(script)
		b.Send("")
		b.Clock.Advance(time.Minute)
		b.Reconcile()
		require.Equal(t, sms.Failed, b.Stored().Status)
		require.Equal(t, consent.OptedOut, b.Ledger().State)
	})

	t.Run("LookThatAnOlderReleaseLeftBehindIsDropped", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerTooMany, false))
		b.Send("")
		_, err := b.Pool.Exec(t.Context(), "update sms_messages set next_look_at = lease_until")
		require.NoError(t, err)
		b.Clock.Advance(time.Minute)
		b.Reconcile()
		require.Zero(t, b.Stored().NextCheckAt)
		require.Equal(t, sms.Throttled, b.Stored().Status)
	})

	t.Run("DoubtThatAnOlderReleaseLeftWithoutALookIsLookedAt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Mute(emulator.AnswerReset, true))
		b.Send("")
		_, err := b.Pool.Exec(t.Context(), "update sms_messages set next_look_at = null, attempted_at = null")
		require.NoError(t, err)
		b.Clock.Advance(lease + b.Config.Timeout)
		b.Reconcile()
		require.True(t, b.Stored().Accepted())
	})

	t.Run("LookOfAFinalStatusIsDroppedWhateverTwilioSays", func(t *testing.T) {
		t.Parallel()
		for _, failure := range []error{twilio.ErrNotFound, errors.New("down")} {
			b := setup(t)
			b.Send("")
			b.Pass(time.Second)
			require.Equal(t, sms.Delivered, b.Stored().Status)
			_, err := b.Pool.Exec(t.Context(), "update sms_messages set next_look_at = updated_at")
			require.NoError(t, err)
			_, err = b.Reconciler(func(c *send.ReconcilerConfig) {
				c.Carrier = directory{fetch: func(context.Context, string) (twilio.Stored, error) { return twilio.Stored{}, failure }}
			}).Once(t.Context())
			require.NoError(t, err)
			require.Zero(t, b.Stored().NextCheckAt)
			require.Equal(t, sms.Delivered, b.Stored().Status)
		}
	})
}

// TestCrashMatrixOfReconcile asks again and again while a reconciler looks, and lets no receipt arrive. Whatever happened at
// whichever call, Twilio takes exactly one text in the end, and the row says so.
func TestCrashMatrixOfReconcile(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	for _, scenario := range []struct {
		name   string
		script emulator.Script
		first  sendtest.Mishap // of a process that claimed the send before, and left the row behind
	}{
		{name: "S0_65_AnswerLost", script: sendtest.Mute(emulator.AnswerReset, true)},
		{name: "S0_65_ProcessDiedBeforeTheCall", script: sendtest.Mute(emulator.AnswerNormal, true), first: sendtest.DieBefore},
		{name: "ReceiptsLost", script: sendtest.Mute(emulator.AnswerNormal, true)},
	} {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			sendtest.Matrix(t, func(t *testing.T, p *sendtest.Process) {
				b := setup(t)
				b.Emulator.SetScript(scenario.script)
				first := &sendtest.Process{}
				if scenario.first != "" {
					first = &sendtest.Process{At: 2, Mishap: scenario.first}
				}
				sendtest.Within(func() { _, _ = b.On(first).Send(t.Context(), b.Request()) })
				b.Clock.Advance(lease + time.Second)
				b.On(p)
				sick := b.Reconciler(func(c *send.ReconcilerConfig) { c.Store, c.Carrier = p, p })
				healthy := b.Reconciler(nil)
				for round := 0; round < 10 && b.Stored().Status != sms.Delivered; round++ {
					reconciler := sick
					if p.Over() {
						reconciler = healthy
					}
					sendtest.Within(func() { _, _ = reconciler.Once(t.Context()) })
					b.Send("")
					b.Clock.Advance(interval + time.Second)
				}
				require.Len(t, b.Sent(), 1)
				require.Equal(t, b.Sent()[0].SID, b.Stored().SID)
				require.Equal(t, sms.Delivered, b.Stored().Status)
			})
		})
	}
}

func TestRowOfANewerRelease(t *testing.T) {
	t.Parallel()

	t.Run("R_14_IsPassedOverAndTheOthersAreLookedAt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Silent)
		newer, ours := b.Send("newer"), b.Send("ours")
		_, err := pgtest.Owner(t, b.Pool).Exec(t.Context(), `alter table sms_messages drop constraint outbound_has_a_sid_exactly_when_twilio_has_it`)
		require.NoError(t, err)
		_, err = b.Pool.Exec(t.Context(), `update sms_messages set status = 'read' where id = $1`, newer.Message.ID)
		require.NoError(t, err)
		b.Clock.Advance(time.Hour)
		b.Reconcile()
		var status string
		require.NoError(t, b.Pool.QueryRow(t.Context(), `select status from sms_messages where id = $1`, ours.Message.ID).Scan(&status))
		require.Equal(t, "delivered", status)
		require.Contains(t, b.Logged.String(), "messaging.row_unread")
		require.Contains(t, b.Logged.String(), newer.Message.ID.String(), "it is named")
	})
}
