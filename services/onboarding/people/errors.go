package people

import "errors"

// What a request meets that is not its own fault.
var (
	// ErrConflict reports that something changed between a decision and its change. Nothing was changed; decide again.
	ErrConflict = errors.New("the person or their session was changed meanwhile; repeat the request")
	// ErrUnavailable reports a dependency that cannot be reached. Nothing is wrong with what was asked.
	ErrUnavailable = errors.New("messaging cannot be reached; try again")
	// ErrLaterRules reports rules of engagement that this release cannot read; the replicas of the one that wrote them can.
	ErrLaterRules = errors.New("a later release has written the organisation's rules of engagement; try again")
)

// Refusals. Each says what to do instead.
var (
	ErrNoProfile = errors.New("there is no such profile in this organisation")
	ErrOnHold    = errors.New("the person is on a safety hold; release the profile first")
	ErrOptedOut  = errors.New("the person has opted out; they opt in again by texting START")
	ErrNoSender  = errors.New("the organisation owns no number to send from; add one with POST /v1/senders")
	// ErrSettingsChanged refuses a change of settings that another one came before.
	ErrSettingsChanged = errors.New("the settings were changed meanwhile: GET /v1/settings, and send the change again with that version")
	// ErrSuspended refuses what an organisation would send while it is suspended.
	ErrSuspended = errors.New("the organisation is suspended: nothing is sent until those who run this deployment resume it")
	// ErrAwaitsOperator refuses a person until an operator has judged their words, which hold them or have failed a job.
	ErrAwaitsOperator = errors.New("words of the person that may be an opt-out wait for an operator; find them with " +
		"GET /v1/webhook-jobs?status=failed, do what the job says and POST /v1/webhook-jobs/{job_id}:cancel, then activate again; " +
		"if no job names them, read GET /v1/messages and, if they are no opt-out, POST /v1/profiles/{profile_id}:release")
)
