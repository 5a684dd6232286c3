package guardrails

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/cover"
)

// enoughToSee is the least number of statements of a function that a walk has to name.
const enoughToSee = 8

// leftOut has what the walks leave out, by the reason: files and their functions, or how these begin.
var leftOut = map[string][]string{
	"admits, bounds and logs each request": {"gateway/connections.go", "gateway/route/", "gateway/qstash/delivery.go describe"},
	"finds the token that signed, within verify": {
		"gateway/twilio/accounts.go", "gateway/twilio/signature.go", "services/messaging/senders/directory.go",
	},
	"is Twilio's receipt, another callback": {
		"gateway/twilio/twilio.go receipt", "services/messaging/send/receipt.go", "services/messaging/send/store_receipts.go",
		"services/messaging/send/message.go Receive",
	},
	"fills or reads a request, a row or a value": {
		"proto/payload/payload.go decode", "services/messaging/inbound/rpc.go readInbound", "services/messaging/send/message.go accept",
		"services/messaging/send/store.go message", "services/messaging/send/store_claim.go claimed",
		"services/onboarding/conversation/store_alarms.go alarmArgs", "services/onboarding/conversation/store_moves.go moveArgs",
		"services/onboarding/conversation/store_sessions.go scanView", "services/onboarding/engagement/store.go",
		"services/onboarding/messaging/client.go onOurClock",
	},
	"chooses the number to send from, and its pace": {
		"services/messaging/senders/sender.go choose", "services/messaging/send/settings.go", "services/messaging/send/caps.go",
	},
	"measures a text, or counts what was sent": {"services/messaging/sms/segments.go", "services/messaging/send/store_trend.go"},
	"reads words, within Read, Taken or takeDistress": {
		"services/messaging/consent/", "services/onboarding/goals/", "services/onboarding/tickets/distress.go",
	},
}

// TestWalksAreWhole plays a text and a step on the real services. What ran of the gateway, the services and the payloads, at least
// enoughToSee statements of it, is in a walk of docs/development.md or is left out for a reason; and all that a walk names ran.
func TestWalksAreWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	dependOnTree(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "trace")
	command(t, nil, "go", "build", "-cover", "-covermode=atomic", "-o", program, "-coverpkg="+strings.Join([]string{
		"paceline.internal/gateway/...", "paceline.internal/services/...", "paceline.internal/proto/payload",
		"paceline.internal/test/guardrails/trace",
	}, ","), "./test/guardrails/trace")
	command(t, []string{"GOCOVERDIR=" + dir}, program, dir)

	page, err := os.ReadFile(filepath.Join(root(t), "docs", "development.md"))
	require.NoError(t, err)
	named := map[place]bool{}
	for _, w := range walks {
		for _, p := range w.read(t, string(page)) {
			named[p] = true
		}
	}
	ran := map[place]int{}
	for _, what := range []string{"text", "step"} {
		for p, n := range statements(t, filepath.Join(dir, what)) {
			ran[p] = max(ran[p], n)
		}
	}
	parts, used := slices.Concat(slices.Collect(maps.Values(leftOut))...), map[string]bool{}
	for p, n := range ran {
		at := p.file + " " + p.name
		left := false
		for _, part := range parts {
			if strings.HasPrefix(at, part) {
				left, used[part] = true, used[part] || n >= enoughToSee
			}
		}
		if n >= enoughToSee && !named[p] && !left {
			t.Errorf("%s ran %d statements: name it in a walk of docs/development.md, or have leftOut say why not", at, n)
		}
	}
	for p := range named {
		require.True(t, ran[p] > 0 || strings.HasPrefix(p.file, "platform/"), "%s %s is in a walk and did not run", p.file, p.name)
	}
	for _, part := range parts {
		require.True(t, used[part], "leftOut has %q, which did not run", part)
	}
}

func command(t *testing.T, environ []string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = root(t), append(os.Environ(), environ...)
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
}

// statements counts the statements of each function that ran, by a folder of counters.
func statements(t *testing.T, dir string) map[place]int {
	t.Helper()
	profile := dir + ".txt"
	command(t, nil, "go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+profile)
	files, err := cover.ParseProfiles(profile)
	require.NoError(t, err)
	ran := map[place]int{}
	for _, f := range files {
		name := strings.TrimPrefix(f.FileName, product+"/")
		if strings.Contains(name, "/gen/") || strings.HasPrefix(name, "test/") ||
			!slices.ContainsFunc(f.Blocks, func(b cover.ProfileBlock) bool { return b.Count > 0 }) {
			continue
		}
		lines := token.NewFileSet()
		parsed, err := parser.ParseFile(lines, filepath.Join(root(t), name), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			function, is := d.(*ast.FuncDecl)
			for _, b := range f.Blocks {
				if is && b.Count > 0 && b.StartLine >= lines.Position(d.Pos()).Line && b.EndLine <= lines.Position(d.End()).Line {
					ran[place{name, function.Name.Name}] += b.NumStmt
				}
			}
		}
	}
	return ran
}
