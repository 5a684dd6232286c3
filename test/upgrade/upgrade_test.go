package upgrade_test

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/e2e"
	"paceline.internal/deploy/stack"
)

// TestUpgrade is about the release before this one and this one: about what a rolling upgrade from one to the other meets.
func TestUpgrade(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	before, after := releases(t, t.TempDir())
	for name, test := range map[string]func(t *testing.T, before, after release){
		"InAnyOrder": inAnyOrder, "UnderAConversationAndBack": underAConversation,
		"WordsAboutReminders":           wordsAboutReminders,
		"NewServicesWaitForTheirSchema": schemaBehind, "OldEnvironmentIsEnough": oldEnvironment,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, before, after)
		})
	}
}

// inAnyOrder has the services of both releases serve together, in every mix, on the schema of the new one: a rolling upgrade may
// take the services in any order, stop anywhere, and go back.
func inAnyOrder(t *testing.T, before, after release) {
	t.Helper()
	pick := map[bool]release{false: before, true: after}
	for mix := range 7 { // the eighth is the new release alone, which all other tests are about
		gateway, onboarding, messaging := pick[mix&4 > 0], pick[mix&2 > 0], pick[mix&1 > 0]
		name := "Gateway_" + gateway.name + "_Onboarding_" + onboarding.name + "_Messaging_" + messaging.name
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := found(t, after)
			s.run(messaging, "messaging")
			s.run(onboarding, "onboarding")
			s.run(gateway, "gateway")
			report, err := s.play(t.Context(), e2e.Stub)
			require.NoError(t, err)
			require.Empty(t, faults(report))
			require.True(t, report.Kept)
			if onboarding == after { // what the environment says is the first organisation, without a word more in it
				require.Eventually(t, func() bool {
					return s.count("ONBOARDING_DATABASE_URL", "select count(*) from organisations where status = 'active' and org_id = '"+stack.OrgID+"'") == 1
				}, time.Minute, 100*time.Millisecond)
			}
		})
	}
}

// underAConversation takes the product from one release to the next and back while a conversation is under way, with QStash's real
// delays: the person notices nothing.
func underAConversation(t *testing.T, before, after release) {
	t.Helper()
	s := found(t, before)
	s.run(before, "messaging")
	s.run(before, "onboarding")
	s.run(before, "gateway")

	roll := func(t *testing.T, steps ...func()) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		type played struct {
			report e2e.Report
			err    error
		}
		ended := make(chan played, 1)
		go func() {
			report, err := s.play(ctx, e2e.Real)
			ended <- played{report, err}
		}()
		for _, step := range steps {
			select {
			case <-s.accepted:
				step()
			case p := <-ended:
				t.Fatalf("it ended before its time: %v %v", p.err, faults(p.report))
			}
		}
		p := <-ended
		require.NoError(t, p.err)
		require.Empty(t, faults(p.report))
		require.True(t, p.report.Kept)
		for len(s.accepted) > 0 {
			<-s.accepted
		}
	}
	t.Run("Upgrade", func(t *testing.T) {
		roll(t, func() {
			s.runVerb(after, "messaging", "migrate")
			s.runVerb(after, "onboarding", "migrate")
		}, func() { s.run(after, "messaging") }, func() { s.run(after, "onboarding") }, func() { s.run(after, "gateway") })
	})
	// Once no old replica runs the engine of alarms may change, and change back: each alarm rings from the one that has it.
	t.Run("AlarmsOfTheDatabaseAndBack", func(t *testing.T) {
		wait, rings := func() {}, func(engine string) func() {
			return func() {
				s.environ["ALARMS"] = engine
				s.run(after, "onboarding")
			}
		}
		// The opening, the explanation, and messages 1 to 3. QStash has the alarm of message 2 when the engine changes, and a process that of
		// message 3 when it changes back: under a lease that ends 10 s after it is due, until it is stopped and leaves it to QStash.
		held := func() {
			require.Eventually(t, func() bool {
				return s.count("ONBOARDING_DATABASE_URL", "select count(*) from step_alarms where published_at is null and lease_until > due_at + interval '5 s'") == 1
			}, 5*time.Second, 10*time.Millisecond)
		}
		roll(t, wait, wait, rings("postgres"), func() { held(); rings("qstash")() }, wait)
		require.Zero(t, s.count("ONBOARDING_DATABASE_URL", "select count(*) from alarm_jobs"), "it has rung")
		require.Zero(t, s.count("ONBOARDING_DATABASE_URL", "select count(*) from step_alarms where generation > 1"), "none was lost and set again")
	})
	t.Run("AndBack", func(t *testing.T) {
		roll(t, func() { s.run(before, "gateway") }, func() { s.run(before, "onboarding") }, func() { s.run(before, "messaging") })
	})
}

// wordsAboutReminders has a person write of reminders while onboarding and messaging are of different releases: the message is recorded,
// its job completed, and the words are kept, whichever of them reads it.
func wordsAboutReminders(t *testing.T, before, after release) {
	t.Helper()
	for name, mix := range map[string]struct{ onboarding, messaging release }{
		"Onboarding_new_Messaging_old": {after, before},
		"Onboarding_old_Messaging_new": {before, after},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := found(t, after)
			s.run(mix.messaging, "messaging")
			s.run(mix.onboarding, "onboarding")
			s.run(after, "gateway")
			s.carrier.SetInboundURL(s.environ["PUBLIC_BASE_URL"] + "/api/webhooks/twilio/inbound#rt=4000&rc=3&rp=all")
			for _, words := range []string{"stop reminders", "parar lembretes"} {
				delivery, err := s.carrier.Receive(t.Context(), "+12025550123", stack.FromNumber, words)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, delivery.StatusCode)
			}
			require.Eventually(t, func() bool {
				return s.count("ONBOARDING_DATABASE_URL", "select count(*) from webhook_jobs where status = 'completed'") == 2
			}, time.Minute, 100*time.Millisecond)
			require.Equal(t, 1, s.count("MESSAGING_DATABASE_URL", "select count(*) from reminder_preferences where off"))
		})
	}
}

// schemaBehind starts the new services before migrate has run: they wait for it, and say so.
func schemaBehind(t *testing.T, before, after release) {
	t.Helper()
	s := found(t, before)
	for service, schemas := range map[string][2]release{"onboarding": {before, after}, "messaging": {before, after}} {
		versions := [2]int64{}
		for i, r := range schemas {
			m := r.onboarding
			if service == "messaging" {
				m = r.messaging
			}
			version, err := m.Required()
			require.NoError(t, err)
			versions[i] = version
		}
		if versions[0] == versions[1] {
			s.run(after, service) // there is nothing to wait for
			continue
		}
		out, err := s.command(after, service, "doctor").CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "migrate", "the doctor says what to do")
	}
	if s.running["onboarding"] != nil {
		return
	}
	s.start(after, "onboarding")
	require.Eventually(t, func() bool { return s.ready("onboarding") == http.StatusServiceUnavailable }, time.Minute, 20*time.Millisecond)
	s.runVerb(after, "onboarding", "migrate")
	require.Eventually(t, func() bool { return s.ready("onboarding") == http.StatusOK }, time.Minute, 20*time.Millisecond)
}

// oldEnvironment compares today's variables with those of the release before: an environment that was enough still is.
func oldEnvironment(t *testing.T, before, after release) {
	t.Helper()
	earlier, today := variables(t, before), variables(t, after)
	for name, old := range earlier {
		now, known := today[name]
		require.True(t, known, "%s is not read any more: an environment that sets it no longer says what it did", name)
		if old.value != "**required**" {
			require.Equal(t, old.value, now.value, "the default of %s is another", name)
		}
		for _, reader := range old.readers {
			require.Contains(t, now.readers, reader, "%s is not read by %s any more", name, reader)
		}
	}
	for name, now := range today {
		if old, known := earlier[name]; !known || old.value != "**required**" {
			for _, service := range []string{"gateway", "onboarding", "messaging"} {
				if now.value == "**required**" {
					require.NotContains(t, now.readers, service, "%s has become required: an old environment does not have it", name)
				}
			}
		}
	}
}

type variable struct {
	readers []string
	value   string // its default
}

var (
	row     = regexp.MustCompile("(?m)^\\| `([A-Z0-9_]+)`[^|]*\\| ([^|]+) \\| ([^|]+) \\|") // until 0.1.0
	group   = regexp.MustCompile(`(?m)^## ((?:onboarding|messaging|gateway|paceline e2e)(?:, .+)?)\n\n((?:- .+\n)+)`)
	renamed = regexp.MustCompile("(?m)^- `([A-Z0-9_]+)`.*; was ([A-Z0-9_]+)$")
	entry   = regexp.MustCompile("(?m)^- `([A-Z0-9_]+)`(?:\\\\\\*)?(?: (\\*\\*required\\*\\*|`[^`]+`))?: ")
)

// variables returns those of the page of a release.
func variables(t *testing.T, r release) map[string]variable {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(r.dir, "docs", "configuration.md"))
	if errors.Is(err, fs.ErrNotExist) { // 0.1.0 had the page under another name
		page, err = os.ReadFile(filepath.Join(r.dir, "docs", "environment-contract.md"))
	}
	require.NoError(t, err)
	all := map[string]variable{}
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		all[m[1]] = variable{readers: strings.Split(m[2], ", "), value: m[3]}
	}
	for _, readers := range group.FindAllStringSubmatch(string(page), -1) {
		for _, m := range entry.FindAllStringSubmatch(readers[2], -1) {
			all[m[1]] = variable{readers: strings.Split(readers[1], ", "), value: cmp.Or(m[2], "none")}
		}
		for _, m := range renamed.FindAllStringSubmatch(readers[2], -1) {
			all[m[2]] = all[m[1]]
		}
	}
	require.Greater(t, len(all), 20)
	return all
}
