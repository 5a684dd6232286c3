// Package qstash publishes alarms to Upstash QStash and checks what QStash sends back.
//
// It is our own thin client, because the official Go SDK has no context, leaks connections and accepts
// forged signatures. The facts behind it come from https://upstash.com/docs/qstash and its OpenAPI file.
package qstash

// Headers that QStash puts on every delivery, and the one with which a receiver stops the retries.
const (
	// HeaderMessageID names the message. It stays the same over retries and accidental duplicates.
	HeaderMessageID = "Upstash-Message-Id"
	// HeaderRetried counts the attempts before this one: 0 on the first.
	HeaderRetried = "Upstash-Retried"
	// HeaderSignature is the JWT that Verifier checks.
	HeaderSignature = "Upstash-Signature"
	// HeaderRegion is the region that delivers, such as EU-CENTRAL-1.
	HeaderRegion = "Upstash-Region"
	// HeaderCallerIP is the address that the message was published from.
	HeaderCallerIP = "Upstash-Caller-Ip"
	// HeaderNonRetryable on an answer with StatusNonRetryable, set to "true", ends the retries at once.
	HeaderNonRetryable = "Upstash-NonRetryable-Error"
)

// StatusNonRetryable is the status that, together with HeaderNonRetryable, sends a message to the dead letters
// without another attempt. Without the header it is a failure like any other and is retried.
const StatusNonRetryable = 489

// Headers that Publisher sends along, so that a receiver can describe a delivery without being configured. They are not
// covered by the signature: they describe and decide nothing.
const (
	// HeaderMaxRetries bounds the attempts after the first.
	HeaderMaxRetries = "Paceline-Max-Retries"
	// HeaderDue is the time when the job was due, in RFC 3339 with milliseconds; not sent with one that was due at once.
	HeaderDue = "Paceline-Due"
	// HeaderDedupHash is the keyed hash of the deduplication id: 16 hexadecimal digits.
	HeaderDedupHash = "Paceline-Dedup-Hash"
)

// Headers of a publish request.
const (
	HeaderMethod                = "Upstash-Method"
	HeaderDelay                 = "Upstash-Delay"
	HeaderNotBefore             = "Upstash-Not-Before"
	HeaderTimeout               = "Upstash-Timeout"
	HeaderRetries               = "Upstash-Retries"
	HeaderRetryDelay            = "Upstash-Retry-Delay"
	HeaderDeduplicationID       = "Upstash-Deduplication-Id"
	HeaderContentBasedDedup     = "Upstash-Content-Based-Deduplication"
	HeaderCallback              = "Upstash-Callback"
	HeaderFailureCallback       = "Upstash-Failure-Callback"
	HeaderLabel                 = "Upstash-Label"
	HeaderForwardPrefix         = "Upstash-Forward-"
	HeaderCallbackPrefix        = "Upstash-Callback-"
	HeaderFailureCallbackPrefix = "Upstash-Failure-Callback-"
)
