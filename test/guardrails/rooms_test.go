package guardrails

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tablesOf has the tables of each room of onboarding.
var tablesOf = map[string]string{
	"apikeys":       "api_keys",
	"conversation":  "conversation_sessions dead_letters held_replies session_transitions step_alarms webhook_jobs",
	"engagement":    "engagement_actions engagement_outreach engagement_runs engagement_state_transitions household_members user_engagement_states",
	"erasure":       "erasures",
	"events":        "event_deliveries event_feed event_log_starts event_outbox event_subscriptions event_types events",
	"flows":         "flow_count_changes flow_counts flow_drafts flow_publications flow_versions",
	"goals":         "device_nodes devices goal_alarms goal_readings goal_transitions goals",
	"inbound":       "delivery_reservations inbound_sweeps",
	"organisations": "organisations",
	"people":        "organisation_settings profile_fields profiles scheduling_pauses settings_versions",
	"restores":      "restores",
	"runs":          "flow_run_people flow_runs",
	"tickets":       "saved_replies ticket_answers ticket_notes tickets",
}

// othersTables has the tables of other rooms that a room's statements name, and why no function of the other room does.
var othersTables = map[string]struct{ why, tables string }{
	"conversation": {
		"a move writes what it learnt and its ticket, and a step reads the person and their hours, in one statement",
		"organisation_settings profile_fields profiles tickets",
	},
	"engagement": {
		"a run reads a page of people with their sessions and tickets in one statement; its events are of its transaction",
		"conversation_sessions event_outbox profiles tickets webhook_jobs",
	},
	"erasure": {
		"one transaction takes a person out of every table, and one snapshot exports them",
		"audit conversation_sessions dead_letters devices engagement_actions engagement_outreach engagement_state_transitions events " +
			"flow_run_people goal_alarms goal_readings goal_transitions goals held_replies household_members profile_fields profiles " +
			"session_transitions step_alarms ticket_answers ticket_notes tickets user_engagement_states webhook_jobs",
	},
	"events": {"a page of the log shows its people", "profiles"},
	"flows": {
		"a version moves a page of sessions with their timeline and jobs in one statement, under their locks",
		"conversation_sessions profiles session_transitions webhook_jobs",
	},
	"goals": {
		"a goal is read with its person, and what a message has done with the organisation's texts; its events are of its transaction",
		"event_outbox organisation_settings profiles",
	},
	"inbound": {"a job's keys are its person's", "profiles webhook_jobs"},
	"overview": {
		"one batch counts everything up to a limit, from one snapshot",
		"conversation_sessions dead_letters erasures event_subscriptions goals profiles scheduling_pauses step_alarms tickets",
	},
	"people": {"a page of people is sorted and filtered by their newest session", "conversation_sessions erasures organisations"},
	"restores": {
		"the times that both databases have lost are read across organisations",
		"conversation_sessions profiles session_transitions webhook_jobs",
	},
	"runs": {
		"who may be started is decided on a page of people in one statement",
		"conversation_sessions erasures organisation_settings profile_fields profiles tickets webhook_jobs",
	},
	"tickets": {"a ticket is read with its person, their session and the hours", "conversation_sessions organisation_settings profiles session_transitions"},
}

var tableNamed = regexp.MustCompile(`(?i)\b(?:from|join|into|update)\s+(?:only\s+)?(\w+)`)

// TestRoomsNameTheirTables refuses a statement of a room of onboarding that names another room's table, but for those of othersTables.
func TestRoomsNameTheirTables(t *testing.T) {
	t.Parallel()
	dependOnTree(t)
	owner := map[string]string{"audit": "", "alarm_jobs": "", "beats": "", "histories": ""} // of platform
	for room, tables := range tablesOf {
		for table := range strings.FieldsSeq(tables) {
			owner[table] = room
		}
	}
	found := map[string]map[string]bool{}
	rooms := filepath.Join(root(t), "services", "onboarding")
	require.Equal(t, tablesMade(t, filepath.Join(rooms, "schema", "migrations")), slices.Sorted(maps.Keys(owner)), "name each table's room in tablesOf")
	require.NoError(t, filepath.WalkDir(rooms, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		inside, err := filepath.Rel(rooms, path)
		require.NoError(t, err)
		room, _, deeper := strings.Cut(filepath.ToSlash(inside), "/")
		if !deeper || room == "onboardingtest" || room == "schema" { // the root's statements and the tests' are about all rooms
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			literal, is := n.(*ast.BasicLit)
			if !is || literal.Kind != token.STRING {
				return true
			}
			for _, named := range tableNamed.FindAllStringSubmatch(literal.Value, -1) {
				if of, is := owner[named[1]]; is && of != room {
					if found[room] == nil {
						found[room] = map[string]bool{}
					}
					found[room][named[1]] = true
				}
			}
			return true
		})
		return nil
	}))
	for room, others := range othersTables {
		require.Equal(t, strings.Fields(others.tables), slices.Sorted(maps.Keys(found[room])),
			"tables of other rooms in %s: call a function of the room that has the table, or say in othersTables why not", room)
		delete(found, room)
	}
	require.Empty(t, found, "tables of other rooms: call a function of the room that has the table")
}

var tableMade = regexp.MustCompile(`(?im)^(create|drop|alter) table (?:if (?:not )?exists )?(\w+)(?: rename to (\w+))?`)

// tablesMade returns the names of the tables that the migrations leave, sorted.
func tablesMade(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.sql")) // sorted by number
	require.NoError(t, err)
	made := map[string]bool{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		up, _, _ := strings.Cut(string(content), "-- +goose Down")
		for _, found := range tableMade.FindAllStringSubmatch(up, -1) {
			switch does, name, to := strings.ToLower(found[1]), found[2], found[3]; {
			case does == "create":
				made[name] = true
			case does == "drop":
				delete(made, name)
			case to != "":
				delete(made, name)
				made[to] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(made))
}
