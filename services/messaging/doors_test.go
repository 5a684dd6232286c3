package messaging

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
)

// TestDoorsCompose writes letters with their accents apart at the doors of operators and apps: what is kept has them together.
func TestDoorsCompose(t *testing.T) {
	t.Parallel()
	s, queue := setup(t), setupOutbound(t)
	operator := as(t, rpc.RoleOperator, orgA, "op")
	people := 0
	rapid.Check(t, func(t *rapid.T) {
		words := norm.NFC.String(strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"não", "João", "é", "Müller", "한국", "ação", "ok"}), 1, 5).Draw(t, "words"), " "))
		apart := norm.NFD.String(words)

		in := ask(uuid.NewString())
		in.Body = apart
		queued, err := queue.EnqueueText(operator, in)
		require.NoError(t, err)
		require.Equal(t, words, queued.GetText().GetBody())

		people++
		set, err := s.SetConsent(operator, &messagingv1.SetConsentRequest{Phone: fmt.Sprintf("+1415%07d", 5_550_000+people), State: "opted_in", Reason: apart, Evidence: &messagingv1.Evidence{
			Method: apart, Reference: apart, CollectedAt: timestamppb.New(time.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC)),
		}})
		require.NoError(t, err)
		noted := set.GetEvents()[len(set.GetEvents())-1].GetWords()
		require.Equal(t, words+"\nmethod: "+words+"\ncollected_at: 2026-11-20T11:00:00Z\nreference: "+words, noted)
	})
}
