package send_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/phone"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
)

// decide has messaging know a version of what the organisation has decided.
func (b *bundle) decide(rooms *send.RPC, org uuid.UUID, version int64, decided *messagingv1.Sending) error {
	_, err := rooms.SetOrganisationSettings(b.T.Context(), &messagingv1.SetOrganisationSettingsRequest{
		OrgId: org.String(), Version: version, Sending: decided,
	})
	return err
}

func TestSettingsOfAnOrganisation(t *testing.T) {
	t.Parallel()
	b := capped(t, send.Caps{PhoneHour: send.Cap{Messages: 1, Segments: 9}, OrgHour: send.Cap{Messages: 9, Segments: 9}})
	b.Config.Numbers = phone.Policy{Countries: phone.Countries{"US"}, Kinds: phone.Kinds{phone.Personal}}
	service := b.Service(nil)
	rooms := &send.RPC{Service: service, Store: b.Store.Store}
	org := b.Senders.Environment.OrgID
	settings := func(of uuid.UUID) send.Settings {
		found, err := service.Settings(t.Context(), of)
		require.NoError(t, err)
		return found
	}
	require.Equal(t, send.Settings{Caps: b.Config.Caps, Numbers: b.Config.Numbers}, settings(org), "the environment's, while nothing is decided")

	decided := &messagingv1.Sending{
		Brand: "Acme", HelpContact: "help@acme.example", Caps: &messagingv1.Caps{
			PhoneHour: &messagingv1.Cap{Messages: 2, Segments: 9}, OrgHour: &messagingv1.Cap{},
		}, Recipients: &messagingv1.Recipients{Countries: []string{"br"}},
	}
	require.NoError(t, b.decide(rooms, org, 2, decided))
	want := send.Settings{
		Brand: "Acme", HelpContact: "help@acme.example", Numbers: phone.Policy{Countries: phone.Countries{"BR"}},
		Caps: send.Caps{PhoneHour: send.Cap{Messages: 2, Segments: 9}},
	}
	require.Equal(t, want, settings(org), "at once in the process that was told")
	require.Equal(t, b.Config.Numbers, settings(uuid.Must(uuid.NewV7())).Numbers, "another organisation has decided nothing")

	require.NoError(t, b.decide(rooms, org, 1, &messagingv1.Sending{Brand: "Old"}), "told late, which changes nothing")
	require.Equal(t, want, settings(org))
	kept, err := rooms.SetOrganisationSettings(t.Context(), &messagingv1.SetOrganisationSettingsRequest{OrgId: org.String(), Version: 1})
	require.NoError(t, err)
	require.EqualValues(t, 2, kept.GetVersion(), "the caller learns that its database went back")

	send1 := func(key, to string) send.Result {
		r := b.Request()
		r.To, r.Key = sendtest.Phone(t, to), key
		result, err := service.Send(t.Context(), r)
		require.NoError(t, err)
		return result
	}
	require.Equal(t, send.Rejected, send1("1", theirs).Outcome, "not a number of Brazil")
	for i, key := range []string{"2", "3", "4"} {
		require.Equal(t, []send.Outcome{send.Accepted, send.Accepted, send.Capped}[i], send1(key, "+5511987654321").Outcome)
	}

	other := b.Service(nil)
	_, err = other.Settings(t.Context(), org)
	require.NoError(t, err)
	require.NoError(t, b.decide(rooms, org, 3, &messagingv1.Sending{}))
	b.Clock.Advance(4 * time.Second)
	again, err := other.Settings(t.Context(), org)
	require.NoError(t, err)
	require.Equal(t, send.Settings{Caps: b.Config.Caps, Numbers: b.Config.Numbers}, again, "another process knows within seconds")

	keeps := func(version int64, days *messagingv1.Retention) string {
		_, err := rooms.SetOrganisationSettings(t.Context(), &messagingv1.SetOrganisationSettingsRequest{OrgId: org.String(), Version: version, Retention: days})
		require.NoError(t, err)
		var stored string
		require.NoError(t, b.Pool.QueryRow(t.Context(), `select retention::text from organisation_settings where org_id = $1`, org).Scan(&stored))
		return stored
	}
	all := &messagingv1.Retention{MessagesDays: 30, ConsentDays: 365, ReceiptsDays: 31, OutboundDays: 1, AuditDays: 32}
	require.JSONEq(t, `{"messages": 30, "consent": 365, "receipts": 31, "outbound": 1, "audit": 32}`, keeps(4, all))
	require.JSONEq(t, keeps(4, all), keeps(5, nil), "an onboarding of the release before knows nothing of it")
	require.JSONEq(t, keeps(5, all), keeps(4, &messagingv1.Retention{}), "told late")
	require.JSONEq(t, `{}`, keeps(6, &messagingv1.Retention{}), "as the environment says, again")
	_, err = rooms.SetOrganisationSettings(t.Context(), &messagingv1.SetOrganisationSettingsRequest{
		OrgId: org.String(), Version: 7, Retention: &messagingv1.Retention{ConsentDays: 364},
	})
	require.ErrorIs(t, err, sms.ErrInvalid)

	require.NoError(t, b.Store.SetOrganisation(t.Context(), org, "ended", 1, b.Clock.Now()))
	require.NoError(t, b.decide(rooms, org, 8, decided))
	require.Equal(t, again, settings(org), "nothing more is kept of an organisation that has ended")

	for _, bad := range []*messagingv1.Sending{
		{Caps: &messagingv1.Caps{PhoneDay: &messagingv1.Cap{Messages: 1}}},
		{Caps: &messagingv1.Caps{OrgHour: &messagingv1.Cap{Messages: -1, Segments: 1}}},
		{Recipients: &messagingv1.Recipients{Countries: []string{"Brazil"}}},
		{Recipients: &messagingv1.Recipients{NumberTypes: []string{"fax"}}},
		{Recipients: &messagingv1.Recipients{Countries: []string{","}}},
	} {
		require.ErrorIs(t, b.decide(rooms, org, 4, bad), sms.ErrInvalid)
	}
}

func TestSettingsOfALaterRelease(t *testing.T) {
	t.Parallel()
	for _, later := range []string{`{"recipients": {"numberTypes": ["fax"]}}`, `{"caps": "none"}`, `{"caps": {"phoneDay": {"messages": 1}}}`} {
		t.Run(later, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			service := b.Service(nil)
			_, err := b.Pool.Exec(t.Context(), `insert into organisation_settings (org_id, sending, version, updated_at) values ($1, $2, 1, $3)`,
				b.Senders.Environment.OrgID, later, b.Clock.Now())
			require.NoError(t, err)
			_, err = service.Send(t.Context(), b.Request())
			require.ErrorIs(t, err, sms.ErrUnavailable)
			require.NotErrorIs(t, err, sms.ErrInvalid, "it is asked again, not given up")

			answer := b.Request()
			answer.Key, answer.DespiteHold = send.AnswerKeys+"help:SM1", true
			result, err := service.Send(t.Context(), answer)
			require.NoError(t, err)
			require.Equal(t, send.Accepted, result.Outcome, "who writes HELP gets an answer all the same")
		})
	}
}
