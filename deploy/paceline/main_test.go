package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/postgres/pgtest"
)

// asPaceline makes the test binary behave as the command, so that it can be started, interrupted and killed for real.
const asPaceline = "PACELINE_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asPaceline) != "" {
		main()
		return
	}
	pgtest.Run(m)
}

// command is `paceline args...` as a separate process.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asPaceline+"=1")
	cmd.Stderr = os.Stderr
	return cmd
}

func TestDemo(t *testing.T) {
	t.Parallel()
	const busy = "20s" // the machine runs all other tests meanwhile; that nothing comes early is asserted all the same

	t.Run("KeepsEveryPromiseAlsoUnderFaults", func(t *testing.T) {
		if testing.Short() {
			t.Skip("long: make proof")
		}
		t.Parallel()
		environ, untouched := deploymentShell(t)
		cmd := command(t, "demo", "--faults", "--json", "--late", busy)
		cmd.Env = append(cmd.Env, environ...)
		out, err := cmd.Output()
		require.NoError(t, err, "%s", out)
		untouched()

		var summary struct {
			Kept bool     `json:"kept"`
			Runs []report `json:"runs"`
		}
		require.NoError(t, json.Unmarshal(out, &summary))
		require.True(t, summary.Kept)
		require.Len(t, summary.Runs, 2)
		for _, r := range summary.Runs {
			require.Len(t, r.Messages, len(steps))
			require.Zero(t, r.Duplicates)
		}
		require.Len(t, summary.Runs[1].Promises, len(summary.Runs[0].Promises)+1, "the second run is compared with the first")
	})

	t.Run("PrintsForPeopleInTheLanguageThatWasAskedFor", func(t *testing.T) {
		if testing.Short() {
			t.Skip("long: make proof")
		}
		t.Parallel()
		out, err := command(t, "demo", "--locale", "pt-BR", "--late", busy).Output()
		require.NoError(t, err, "%s", out)
		for _, want := range []string{"--> Oi", "<-- Sim", "[awaiting_burst]", "[interview:activity_01]", "[interview:done]", "kept    each text exactly once           10 texts, 0 duplicates"} {
			require.Contains(t, string(out), want)
		}
		require.NotContains(t, string(out), "BROKEN")
	})

	t.Run("PlaysWeeks", func(t *testing.T) {
		if testing.Short() {
			t.Skip("long: make proof")
		}
		t.Parallel()
		out, err := command(t, "demo", "--weeks", "6", "--locale", "pt-BR").Output()
		require.NoError(t, err, "%s", out)
		require.NotContains(t, string(out), "BROKEN")
		require.Contains(t, string(out), "kept    at most one nudge a day          weekly_review, goodbye, reminder, weekly_review")
		require.Contains(t, string(out), "5 transitions, now active")
	})

	t.Run("PlaysGoals", func(t *testing.T) {
		if testing.Short() {
			t.Skip("long: make proof")
		}
		t.Parallel()
		out, err := command(t, "demo", "--goals").Output()
		require.NoError(t, err, "%s", out)
		require.NotContains(t, string(out), "BROKEN")
		require.Contains(t, string(out), "kept    each at its time                 10:40:00, 14:00:30, 15:00:00")
		require.Contains(t, string(out), "4 goals, 3 runs, 1 cancelled")
		require.Contains(t, string(out), "2 tries in vain, runs: 1")
		require.Contains(t, string(out), "kept    an unclear time is asked back")
	})

	t.Run("SaysWhatIsWrongWithItsArguments", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		require.ErrorContains(t, run(t.Context(), []string{"demo", "--locale", "de"}, terminal{out: &out}), "locale")
		require.ErrorContains(t, run(t.Context(), []string{"demo", "--weeks", "27"}, terminal{out: &out}), "1 to 26")
		require.ErrorContains(t, run(t.Context(), []string{"demo", "--goals", "--faults"}, terminal{out: &out}), "without --faults")
		require.ErrorContains(t, run(t.Context(), []string{"demos"}, terminal{out: &out}), "demos")
	})

	t.Run("OneDatabaseURLWithoutTheOtherIsAnError", func(t *testing.T) {
		t.Parallel()
		environ := map[string]string{"ONBOARDING_DATABASE_URL": "postgres://x"}
		up := []string{"up", "--environment-databases", "--free-ports", "--data", t.TempDir()}
		require.ErrorContains(t, run(t.Context(), up, terminal{out: io.Discard, environ: environ}), "needs both")
	})
}

func TestUp(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	t.Run("ItsPrintedCommandsWorkAndItComesBackWithItsDataAfterCtrlC", func(t *testing.T) {
		t.Parallel()
		data := dataFolder(t)
		first := startUp(t, data)
		profile := first.curl(t, 0, nil)["profile"].(map[string]any)["profile_id"].(string)
		session := first.curl(t, 1, map[string]string{"PROFILE_ID": profile})["session"].(map[string]any)["session_id"].(string)
		require.InDelta(t, http.StatusOK, first.curl(t, 2, nil)["callback_status"], 0)
		require.Len(t, first.curl(t, 3, nil)["sessions"], 1)
		require.NotEmpty(t, first.curl(t, 4, map[string]string{"SESSION_ID": session})["timeline"])
		require.Len(t, first.curl(t, 5, nil)["messages"], 3, "the opening, the reply and the explanation")
		goal := first.curl(t, 6, map[string]string{"PROFILE_ID": profile})["goal"].(map[string]any)
		require.Equal(t, []any{"scheduled", "call John"}, []any{goal["status"], goal["goal"]})
		require.NotEmpty(t, first.curl(t, 7, map[string]string{"PROFILE_ID": profile})["token"])
		first.stop(t, os.Interrupt)

		second := startUp(t, data)
		require.Equal(t, session, second.curl(t, 3, nil)["sessions"].([]any)[0].(map[string]any)["session_id"])
		second.stop(t, syscall.SIGTERM)
	})

	t.Run("Kill9LeavesNoPostgresBehindAndNothingIsLost", func(t *testing.T) {
		t.Parallel()
		data := dataFolder(t)
		first := startUp(t, data)
		first.curl(t, 0, nil)
		server := postmaster(t, data)
		require.NoError(t, first.cmd.Process.Kill())
		require.Error(t, first.cmd.Wait())
		require.Eventually(t, func() bool { return syscall.Kill(server, 0) != nil }, 10*time.Second, 10*time.Millisecond,
			"postgres %d still runs", server)

		second := startUp(t, data)
		again := second.curl(t, 0, nil)
		require.NotEmpty(t, again["profile"], "the phone is known: the profile is returned, not made again")
		second.stop(t, os.Interrupt)
	})

	t.Run("CtrlCWhileItStartsLeavesATreeThatStarts", func(t *testing.T) {
		t.Parallel()
		data := dataFolder(t)
		for _, ms := range []int{20, 120, 300, 600, 900} {
			cmd := command(t, "up", "--free-ports", "--data", data)
			cmd.Stdout = io.Discard
			require.NoError(t, cmd.Start())
			interrupt := time.AfterFunc(time.Duration(ms)*time.Millisecond, func() { _ = cmd.Process.Signal(os.Interrupt) })
			_ = cmd.Wait() // killed by the signal before it listens for it, or ended by it: both are fine
			interrupt.Stop()
		}
		started := startUp(t, data)
		started.stop(t, os.Interrupt)
	})
}

func TestToken(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("k", 32)
	environ := stack.Secrets{ServiceAuth: secret}.Keys()
	environ["API_JWT_SECRET"] = secret

	for _, tc := range []struct {
		name string
		args []string
		want string // of the error; empty means a token
	}{
		{name: "ForGRPC", args: []string{"token"}},
		{name: "ForTheAPI", args: []string{"token", "--api", "--role", "user", "--subject", "01a1fa5b-67d5-70f4-8c4b-49f4142640b7"}},
		{name: "ForTheHostApplication", args: []string{"token", "--api", "--role", "app", "--subject", "shop"}},
		{name: "AnOrganisationThatIsNoUUIDIsRefused", args: []string{"token", "--org", "acme"}, want: "org_id"},
		{name: "ForAProcessOfOursIsRefused", args: []string{"token", "--role", "service"}, want: "role"},
		{name: "AnUnknownRoleIsRefused", args: []string{"token", "--role", "root"}, want: "role"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := run(t.Context(), tc.args, terminal{out: &out, environ: environ})
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			require.Len(t, strings.Split(strings.TrimSpace(out.String()), "."), 3)
		})
	}

	t.Run("WithoutAnySecretItSaysWhatToDo", func(t *testing.T) {
		t.Parallel()
		err := run(t.Context(), []string{"token", "--data", t.TempDir()}, terminal{out: io.Discard})
		require.ErrorIs(t, err, errNoSecrets)
	})
}

// dataFolder makes a folder that the server's user can enter, with a path that is short enough for a socket.
func dataFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "paceline-up-") //nolint:usetesting // its folders are too long for a socket
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755)) // postgres runs as another user and must enter
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// upProcess is a running `paceline up` and what it printed.
type upProcess struct {
	cmd   *exec.Cmd
	token string
	lines []string // its curl lines
	grpc  string   // the address of onboarding

	messaging string // the address of messaging's gRPC
}

func startUp(t *testing.T, data string) *upProcess {
	t.Helper()
	return startUpWith(t, data, nil)
}

// startUpWith is startUp with more in its environment, and more flags.
func startUpWith(t *testing.T, data string, environ []string, flags ...string) *upProcess {
	t.Helper()
	cmd := command(t, append([]string{"up", "--free-ports", "--data", data}, flags...)...)
	cmd.Env = append(cmd.Env, environ...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	up := &upProcess{cmd: cmd}
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		line := strings.TrimSpace(scanner.Text())
		if token, ok := strings.CutPrefix(line, "TOKEN="); ok {
			up.token = token
		}
		if words := strings.Fields(line); len(words) > 2 && words[1] == "grpc" {
			switch words[0] {
			case "onboarding":
				up.grpc = words[2]
			case "messaging":
				up.messaging = words[2]
			}
		}
		if strings.HasPrefix(line, "curl ") {
			up.lines = append(up.lines, line)
		}
		if strings.HasPrefix(line, "grpcurl ") {
			return up
		}
	}
	t.Fatal("paceline up ended before it was up")
	return nil
}

func (u *upProcess) stop(t *testing.T, signal os.Signal) {
	t.Helper()
	require.NoError(t, u.cmd.Process.Signal(signal))
	require.NoError(t, u.cmd.Wait())
}

// curl does what the n-th printed line says and returns the JSON of the answer.
func (u *upProcess) curl(t *testing.T, n int, replace map[string]string) map[string]any {
	t.Helper()
	line := strings.ReplaceAll(u.lines[n], "$TOKEN", u.token)
	for placeholder, value := range replace {
		line = strings.ReplaceAll(line, placeholder, value)
	}
	request := parseCurl(t, line)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Contains(t, []int{http.StatusOK, http.StatusCreated}, response.StatusCode, "%s: %s", line, body)
	http.DefaultClient.CloseIdleConnections()
	var answer map[string]any
	require.NoError(t, json.Unmarshal(body, &answer))
	return answer
}

// postmaster is the process id of the server of a data folder.
func postmaster(t *testing.T, data string) int {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(data, "postgres", "data", "postmaster.pid"))
	require.NoError(t, err)
	var pid int
	first, _, _ := strings.Cut(string(content), "\n")
	require.NoError(t, json.Unmarshal([]byte(first), &pid))
	return pid
}

func TestWhatToCallNextIsSaidAsThisWasCalled(t *testing.T) {
	t.Parallel()
	require.Equal(t, "./paceline", asCalled("./paceline"))
	require.Equal(t, "go run ./deploy/paceline", asCalled("/tmp/go-build123/b001/exe/paceline"))
}
