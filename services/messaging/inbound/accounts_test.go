package inbound_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/inbound"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
)

// organisations are two on one database: the first has the environment's sender, the second a stored one.
type organisations struct {
	*bundle

	other  uuid.UUID
	stored senders.Sender
}

func two(t *testing.T) *organisations {
	t.Helper()
	o := &organisations{bundle: setup(t), other: uuid.Must(uuid.NewV7())}
	o.stored = o.AddSender(o.other, sendtest.Seconds, nil)
	return o
}

// sends asks for a message of an organisation.
func (o *organisations) sends(t *testing.T, org uuid.UUID, key string, change func(*send.Request)) (send.Result, error) {
	t.Helper()
	r := o.Request()
	r.OrgID, r.Key = org, key
	if change != nil {
		change(&r)
	}
	return o.Service(nil).Send(t.Context(), r)
}

// hears records what a person wrote to a number of an account.
func (o *organisations) hears(t *testing.T, account, to, sid, words string) (send.Message, error) {
	t.Helper()
	return o.Inbox(o.Service(nil), nil).RecordInbound(t.Context(), inbound.Inbound{
		SID: sid, From: sendtest.Phone(t, theirs), To: to, Body: words, Segments: 1, Account: account,
	})
}

// last returns the newest message that we sent.
func (o *organisations) last() emulator.Message {
	sent := o.Sent()
	return sent[len(sent)-1]
}

func TestEachOrganisationSendsAndHearsWithItsOwnAccount(t *testing.T) {
	t.Parallel()
	o := two(t)
	first := o.Senders.Environment.OrgID
	result, err := o.sends(t, first, "1", nil)
	require.NoError(t, err)
	require.Equal(t, send.Accepted, result.Outcome)
	require.Equal(t, ours, o.last().From)
	result, err = o.sends(t, o.other, "1", nil)
	require.NoError(t, err)
	require.Equal(t, send.Accepted, result.Outcome)
	require.Equal(t, []string{sendtest.Seconds, sendtest.SecondAccount}, []string{o.last().From, o.last().AccountSID})
	o.Pass(2 * time.Second)
	m, err := o.Store.Message(t.Context(), o.other, result.Message.ID)
	require.NoError(t, err)
	require.Equal(t, sms.Delivered, m.Status, "by receipts of its account")

	m, err = o.hears(t, sendtest.SecondAccount, sendtest.Seconds, "SM1", "STOP")
	require.NoError(t, err)
	require.Equal(t, []any{o.other, consent.OptOut}, []any{m.OrgID, m.ConsentEffect})
	result, err = o.sends(t, o.other, "2", nil)
	require.NoError(t, err)
	require.Equal(t, send.OptedOut, result.Outcome)
	result, err = o.sends(t, first, "2", nil)
	require.NoError(t, err)
	require.Equal(t, send.Accepted, result.Outcome, "a STOP to one organisation leaves the other untouched")
}

// TestNothingIsBookedAcrossAccounts: the token of one account says nothing about another one's numbers and messages.
func TestNothingIsBookedAcrossAccounts(t *testing.T) {
	t.Parallel()
	o := two(t)
	for name, of := range map[string][2]string{
		"number of the environment": {sendtest.SecondAccount, ours}, "number of nobody": {sendtest.SecondAccount, "+14155550111"},
		"number of the other account": {"", sendtest.Seconds}, "account of nobody": {"AC" + uuid.NewString(), sendtest.Seconds},
	} {
		_, err := o.hears(t, of[0], of[1], "SM-"+name, "STOP")
		require.ErrorIs(t, err, senders.ErrUnknownSender, name)
	}
	_, err := o.Inbox(o.Service(nil), nil).RecordInbound(t.Context(), inbound.Inbound{
		SID: "SM9", From: sendtest.Phone(t, theirs), To: ours, Body: "STOP", Segments: 1, Owner: o.other,
	})
	require.ErrorIs(t, err, senders.ErrUnknownSender, "the caller takes another one for the owner")

	o.Emulator.SetScript(sendtest.Silent)
	result, err := o.sends(t, o.Senders.Environment.OrgID, "1", nil)
	require.NoError(t, err)
	for _, forged := range []struct {
		account string
		signed  []uuid.UUID
		want    bool
	}{{account: sendtest.SecondAccount}, {signed: []uuid.UUID{o.other}}, {signed: []uuid.UUID{o.other, o.Senders.Environment.OrgID}, want: true}} {
		want := forged.want
		matched, err := o.Service(nil).RecordStatus(t.Context(), send.Receipt{
			MessageID: result.Message.ID, SID: result.Message.SID, Status: "undelivered", ErrorCode: 21610, At: o.Clock.Now(),
			Account: forged.account, SignedBy: forged.signed,
		})
		require.NoError(t, err)
		require.Equal(t, want, matched, "%v", forged)
		m, err := o.Store.Message(t.Context(), o.Senders.Environment.OrgID, result.Message.ID)
		require.NoError(t, err)
		require.Equal(t, want, m.Status == sms.Undelivered)
	}
}

// TestStopHoldsForAllSendersOfAnOrganisation, and a person stays with the sender that they know.
func TestStopHoldsForAllSendersOfAnOrganisation(t *testing.T) {
	t.Parallel()
	o := two(t)
	second := o.AddSender(o.other, "+14155550111", func(s *senders.Sender) { s.Countries = []string{"BR"} })
	_, err := o.hears(t, sendtest.SecondAccount, second.Number, "SM1", "hello")
	require.NoError(t, err)
	_, err = o.sends(t, o.other, "1", nil)
	require.NoError(t, err)
	require.Equal(t, second.Number, o.last().From, "they wrote to it first")
	_, err = o.sends(t, o.other, "2", func(r *send.Request) { r.To = sendtest.Phone(t, "+14155550124") })
	require.NoError(t, err)
	require.Equal(t, sendtest.Seconds, o.last().From, "the oldest, for a stranger")
	_, err = o.sends(t, o.other, "3", func(r *send.Request) { r.To = sendtest.Phone(t, "+5511961234567") })
	require.NoError(t, err)
	require.Equal(t, second.Number, o.last().From, "that of the country")

	_, err = o.hears(t, sendtest.SecondAccount, second.Number, "SM2", "STOP")
	require.NoError(t, err)
	disabled := senders.Disabled
	_, err = o.Senders.Update(t.Context(), o.other, second.ID, senders.Change{Status: &disabled})
	require.NoError(t, err)
	result, err := o.sends(t, o.other, "4", nil)
	require.NoError(t, err)
	require.Equal(t, send.OptedOut, result.Outcome, "also where another sender would send")

	_, err = o.Senders.Update(t.Context(), o.other, o.stored.ID, senders.Change{Status: &disabled})
	require.NoError(t, err)
	_, err = o.sends(t, o.other, "5", nil)
	require.ErrorIs(t, err, senders.ErrNoSender)
	m, err := o.hears(t, sendtest.SecondAccount, second.Number, "SM3", "START")
	require.NoError(t, err, "a disabled one still hears")
	require.Equal(t, o.other, m.OrgID)
}

// TestUnknownIsSettledInTheAccountOfItsSender: what another account was sent is neither found nor in the way.
func TestUnknownIsSettledInTheAccountOfItsSender(t *testing.T) {
	t.Parallel()
	o := two(t)
	o.Emulator.SetScript(emulator.Script{
		OnCreate: func(int, emulator.Message) emulator.CreateFault {
			return emulator.CreateFault{Answer: emulator.AnswerReset, Commit: true}
		},
		OnCallback: sendtest.Silent.OnCallback,
	})
	ids := map[uuid.UUID]uuid.UUID{}
	for _, org := range []uuid.UUID{o.Senders.Environment.OrgID, o.other} {
		result, err := o.sends(t, org, "1", nil)
		require.NoError(t, err)
		require.Equal(t, send.Unknown, result.Outcome)
		ids[org] = result.Message.ID
	}
	o.Reconcile()
	account := map[string]string{}
	for _, m := range o.Sent() {
		account[m.SID] = m.AccountSID
	}
	for org, id := range ids {
		m, err := o.Store.Message(t.Context(), org, id)
		require.NoError(t, err)
		require.NotEmpty(t, m.SID, "the same words to the same person in the other account are no candidate")
		require.Equal(t, org == o.other, account[m.SID] == sendtest.SecondAccount)
	}
	require.Len(t, o.Sent(), 2)
}

// TestOldReleaseCannotHaveItSentAgain: one that looks for a message in the environment's account, where it never was, does not conclude from that
// that Twilio does not have it.
func TestOldReleaseCannotHaveItSentAgain(t *testing.T) {
	t.Parallel()
	o := two(t)
	o.Emulator.SetScript(emulator.Script{OnCreate: func(int, emulator.Message) emulator.CreateFault {
		return emulator.CreateFault{Answer: emulator.AnswerReset, Commit: true}
	}, OnCallback: sendtest.Silent.OnCallback})
	_, err := o.sends(t, o.other, "1", nil)
	require.NoError(t, err)
	_, err = o.Pool.Exec(t.Context(), "update sms_messages set status = 'throttled' where sender_id is not null")
	require.ErrorContains(t, err, "sms_messages_asked_its_sender")
}

// TestMissedTextsAreListedInEveryAccount of an organisation, each with the account that owns it.
func TestMissedTextsAreListedInEveryAccount(t *testing.T) {
	t.Parallel()
	o := two(t)
	o.AddSender(o.Senders.Environment.OrgID, "+14155550111", nil)
	for _, to := range []string{ours, sendtest.Seconds, "+14155550111"} {
		_, err := o.Emulator.Receive(t.Context(), theirs, to, "hello "+to)
		require.NoError(t, err)
	}
	o.Clock.Advance(time.Minute)
	listed := func(org uuid.UUID) map[string]string {
		span := inbound.Span{OrgID: org, Since: o.Clock.Now().Add(-time.Hour), Until: o.Clock.Now()}
		got := map[string]string{}
		for {
			page, err := o.Inbox(o.Service(nil), nil).ListInbound(t.Context(), span)
			require.NoError(t, err)
			for _, m := range page.Messages {
				got[m.To] = m.Account
			}
			if span.Page = page.Next; span.Page == "" {
				return got
			}
		}
	}
	require.Equal(t, map[string]string{ours: "", "+14155550111": sendtest.SecondAccount}, listed(o.Senders.Environment.OrgID))
	require.Equal(t, map[string]string{sendtest.Seconds: sendtest.SecondAccount}, listed(o.other))
}

// TestRefusedAccountKeepsNoOtherFromBeingListed: a disabled sender is passed over, and one in use is an error once the others are listed.
func TestRefusedAccountKeepsNoOtherFromBeingListed(t *testing.T) {
	t.Parallel()
	for _, status := range []senders.Status{senders.Active, senders.Disabled} {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			o := two(t)
			o.AddSender(o.other, "+14155550111", nil)
			_, err := o.Pool.Exec(t.Context(), "update senders set status = $2, version = version + 1, api_key_sid = 'SK00000000000000000000000000000000' where id = $1", o.stored.ID, string(status))
			require.NoError(t, err)
			_, err = o.Emulator.Receive(t.Context(), theirs, "+14155550111", "STOP")
			require.NoError(t, err)
			o.Clock.Advance(time.Minute)
			span := inbound.Span{OrgID: o.other, Since: o.Clock.Now().Add(-time.Hour), Until: o.Clock.Now()}
			page, err := o.Inbox(o.Service(nil), nil).ListInbound(t.Context(), span)
			require.NoError(t, err)
			require.Len(t, page.Messages, 1)
			if status == senders.Disabled {
				require.Empty(t, page.Next)
				return
			}
			span.Page = page.Next
			_, err = o.Inbox(o.Service(nil), nil).ListInbound(t.Context(), span)
			require.ErrorIs(t, err, sms.ErrUnavailable)
			require.ErrorContains(t, err, o.stored.ID.String())
		})
	}
}

// TestReplyNamesItsOwnOrganisation: the brand of the environment is in the answers of the environment's organisation alone.
func TestReplyNamesItsOwnOrganisation(t *testing.T) {
	t.Parallel()
	o := two(t)
	o.Copy = inbound.ReplyCopy{Brand: "Paceline", Contact: "help@example.com"}
	for _, org := range []uuid.UUID{o.Senders.Environment.OrgID, o.other} {
		_, err := o.sends(t, org, "1", nil)
		require.NoError(t, err)
	}
	for account, to := range map[string]string{"": ours, sendtest.SecondAccount: sendtest.Seconds} {
		_, err := o.hears(t, account, to, "SM"+to, "ajuda")
		require.NoError(t, err)
	}
	_, err := o.Inbox(o.Service(nil), nil).Respond(t.Context())
	require.NoError(t, err)
	branded := map[string]bool{}
	for _, m := range o.Sent()[2:] {
		branded[m.From] = strings.Contains(m.Body, "Paceline") || strings.Contains(m.Body, "help@example.com")
	}
	require.Equal(t, map[string]bool{ours: true, sendtest.Seconds: false}, branded)
}

// TestUsedSenderIsNotDeleted: a person's STOP to it would be lost.
func TestUsedSenderIsNotDeleted(t *testing.T) {
	t.Parallel()
	o := two(t)
	unused := o.AddSender(o.other, "+14155550111", nil)
	_, err := o.sends(t, o.other, "1", nil)
	require.NoError(t, err)
	require.ErrorIs(t, o.Senders.Delete(t.Context(), o.other, o.stored.ID), senders.ErrInUse)
	require.NoError(t, o.Senders.Delete(t.Context(), o.other, unused.ID))
	m, err := o.hears(t, sendtest.SecondAccount, sendtest.Seconds, "SM1", "STOP")
	require.NoError(t, err)
	require.Equal(t, consent.OptOut, m.ConsentEffect)
}
