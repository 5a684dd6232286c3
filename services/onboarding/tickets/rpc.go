package tickets

import (
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// RPC serves TicketService.
type RPC struct {
	onboardingv1.UnimplementedTicketServiceServer
}
