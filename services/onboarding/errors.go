package onboarding

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"

	"paceline.internal/platform/hours"
	"paceline.internal/platform/phone"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/roster"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/apikeys"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/devices"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/events"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/flows"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/inbound/dedup"
	"paceline.internal/services/onboarding/organisations"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/request"
	"paceline.internal/services/onboarding/runs"
	"paceline.internal/services/onboarding/session"
	"paceline.internal/services/onboarding/tickets"
)

// retrySoon is the wait that a caller is asked for when nothing better is known.
const retrySoon = 2 * time.Second

// table maps domain errors to what a caller gets. The text of the error is shown, so those here never hold a phone
// number or a body.
var table = []struct {
	err    error
	code   codes.Code
	reason onboardingv1.Reason
}{
	{session.ErrPayload, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID},
	{session.ErrUnknownToken, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID},
	{session.ErrUnknownStep, codes.InvalidArgument, onboardingv1.Reason_REASON_UNKNOWN_STEP},
	{roster.ErrInvalid, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID},
	{people.ErrSettingsChanged, codes.Aborted, onboardingv1.Reason_REASON_SETTINGS_CHANGED},
	{people.ErrNotTheirPhone, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID},
	{phone.ErrRefused, codes.InvalidArgument, onboardingv1.Reason_REASON_NUMBER_REFUSED},
	{people.ErrConsent, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID},
	{hours.ErrWindow, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID},
	{people.ErrNoProfile, codes.NotFound, onboardingv1.Reason_REASON_PROFILE_NOT_FOUND},
	{engagement.ErrNoPerson, codes.NotFound, onboardingv1.Reason_REASON_PROFILE_NOT_FOUND},
	{engagement.ErrKeyReused, codes.AlreadyExists, onboardingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED},
	{engagement.ErrPreference, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID},
	{engagement.ErrRemindersOffByPerson, codes.FailedPrecondition, onboardingv1.Reason_REASON_REMINDERS_OFF_BY_PERSON},
	{engagement.ErrNoHousehold, codes.FailedPrecondition, onboardingv1.Reason_REASON_NO_HOUSEHOLD},
	{engagement.ErrNoOutreach, codes.NotFound, onboardingv1.Reason_REASON_OUTREACH_NOT_FOUND},
	{engagement.ErrBegun, codes.FailedPrecondition, onboardingv1.Reason_REASON_OUTREACH_STATUS},
	{engagement.ErrOver, codes.FailedPrecondition, onboardingv1.Reason_REASON_OUTREACH_STATUS},
	{engagement.ErrHouseholdFull, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID},
	{rules.ErrAction, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID},
	{conversation.ErrNoSession, codes.NotFound, onboardingv1.Reason_REASON_SESSION_NOT_FOUND},
	{people.ErrPhoneTaken, codes.AlreadyExists, onboardingv1.Reason_REASON_PHONE_TAKEN},
	{people.ErrNoSender, codes.FailedPrecondition, onboardingv1.Reason_REASON_ORGANISATION_WITHOUT_SENDER},
	{people.ErrSuspended, codes.FailedPrecondition, onboardingv1.Reason_REASON_ORGANISATION_SUSPENDED},
	{people.ErrOnHold, codes.FailedPrecondition, onboardingv1.Reason_REASON_SAFETY_HOLD},
	{people.ErrOptedOut, codes.FailedPrecondition, onboardingv1.Reason_REASON_OPTED_OUT},
	{people.ErrAwaitsOperator, codes.FailedPrecondition, onboardingv1.Reason_REASON_AWAITS_OPERATOR},
	{conversation.ErrConsentRequired, codes.FailedPrecondition, onboardingv1.Reason_REASON_CONSENT_RECORD_REQUIRED},
	{conversation.ErrNoDeadLetter, codes.NotFound, onboardingv1.Reason_REASON_DEAD_LETTER_NOT_FOUND},
	{conversation.ErrEnded, codes.FailedPrecondition, onboardingv1.Reason_REASON_SESSION_ENDED},
	{conversation.ErrOtherOpen, codes.FailedPrecondition, onboardingv1.Reason_REASON_CONFLICT},
	{inbound.ErrInvalidMessage, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID},
	{inbound.ErrUnknownSender, codes.NotFound, onboardingv1.Reason_REASON_UNKNOWN_SENDER},
	{inbound.ErrElsewhere, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE},
	{goals.ErrInvalid, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID},
	{goals.ErrNoGoal, codes.NotFound, onboardingv1.Reason_REASON_GOAL_NOT_FOUND},
	{goals.ErrNoDevice, codes.NotFound, onboardingv1.Reason_REASON_DEVICE_NOT_FOUND},
	{goals.ErrNoOwner, codes.NotFound, onboardingv1.Reason_REASON_PROFILE_NOT_FOUND},
	{goals.ErrExists, codes.AlreadyExists, onboardingv1.Reason_REASON_DEVICE_EXISTS},
	{goals.ErrToken, codes.Unauthenticated, onboardingv1.Reason_REASON_DEVICE_NOT_FOUND},
	{goals.ErrNotOwner, codes.PermissionDenied, onboardingv1.Reason_REASON_PERMISSION_DENIED},
	{goals.ErrOffline, codes.Unavailable, onboardingv1.Reason_REASON_DEVICE_OFFLINE},
	{goals.ErrTooMany, codes.ResourceExhausted, onboardingv1.Reason_REASON_TOO_MANY_GOALS},
	{goals.ErrKeyReused, codes.AlreadyExists, onboardingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED},
	{goals.ErrConflict, codes.Unavailable, onboardingv1.Reason_REASON_CONFLICT},
	{devices.ErrFrame, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID},
	{goals.ErrReplaced, codes.Aborted, onboardingv1.Reason_REASON_CONFLICT},
	{goals.ErrOver, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE},
	{goals.ErrOvertaken, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE},
	{devices.ErrSlow, codes.ResourceExhausted, onboardingv1.Reason_REASON_UNAVAILABLE},
	{devices.ErrFull, codes.ResourceExhausted, onboardingv1.Reason_REASON_UNAVAILABLE},
	{devices.ErrDraining, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE},
	{goals.ErrNoTime, codes.InvalidArgument, onboardingv1.Reason_REASON_TIME_MISSING},
	{goals.ErrPast, codes.InvalidArgument, onboardingv1.Reason_REASON_TIME_PAST},
	{goals.ErrUndone, codes.FailedPrecondition, onboardingv1.Reason_REASON_GOAL_STATUS},
	{events.ErrNoSubscription, codes.NotFound, onboardingv1.Reason_REASON_SUBSCRIPTION_NOT_FOUND},
	{events.ErrRotating, codes.FailedPrecondition, onboardingv1.Reason_REASON_SECRET_ROTATING},
	{events.ErrPaused, codes.FailedPrecondition, onboardingv1.Reason_REASON_DELIVERY_STATUS},
	{events.ErrNoDelivery, codes.NotFound, onboardingv1.Reason_REASON_DELIVERY_NOT_FOUND},
	{events.ErrTooMany, codes.ResourceExhausted, onboardingv1.Reason_REASON_TOO_MANY_SUBSCRIPTIONS},
	{events.ErrFull, codes.ResourceExhausted, onboardingv1.Reason_REASON_UNAVAILABLE},
	{events.ErrDraining, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE},
	{flow.ErrFields, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID},
	{flow.ErrNotFound, codes.NotFound, onboardingv1.Reason_REASON_FLOW_NOT_FOUND},
	{flow.ErrUnreadable, codes.FailedPrecondition, onboardingv1.Reason_REASON_INVALID},
	{flows.ErrVersionMove, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID},
	{runs.ErrNoRun, codes.NotFound, onboardingv1.Reason_REASON_RUN_NOT_FOUND},
	{runs.ErrFinished, codes.FailedPrecondition, onboardingv1.Reason_REASON_RUN_FINISHED},
	{runs.ErrTooMany, codes.ResourceExhausted, onboardingv1.Reason_REASON_TOO_MANY_RUNS},
	{runs.ErrKeyReused, codes.AlreadyExists, onboardingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED},
	{runs.ErrInvalid, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID},
	{flows.ErrTooMany, codes.ResourceExhausted, onboardingv1.Reason_REASON_TOO_MANY_FLOWS},
	{flows.ErrNoDraft, codes.NotFound, onboardingv1.Reason_REASON_FLOW_DRAFT_NOT_FOUND},
	{flows.ErrDraftOutdated, codes.FailedPrecondition, onboardingv1.Reason_REASON_FLOW_DRAFT_OUTDATED},
	{flows.ErrDraftText, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID},
	{conversation.ErrTicketOpen, codes.FailedPrecondition, onboardingv1.Reason_REASON_TICKET_OPEN},
	{tickets.ErrNotFound, codes.NotFound, onboardingv1.Reason_REASON_TICKET_NOT_FOUND},
	{tickets.ErrClosed, codes.FailedPrecondition, onboardingv1.Reason_REASON_TICKET_CLOSED},
	{tickets.ErrManyNotes, codes.ResourceExhausted, onboardingv1.Reason_REASON_TOO_MANY_NOTES},
	{tickets.ErrManyAnswers, codes.ResourceExhausted, onboardingv1.Reason_REASON_TOO_MANY_ANSWERS},
	{tickets.ErrManyReplies, codes.ResourceExhausted, onboardingv1.Reason_REASON_TOO_MANY_SAVED_REPLIES},
	{tickets.ErrNoSavedReply, codes.NotFound, onboardingv1.Reason_REASON_SAVED_REPLY_NOT_FOUND},
	{tickets.ErrTitleTaken, codes.AlreadyExists, onboardingv1.Reason_REASON_SAVED_REPLY_EXISTS},
	{tickets.ErrKeyReused, codes.AlreadyExists, onboardingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED},
	{tickets.ErrTooLong, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID},
	{apikeys.ErrInvalid, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID},
	{apikeys.ErrNotFound, codes.NotFound, onboardingv1.Reason_REASON_API_KEY_NOT_FOUND},
	{apikeys.ErrTooMany, codes.ResourceExhausted, onboardingv1.Reason_REASON_TOO_MANY_API_KEYS},
	{organisations.ErrNotFound, codes.NotFound, onboardingv1.Reason_REASON_ORGANISATION_NOT_FOUND},
	{organisations.ErrTooMany, codes.ResourceExhausted, onboardingv1.Reason_REASON_TOO_MANY_ORGANISATIONS},
	{organisations.ErrEnded, codes.FailedPrecondition, onboardingv1.Reason_REASON_ORGANISATION_ENDED},
	{organisations.ErrDefault, codes.FailedPrecondition, onboardingv1.Reason_REASON_INVALID},
	{organisations.ErrErased, codes.FailedPrecondition, onboardingv1.Reason_REASON_ORGANISATION_ENDED},
	{organisations.ErrMoved, codes.FailedPrecondition, onboardingv1.Reason_REASON_CONFLICT},
	{organisations.ErrHasKey, codes.FailedPrecondition, onboardingv1.Reason_REASON_ORGANISATION_HAS_KEY},
	{organisations.ErrNotTold, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE},
	{erasure.ErrNoProfile, codes.NotFound, onboardingv1.Reason_REASON_PROFILE_NOT_FOUND},
	{erasure.ErrLegalHold, codes.FailedPrecondition, onboardingv1.Reason_REASON_LEGAL_HOLD},
	{erasure.ErrBegun, codes.FailedPrecondition, onboardingv1.Reason_REASON_BEING_ERASED},
	{erasure.ErrNoKey, codes.FailedPrecondition, onboardingv1.Reason_REASON_NOT_CONFIGURED},
	{erasure.ErrTooLarge, codes.FailedPrecondition, onboardingv1.Reason_REASON_INVALID},
	{erasure.ErrErased, codes.NotFound, onboardingv1.Reason_REASON_PROFILE_NOT_FOUND},
	{erasure.ErrNoErasure, codes.NotFound, onboardingv1.Reason_REASON_PROFILE_NOT_FOUND},
	{queue.ErrNoJob, codes.NotFound, onboardingv1.Reason_REASON_WEBHOOK_JOB_NOT_FOUND},
	{queue.ErrPayload, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID},
	{queue.ErrPayloadMismatch, codes.AlreadyExists, onboardingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED},
	{conversation.ErrMessageMissing, codes.Internal, onboardingv1.Reason_REASON_MESSAGE_MISSING},
	{people.ErrConflict, codes.Unavailable, onboardingv1.Reason_REASON_CONFLICT},
	{people.ErrHoldNotForwarded, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE},
	{people.ErrLaterRules, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE},
	{people.ErrUnavailable, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE},
	{dedup.ErrUnavailable, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE},
	{context.DeadlineExceeded, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE},
	{rpc.ErrPageToken, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID},
	{request.ErrNotTheirs, codes.PermissionDenied, onboardingv1.Reason_REASON_PERMISSION_DENIED},
}

// waits are the reasons of a message that is not at its end yet.
var waits = map[conversation.Outcome]onboardingv1.Reason{
	conversation.InFlight:  onboardingv1.Reason_REASON_SEND_IN_FLIGHT,
	conversation.Unknown:   onboardingv1.Reason_REASON_SEND_UNKNOWN,
	conversation.Throttled: onboardingv1.Reason_REASON_THROTTLED,
	conversation.Capped:    onboardingv1.Reason_REASON_SEND_CAPPED,
}

// room has the waits after which there is room again of what is used up, where time makes it.
var room = map[onboardingv1.Reason]time.Duration{
	onboardingv1.Reason_REASON_TOO_MANY_ANSWERS: time.Minute,
	onboardingv1.Reason_REASON_UNAVAILABLE:      retrySoon, // as many streams as may be open
}

// Answer turns an error into what crosses the wire. One that is not in the table is returned as it is: the chain answers
// Internal with a fixed text and logs the cause.
func Answer(err error) error {
	var wait *conversation.Pending
	var parked *conversation.StepParked
	var unfinished *conversation.SessionParked
	var inProgress *dedup.InProgress
	var notDue *conversation.NotDue
	var busy *people.ProfileBusy
	var often *conversation.TooManyActivations
	var assigned *tickets.AssignedError
	switch {
	case errors.As(err, &assigned):
		return &rpc.Error{
			Code: codes.Aborted, Reason: onboardingv1.Reason_REASON_TICKET_ASSIGNED.String(), Domain: request.Domain, Message: assigned.Error(),
			Meta: map[string]string{"assignee": assigned.Assignee},
		}
	case errors.As(err, &often):
		return request.Refuse(codes.ResourceExhausted, onboardingv1.Reason_REASON_TOO_MANY_ACTIVATIONS, often.Error(), often.RetryAfter)
	case errors.As(err, &busy):
		return request.Refuse(codes.FailedPrecondition, onboardingv1.Reason_REASON_PROFILE_BUSY, busy.Error(), 0)
	case errors.As(err, &notDue):
		return request.Refuse(codes.FailedPrecondition, onboardingv1.Reason_REASON_STEP_NOT_DUE, notDue.Error(), notDue.Left)
	case errors.As(err, &inProgress):
		return request.Refuse(codes.Aborted, onboardingv1.Reason_REASON_DELIVERY_IN_PROGRESS,
			inProgress.Error(), max(inProgress.RetryAfter, time.Second))
	case errors.As(err, &unfinished):
		return request.Refuse(codes.FailedPrecondition, onboardingv1.Reason_REASON_SESSION_PARKED, unfinished.Error(), 0)
	case errors.As(err, &wait):
		return request.Refuse(codes.Unavailable, waits[wait.Outcome], wait.Error(), max(wait.RetryAfter, time.Second))
	case errors.As(err, &parked) && parked.Status == session.Undeliverable:
		return request.Refuse(codes.FailedPrecondition, onboardingv1.Reason_REASON_UNDELIVERABLE, parked.Error(), 0)
	case errors.As(err, &parked) && parked.KeyReused:
		return request.Refuse(codes.FailedPrecondition, onboardingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED, parked.Error(), 0)
	case errors.As(err, &parked):
		return request.Refuse(codes.FailedPrecondition, onboardingv1.Reason_REASON_STUCK, parked.Error(), 0)
	}
	for _, row := range table {
		if !errors.Is(err, row.err) {
			continue
		}
		if row.code == codes.Unavailable {
			again := retrySoon
			if row.reason == onboardingv1.Reason_REASON_DEVICE_OFFLINE {
				again = 0 // the backoff of its alarm says: five tries 2 s apart would fail the goal after 10 s
			}
			return request.Refuse(row.code, row.reason, row.err.Error(), again)
		}
		return request.Refuse(row.code, row.reason, err.Error(), room[row.reason])
	}
	if postgres.Outage(err) {
		return request.Refuse(codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE, "the database cannot be reached", retrySoon)
	}
	return err
}
