package messaging

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sendtest"
)

// TestMessagesAreFoundByTheirWords also among those behind the newest 5,000, and none of another organisation.
func TestMessagesAreFoundByTheirWords(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, schema.Migrations())
	org, other := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	_, err := pool.Exec(t.Context(), `
insert into sms_messages (id, org_id, direction, from_number, to_number, body, body_hash, status, twilio_sid, segments, correlation_id, attempts,
    consent_effect, created_at, updated_at)
select lpad(to_hex(n), 32, '0')::uuid, case when n = 2 then $2::uuid else $1::uuid end, 'inbound', '+14155550123', '+15005550006', case when n < 3
    then 'Não consigo abrir o LINK.' else 'yes number ' || n end, sha256('x'), 'received', 'SM' || n, 1, '', 0, 'none', now(), now()
from generate_series(1, 6000) n`, org, other)
	require.NoError(t, err)
	s := serve(t, rooms{
		stores:  storesOf(sendtest.NewStore(pool)),
		sending: send.New(send.Config{Senders: sendtest.Only(senders.Sender{OrgID: org})}),
		intake:  &outbound.Intake{Store: outbound.NewStore(pool)},
	})
	ctx := postgres.ForOrganisation(as(t, rpc.RoleOperator, org.String(), "ada"), org.String())
	for words, want := range map[string]int{
		"link": 1, "nao abrir": 1, "não  consigo": 1, "lin": 0, "link yes": 0, "yes": 50, "number 17": 1, "'; drop table": 0,
	} {
		page, err := s.ListMessages(ctx, &messagingv1.ListMessagesRequest{Words: words})
		require.NoError(t, err, words)
		require.Len(t, page.GetMessages(), want, words)
		require.Equal(t, want == 50, page.GetNextPageToken() != "", words)
	}
	_, err = s.ListMessages(ctx, &messagingv1.ListMessagesRequest{Words: "link", Status: "received"})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
}
