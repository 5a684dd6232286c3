package server

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	explainv1 "paceline.internal/proto/gen/paceline/explain/v1"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/send"
)

// ExplainSend says what Send would answer now.
func (s *Server) ExplainSend(ctx context.Context, r *messagingv1.ExplainSendRequest) (*messagingv1.ExplainSendResponse, error) {
	request, err := readSend(r.GetSend())
	if err != nil {
		return nil, refuse(ctx, err)
	}
	e, err := s.Sending.Explain(ctx, request)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	return &messagingv1.ExplainSendResponse{Explanation: writeExplanation(e)}, nil
}

// ExplainMessage says where a message stands. A message of another organisation does not exist.
func (s *Server) ExplainMessage(ctx context.Context, r *messagingv1.ExplainMessageRequest) (*messagingv1.ExplainMessageResponse, error) {
	var e send.Explanation
	m, err := s.message(ctx, r.GetMessageId())
	if err == nil {
		e, err = s.Sending.ExplainMessage(ctx, m)
	}
	if err != nil {
		return nil, refuse(ctx, err)
	}
	return &messagingv1.ExplainMessageResponse{Explanation: writeExplanation(e), ProfileId: writeID(m.ProfileID)}, nil
}

func writeExplanation(e send.Explanation) *explainv1.Explanation {
	out := &explainv1.Explanation{Outcome: string(e.Outcome), Next: e.Next, Advice: e.Advice, NeedsPerson: e.NeedsPerson}
	for _, g := range e.Gates {
		gate := &explainv1.Gate{Name: g.Name, Passed: g.Passed, Fact: g.Fact, Change: g.Change}
		if !g.Since.IsZero() {
			gate.Since = timestamppb.New(g.Since)
		}
		out.Gates = append(out.Gates, gate)
	}
	return out
}
