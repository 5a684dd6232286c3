package twilio

import "net/http"

// fetchAccount shows the account. Twilio shows the auth token here too; it is left out, since answers end up in logs. Source:
// https://www.twilio.com/docs/iam/api/account
func (e *Emulator) fetchAccount(w http.ResponseWriter, _ *http.Request) {
	since := rfc2822(e.began)
	writeJSON(w, http.StatusOK, map[string]any{
		"sid": e.cfg.AccountSID, "owner_account_sid": e.cfg.AccountSID, "friendly_name": "Emulated account", "status": "active", "type": "Full",
		"auth_token": nil, "date_created": since, "date_updated": since, "uri": "/2010-04-01/Accounts/" + e.cfg.AccountSID + ".json",
		"subresource_uris": map[string]string{
			"messages": e.path("/Messages.json"), "incoming_phone_numbers": e.path("/IncomingPhoneNumbers.json"),
		},
	})
}
