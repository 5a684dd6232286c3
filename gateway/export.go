package gateway

import (
	"context"
	"net/http"

	"google.golang.org/protobuf/proto"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// sayAttached has a browser save the export of a person, and no cache on the way keep it.
func sayAttached(_ context.Context, w http.ResponseWriter, response proto.Message) error {
	if _, ok := response.(*onboardingv1.ExportProfileResponse); ok {
		w.Header().Set("Content-Disposition", `attachment; filename="export.json"`)
		w.Header().Set("Cache-Control", "no-store")
	}
	return nil
}
