package send

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/edge"
)

// olderOutcomes are younger than the callers there may be: one that does not understand them is shown another.
var olderOutcomes = map[Outcome]Outcome{Held: Throttled, RemindersOff: OptedOut}

// writeOutcome returns the value of the proto that has the outcome's name. Paced is only for the metric and the log.
func writeOutcome(o Outcome, understands []messagingv1.Outcome) messagingv1.Outcome {
	if o == Paced {
		o = Throttled
	}
	written := messagingv1.Outcome(messagingv1.Outcome_value["OUTCOME_"+strings.ToUpper(string(o))])
	if older, younger := olderOutcomes[o]; younger && !slices.Contains(understands, written) {
		return writeOutcome(older, nil)
	}
	return written
}

// WriteMessage writes a message as every room shows it.
func WriteMessage(m Message) *messagingv1.Message {
	answer := &messagingv1.Message{
		MessageId: m.ID.String(), ProfileId: edge.WriteID(m.ProfileID), Direction: string(m.Direction), From: m.From, To: m.To, Body: m.Body,
		Status: string(m.Status), TwilioSid: m.SID, IdempotencyKey: m.Key, Segments: edge.Int32(m.Segments),
		CreatedAt: timestamppb.New(m.CreatedAt), AcceptedAt: edge.WriteTime(m.AcceptedAt),
		NeedsPerson: m.NeedsPerson(),
	}
	if m.ErrorCode != 0 {
		answer.ErrorCode = new(edge.Int32(m.ErrorCode))
	}
	return answer
}

func writeEvidence(e Evidence) *messagingv1.GetEvidenceResponse {
	answer := &messagingv1.GetEvidenceResponse{
		Message: WriteMessage(e.Message), NextLookAt: edge.WriteTime(e.Message.NextCheckAt), Attempt: edge.Int32(e.Message.Attempts),
	}
	for _, item := range e.Items {
		look := &messagingv1.Look{At: timestamppb.New(item.At), Finding: string(item.Kind), Detail: item.Detail}
		for _, c := range item.Candidates {
			look.Candidates = append(look.Candidates, &messagingv1.Candidate{
				TwilioSid: c.SID, Status: c.Status, CreatedAt: timestamppb.New(c.CreatedAt),
			})
		}
		answer.Looks = append(answer.Looks, look)
	}
	for _, r := range e.Receipts {
		receipt := &messagingv1.Receipt{At: timestamppb.New(r.At), TwilioSid: r.SID, Status: r.Status}
		if r.ErrorCode != 0 {
			receipt.ErrorCode = new(edge.Int32(r.ErrorCode))
		}
		answer.Receipts = append(answer.Receipts, receipt)
	}
	return answer
}
