package twilio

import (
	"context"
	"maps"
	"regexp"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

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
	// outageTrust bounds the use of an answer while messaging cannot be asked.
	outageTrust = 5 * time.Minute
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
	admit     func(context.Context) error // bounds the questions about accounts that are not known
	now       func() time.Time
	asking    singleflight.Group

	mu      sync.Mutex
	ours    map[string]account
	unknown map[string]account
}

func newAccounts(messaging messagingv1.SenderServiceClient, admit func(context.Context) error, now func() time.Time) *accounts {
	return &accounts{messaging: messaging, admit: admit, now: now, ours: map[string]account{}, unknown: map[string]account{}}
}

// accountSID is the form of the accounts that organisations store; that of the environment may have another one.
var accountSID = regexp.MustCompile(`^AC[0-9a-f]{32}$`)

// of returns an account as it was at most so long ago. While messaging cannot be asked, the last answer counts for a few minutes; then it
// is returned with an error. Callers who come meanwhile wait for the same answer.
func (a *accounts) of(ctx context.Context, sid string, age time.Duration) (account, error) {
	found, had := a.last(sid)
	passed := a.now().Sub(found.at)
	if had && passed >= 0 && passed < age {
		return found, nil
	}
	got := a.asking.DoChan(sid, func() (any, error) { return a.ask(context.WithoutCancel(ctx), sid, found.known) })
	var err error
	select {
	case result := <-got:
		if asked, ok := result.Val.(account); ok && result.Err == nil {
			return asked, nil
		}
		err = result.Err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if found.known && passed >= 0 && passed < outageTrust {
		return found, nil
	}
	return found, err
}

func (a *accounts) last(sid string) (found account, had bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if found, had = a.ours[sid]; !had {
		found, had = a.unknown[sid]
	}
	return found, had
}

func (a *accounts) ask(ctx context.Context, sid string, known bool) (account, error) {
	if !known { // of those that are ours there are few
		if err := a.admit(ctx); err != nil {
			return account{}, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	asked := account{sid: sid, at: a.now()}
	answer, err := a.messaging.GetCallbackAccount(ctx, &messagingv1.GetCallbackAccountRequest{AccountSid: sid})
	if err != nil {
		return account{}, err
	}
	asked.known, asked.environment, asked.senders = answer.GetKnown(), answer.GetEnvironment(), answer.GetSenders()
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
