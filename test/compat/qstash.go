package main

import (
	"context"
	"errors"

	"paceline.internal/emulators/clock"
	"paceline.internal/emulators/qstash"
)

// judgeQStash plays @upstash/qstash against its own emulator, which qstash.mjs may empty.
func judgeQStash(ctx context.Context, _ *site) (results []result, err error) {
	account := qstash.New(qstash.Config{Clock: clock.System()})
	defer account.Close()
	served, err := serve(ctx, account)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, served.close()) }()
	return node(
		ctx, "@upstash/qstash", "qstash.mjs", "QSTASH_URL="+served.url, "QSTASH_TOKEN="+qstash.DevToken,
		"QSTASH_CURRENT_SIGNING_KEY="+qstash.DevCurrentKey, "QSTASH_NEXT_SIGNING_KEY="+qstash.DevNextKey,
	)
}
