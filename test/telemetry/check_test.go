package telemetry_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

const root = "../.."

var promql = parser.NewParser(parser.Options{})

// exported is what the services export, in the words of a query: the names of series, with their labels and the labels' values.
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

// problems says what is wrong with a query: how it is written, and whatever it names that nobody exports.
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
		return []string{"nobody exports " + s.Name}
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
		found = append(found, "every instance tells the same "+asked+": max, not sum")
	}
	return found
}

var severities = []string{"page", "ticket"}

// ruleProblems says what is wrong with a file of alert rules.
func (e exported) ruleProblems(file []byte) (found []string) {
	groups, errs := rulefmt.Parse(file, false, model.UTF8Validation, promql, slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		for _, err := range errs {
			found = append(found, err.Error())
		}
		return found
	}
	names := map[string]bool{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			told := func(format string, args ...any) {
				found = append(found, rule.Alert+": "+fmt.Sprintf(format, args...))
			}
			if names[rule.Alert] {
				told("there are two of it")
			}
			names[rule.Alert] = true
			if rule.For == 0 {
				told("it has no for: one bad scrape would wake somebody")
			}
			if !slices.Contains(severities, rule.Labels["severity"]) {
				told("its severity is none of %v", severities)
			}
			if rule.Annotations["summary"] == "" {
				told("it has no summary")
			}
			if err := findPage(rule.Annotations["runbook_url"]); err != nil {
				told("its runbook: %v", err)
			}
			for _, problem := range e.problems(rule.Expr) {
				told("%s", problem)
			}
		}
	}
	return found
}

var notInAnchors = regexp.MustCompile(`[^a-z0-9 _-]`)

// findPage finds a runbook, and the heading of it that is named.
func findPage(url string) error {
	path, anchor, _ := strings.Cut(url, "#")
	if !strings.HasPrefix(path, "docs/runbooks/") {
		return fmt.Errorf("%q is none of docs/runbooks", url)
	}
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil || anchor == "" {
		return err
	}
	for line := range strings.Lines(string(text)) {
		heading := strings.TrimSpace(strings.TrimLeft(line, "#"))
		slug := strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
		if strings.HasPrefix(line, "#") && slug == anchor {
			return nil
		}
	}
	return fmt.Errorf("%s has no heading %q", path, anchor)
}

// dashboard is as much of a Grafana dashboard as is checked.
type dashboard struct {
	UID    string  `json:"uid"`
	Title  string  `json:"title"`
	Panels []panel `json:"panels"`
}

type panel struct {
	ID      int    `json:"id"`
	Title   string `json:"title"`
	GridPos struct {
		X, Y, W, H int
	} `json:"gridPos"`
	Targets []struct {
		Expr       string `json:"expr"`
		RefID      string `json:"refId"`
		Datasource struct {
			UID string `json:"uid"`
		} `json:"datasource"`
	} `json:"targets"`
}

// dashboardProblems says what is wrong with a dashboard.
func (e exported) dashboardProblems(file []byte) (found []string) {
	var d dashboard
	if err := json.Unmarshal(file, &d); err != nil {
		return []string{err.Error()}
	}
	if d.UID == "" || d.Title == "" || len(d.Panels) == 0 {
		found = append(found, "it has no uid, no title, or no panels")
	}
	ids := map[int]bool{}
	for i, p := range d.Panels {
		told := func(problem string) { found = append(found, p.Title+": "+problem) }
		if p.Title == "" || ids[p.ID] || len(p.Targets) == 0 {
			told("it has no title, no id of its own, or no query")
		}
		ids[p.ID] = true
		for _, other := range d.Panels[:i] {
			if overlap(p, other) {
				told("it lies on " + other.Title)
			}
		}
		for _, target := range p.Targets {
			if target.Datasource.UID != "${datasource}" {
				told("its data source is somebody's own")
			}
			for _, problem := range e.problems(target.Expr) {
				told(problem)
			}
		}
	}
	return found
}

func overlap(a, b panel) bool {
	p, q := a.GridPos, b.GridPos
	return p.X < q.X+q.W && q.X < p.X+p.W && p.Y < q.Y+q.H && q.Y < p.Y+p.H
}

// queriesOf are the promql blocks of a page.
func queriesOf(page string) (queries []string) {
	var open []string
	inside := false
	for line := range strings.Lines(page) {
		switch {
		case strings.HasPrefix(line, "```promql"):
			inside = true
		case strings.HasPrefix(line, "```") && inside:
			queries, open, inside = append(queries, strings.Join(open, "")), nil, false
		case inside:
			open = append(open, line)
		}
	}
	return queries
}

func TestAlerts(t *testing.T) {
	t.Parallel()
	e := conversation(t).metrics
	file, err := os.ReadFile(filepath.Join(root, "deploy/telemetry/alerts.yaml"))
	require.NoError(t, err)
	require.Empty(t, e.ruleProblems(file))
}

func TestDashboards(t *testing.T) {
	t.Parallel()
	e := conversation(t).metrics
	files, err := filepath.Glob(filepath.Join(root, "deploy/telemetry/dashboards/*.json"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, path := range files {
		file, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Empty(t, e.dashboardProblems(file), path)
	}
}

func TestObjectives(t *testing.T) {
	t.Parallel()
	e := conversation(t).metrics
	page, err := os.ReadFile(filepath.Join(root, "docs/slo.md"))
	require.NoError(t, err)
	queries := queriesOf(string(page))
	require.NotEmpty(t, queries)
	for _, query := range queries {
		require.Empty(t, e.problems(query), query)
	}
}

// TestNoPhoneIsALabel holds all labels of all metrics to be few and to name nobody.
func TestNoPhoneIsALabel(t *testing.T) {
	t.Parallel()
	for name, of := range conversation(t).metrics.labels {
		for label, values := range of {
			if label == model.BucketLabel || label == model.MetricNameLabel {
				continue // our own words
			}
			require.LessOrEqual(t, len(values), 60, "%s of %s", label, name)
			for value := range values {
				require.NotRegexp(t, `\+?\d{8,}`, value, "%s of %s", label, name)
			}
		}
	}
}

// TestChecks shows each check what it is for.
func TestChecks(t *testing.T) {
	t.Parallel()
	e := conversation(t).metrics
	for _, tt := range []struct{ name, query, want string }{
		{name: "AMetricThatNobodyExports", query: `rate(sms_send_total[5m])`, want: "nobody exports sms_send_total"},
		{name: "ACounterWithoutItsSuffix", query: `rate(sms_sent[5m])`, want: "nobody exports sms_sent"},
		{name: "AHistogramByItsName", query: `step_lateness_seconds`, want: "nobody exports step_lateness_seconds"},
		{name: "ALabelThatItDoesNotHave", query: `max(sms_in_doubt{state="unknown"})`, want: "sms_in_doubt has no label state"},
		{name: "AValueThatItDoesNotHave", query: `max(sms_in_doubt{status="lost"})`, want: `sms_in_doubt has no status "lost"`},
		{name: "ABucketThatThereIsNot", query: `rate(step_lateness_seconds_bucket{le="2.2"}[5m])`, want: `step_lateness_seconds_bucket has no le "2.2"`},
		{name: "ABucketAsOnlyTheOldTextFormatSpellsIt", query: `rate(step_lateness_seconds_bucket{le="2"}[5m])`, want: `step_lateness_seconds_bucket has no le "2"`},
		{name: "ABucketInNeitherSpelling", query: `rate(step_lateness_seconds_bucket{le=~"7|7.0"}[5m])`, want: `step_lateness_seconds_bucket has no le that is like "7|7.0"`},
		{name: "ARouteThatThereIsNot", query: `http_server_request_duration_seconds_count{http_route=~"/hooks/.*"}`, want: `http_server_request_duration_seconds_count has no http_route that is like "/hooks/.*"`},
		{name: "AGroupThatThereIsNot", query: `max by (table) (jobs_failed)`, want: "nothing is there to group by table"},
		{name: "AGaugeOfTheDatabaseAddedUp", query: `sum(sessions_in_burst)`, want: "every instance tells the same sessions_in_burst: max, not sum"},
		{name: "NoQuery", query: `sum(`, want: "1:5: parse error: unclosed left parenthesis"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, []string{tt.want}, e.problems(tt.query))
		})
	}
	const rule = "groups: [{name: g, rules: [{alert: A, expr: max(jobs_failed) > 0, for: 1m, labels: {severity: page}, " +
		"annotations: {summary: s, runbook_url: docs/runbooks/failed-job.md#retry-it}}]}]"
	require.Empty(t, e.ruleProblems([]byte(rule)))
	for _, tt := range []struct{ name, was, is, want string }{
		{name: "NoFor", was: "for: 1m, ", want: "A: it has no for: one bad scrape would wake somebody"},
		{name: "NoSeverity", was: "severity: page", is: "severity: loud", want: "A: its severity is none of [page ticket]"},
		{name: "NoSummary", was: "summary: s, ", want: "A: it has no summary"},
		{name: "NoRunbook", was: ", runbook_url: docs/runbooks/failed-job.md#retry-it", want: `A: its runbook: "" is none of docs/runbooks`},
		{name: "ARunbookThatThereIsNot", was: "failed-job.md", is: "none.md", want: "A: its runbook: open ../../docs/runbooks/none.md: no such file or directory"},
		{name: "AHeadingThatThereIsNot", was: "#retry-it", is: "#try", want: `A: its runbook: docs/runbooks/failed-job.md has no heading "try"`},
		{name: "AQueryThatIsWrong", was: "jobs_failed", is: "job_failures", want: "A: nobody exports job_failures"},
	} {
		t.Run("ARuleWith"+tt.name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, rule, tt.was)
			require.Equal(t, []string{tt.want}, e.ruleProblems([]byte(strings.Replace(rule, tt.was, tt.is, 1))))
		})
	}
	t.Run("ARuleThatPrometheusWouldNotLoad", func(t *testing.T) {
		t.Parallel()
		require.NotEmpty(t, e.ruleProblems([]byte(strings.Replace(rule, "for: 1m", "fore: 1m", 1))))
		require.NotEmpty(t, e.ruleProblems([]byte(strings.Replace(rule, "summary: s", "summary: '{{ $valu }}'", 1))))
	})
	const board = `{"uid": "u", "title": "t", "panels": [
		{"id": 1, "title": "a", "gridPos": {"x": 0, "y": 0, "w": 8, "h": 8}, "targets": [{"expr": "max(jobs_failed)", "datasource": {"uid": "${datasource}"}}]},
		{"id": 2, "title": "b", "gridPos": {"x": 8, "y": 0, "w": 8, "h": 8}, "targets": [{"expr": "max(jobs_running)", "datasource": {"uid": "${datasource}"}}]}]}`
	require.Empty(t, e.dashboardProblems([]byte(board)))
	for _, tt := range []struct{ name, was, is, want string }{
		{name: "TwoPanelsInOnePlace", was: `"x": 8`, is: `"x": 7`, want: "b: it lies on a"},
		{name: "TwoPanelsOfOneID", was: `"id": 2`, is: `"id": 1`, want: "b: it has no title, no id of its own, or no query"},
		{name: "ADataSourceOfSomebody", was: `${datasource}`, is: "P1809F7CD0C75ACF3", want: "a: its data source is somebody's own"},
		{name: "AQueryThatIsWrong", was: `jobs_failed`, is: "job_failures", want: "a: nobody exports job_failures"},
	} {
		t.Run("ADashboardWith"+tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, []string{tt.want}, e.dashboardProblems([]byte(strings.Replace(board, tt.was, tt.is, 1))))
		})
	}
}
