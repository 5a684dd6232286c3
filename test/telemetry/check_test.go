package telemetry_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

const root = "../.."

var promql = parser.NewParser(parser.Options{})

// exported has what the services export, in the words of a query: the names of series, with their labels and the labels' values.
type exported struct {
	labels map[string]map[string]map[string]bool
	gauges map[string]bool
}

// add notes one stored series.
func (e exported) add(series labels.Labels) {
	name := series.Get(model.MetricNameLabel)
	found := e.labels[name]
	if found == nil {
		found = map[string]map[string]bool{"job": {}, "instance": {}} // Prometheus' own, whatever their values
		e.labels[name] = found
	}
	series.Range(func(l labels.Label) {
		if found[l.Name] == nil {
			found[l.Name] = map[string]bool{}
		}
		found[l.Name][l.Value] = true
	})
}

// problems returns what is wrong with a query: how it is written, and names that no service exports.
func (e exported) problems(query string) (found []string) {
	expr, err := promql.ParseExpr(strings.ReplaceAll(query, "$__rate_interval", "5m"))
	if err != nil {
		return []string{err.Error()}
	}
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			found = append(found, e.selects(n)...)
		case *parser.AggregateExpr:
			found = append(found, e.aggregates(n)...)
		}
		return nil
	})
	return found
}

func (e exported) selects(s *parser.VectorSelector) (found []string) {
	has, ok := e.labels[s.Name]
	if !ok {
		return []string{"no service exports " + s.Name}
	}
	for _, m := range s.LabelMatchers {
		values, known := has[m.Name]
		switch {
		case m.Name == model.MetricNameLabel:
		case !known:
			found = append(found, s.Name+" has no label "+m.Name)
		case m.Type == labels.MatchEqual && len(values) > 0 && !values[m.Value]:
			found = append(found, fmt.Sprintf("%s has no %s %q", s.Name, m.Name, m.Value))
		case m.Type == labels.MatchRegexp && len(values) > 0 && (m.Name == model.BucketLabel || !alternatives(m.Value)) && !slices.ContainsFunc(slices.Collect(maps.Keys(values)), m.Matches):
			found = append(found, fmt.Sprintf("%s has no %s that is like %q", s.Name, m.Name, m.Value))
		}
	}
	return found
}

// alternatives are lists such as of what goes wrong, which a conversation that goes well has none of.
func alternatives(pattern string) bool { return strings.Contains(pattern, "|") || pattern == "5.." }

func (e exported) aggregates(a *parser.AggregateExpr) (found []string) {
	known, asked := map[string]bool{}, ""
	parser.Inspect(a.Expr, func(node parser.Node, path []parser.Node) error {
		s, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		for label := range e.labels[s.Name] {
			known[label] = true
		}
		if e.gauges[s.Name] {
			asked = s.Name
		}
		return nil
	})
	for _, label := range a.Grouping {
		if !known[label] {
			found = append(found, "nothing is there to group by "+label)
		}
	}
	if a.Op == parser.SUM && asked != "" && !slices.Contains(a.Grouping, "instance") {
		found = append(found, "every instance exports the same "+asked+": max, not sum")
	}
	return found
}

func TestAlerts(t *testing.T) {
	t.Parallel()
	e := conversation(t).metrics
	page, err := os.ReadFile(filepath.Join(root, "docs/operate.md"))
	require.NoError(t, err)
	for _, rule := range rules(t) {
		require.Empty(t, e.problems(rule.Expr), rule.Alert)
		require.NotZero(t, rule.For, "%s: one bad scrape would wake a person", rule.Alert)
		require.Contains(t, []string{"page", "ticket"}, rule.Labels["severity"], rule.Alert)
		require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
		runbook, heading, _ := strings.Cut(rule.Annotations["runbook_url"], "#")
		require.True(t, strings.HasPrefix(runbook, "docs/runbooks/"), "%s has no runbook", rule.Alert)
		text, err := os.ReadFile(filepath.Join(root, runbook))
		require.NoError(t, err, rule.Alert)
		require.Regexp(t, `(?mi)^#+ .*`+strings.ReplaceAll(heading, "-", "[ -]")+`\W*$`, string(text), rule.Alert)
		listed := regexp.QuoteMeta("`" + rule.Alert + "`")
		if rule.Labels["severity"] == "page" {
			listed = `\*\*` + listed + `\*\*`
		}
		row := `(?m)^\| .*\(` + strings.TrimPrefix(runbook, "docs/") + `\).* ` + listed + `[, ]`
		require.Regexp(t, row, string(page), "docs/operate.md does not list it")
	}
}

func TestDashboards(t *testing.T) {
	t.Parallel()
	e := conversation(t).metrics
	files, err := filepath.Glob(filepath.Join(root, "deploy/telemetry/dashboards/*.json"))
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, path := range files {
		file, err := os.ReadFile(path)
		require.NoError(t, err)
		var dashboard struct {
			Panels []struct {
				Title   string `json:"title"`
				Targets []struct {
					Expr string `json:"expr"`
				} `json:"targets"`
			} `json:"panels"`
		}
		require.NoError(t, json.Unmarshal(file, &dashboard))
		require.NotEmpty(t, dashboard.Panels)
		for _, panel := range dashboard.Panels {
			require.NotEmpty(t, panel.Targets, panel.Title)
			for _, target := range panel.Targets {
				require.Empty(t, e.problems(target.Expr), panel.Title)
			}
		}
	}
}

// TestScaling checks that what Kubernetes scales by (test/manifests) is exported.
func TestScaling(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	require.Empty(t, conversation(t).metrics.problems(`max(paceline_jobs_backlog{queue="webhook_jobs"})`))
}

func TestObjectives(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	e := conversation(t).metrics
	page, err := os.ReadFile(filepath.Join(root, "docs/operate.md"))
	require.NoError(t, err)
	queries := regexp.MustCompile("(?s)```promql[^\n]*\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, queries)
	for _, query := range queries {
		require.Empty(t, e.problems(query[1]), query[1])
	}
}

// TestNoPhoneIsALabel checks that all metrics have few labels, and none that identifies a person.
func TestNoPhoneIsALabel(t *testing.T) {
	t.Parallel()
	for name, of := range conversation(t).metrics.labels {
		for label, values := range of {
			if label == model.BucketLabel || label == model.MetricNameLabel {
				continue // our own words
			}
			require.LessOrEqual(t, len(values), 60, "%s of %s", label, name)
			for value := range values {
				if uuid.Validate(value) == nil { // of an organisation: no person has a series
					require.Equal(t, "org_id", label, name)
					continue
				}
				require.NotRegexp(t, `\+?\d{8,}`, value, "%s of %s", label, name)
			}
		}
	}
}

// TestQueries shows which problems of a query are found, above all buckets that an exporter spells in another way.
func TestQueries(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	e := conversation(t).metrics
	for _, tt := range []struct{ name, query, want string }{
		{name: "AMetricThatNoServiceExports", query: `rate(sms_sends_total[5m])`, want: "no service exports sms_sends_total"},
		{name: "AnOldName", query: `rate(sms_sent_total[5m])`, want: "no service exports sms_sent_total"},
		{name: "ACounterWithoutItsSuffix", query: `rate(paceline_sms_sends[5m])`, want: "no service exports paceline_sms_sends"},
		{name: "AHistogramByItsName", query: `paceline_step_lateness_seconds`, want: "no service exports paceline_step_lateness_seconds"},
		{name: "ALabelThatItDoesNotHave", query: `max(paceline_sms_in_doubt{state="unknown"})`, want: "paceline_sms_in_doubt has no label state"},
		{name: "AValueThatItDoesNotHave", query: `max(paceline_sms_in_doubt{status="lost"})`, want: `paceline_sms_in_doubt has no status "lost"`},
		{name: "ABucketThatThereIsNot", query: `rate(paceline_step_lateness_seconds_bucket{le="2.2"}[5m])`, want: `paceline_step_lateness_seconds_bucket has no le "2.2"`},
		{name: "ABucketAsOnlyTheOldTextFormatSpellsIt", query: `rate(paceline_step_lateness_seconds_bucket{le="2"}[5m])`, want: `paceline_step_lateness_seconds_bucket has no le "2"`},
		{name: "ABucketInNeitherSpelling", query: `rate(paceline_step_lateness_seconds_bucket{le=~"7|7.0"}[5m])`, want: `paceline_step_lateness_seconds_bucket has no le that is like "7|7.0"`},
		{name: "ARouteThatThereIsNot", query: `http_server_request_duration_seconds_count{http_route=~"/hooks/.*"}`, want: `http_server_request_duration_seconds_count has no http_route that is like "/hooks/.*"`},
		{name: "AGroupThatThereIsNot", query: `max by (table) (paceline_jobs_failed)`, want: "nothing is there to group by table"},
		{name: "AGaugeOfTheDatabaseAddedUp", query: `sum(paceline_sessions_in_burst)`, want: "every instance exports the same paceline_sessions_in_burst: max, not sum"},
		{name: "NoQuery", query: `sum(`, want: "1:5: parse error: unclosed left parenthesis"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, []string{tt.want}, e.problems(tt.query))
		})
	}
}
