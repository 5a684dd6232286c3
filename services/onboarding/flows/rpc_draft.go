package flows

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/request"
)

// GetFlowDraft reads the texts of a flow as its draft has them.
func (s *RPC) GetFlowDraft(ctx context.Context, in *onboardingv1.GetFlowDraftRequest) (*onboardingv1.GetFlowDraftResponse, error) {
	shown, err := s.draft(ctx, in.GetFlow())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.GetFlowDraftResponse{Draft: shown}, nil
}

// SaveFlowDraft changes texts of one language of a draft.
func (s *RPC) SaveFlowDraft(ctx context.Context, in *onboardingv1.SaveFlowDraftRequest) (*onboardingv1.SaveFlowDraftResponse, error) {
	if in.GetVersion() == "" || in.GetLanguage() == "" || len(in.GetTexts()) == 0 {
		return nil, request.Invalid("version, language and texts are required")
	}
	err := s.Store.SaveDraft(ctx, request.Org(ctx), DraftChange{
		Flow: in.GetFlow(), Version: in.GetVersion(), Revision: in.GetRevision(), Language: in.GetLanguage(), Texts: in.GetTexts(),
	}, s.Now())
	if err != nil {
		return nil, err
	}
	shown, err := s.draft(ctx, in.GetFlow())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.SaveFlowDraftResponse{Draft: shown}, nil
}

// PublishFlowDraft publishes the texts of a draft.
func (s *RPC) PublishFlowDraft(
	ctx context.Context, in *onboardingv1.PublishFlowDraftRequest,
) (*onboardingv1.PublishFlowDraftResponse, error) {
	done, err := s.Store.PublishDraft(ctx, request.Org(ctx), in.GetFlow(), in.GetRevision(), s.Now())
	if problems, wrong := errors.AsType[flow.Problems](err); wrong {
		return nil, refused(problems)
	}
	if err != nil {
		return nil, err
	}
	return &onboardingv1.PublishFlowDraftResponse{Version: shown(ctx, done.Version)}, nil
}

// DeleteFlowDraft drops a draft.
func (s *RPC) DeleteFlowDraft(
	ctx context.Context, in *onboardingv1.DeleteFlowDraftRequest,
) (*onboardingv1.DeleteFlowDraftResponse, error) {
	return &onboardingv1.DeleteFlowDraftResponse{}, s.Store.DropDraft(ctx, request.Org(ctx), in.GetFlow(), in.GetRevision())
}

func (s *RPC) draft(ctx context.Context, name string) (*onboardingv1.FlowDraft, error) {
	org := request.Org(ctx)
	current, err := s.Store.Describe(ctx, org, name, "")
	if err != nil {
		return nil, err
	}
	f, err := s.Store.Version(ctx, org, name, current.Version)
	if err != nil {
		return nil, err
	}
	d, err := s.Store.Draft(ctx, org, name)
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.FlowDraft{Version: shown(ctx, current), Revision: d.Revision}
	if d.Revision > 0 {
		out.ChangedAt, out.ChangedBy = timestamppb.New(d.ChangedAt), request.Actor(ctx, d.ChangedBy)
		out.Outdated = d.Of != current.Version
	}
	for _, w := range f.Written() {
		text := &onboardingv1.FlowText{Language: w.Language, Key: w.Key, Step: w.Step, Text: w.Text}
		if changed, is := d.Texts[w.Language][w.Key]; is {
			text.Text, text.Published = changed, &w.Text
		}
		m := f.Measure(w.Language, text.GetText())
		text.Shown, text.Problems = m.Shown, m.Problems
		text.Segments, text.MostSegments = int32(min(m.Segments, MaxBytes)), int32(min(m.Widest, MaxBytes)) //nolint:gosec // in range
		out.Texts = append(out.Texts, text)
	}
	return out, nil
}
