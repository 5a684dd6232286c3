package twilio

import (
	"context"
	"fmt"
	"net/http"
	"slices"
)

// Account is one account with its credentials and its senders. Nothing of it is seen by another one.
type Account struct {
	SID       string // "AC" and 32 hex digits
	AuthToken string // authenticates API calls and signs callbacks
	// SecondToken authenticates API calls too and signs nothing: Twilio's secondary token, until it is promoted. Source:
	// https://www.twilio.com/docs/iam/api/authtoken
	SecondToken string
	// APIKeys maps the SID of an API key ("SK" and 32 hex digits) to its secret. It authenticates API calls, but none about the account
	// itself, and signs nothing.
	APIKeys map[string]string

	// Numbers are the account's own numbers outside of any service, in E.164.
	Numbers []string
	// Services maps a messaging service's SID to its numbers. A recipient always hears from the same one of them.
	Services map[string][]string
}

// owns reports whether the account has a number, in a service or outside.
func (a *Account) owns(number string) bool {
	if slices.Contains(a.Numbers, number) {
		return true
	}
	for _, pool := range a.Services {
		if slices.Contains(pool, number) {
			return true
		}
	}
	return false
}

// believes compares a password with those of the account, or of an API key, which may not read the account itself. Source:
// https://www.twilio.com/docs/iam/api-keys
func (a *Account) believes(user, password, path string) bool {
	if secret, ok := a.APIKeys[user]; ok {
		return password == secret && path != a.path(".json")
	}
	return user == a.SID && (password == a.AuthToken || a.SecondToken != "" && password == a.SecondToken)
}

// path is an API path below the account.
func (a *Account) path(below string) string { return "/2010-04-01/Accounts/" + a.SID + below }

// accountsOf are the accounts of a configuration, by SID.
func accountsOf(cfg Config) (map[string]*Account, error) {
	first := Account{
		SID: cfg.AccountSID, AuthToken: cfg.AuthToken, APIKeys: cfg.APIKeys, Numbers: cfg.Numbers, Services: cfg.Services,
	}
	accounts := map[string]*Account{}
	for _, a := range append([]Account{first}, cfg.Others...) {
		if a.SID == "" || a.AuthToken == "" || accounts[a.SID] != nil {
			return nil, fmt.Errorf("twilio emulator: account %d needs its own SID and a token", len(accounts)+1)
		}
		accounts[a.SID] = &a
	}
	return accounts, nil
}

// SetCredentials replaces the tokens and the API keys of an account, as its owner does at Twilio. It panics for an account that is not
// played.
func (e *Emulator) SetCredentials(sid, authToken, secondToken string, apiKeys map[string]string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	changed := *e.accounts[sid]
	changed.AuthToken, changed.SecondToken, changed.APIKeys = authToken, secondToken, apiKeys
	e.accounts[sid] = &changed
}

// account is the account with a SID; nil when none is played.
func (e *Emulator) account(sid string) *Account {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.accounts[sid]
}

// ownerOf is the account that has a number; nil when none has.
func (e *Emulator) ownerOf(number string) *Account {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, a := range e.accounts {
		if a.owns(number) {
			return a
		}
	}
	return nil
}

// callerKey is the key of the account of a request.
type callerKey struct{}

// callerOf is the account on behalf of which an authenticated request is made.
func callerOf(r *http.Request) *Account {
	a, _ := r.Context().Value(callerKey{}).(*Account)
	return a
}

// caller finds the account that believes a request's credentials; nil when none does.
func (e *Emulator) caller(r *http.Request) *Account {
	user, password, _ := r.BasicAuth()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, a := range e.accounts {
		if a.believes(user, password, r.URL.Path) {
			return a
		}
	}
	return nil
}

func calledBy(r *http.Request, a *Account) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, a))
}

// fetchAccount shows the account. Twilio shows the auth token here too; it is left out, since answers end up in logs. Source:
// https://www.twilio.com/docs/iam/api/account
func (e *Emulator) fetchAccount(w http.ResponseWriter, r *http.Request) {
	since, a := rfc2822(e.began), callerOf(r)
	writeJSON(w, http.StatusOK, map[string]any{
		"sid": a.SID, "owner_account_sid": a.SID, "friendly_name": "Emulated account", "status": "active", "type": "Full",
		"auth_token": nil, "date_created": since, "date_updated": since, "uri": a.path(".json"),
		"subresource_uris": map[string]string{
			"messages": a.path("/Messages.json"), "incoming_phone_numbers": a.path("/IncomingPhoneNumbers.json"),
		},
	})
}
