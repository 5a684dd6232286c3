package console

import (
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"paceline.internal/gateway/console/drawing"
	"paceline.internal/platform/rpc"
)

// The texts of the services are written for callers of /v1: they name methods with the ids of rows, and instants as RFC 3339. Here those
// become links to the pages where the same is done, in words, and times in the reader's zone. All else stays as it is, and is escaped.
var reference = regexp.MustCompile(
	`(?:(?:GET|POST|PUT|DELETE) )?/v1/(profiles|sessions|messages|goals|outreach|outbound|tickets)/(` + uuidLike + `)([:/][a-z]+)?` +
		`|(?:(?:GET|POST|PUT) )?/v1/(` + unnamed + `)` +
		`|\b(message|session) (` + uuidLike + `)` +
		`|\bwith (RESOLUTION_NOT_SENT)\b` +
		`|\b(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[-+]\d\d:\d\d))`)

// unnamed are methods without the id of a row: those of all rows, and those of a row that the text does not name.
const unnamed = `scheduling:resume|consents/\{[a-z_ ]+\}|messages/\{message_id\}:resolve|profiles/\{profile_id\}/preferences` +
	`|webhook-jobs\?status=failed|webhook-jobs/\{job_id\}:cancel`

// placeholder stands for an id in a method of those.
var placeholder = regexp.MustCompile(`\{.*\}`)

const uuidLike = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`

// reached is the page of a method of /v1, and the key of its words. ID stands for the row's id.
var reached = map[string]struct{ to, key string }{
	"profiles":                   {"/people/ID", "ref.person"},
	"profiles:release":           {"/people/ID#release", "ref.release"},
	"profiles:activate":          {"/people/ID#activate", "ref.activate"},
	"profiles/preferences":       {"/people/ID", "ref.preferences"},
	"sessions":                   {"/why/sessions/ID", "ref.session"},
	"sessions:resume":            {"/do?deed=resume-session.ID", "ref.resume"},
	"sessions:reset":             {"/do?deed=reset-session.ID", "ref.reset"},
	"messages":                   {"/why/messages/ID", "ref.message"},
	"messages/evidence":          {"/needs/messages/ID", "ref.evidence"},
	"messages:resolve":           {"/needs/messages/ID#resolve", "ref.resolve"},
	"goals":                      {"/why/goals/ID", "ref.goal"},
	"goals:reschedule":           {"/why/goals/ID", "ref.reschedule"},
	"goals/schedule":             {"/why/goals/ID", "ref.unschedule"},
	"outreach:cancel":            {"/do?deed=cancel-outreach.ID", "ref.outreach"},
	"scheduling:resume":          {"#scheduling", "ref.scheduling"},
	"consents/{}":                {"/ledger", "ref.consent"},
	"messages/{}:resolve":        {"/needs?kind=message", "ref.resolve"},
	"profiles/{}/preferences":    {"/people", "ref.preferences"},
	"webhook-jobs?status=failed": {"/needs?kind=job", "ref.jobs"},
	"webhook-jobs/{}:cancel":     {"/needs?kind=job", "ref.job"},
	"outbound:cancel":            {"/do?deed=cancel-text.ID", "ref.outbound"},
	"tickets:close":              {"/inbox/ID", "ref.ticket"},
}

// Linked is a service's text as a reader of the console needs it.
func (f frame) Linked(text string) template.HTML {
	if spoken := vocabularies[f.index]; spoken.Sentences != nil {
		text, _ = spoken.book.Translate(text)
	}
	text = f.spoken(text)
	var out strings.Builder
	end := 0
	for _, at := range reference.FindAllStringSubmatchIndex(text, -1) {
		group := func(n int) string {
			if at[2*n] < 0 {
				return ""
			}
			return text[at[2*n]:at[2*n+1]]
		}
		shown := template.HTML("")
		switch {
		case group(1) != "":
			shown = f.link(group(1)+group(3), group(2))
		case group(4) != "":
			shown = f.link(placeholder.ReplaceAllString(group(4), "{}"), "")
		case group(5) != "":
			shown = f.link(group(5)+"s", group(6))
		case group(7) != "":
			shown = template.HTML(template.HTMLEscapeString(f.T("ref.not_sent"))) //nolint:gosec // escaped
		case group(8) != "":
			if t, err := time.Parse(time.RFC3339, group(8)); err == nil {
				shown = f.Moment(t)
			}
		}
		if shown == "" { // no page has it
			continue
		}
		out.WriteString(template.HTMLEscapeString(text[end:at[0]]))
		out.WriteString(string(shown))
		end = at[1]
	}
	out.WriteString(template.HTMLEscapeString(text[end:]))
	return template.HTML(out.String()) //nolint:gosec // the text is escaped, and the rest is made by link and Time
}

// Unlinked is a service's text in the same words, of what is past: nothing is to be done at what it names.
func (f frame) Unlinked(text string) template.HTML {
	f.Who.Role = ""
	return f.Linked(text)
}

// nameless is the name of a person who came by a keyword and has told none; onboarding stores it.
const nameless = "-"

// Called returns the name of a person, or the phone of one who has none.
func (frame) Called(person interface {
	GetFirstName() string
	GetPhone() string
},
) string {
	if name := person.GetFirstName(); name != "" && name != nameless {
		return name
	}
	return person.GetPhone()
}

// Coded says a code word of the API in plain words. The code stands where the reader points at it.
func (f frame) Coded(group, code string) template.HTML {
	words := f.Word(group, code)
	if words == code {
		words = f.plain(group, code)
	}
	return template.HTML(`<span title="` + template.HTMLEscapeString(code) + `">` + //nolint:gosec // both are escaped
		template.HTMLEscapeString(words) + `</span>`)
}

// Plain says a name of a file, such as a step, with spaces.
func (f frame) Plain(name string) string { return strings.ReplaceAll(name, "_", " ") }

// Value says the value of a field of a person.
func (f frame) Value(value any) string {
	switch value := value.(type) {
	case bool:
		return f.T(map[bool]string{true: "way.yes", false: "way.no"}[value])
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}

// When words the condition of a way of a flow: an answer, or one of the words that are no answer.
func (f frame) When(when string) string {
	word, after, _ := strings.Cut(when, " ")
	if d, err := time.ParseDuration(after); err == nil {
		after = f.Span(d)
	}
	return strings.TrimSpace(f.plainOr("way."+word, word) + " " + after)
}

func (f frame) plainOr(key, word string) string {
	if known(key) {
		return f.T(key)
	}
	return f.Plain(word)
}

// InLanguage returns the text in the reader's language, or any.
func (f frame) InLanguage(texts map[string]string) string {
	for _, lang := range append([]string{f.Lang}, slices.Sorted(maps.Keys(texts))...) {
		if texts[lang] != "" {
			return texts[lang]
		}
	}
	return ""
}

// cutAt bounds a text in the picture of a flow, in characters.
const cutAt = 54

// Cut shortens a text for the picture of a flow.
func (f frame) Cut(text string) string {
	if letters := []rune(text); len(letters) > cutAt {
		return strings.TrimSpace(string(letters[:cutAt-1])) + "…"
	}
	return text
}

// Gate names a gate of an explanation. Within a step, messaging's gates begin with send.
func (f frame) Gate(name string) template.HTML {
	return f.Coded("gate", strings.TrimPrefix(name, "send."))
}

// plain says a word that no catalog has, such as the step of an organisation's own flow, as its author would say it.
func (f frame) plain(group, code string) string {
	spaced := strings.ReplaceAll(code, "_", " ")
	flow, step, ok := strings.Cut(spaced, ":")
	if !ok {
		return spaced
	}
	return f.T(group+".of_flow", flow, step)
}

// inDoubtLong is the time in doubt after which the carrier is suspected: a receipt or Twilio's list settles it sooner.
const inDoubtLong = time.Minute

// InDoubt reports whether the oldest text in doubt has been so for long.
func (f frame) InDoubt(since any) bool { return f.Now.Sub(instant(since)) > inDoubtLong }

// link leads to the page of a method and a row; empty where there is none. Only an operator has such pages.
func (f frame) link(method, id string) template.HTML {
	found, ok := reached[method]
	if !ok {
		return ""
	}
	words := template.HTMLEscapeString(f.T(found.key))
	if f.Who.Role != rpc.RoleOperator {
		return template.HTML(words) //nolint:gosec // escaped
	}
	to := root + strings.Replace(found.to, "ID", id, 1)
	if method == "consents/{}" && strings.HasPrefix(f.Path, root+"/people/") { // the person of the number
		to = "#consent"
	}
	if strings.HasPrefix(found.to, "/do?") {
		back := f.URL
		if f.Path == root+"/do" { // which is no place to come back to
			back = root + "/needs"
		}
		to += "&back=" + url.QueryEscape(back)
	}
	return template.HTML(`<a href="` + template.HTMLEscapeString(to) + `">` + words + `</a>`) //nolint:gosec // both are escaped
}

// Fared says the numbers of a step in a line, without those that are zero.
func (f frame) Fared(c drawing.Counts) string {
	said := []string{f.T("funnel.reached.many", c.Reached)}
	for _, n := range []struct {
		key string
		of  int64
	}{
		{"funnel.now.many", c.Now}, {"funnel.went_on.many", c.WentOn}, {"funnel.silent.many", c.Silent}, {"funnel.stopped.many", c.Stopped},
	} {
		if n.of > 0 {
			said = append(said, f.T(n.key, n.of))
		}
	}
	return strings.Join(said, " · ")
}
