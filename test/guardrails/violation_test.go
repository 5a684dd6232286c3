package guardrails

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

// violations are changes of today's code that break a rule each: a file more in a package that there is, or a package more.
// They are laid over the tree when it is read; nothing is written. If a rule's names no longer fit the code, they show it.
const violations = `
== services/onboarding/waits.go
package onboarding

import "time"

func waitsHere() { time.Sleep(8 * time.Second) } // in-process sleep detected - use the QStash delay parameter

== services/onboarding/pacing/pacing.go
package pacing

import (
	"context"
	"time"

	"paceline.internal/platform/process"
)

func gap(ctx context.Context, rest process.Rest) {
	<-time.NewTimer(8 * time.Second).C // in-process sleep detected - use the QStash delay parameter
	rest(ctx, 8*time.Second, nil)      // in-process sleep detected - use the QStash delay parameter
}

== platform/pause/pause.go
package pause

import "time"

func For(d time.Duration) { time.Sleep(d) }

== services/onboarding/pacing/helped.go
package pacing

import (
	"time"

	"paceline.internal/platform/pause"
)

func helped() { pause.For(8 * time.Second) } // in-process sleep detected - use the QStash delay parameter

== services/onboarding/enqueues.go
package onboarding

import (
	"context"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
)

func enqueuesHere(ctx context.Context, m messagingv1.OutboundServiceClient) { // burst enqueue detected - use QStash scheduling
	_, _ = m.EnqueueText(ctx, nil) // burst enqueue detected - use QStash scheduling
}

== services/onboarding/pacing/table.go
package pacing

const sqlAll = "insert into sms_outbound_jobs (id) values (@id)" // burst enqueue detected - use QStash scheduling

== services/messaging/rush/rush.go
package rush

import (
	"context"

	"github.com/google/uuid"

	"paceline.internal/platform/queue"
	"paceline.internal/services/messaging/outbound"
)

func send(ctx context.Context, d *outbound.Intake, o *outbound.Store, r outbound.Request, id uuid.UUID) {
	_, _, _ = d.Enqueue(ctx, r)                              // burst enqueue detected - use QStash scheduling
	_, _, _ = o.Enqueue(ctx, r, id, d.Now())                 // burst enqueue detected - use QStash scheduling
	_, _ = o.Jobs().Enqueue(ctx, nil, queue.New{})          // burst enqueue detected - use QStash scheduling
	_, _ = o.Jobs().EnqueueMany(ctx, nil, nil)               // burst enqueue detected - use QStash scheduling
	_, _ = queue.NewIntake(o.Jobs()).Enqueue(ctx, queue.New{}) // burst enqueue detected - use QStash scheduling
}

== services/messaging/ledger/sql.go
package ledger

const sqlNow = "update consent set at = now()" // SQL reads the database's clock, now()

== services/messaging/ledger/log.go
package ledger

import (
	"log/slog"

	"paceline.internal/platform/config"
	"paceline.internal/services/messaging/sms"
)

func tell(log *slog.Logger, to sms.Phone, body sms.Body, key config.Secret) {
	log.Info("x", "to", to.String())     // what a masking type hides reaches a log
	log.Info("x", "said", string(body))  // what a masking type hides reaches a log
	log.Info("x", "with", key.Reveal())  // what a masking type hides reaches a log
}
`

func TestViolation(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	dependOnTree(t)

	t.Run("S0_54_ADeliberateOneInTodaysCodeIsFoundAtItsLine", func(t *testing.T) {
		t.Parallel()
		overlay, patterns, want := map[string][]byte{}, map[string]bool{}, map[string]string{}
		for _, file := range strings.Split(violations, "\n== ")[1:] {
			name, source, _ := strings.Cut(file, "\n")
			overlay[filepath.Join(root(t), filepath.FromSlash(name))] = []byte(source)
			patterns["paceline.internal/"+path.Dir(name)] = true
			for i, line := range strings.Split(source, "\n") {
				if _, message, ok := strings.Cut(line, "// "); ok {
					want[fmt.Sprintf("%s:%d", name, i+1)] = message
				}
			}
		}
		found := examine(t, load(t, packages.LoadSyntax, overlay, slices.Sorted(maps.Keys(patterns))...))
		said := map[string]string{}
		for _, line := range found {
			at, message, _ := strings.Cut(line, ": ")
			said[at] = message
			require.Contains(t, want, at, "nothing is wrong there: %s", message)
		}
		for at, message := range want {
			require.True(t, strings.HasPrefix(said[at], message), "%s: %s\nwas said: %q", at, message, said[at])
		}
	})
}
