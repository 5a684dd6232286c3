package session

// Trigger is the cause of a session's move, as the transitions record it.
type Trigger string

// The triggers.
const (
	// TriggerActivation opened the session and sent the opening.
	TriggerActivation Trigger = "activation"
	// TriggerReplyAdvance is a reply that goes on.
	TriggerReplyAdvance Trigger = "reply_advance"
	// TriggerReplyPause is an explicit negative, answered with LATER.
	TriggerReplyPause Trigger = "reply_pause"
	// TriggerSilence is an answer that did not come.
	TriggerSilence Trigger = "silence"
	// TriggerCall is an answer of the host application.
	TriggerCall Trigger = "call"
	// TriggerStepSent is a scheduled message that was sent and is not the last.
	TriggerStepSent Trigger = "step_sent"
	// TriggerBurstFinished is the last scheduled message that was sent.
	TriggerBurstFinished Trigger = "burst_finished"
)

// TriggerOf is the trigger of a reply's transition.
func TriggerOf(intent Intent) Trigger {
	if intent == Pause {
		return TriggerReplyPause
	}
	return TriggerReplyAdvance
}

// Edge is one way for a session to move. From is empty for activation.
type Edge struct {
	From    Token
	To      Token
	Trigger Trigger
}

// Transitions lists every edge. The diagram in docs/architecture.md is drawn from it, and a test holds OnReply and
// AfterStep to it. The only way back is a negative to the explanation: LATER promises to begin again with it.
func Transitions() []Edge {
	return []Edge{
		{From: "", To: AwaitingOpeningResponse, Trigger: TriggerActivation},
		{From: AwaitingOpeningResponse, To: AwaitingExplanationResponse, Trigger: TriggerReplyAdvance},
		{From: AwaitingOpeningResponse, To: AwaitingOpeningResponse, Trigger: TriggerReplyPause},
		{From: AwaitingExplanationResponse, To: AwaitingBurst, Trigger: TriggerReplyAdvance},
		{From: AwaitingExplanationResponse, To: AwaitingOpeningResponse, Trigger: TriggerReplyPause},
		{From: AwaitingBurst, To: AwaitingBurst, Trigger: TriggerStepSent},
		{From: AwaitingBurst, To: AwaitingInterviewStart, Trigger: TriggerBurstFinished},
		{From: AwaitingInterviewStart, To: InterviewActivity01, Trigger: TriggerReplyAdvance},
		{From: AwaitingInterviewStart, To: AwaitingInterviewStart, Trigger: TriggerReplyPause},
	}
}
