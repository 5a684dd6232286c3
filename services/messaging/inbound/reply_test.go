package inbound_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/consent"
	ledgers "paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/inbound"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

const confirmed = "You are unsubscribed and will get no more texts from this number. Reply START to get them again."

// enrolled is a bundle with a person who has had a text, and hears from now on.
func enrolled(t *testing.T) *bundle {
	t.Helper()
	b := setup(t)
	b.Send("")
	b.Pass(time.Second)
	return b
}

// says has the person's message recorded, as it would be after Twilio has obeyed it.
func (b *bundle) says(sid, words string) send.Message {
	b.T.Helper()
	b.Clock.Advance(time.Second)
	return b.Receive(sid, words)
}

// respond sends the replies that are due, and lets their receipts arrive.
func (b *bundle) respond() {
	b.T.Helper()
	_, err := b.inbox(nil).Respond(b.T.Context())
	require.NoError(b.T, err)
	b.Pass(time.Second)
}

// heard returns what reached the person from us since they were enrolled.
func (b *bundle) heard() []string {
	var bodies []string
	for _, m := range b.Sent()[1:] {
		bodies = append(bodies, m.Body)
	}
	return bodies
}

// outcome returns how the reply to a text ended.
func (b *bundle) outcome(id uuid.UUID) (outcome string, due bool) {
	b.T.Helper()
	require.NoError(b.T, b.Pool.QueryRow(b.T.Context(),
		"select outcome, due_at is not null from consent_replies where message_id = $1", id).Scan(&outcome, &due))
	return outcome, due
}

func TestConfirmationOfAnOptOut(t *testing.T) {
	t.Parallel()
	optOutIsConfirmedByUsOrTwilio(t)
	nothingElsePassesAfterAnOptOut(t)
	confirmationsThatAreNotSent(t)
	confirmationsThatAreLost(t)
	respondersShareTheWork(t)
}

func optOutIsConfirmedByUsOrTwilio(t *testing.T) {
	t.Helper()
	t.Run("S0_40_PARARIsConfirmedOnceInPortuguese", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		stop := b.says("SM1", "PARAR")
		b.says("SM1", "PARAR")
		b.says("SM2", "Pare!")
		for range 3 {
			b.respond()
			b.Pass(time.Minute)
		}
		want := "Você não receberá mais mensagens deste número. Responda START para voltar a receber."
		require.Equal(t, []string{want}, b.heard())

		ledger := b.Ledger()
		require.Nil(t, ledger.Broken)
		require.Equal(t, consent.OptedOut, ledger.State)
		require.False(t, ledger.CarrierBlocks, "Twilio does not know the word")
		require.Len(t, ledger.Events, 3)
		word, sent := ledger.Events[1], ledger.Events[2]
		require.Equal(t, stop.ID, word.MessageID)
		require.Equal(t, ledgers.ByUs, word.ConfirmedBy)
		require.Equal(t, want, word.Confirmation)
		require.Equal(t, "accepted", word.Confirmed)
		require.Equal(t, ledgers.FromReply, sent.Source)
		require.Equal(t, want, sent.Words)
		require.Equal(t, consent.OptedOut, sent.State)
		m, err := b.Store.Message(t.Context(), b.Config.Senders.Environment.OrgID, sent.MessageID)
		require.NoError(t, err)
		require.Equal(t, "consent:stop:SM1", m.Key)
		require.Equal(t, sms.Delivered, m.Status)
		require.Equal(t, b.Sent()[1].SID, m.SID)
	})

	t.Run("ClearRevocationInFreeWordsOptsOutAndIsConfirmed", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		require.Equal(t, consent.OptOut, b.says("SM1", "Hi, please stop texting me. Thanks").ConsentEffect)
		b.respond()
		require.Equal(t, []string{confirmed}, b.heard())
		word := b.Ledger().Events[1]
		require.Equal(t, consent.RulesVersion, word.Rules)
		require.Equal(t, consent.Version, word.KeywordPack)
		require.Equal(t, "Hi, please stop texting me. Thanks", word.Words)
	})

	for _, c := range []struct{ name, words, optOutType string }{
		{name: "S0_40_WordThatTwilioKnowsIsConfirmedByTwilio", words: " stop "},
		{name: "WordThatAdvancedOptOutKnowsIsConfirmedByTwilio", words: "arret", optOutType: "STOP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := enrolled(t)
			text := b.Inbound("SM1", c.words)
			text.OptOutType = c.optOutType
			_, err := b.inbox(nil).RecordInbound(t.Context(), text)
			require.NoError(t, err)
			b.respond()
			require.Empty(t, b.heard())
			ledger := b.Ledger()
			require.Equal(t, ledgers.ByCarrier, ledger.Events[1].ConfirmedBy)
			require.Empty(t, ledger.Events[1].Confirmation)
			require.True(t, ledger.CarrierBlocks)
		})
	}

	t.Run("WordThatCameByAnotherChannelIsNotTwilios", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		text := b.Inbound("wamid.HBgNMTQxNTU1NTAxMjM", "STOP")
		text.OrgID = b.Config.Senders.Environment.OrgID
		m, err := b.inbox(nil).RecordInbound(t.Context(), text)
		require.NoError(t, err)
		b.respond()
		require.Equal(t, []string{confirmed}, b.heard())
		require.False(t, b.Ledger().CarrierBlocks)
		sent, err := b.Store.Message(t.Context(), b.Config.Senders.Environment.OrgID, b.Ledger().Events[2].MessageID)
		require.NoError(t, err)
		require.Equal(t, "consent:stop:"+m.ID.String(), sent.Key, "the channel's id holds the number")
	})
}

func nothingElsePassesAfterAnOptOut(t *testing.T) {
	t.Helper()
	t.Run("S0_41_NothingElsePassesAfterTheSTOP", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		stop := b.says("SM1", "PARAR")
		other := b.says("SM2", "hello?")
		require.Equal(t, send.OptedOut, b.Send("another").Outcome)
		for _, change := range []func(*send.Request){
			func(r *send.Request) { r.Key = "consent:stop:SM1" },
			func(r *send.Request) { r.Confirms = stop.ID },
		} {
			r := b.Request()
			r.Key = "new"
			change(&r)
			_, err := b.Service(nil).Send(t.Context(), r)
			require.ErrorIs(t, err, sms.ErrInvalid)
		}
		text := b.Ledger().Events[1].Confirmation
		good := func() send.Attempt {
			r := b.Request()
			r.Key, r.Body, r.Confirms, r.UnknownPolicy = "consent:stop:SM1", sms.Body(text), stop.ID, send.NeverDuplicate
			return send.Attempt{
				Request: r, MessageID: uuid.Must(uuid.NewV7()), Sender: b.Senders.Environment, Segments: 1, Token: uuid.New(), At: b.Clock.Now(), LeaseUntil: b.Clock.Now().Add(lease),
			}
		}
		for name, spoil := range map[string]func(*send.Attempt){
			"another key": func(a *send.Attempt) { a.Key = "consent:stop:SM2" }, "other words": func(a *send.Attempt) { a.Body += "!" },
			"another phone": func(a *send.Attempt) { a.To = sendtest.Phone(t, "+14155550199") },
			"another text":  func(a *send.Attempt) { a.Confirms = other.ID }, "no text": func(a *send.Attempt) { a.Confirms = uuid.New() },
			"another organisation": func(a *send.Attempt) { a.OrgID = uuid.New() },
			"too late":             func(a *send.Attempt) { a.At = stop.CreatedAt.Add(5 * time.Minute) },
		} {
			a := good()
			spoil(&a)
			claim, err := b.Store.Claim(t.Context(), a)
			require.NoError(t, err)
			require.Equal(t, send.Claim{OptedOut: true}, claim, name)
		}
		claim, err := b.Store.Claim(t.Context(), good())
		require.NoError(t, err)
		require.True(t, claim.Won, "what is spoilt above is right as it was")
		require.Empty(t, b.heard())
	})

	t.Run("WhoGoesInAndOutIsConfirmedOnceInAWhile", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		n := 0
		out := func() {
			for _, words := range []string{"PARAR", "voltar"} {
				n++
				b.Clock.Advance(time.Minute)
				b.says(fmt.Sprint("SM", n), words)
				b.respond()
			}
		}
		out()
		require.Len(t, b.heard(), 1)
		out()
		out()
		require.Len(t, b.heard(), 1, "no more for now; the opt-outs themselves count")
		var said []ledgers.Confirmer
		for _, line := range b.Ledger().Events {
			if line.Source == ledgers.FromPerson && line.State == consent.OptedOut {
				said = append(said, line.ConfirmedBy)
				require.Equal(t, line.ConfirmedBy == ledgers.ByUs, line.Confirmation != "")
			}
		}
		require.Equal(t, []ledgers.Confirmer{ledgers.ByUs, ledgers.Unconfirmed, ledgers.Unconfirmed}, said, "and the ledger states no confirmation that was not given")
		b.Clock.Advance(inbound.StopPause)
		out()
		require.Len(t, b.heard(), 2)
	})

	for _, c := range []struct {
		name  string
		later []string
		want  []string
	}{
		{name: "STARTBeforeTheConfirmationTakesItBack", later: []string{"START"}},
		{name: "OnlyTheLastOfTwoOptOutsIsConfirmed", later: []string{"voltar", "sair"}, want: []string{"one"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := enrolled(t)
			first := b.says("SM1", "PARAR")
			for i, words := range c.later {
				b.says("SM1"+string(rune('a'+i)), words)
			}
			b.respond()
			require.Len(t, b.heard(), len(c.want))
			outcome, due := b.outcome(first.ID)
			require.Equal(t, "opted_out", outcome)
			require.False(t, due)
			require.Nil(t, b.Ledger().Broken)
		})
	}
}

func confirmationsThatAreNotSent(t *testing.T) {
	t.Helper()
	t.Run("OperatorsNoteAfterItTakesItBackAsWell", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		b.says("SM1", "PARAR")
		_, err := b.inbox(nil).SetConsent(t.Context(), ledgers.Note{
			OrgID: b.Config.Senders.Environment.OrgID, Phone: sendtest.Phone(t, theirs), State: consent.OptedOut, Reason: "called us", At: b.Clock.Now(),
		})
		require.NoError(t, err)
		b.respond()
		require.Empty(t, b.heard())
	})

	t.Run("NotAfterFiveMinutes", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		stop := b.says("SM1", "PARAR")
		b.Clock.Advance(5 * time.Minute)
		b.respond()
		require.Empty(t, b.heard())
		outcome, due := b.outcome(stop.ID)
		require.Equal(t, "opted_out", outcome)
		require.False(t, due)
	})

	t.Run("STOPThatIsFoundLaterThanThatIsNotConfirmed", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		text := b.Inbound("SM1", "PARAR")
		text.ReceivedAt = b.Clock.Now()
		b.Clock.Advance(5 * time.Minute)
		_, err := b.inbox(nil).RecordInbound(t.Context(), text)
		require.NoError(t, err)
		b.respond()
		require.Empty(t, b.heard())
		require.Equal(t, consent.OptedOut, b.Ledger().State)
		require.Equal(t, ledgers.Unconfirmed, b.Ledger().Events[1].ConfirmedBy)
	})

	t.Run("RefusalOfTwiliosIsRecordedAndNotRetried", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		stop := b.says("SM1", "PARAR")
		_, err := b.Emulator.Receive(t.Context(), theirs, ours, "STOP")
		require.NoError(t, err)
		for range 3 {
			b.respond()
			b.Pass(time.Minute)
		}
		require.Empty(t, b.heard())
		outcome, due := b.outcome(stop.ID)
		require.Equal(t, "opted_out", outcome)
		require.False(t, due)
		ledger := b.Ledger()
		require.True(t, ledger.CarrierBlocks)
		require.Len(t, ledger.Events, 2)
		require.Equal(t, "opted_out", ledger.Events[1].Confirmed)
	})

	t.Run("ThrottledOneIsTriedAgainInItsTimeOnly", func(t *testing.T) {
		t.Parallel()
		for _, wait := range []time.Duration{2 * time.Minute, 5 * time.Minute} {
			b := enrolled(t)
			b.Emulator.SetScript(loseNext(emulator.AnswerTooMany, false))
			stop := b.says("SM1", "PARAR")
			b.respond()
			require.Empty(t, b.heard())
			b.Clock.Advance(wait)
			b.respond()
			outcome, due := b.outcome(stop.ID)
			require.False(t, due)
			if wait < 5*time.Minute {
				require.Len(t, b.heard(), 1)
				require.Equal(t, "accepted", outcome)
			} else {
				require.Empty(t, b.heard())
				require.Equal(t, "expired", outcome)
			}
		}
	})
}

func confirmationsThatAreLost(t *testing.T) {
	t.Helper()
	t.Run("LostAnswerIsNeverFollowedByASecondOne", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		b.Emulator.SetScript(loseNext(emulator.AnswerReset, true))
		stop := b.says("SM1", "PARAR")
		_, err := b.inbox(nil).Respond(t.Context())
		require.NoError(t, err)
		outcome, due := b.outcome(stop.ID)
		require.Empty(t, outcome)
		require.True(t, due, "in doubt, and asked about until it is not")
		b.Pass(time.Minute) // its receipt comes
		b.respond()
		require.Len(t, b.heard(), 1)
		outcome, _ = b.outcome(stop.ID)
		require.Equal(t, "accepted", outcome)
		require.Equal(t, ledgers.FromReply, b.Ledger().Events[2].Source)
	})

	t.Run("LostTextIsNotSentAgain", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		b.Emulator.SetScript(loseNext(emulator.AnswerReset, false))
		stop := b.says("SM1", "PARAR")
		for range 12 {
			b.respond()
			b.Clock.Advance(20 * time.Second)
			b.Reconcile()
		}
		require.Empty(t, b.heard(), "one confirmation may be lost; two may not be sent")
		outcome, due := b.outcome(stop.ID)
		require.Equal(t, "parked", outcome)
		require.False(t, due)
	})
}

func respondersShareTheWork(t *testing.T) {
	t.Helper()
	t.Run("ManyRespondersSendOne", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		stop := b.says("SM1", "PARAR")
		var all sync.WaitGroup
		confirmation := b.Request()
		confirmation.Body, confirmation.Key = sms.Body(b.Ledger().Events[1].Confirmation), "consent:stop:SM1"
		confirmation.Confirms, confirmation.DespiteHold, confirmation.UnknownPolicy = stop.ID, true, send.NeverDuplicate
		for range 4 {
			all.Go(func() { _, _ = b.inbox(nil).Respond(t.Context()) })
			all.Go(func() { _, _ = b.Service(nil).Send(t.Context(), confirmation) })
		}
		all.Wait()
		b.Pass(time.Minute)
		b.respond()
		require.Len(t, b.heard(), 1)
		require.Len(t, b.Ledger().Events, 3)
	})

	t.Run("ResponderThatDiesAfterSendingIsRepeatedWithoutASecondText", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		b.says("SM1", "PARAR")
		dying := b.Inbox(b.Service(nil), func(c *inbound.Config) { c.Store = forgetful{b.Store} })
		_, err := dying.Respond(t.Context())
		require.ErrorIs(t, err, sendtest.ErrMishap)
		require.Len(t, b.heard(), 1)
		b.Pass(2 * time.Minute)
		b.respond()
		require.Len(t, b.heard(), 1)
		require.Equal(t, ledgers.FromReply, b.Ledger().Events[2].Source)
	})

	t.Run("S0_41_STOPDoesNotWaitForItsConfirmation", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		b.says("SM1", "PARAR")
		inside, release := make(chan struct{}), make(chan struct{})
		slow := b.Service(func(c *send.Config) {
			c.Carrier = sendtest.CarrierFunc(func(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
				close(inside)
				<-release
				return b.Carrier.Send(ctx, out)
			})
		})
		done := make(chan error, 1)
		go func() {
			_, err := b.Inbox(slow, nil).Respond(t.Context())
			done <- err
		}()
		<-inside
		_, err := b.inbox(nil).RecordInbound(t.Context(), b.Inbound("SM1", "PARAR"))
		require.NoError(t, err)
		close(release)
		require.NoError(t, <-done)
		require.Len(t, b.heard(), 1)
	})

	t.Run("RecordingItWakesTheResponder", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		service := b.inbox(nil)
		_, err := service.RecordInbound(t.Context(), b.Inbound("SM1", "PARAR"))
		require.NoError(t, err)
		rested := service.Loop(func(_ context.Context, _ time.Duration, wake <-chan struct{}) bool {
			select {
			case <-wake:
			default:
				require.Fail(t, "the responder was not woken")
			}
			return false
		})
		require.NoError(t, rested.Run(t.Context()))
	})
}

// loseNext returns what Twilio answers to the next text; commit says that it takes it all the same.
func loseNext(answer emulator.Answer, commit bool) emulator.Script {
	var asked atomic.Bool
	return emulator.Script{OnCreate: func(int, emulator.Message) emulator.CreateFault {
		if asked.Swap(true) {
			return emulator.CreateFault{}
		}
		return emulator.CreateFault{Answer: answer, Commit: commit}
	}}
}

// forgetful dies before it can write down what it has sent.
type forgetful struct{ sendtest.Store }

func (forgetful) SettleReply(context.Context, inbound.Reply) error { return sendtest.ErrMishap }

func TestHelp(t *testing.T) {
	t.Parallel()

	t.Run("S0_40_AJUDAIsAnsweredInPortuguese", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		b.Copy = inbound.ReplyCopy{Brand: "Paceline", Contact: "help@example.com"}
		require.Equal(t, consent.Help, b.says("SM1", "Ajuda!").ConsentEffect)
		b.says("SM1", "Ajuda!")
		b.respond()
		b.respond()
		require.Equal(t, []string{
			"Paceline: Você recebe estas mensagens porque se inscreveu. Ajuda: help@example.com. Responda PARAR para não receber mais. " +
				"A frequência varia. Tarifas da operadora podem ser cobradas.",
		}, b.heard())
		require.Len(t, b.Ledger().Events, 1)
	})

	t.Run("HelpIsAnsweredInNobodysNameWhileTheSettingsCannotBeRead", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		b.Copy = inbound.ReplyCopy{Brand: "Paceline", Contact: "help@example.com"}
		_, err := b.Pool.Exec(t.Context(), `insert into organisation_settings (org_id, sending, version, updated_at) values ($1, $2, 1, $3)`,
			b.Config.Senders.Environment.OrgID, `{"brand": "Acme", "recipients": {"numberTypes": ["of a later release"]}}`, b.Clock.Now())
		require.NoError(t, err)
		b.Pass(time.Minute)
		b.says("SM1", "ajuda")
		b.respond()
		require.Equal(t, []string{
			"Você recebe estas mensagens porque se inscreveu. Responda PARAR para não receber mais. " +
				"A frequência varia. Tarifas da operadora podem ser cobradas.",
		}, b.heard())
	})

	t.Run("HelpThatTwilioDoesNotKnowIsAnsweredInEnglish", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		b.says("SM1", "help, please")
		b.respond()
		require.Equal(t, []string{
			"You get these texts because you signed up for them. Reply STOP to get no more. Msg frequency varies. Msg & data rates may apply.",
		}, b.heard())
	})

	for _, c := range []struct {
		name       string
		words      []string
		optOutType string
		texts      int
	}{
		{name: "S0_40_HELPIsAnsweredByTwilio", words: []string{"HELP", " info "}},
		{name: "TwiliosReadingIsAnsweredByTwilio", words: []string{"aidez"}, optOutType: "HELP"},
		{name: "MachineThatAnswersUsGetsNoThirdText", words: []string{"ajuda", "ajuda.", "help!"}, texts: 1},
		{name: "S0_41_NobodyWhoIsOutIsHelped", words: []string{"sair", "ajuda"}, texts: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := enrolled(t)
			for i, words := range c.words {
				text := b.Inbound("SM"+strings.Repeat("1", i+1), words)
				text.OptOutType = c.optOutType
				_, err := b.inbox(nil).RecordInbound(t.Context(), text)
				require.NoError(t, err)
				b.respond()
			}
			require.Len(t, b.heard(), c.texts)
		})
	}

	t.Run("SecondCallIsAnsweredAfterAWhile", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		b.says("SM1", "ajuda")
		b.respond()
		b.Clock.Advance(inbound.HelpPause)
		b.says("SM2", "ajuda")
		b.respond()
		require.Len(t, b.heard(), 2)
	})

	t.Run("HelpThatComesTooLateIsNone", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		m := b.says("SM1", "ajuda")
		b.Clock.Advance(time.Hour)
		b.respond()
		require.Empty(t, b.heard())
		outcome, due := b.outcome(m.ID)
		require.Equal(t, "expired", outcome)
		require.False(t, due)
	})

	t.Run("ReplyOfAnOrganisationWithoutSenderIsGivenUp", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		m := b.says("SM1", "ajuda")
		b.Config.Senders.Environment.OrgID = uuid.New()
		b.respond()
		outcome, due := b.outcome(m.ID)
		require.Equal(t, "refused", outcome)
		require.False(t, due)
	})
}

// TestCarrierBlock keeps our ledger and Twilio's block in step.
func TestCarrierBlock(t *testing.T) {
	t.Parallel()
	optIn := func(b *bundle) ledgers.Ledger { // in a word that is none of Twilio's
		b.Clock.Advance(time.Second)
		b.says("SMvoltar", "voltar")
		return b.Ledger()
	}

	t.Run("OptInOfAPersonWhomTwilioBlocksIsReported", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		b.says("SM1", "STOP")
		_, err := b.Emulator.Receive(t.Context(), theirs, ours, "STOP")
		require.NoError(t, err)
		ledger := optIn(b)
		require.Equal(t, consent.OptedIn, ledger.State)
		require.True(t, ledger.CarrierBlocks)
		require.Contains(t, ledger.Warning(), "START")

		require.Equal(t, send.OptedOut, b.Send("refused by Twilio").Outcome)
		require.Equal(t, consent.OptedOut, b.Ledger().State)
		require.Equal(t, ledgers.FromTwilio, b.Ledger().Events[3].Source)

		b.says("SM2", "START")
		_, err = b.Emulator.Receive(t.Context(), theirs, ours, "START")
		require.NoError(t, err)
		require.Equal(t, consent.OptedIn, b.Ledger().State)
		require.False(t, b.Ledger().CarrierBlocks)
		require.Empty(t, b.Ledger().Warning())
		require.Equal(t, send.Accepted, b.Send("welcome back").Outcome)
	})

	t.Run("OptInOfAPersonWhoSaidPARARNeedsNoWarning", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		b.says("SM1", "PARAR")
		ledger := optIn(b)
		require.Empty(t, ledger.Warning())
		require.Equal(t, send.Accepted, b.Send("welcome back").Outcome)
	})

	t.Run("STOPAfterPARARIsTwiliosBlockToo", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		b.says("SM1", "PARAR")
		b.says("SM2", "STOP")
		require.True(t, b.Ledger().CarrierBlocks)
		b.says("SM3", "voltar")
		require.Equal(t, consent.OptedIn, b.Ledger().State)
		require.NotEmpty(t, b.Ledger().Warning())
	})

	t.Run("YESLiftsTwiliosBlockEvenWhereItIsAnAnswer", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		b.says("SM1", "STOP")
		optIn(b)
		require.Equal(t, consent.None, b.says("SM2", "yes").ConsentEffect)
		require.False(t, b.Ledger().CarrierBlocks)
	})

	t.Run("STARTAfter21610Lifts", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		_, err := b.Emulator.Receive(t.Context(), theirs, ours, "STOP") // its webhook is lost
		require.NoError(t, err)
		require.Equal(t, send.OptedOut, b.Send("refused by Twilio").Outcome)
		require.True(t, b.Ledger().CarrierBlocks)
		b.says("SM2", "unstop")
		require.Equal(t, consent.OptedIn, b.Ledger().State)
		require.False(t, b.Ledger().CarrierBlocks)
	})

	t.Run("RefusalThatIsOlderThanSTARTChangesNothing", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		b.Config.StopWait = time.Millisecond // the STOP would wait for the very text that it crosses
		crossing := b.Service(func(c *send.Config) {
			c.Carrier = sendtest.CarrierFunc(func(ctx context.Context, _ twilio.Outgoing) twilio.Outcome {
				for _, words := range []string{"STOP", "START"} {
					b.Clock.Advance(time.Second)
					_, _ = b.inbox(nil).RecordInbound(ctx, b.Inbound("SM"+words, words))
				}
				return twilio.Outcome{Status: sms.Rejected, Code: 21610}
			})
		})
		r := b.Request()
		r.Key = "crossing"
		_, err := crossing.Send(t.Context(), r)
		require.NoError(t, err)
		require.Len(t, b.Ledger().Events, 3)
		require.Equal(t, consent.OptedIn, b.Ledger().State)
		require.False(t, b.Ledger().CarrierBlocks)
	})
}
