package messaging

import (
	"context"
	"fmt"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/services/messaging/consent"
)

// sqlOtherKey counts the organisations that have erased people under another key: no claim texts new people.
const sqlOtherKey = `select count(distinct org_id) from suppressions where key_id <> $1`

// lookAtErasure looks at whether people can be erased, and whether those that were are found: a claim refuses what this refuses.
func lookAtErasure(ctx context.Context, cfg Config, pool *postgres.Pool) (string, error) {
	var organisations int
	key := consent.NewPseudonyms(cfg.PseudonymKey.Reveal())
	if err := pool.QueryRow(ctx, sqlOtherKey, key.KeyID()).Scan(&organisations); err != nil {
		return "", process.AfterDatabase(err)
	}
	switch {
	case organisations > 0:
		return "", process.Mend("give messaging the PSEUDONYM_KEY that it had, from where the backups are kept; docs/security-and-privacy.md",
			fmt.Errorf("PSEUDONYM_KEY is not the key under which people of %d organisations were erased: their STOP is not found, so "+
				"nothing is sent to new people of these organisations", organisations))
	case !key.Known():
		return "", process.Warn("PSEUDONYM_KEY is not set: no person can be erased, for their STOP would be forgotten with them")
	}
	return "people can be erased, and their STOP outlasts it", nil
}

// The tables of which the roles may not change rows, and those of which they may not delete any, as the migrations have it.
var (
	appended = []string{
		"audit", // of which the worker alone changes some columns
		"consent_events", "erased_ledgers", "forgotten_ledgers", "ledger_anchors", "sms_looks", "sms_receipts",
	}
	keptRows = []string{
		"consent_events", "consents", "erased_ledgers", "forgotten_ledgers", "ledger_anchors", "organisations", "sms_looks", "sms_messages",
	}
)

// lookAtRights finds tables that the service may not use, as after a restore without rights: every call that needs them fails.
func lookAtRights(ctx context.Context, pool *postgres.Pool) (string, error) {
	if err := Migrations().Ready(ctx, pool); err != nil {
		return "", process.AfterDatabase(err)
	}
	return process.LookAtRights(ctx, pool, name, appended, keptRows)
}
