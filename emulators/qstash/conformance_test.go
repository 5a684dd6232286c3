package qstash_test

import "testing"

// TestConformance checks the emulator against the numbered list in the fact sheet of QStash's interface. It is spoken to
// in raw HTTP; what the product asks of it goes through platform/qstash, there and in TestFaults.
func TestConformance(t *testing.T) {
	t.Parallel()
	t.Run("Item01Authentication", item01Authentication)
	t.Run("Item02DestinationArrivesVerbatim", item02DestinationArrivesVerbatim)
	t.Run("Item03InvalidScheme", item03InvalidScheme)
	t.Run("Item04BodyAndContentTypePassUnchanged", item04BodyAndContentType)
	t.Run("Item05ForwardedHeaders", item05ForwardedHeaders)
	t.Run("Item06Method", item06Method)
	t.Run("Item07DelayGrammar", item07DelayGrammar)
	t.Run("Item08NotBefore", item08NotBefore)
	t.Run("Item10RetryCount", item10RetryCount)
	t.Run("Item11DefaultBackoff", item11DefaultBackoff)
	t.Run("Item12RetryDelayExpression", item12RetryDelayExpression)
	t.Run("Item13RetryAfter", item13RetryAfter)
	t.Run("Item14NonRetryable", item14NonRetryable)
	t.Run("Item15RedirectsAndClientErrorsAreRetried", item15RedirectsAndClientErrors)
	t.Run("Item16TimeoutAbortsTheAttempt", item16Timeout)
	t.Run("Item17Deduplication", item17Deduplication)
	t.Run("Item18ColonInDeduplicationID", item18ColonInDeduplicationID)
	t.Run("Item19ContentBasedDeduplication", item19ContentBasedDeduplication)
	t.Run("Item20SignatureClaims", item20SignatureClaims)
	t.Run("Item21VerifierAcceptsDeliveries", item21VerifierAcceptsDeliveries)
	t.Run("Item22KeyRotation", item22KeyRotation)
	t.Run("Item23ReadAndCancel", item23ReadAndCancel)
	t.Run("Item27DeadLetters", item27DeadLetters)
	t.Run("Item28Callbacks", item28Callbacks)
	t.Run("Item37AtLeastOnce", item37AtLeastOnce)
	t.Run("Item39DevelopmentDefaults", item39DevelopmentDefaults)
}
