package twilio

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
)

const (
	// kept bounds the use of an answer about an account, also that there is none.
	kept = time.Minute
	// again bounds the use of an answer that lacks the signature or the number of a callback: it is asked for anew. So a rotated token and a
	// new sender count at once, and a stranger who guesses costs one question a second for each account.
	again = time.Second
	// askTimeout bounds the question; Twilio waits 4 s for all.
	askTimeout = time.Second
	// mostKnown bounds the accounts that are remembered, and mostUnknown those that there are not: strangers can name any number of these, and
	// must not displace the others.
	mostKnown   = 10_000
	mostUnknown = 1_000
	// longestAccount bounds what is taken for the SID of an account.
	longestAccount = 64
)

// account holds the facts about a Twilio account. The zero value is one that is not ours.
type account struct {
	sid         string
	known       bool
	environment bool // the environment's token signs for it, too
	senders     []*messagingv1.CallbackSender
	at          time.Time
}

// signers returns the organisations that have a token which signed a callback. The token of the environment, which signs in its account
// alone, stands for the environment's organisation and for those that have none.
func (a account) signers(byEnvironment bool, signed func(signatures) bool) map[string]bool {
	checked, own, signers := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, of := range a.senders {
		for _, token := range of.GetAuthTokens() {
			valid, done := checked[token]
			if !done {
				valid = signed(signaturesOf([]string{token}))
				checked[token] = valid
			}
			own[of.GetOrgId()] = true
			signers[of.GetOrgId()] = signers[of.GetOrgId()] || valid
		}
	}
	for _, of := range a.senders {
		if byEnvironment && a.environment && (of.GetEnvironment() || !own[of.GetOrgId()]) {
			signers[of.GetOrgId()] = true
		}
	}
	maps.DeleteFunc(signers, func(_ string, valid bool) bool { return !valid })
	return signers
}

// shared reports whether several organisations have senders in the account.
func (a account) shared() bool { return a.known && a.only() == "" }

// owner returns the organisation that a message to a number, or through a messaging service, belongs to; a number counts first.
func (a account) owner(number, service string) (orgID string, owned bool) {
	for _, of := range a.senders {
		if of.GetNumber() != "" && of.GetNumber() == number {
			return of.GetOrgId(), true
		}
	}
	for _, of := range a.senders {
		if of.GetMessagingServiceSid() != "" && of.GetMessagingServiceSid() == service {
			return of.GetOrgId(), true
		}
	}
	return "", false
}

// only returns the organisation that has all senders of the account; empty when several share it.
func (a account) only() string {
	orgID := ""
	for _, of := range a.senders {
		if orgID != "" && of.GetOrgId() != orgID {
			return ""
		}
		orgID = of.GetOrgId()
	}
	return orgID
}

// accounts remembers what messaging says of accounts.
type accounts struct {
	messaging messagingv1.SenderServiceClient
	now       func() time.Time

	mu      sync.Mutex
	ours    map[string]account
	unknown map[string]account
}

func newAccounts(messaging messagingv1.SenderServiceClient, now func() time.Time) *accounts {
	return &accounts{messaging: messaging, now: now, ours: map[string]account{}, unknown: map[string]account{}}
}

// plausible reports whether a text can be the SID of an account at all.
func plausible(sid string) bool {
	return strings.HasPrefix(sid, "AC") && len(sid) <= longestAccount && strings.IndexFunc(sid, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
}

// of returns an account as it was at most so long ago. While messaging cannot be asked, an older answer counts; without one it is an error.
func (a *accounts) of(ctx context.Context, sid string, age time.Duration) (account, error) {
	if !plausible(sid) {
		return account{}, nil
	}
	now := a.now()
	a.mu.Lock()
	found, had := a.ours[sid]
	if !had {
		found, had = a.unknown[sid]
	}
	a.mu.Unlock()
	if passed := now.Sub(found.at); had && passed >= 0 && passed < age {
		return found, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := a.messaging.GetCallbackAccount(ctx, &messagingv1.GetCallbackAccountRequest{AccountSid: sid})
	if err != nil && had && found.known {
		return found, nil
	}
	if err != nil {
		return account{}, err
	}
	asked := account{sid: sid, known: answer.GetKnown(), environment: answer.GetEnvironment(), senders: answer.GetSenders(), at: now}
	a.remember(asked)
	return asked, nil
}

// remember keeps an answer. A full memory is emptied: it fills again with who still calls.
func (a *accounts) remember(asked account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.ours, asked.sid)
	delete(a.unknown, asked.sid)
	memory, most := a.unknown, mostUnknown
	if asked.known {
		memory, most = a.ours, mostKnown
	}
	if len(memory) >= most {
		clear(memory)
	}
	memory[asked.sid] = asked
}
