package conversation

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// GetFlow returns the messages of the flow, and when each is sent.
func (s *RPC) GetFlow(context.Context, *onboardingv1.GetFlowRequest) (*onboardingv1.GetFlowResponse, error) {
	flow, texts := s.Conversations.Flow, s.Conversations.Catalog
	out := &onboardingv1.GetFlowResponse{Version: flow.Version(), CopyVersion: texts.Current()}
	for _, step := range flow.Steps() {
		wire := &onboardingv1.FlowStep{StepId: string(step.ID), TextKey: string(step.Text), Delay: durationpb.New(step.Delay)}
		if step.AfterDelivery > 0 {
			wire.AfterDelivery = durationpb.New(step.AfterDelivery)
		}
		out.Steps = append(out.Steps, wire)
	}
	for _, text := range append(texts.Texts(texts.Current()), s.Engagement.Texts()...) {
		out.Texts = append(out.Texts, &onboardingv1.CopyText{
			TextKey: text.Key, Locale: text.Locale, Text: text.Text, Segments: int32(text.Segments), //nolint:gosec // lint takes five at most
		})
	}
	return out, nil
}
