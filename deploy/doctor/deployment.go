package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/letters"
	"paceline.internal/platform/process"
	"paceline.internal/platform/qstash"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/onboarding"
)

// Deployment asks the doctors of all three services, who see what the environment says of each, and looks at what none of them can see
// alone. They are asked at once: each may wait for a server that does not answer.
func Deployment(ctx context.Context, environ map[string]string) process.Findings {
	names := []string{stack.Gateway, stack.Onboarding, stack.Messaging}
	found := make([]process.Findings, len(names))
	var asked sync.WaitGroup
	for i, name := range names {
		asked.Go(func() {
			service, err := stack.ServiceNamed(name)
			if err != nil {
				found[i] = process.Environment(name, err)
				return
			}
			found[i] = service.Doctor(ctx, environ)
		})
	}
	asked.Wait()
	return append(slices.Concat(found...), process.Examine(ctx, "together",
		process.Check{
			Name: "signing keys", Look: func(ctx context.Context) (string, error) { return lookAtKeys(ctx, environ) },
			Mend: "take QSTASH_CURRENT_SIGNING_KEY and QSTASH_NEXT_SIGNING_KEY from the account and region of QSTASH_TOKEN; " +
				"after a rotation both have moved",
		},
		process.Check{
			Name: "text lengths", Look: func(context.Context) (string, error) { return lookAtLengths(environ) },
			Mend: "mend what is wrong with onboarding's environment, above",
		},
	)...)
}

// lookAtKeys compares the keys that callbacks are verified with to those that QStash signs with.
func lookAtKeys(ctx context.Context, environ map[string]string) (string, error) {
	cfg, err := onboarding.LoadConfig(environ)
	if err != nil {
		return "", process.Mend("mend what is wrong with onboarding's environment, above", errors.New("not looked at"))
	}
	if cfg.Alarms == "postgres" {
		return "QStash's are not used: the database rings the alarms", nil
	}
	client, err := qstash.New(qstash.Config{URL: cfg.QStashURL.String(), Token: cfg.QStashToken.Reveal()})
	if err != nil {
		return "", err
	}
	keys, err := client.Keys(ctx)
	if err != nil {
		return "", process.Mend("mend what is wrong with qstash, above", fmt.Errorf("not looked at: %w", err))
	}
	ours, err := LoadKeys(environ)
	if err != nil {
		return "", err
	}
	current, next := ours.QStashCurrent, ours.QStashNext
	switch {
	case current == keys.Current && next == keys.Next:
		return "those that QStash signs with", nil
	case next == keys.Current:
		return "", process.Warn("the keys were rotated: QStash signs with the one that is still our next, and the one after it is not known here")
	case current == keys.Current:
		return "", process.Warn("the next key is another than QStash's: after the next rotation no callback is believed")
	}
	return "", errors.New("QStash signs with keys that are not these: no callback is believed")
}

// lookAtLengths counts the segments of every text of the flow, with a name of usual length. Copy that is too long is no copy: onboarding
// refuses it.
func lookAtLengths(environ map[string]string) (string, error) {
	cfg, err := onboarding.LoadConfig(environ)
	if err != nil {
		return "", errors.New("the environment of onboarding cannot be used; see above")
	}
	texts, err := cfg.Texts("Alexandra")
	if err != nil {
		return "", err
	}
	counts := make([]string, len(texts))
	for i, t := range texts {
		counts[i] = fmt.Sprintf("%s %s %d", t.Locale, t.Key, sms.Segments(t.Body).Count)
		if dearer := letters.Dearer(t.Body); len(dearer) > 0 {
			counts[i] += fmt.Sprintf(" (UCS-2 for %s)", string(dearer))
		}
	}
	return "segments: " + strings.Join(counts, ", "), nil
}
