package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
)

// TestRunbooks does what every runbook says, and the pages that show commands like them, line by line against `paceline up`.
func TestRunbooks(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	pages, err := filepath.Glob("../../docs/runbooks/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range []string{"consent", "engagement", "events", "api", "inbox", "organisations", "quickstart"} {
		pages = append(pages, "../../docs/"+page+".md")
	}
	for _, page := range pages {
		if strings.HasSuffix(page, "/qstash-onboarding-scheduler.md") {
			t.Run("S0_55_56_QStashOnboardingScheduler", func(t *testing.T) { // it replays a step by hand
				t.Parallel()
				follow(t, page)
			})
			continue
		}
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			follow(t, page)
		})
	}
}

// TestSectionsOfTheSchedulersRunbook checks that the page has what it must have. Following its commands shows that they work.
func TestSectionsOfTheSchedulersRunbook(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/runbooks/qstash-onboarding-scheduler.md")
	require.NoError(t, err)
	sections := map[string]string{}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, content, _ := strings.Cut(section, "\n")
		sections[title] = content
	}
	for name, tt := range map[string]struct {
		title string
		has   []string
	}{
		"Architecture": {title: "How it works", has: []string{"POST /api/onboarding/step", "`state_token`", "`next_step_id`", "`step_alarms`", "relay", "sweeper"}},
		"Variables": {title: "What it needs", has: []string{
			"`QSTASH_TOKEN`", "`QSTASH_URL`", "`QSTASH_CURRENT_SIGNING_KEY`", "`QSTASH_NEXT_SIGNING_KEY`", "`PUBLIC_BASE_URL`", "`ONBOARDING_SCHEDULING_DISABLED`",
		}},
		"Replay":      {title: "Replay a step by hand", has: []string{"OnboardingService/ExecuteStep", "`already_sent`", "`stale`", `\"idempotency_key\"`}},
		"Reset":       {title: "Begin anew", has: []string{"/v1/sessions/$SESSION_ID:reset", ":activate"}},
		"Disable":     {title: "Pause and resume", has: []string{"`ONBOARDING_SCHEDULING_DISABLED=1`", "published_at is null", ":hold", ":release"}},
		"TimingQuery": {title: "Are the pauses right?", has: []string{"```sh\npsql \"$MESSAGING_DATABASE_URL\"", "accepted_at - lag(accepted_at)", "8 s"}},
	} {
		t.Run("S0_55_"+name, func(t *testing.T) {
			t.Parallel()
			content, there := sections[tt.title]
			require.True(t, there, "the runbook has no section %q", tt.title)
			for _, part := range tt.has {
				require.Contains(t, content, part)
			}
		})
	}
}

// follow does every line of a page.
func follow(t *testing.T, page string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	r := newReader(t)
	defer r.up.stop(t, os.Interrupt)
	lines := shellLines(string(text))
	require.NotEmpty(t, lines, "a runbook without a command")
	for _, line := range lines {
		r.do(t, line)
	}
}

// shellLines are the commands in the sh blocks of a page. A line that ends in a backslash, or within quotes, goes on in the next one.
func shellLines(page string) []string {
	var lines []string
	inside, open := false, ""
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			inside = !inside && line == "```sh"
		case !inside, line == "", strings.HasPrefix(line, "#"):
		case strings.HasSuffix(line, `\`):
			open += strings.TrimSuffix(line, `\`)
		case strings.Count(open+line, "'")%2 == 1:
			open += line + " "
		default:
			lines, open = append(lines, open+line), ""
		}
	}
	return lines
}

// reader is a person who follows a runbook.
type reader struct {
	vars map[string]string
	data string // the folder of the `up`; its secrets sign tokens
	up   *upProcess
}

func newReader(t *testing.T) *reader {
	t.Helper()
	onboarding, messaging := pgtest.URL(t, postgres.Migrations{}), pgtest.URL(t, postgres.Migrations{})
	data := dataFolder(t)
	databases := []string{"ONBOARDING_DATABASE_URL=" + onboarding, "MESSAGING_DATABASE_URL=" + messaging}
	up := startUpWith(t, data, databases, "--environment-databases")
	vars, err := readEnviron(data)
	require.NoError(t, err)
	return &reader{up: up, data: data, vars: vars}
}

var (
	assignment = regexp.MustCompile(`^([A-Z_]+)=\$\((.*)\)$`)
	variable   = regexp.MustCompile(`\$\{?([A-Z_]+)\}?`)
	expected   = regexp.MustCompile(`\s+# (\d{3})$`)
)

// do follows one line: an assignment, a curl or a psql.
func (r *reader) do(t *testing.T, line string) {
	t.Helper()
	name := ""
	if found := assignment.FindStringSubmatch(line); found != nil {
		name, line = found[1], found[2]
	}
	switch {
	case strings.HasPrefix(line, "go run ./deploy/paceline token"):
		var token bytes.Buffer
		args := append(shellWords(t, strings.TrimPrefix(line, "go run ./deploy/paceline ")), "--data", r.data)
		require.NoError(t, run(t.Context(), args, terminal{out: &token}))
		r.vars[name] = strings.TrimSpace(token.String())
		return
	case line == "go run ./deploy/paceline serve messaging keyset":
		var keyset bytes.Buffer
		require.NoError(t, run(t.Context(), shellWords(t, line)[3:], terminal{out: &keyset, environ: r.vars}))
		require.NotEmpty(t, strings.TrimSpace(keyset.String()))
		return
	case line == "date -u -d '+1 hour' +%FT%TZ":
		r.vars[name] = time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		return
	}
	line = variable.ReplaceAllStringFunc(line, func(v string) string {
		value, ok := r.vars[variable.FindStringSubmatch(v)[1]]
		require.True(t, ok, "%s is not set by a line before: %s", v, line)
		return value
	})
	switch {
	case strings.HasPrefix(line, "psql "):
		words := shellWords(t, line)
		require.Len(t, words, 4, "psql url -c sql")
		query(t, words[1], words[3])
	case strings.HasPrefix(line, "curl "):
		r.curl(t, name, line)
	case strings.HasPrefix(line, "go run ./deploy/paceline events"):
		args := append(shellWords(t, strings.TrimPrefix(line, "go run ./deploy/paceline ")), "--data", r.data)
		require.NoError(t, run(t.Context(), args, terminal{out: io.Discard}))
	case strings.HasPrefix(line, "grpcurl "):
		r.grpcurl(t, shellWords(t, line))
	default:
		t.Fatalf("the test cannot do this line: %s", line)
	}
}

// curl makes the request; a value that is to be kept is waited for, as its reader would.
func (r *reader) curl(t *testing.T, name, line string) {
	t.Helper()
	status := http.StatusOK
	if found := expected.FindStringSubmatch(line); found != nil {
		line = strings.TrimSuffix(line, found[0])
		status, _ = strconv.Atoi(found[1])
	}
	line, path, _ := strings.Cut(line, " | jq -r ")
	if name == "" {
		r.ask(t, line, status)
		return
	}
	require.Eventually(t, func() bool {
		value := dig(r.ask(t, line, status), strings.Trim(path, "'"))
		if value != "" {
			r.vars[name] = value
		}
		return value != ""
	}, time.Minute, 50*time.Millisecond, "%s: no %s", line, path)
}

func (r *reader) ask(t *testing.T, line string, status int) any {
	t.Helper()
	request := parseCurl(t, line)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	got := response.StatusCode
	if got == http.StatusCreated { // which a page need not say
		got = http.StatusOK
	}
	require.Equal(t, status, got, "%s: %s", line, body)
	http.DefaultClient.CloseIdleConnections()
	var answer any
	require.NoError(t, json.Unmarshal(body, &answer), "%s: %s", line, body)
	return answer
}

// grpcurl does: grpcurl -plaintext -H "authorization: ..." -d "{...}" address service/method.
func (r *reader) grpcurl(t *testing.T, words []string) {
	t.Helper()
	require.Len(t, words, 8)
	require.Equal(t, []string{"grpcurl", "-plaintext", "-H"}, words[:3])
	require.Equal(t, "-d", words[4])
	addr := words[6]
	name, value, found := strings.Cut(words[3], ": ")
	require.True(t, found)
	service, method, found := strings.Cut(words[7], "/")
	require.True(t, found)
	described, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + method))
	require.NoError(t, err)
	rpc, ok := described.(protoreflect.MethodDescriptor)
	require.True(t, ok)
	in, out := dynamicpb.NewMessage(rpc.Input()), dynamicpb.NewMessage(rpc.Output())
	require.NoError(t, protojson.Unmarshal([]byte(words[5]), in))
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	ctx := metadata.AppendToOutgoingContext(t.Context(), name, value)
	require.NoError(t, conn.Invoke(ctx, "/"+service+"/"+method, in, out))
	t.Log(out)
	garbage := metadata.AppendToOutgoingContext(t.Context(), name, "Bearer garbage")
	require.Equal(t, codes.Unauthenticated, status.Code(conn.Invoke(garbage, "/"+service+"/"+method, in, out)), "it asks what needs no token")
}

// dig reads a path of jq: fields and indices.
func dig(value any, path string) string {
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(v) {
				return ""
			}
			value = v[i]
		default:
			return ""
		}
	}
	text, _ := value.(string)
	return text
}

func query(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	rows, err := conn.Query(t.Context(), sql)
	require.NoError(t, err, sql)
	rows.Close()
	require.NoError(t, rows.Err(), sql)
}
