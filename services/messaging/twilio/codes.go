package twilio

import (
	"maps"
	"slices"
)

// Class names the party that a code is a problem of.
type Class string

// The classes, by what has to happen next.
const (
	ClassConfig    Class = "config"    // ours: account, sender or request is set up wrongly; no text gets through until it is mended
	ClassRecipient Class = "recipient" // this number cannot be texted
	ClassOptedOut  Class = "opted_out" // this person does not want to be texted
	ClassThrottle  Class = "throttle"  // not now: later it may work
	ClassCarrier   Class = "carrier"   // the network did not deliver it
)

// CodeOptedOut refuses a message to a person who has stopped its sender: that number or messaging service, and no other.
const CodeOptedOut = 21610

// Explanation is the meaning of a code and its remedy.
type Explanation struct {
	Class   Class
	Meaning string
	Remedy  string
}

// NeedsPerson reports whether a message is refused with this code until a person has acted: no retry mends it. A number that cannot be
// texted is no such code: nothing is set up wrongly, and its session is parked.
func NeedsPerson(code int) bool {
	return OfAccount(code) || slices.Contains(permitted, code)
}

// OfAccount reports whether a code refuses every message of the sender, rather than those to some recipients.
func OfAccount(code int) bool { return codes[code].Class == ClassConfig }

// permitted are the codes that refuse messages to some recipients until a person changes a permission, the sender or the text.
var permitted = []int{21408, 21607, 21608, 21612, 30007, 30450}

// NeedingPerson lists the codes that NeedsPerson, and those of them that are OfAccount.
func NeedingPerson() (all, ofAccount []int) {
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		if NeedsPerson(code) {
			all = append(all, code)
		}
		if OfAccount(code) {
			ofAccount = append(ofAccount, code)
		}
	}
	return all, ofAccount
}

// Explain looks up a code of Twilio's, whether of a refused request or of a receipt. It reports false for a code that
// is not in the table, which is no error: Twilio adds codes without notice.
//
// Source: https://www.twilio.com/docs/api/errors
func Explain(code int) (Explanation, bool) {
	e, ok := codes[code]
	return e, ok
}

const (
	checkAccount = "check TWILIO_ACCOUNT_SID and TWILIO_API_KEY_SID (or TWILIO_AUTH_TOKEN)"
	payAccount   = "see in the Twilio console whether the account has funds and is not suspended"
	checkSender  = "check TWILIO_FROM_NUMBER or TWILIO_MESSAGING_SERVICE_SID against the account's numbers"
	checkService = "add a number for this region to the messaging service's sender pool"
	ourBug       = "a defect of Paceline: report it with the message id"
	askNumber    = "ask the person for another number"
	backOff      = "nothing: it is tried again, more slowly"
	waitForStart = "nothing: the person can text START"
	register     = "complete the sender's registration in the Twilio console"
	settled      = "nothing: a receipt settles it"
	tryLater     = "nothing by itself; a person may send it again later"
)

// codes is the table of the fact sheet's section 4.2.
var codes = map[int]Explanation{
	10001: {ClassConfig, "the account is not active", payAccount},
	20003: {ClassConfig, "the account, or its key or token, is wrong", checkAccount},
	20005: {ClassConfig, "the account is not active", payAccount},
	20403: {ClassConfig, "the account may not do this", checkAccount},
	20404: {ClassConfig, "the account does not exist", checkAccount},
	21212: {ClassConfig, "the sender's number is not valid", checkSender},
	21601: {ClassConfig, "the sender's number is not the account's or cannot text", checkSender},
	21602: {ClassConfig, "the body is missing", ourBug},
	21603: {ClassConfig, "the sender is missing", checkSender},
	21604: {ClassConfig, "the recipient is missing", ourBug},
	21606: {ClassConfig, "the sender's number is not the account's or cannot text", checkSender},
	21609: {ClassConfig, "the status callback's URL is not valid", "check PUBLIC_BASE_URL: a real host, without underscore"},
	21617: {ClassConfig, "the body is longer than 1600 characters", "shorten the text in the catalogue"},
	21659: {ClassConfig, "the sender's number is not one of Twilio's", checkSender},
	21660: {ClassConfig, "the sender's number belongs to another account", checkSender},
	21661: {ClassConfig, "the sender's number cannot text", checkSender},
	21703: {ClassConfig, "the messaging service has no sender for this region", checkService},
	21704: {ClassConfig, "the messaging service has no numbers", checkService},
	21705: {ClassConfig, "the messaging service does not exist", checkSender},
	30002: {ClassConfig, "the account is suspended", "settle it with Twilio"},
	30032: {ClassConfig, "the toll-free number is not verified", register},
	30034: {ClassConfig, "the number is not registered for A2P 10DLC", register},
	30990: {ClassConfig, "the A2P 10DLC campaign is suspended", "settle the suspension in the Twilio console"},

	21211: {ClassRecipient, "the recipient's number is not valid", askNumber},
	21214: {ClassRecipient, "the recipient's number cannot be reached", askNumber},
	21408: {ClassRecipient, "the recipient's region is not enabled", "enable it under Geo Permissions in the Twilio console"},
	21607: {ClassRecipient, "a trial account texts only from its trial number", "upgrade the account"},
	21608: {ClassRecipient, "a trial account texts only verified numbers", "verify the number or upgrade the account"},
	21612: {ClassRecipient, "this sender cannot reach the recipient", "use a sender of the recipient's country"},
	21614: {ClassRecipient, "the recipient's number is not a mobile", askNumber},
	21635: {ClassRecipient, "the recipient's number is a landline", askNumber},
	30005: {ClassRecipient, "the handset is unknown or no longer in service", askNumber},
	30006: {ClassRecipient, "a landline, or a carrier that cannot be reached", askNumber},

	CodeOptedOut: {ClassOptedOut, "the person has opted out", waitForStart},
	30004:        {ClassOptedOut, "the person or their carrier blocks this sender", waitForStart},

	20429: {ClassThrottle, "Twilio is being asked too much at once", backOff},
	21611: {ClassThrottle, "the sender's queue is full", "add numbers to the sender pool; it is tried again, more slowly"},
	30001: {ClassThrottle, "the sender's queue overflowed", "add numbers to the sender pool; " + tryLater},
	30017: {ClassThrottle, "the carrier's network is congested", tryLater},
	30022: {ClassThrottle, "the campaign's rate limit is exceeded", tryLater},
	30023: {ClassThrottle, "the brand's daily limit is reached", tryLater},
	30027: {ClassThrottle, "the campaign's daily limit is reached", tryLater},

	30003: {ClassCarrier, "the handset is off or out of reach", tryLater},
	30007: {ClassCarrier, "the carrier filtered it as unwanted", "review the text and the sender's registration"},
	30008: {ClassCarrier, "the carrier gives no reason", tryLater},
	30036: {ClassCarrier, "it was not sent within its validity", tryLater},
	30410: {ClassCarrier, "the carrier did not answer in time", tryLater},
	30450: {ClassCarrier, "blocked as suspected SMS pumping", "review sign-ups from this prefix, then Twilio's Fraud Guard"},
	20500: {ClassCarrier, "Twilio failed; whether it took the text is unknown", settled},
	20503: {ClassCarrier, "Twilio is down; whether it took the text is unknown", settled},
	30500: {ClassCarrier, "Twilio's own error", tryLater},
	63038: {ClassThrottle, "the account's daily limit of messages is reached", "ask Twilio for a higher limit; " + tryLater},
	63017: {ClassCarrier, "the channel's rate limit is exceeded", tryLater},
	63018: {ClassCarrier, "the channel's rate limit for this account is exceeded", tryLater},
}
