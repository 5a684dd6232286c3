// Package classifier asks a language model when a goal is meant, for texts that package timeparse leaves unclear. It speaks the chat
// protocol of OpenAI, which many servers speak. The text leaves to that server, so it is asked only for the organisations that
// are configured.
//
// The model reads, and decides nothing: it names wall-clock fields or an amount, and package timeparse makes the instant of them. What it
// is told to answer by words in a goal is checked like every answer, so the worst that they bring about is another time that is still to
// come.
package classifier

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"paceline.internal/platform/letters"
	"paceline.internal/services/onboarding/goals/timeparse"
	"paceline.internal/services/onboarding/words"
)

const (
	// Timeout bounds the answer of a model: a person waits for the answer.
	Timeout = 5 * time.Second
	// maxAnswer bounds what is read of an answer, in bytes; a right one has less than 1 KiB.
	maxAnswer = 64 << 10
	// maxText bounds what is sent, in bytes. A goal is shorter.
	maxText = 4 << 10
)

// The ways in which asking fails. None of them quotes the goal or the answer: a person wrote both.
var (
	ErrAnswer  = errors.New("classifier: the answer is not of the schema")
	ErrRefused = errors.New("classifier: the model refused or did not finish")
	ErrNoTime  = errors.New("classifier: the model found no time that is still to come")
)

// StatusError is an answer of the server other than 200.
type StatusError struct{ Status int }

func (e *StatusError) Error() string { return fmt.Sprintf("classifier: status %d", e.Status) }

// Config configures a Client. The variables of the environment have the same names.
type Config struct {
	URL    string // such as https://api.openai.com/v1
	Model  string
	APIKey string
	Orgs   []string // the organisations that let their goals leave
	// Timeout is for tests; 0 is 5 s.
	Timeout time.Duration
}

// Client asks a model. It is safe for concurrent use.
type Client struct {
	cfg      Config
	endpoint string
	http     *http.Client
}

// New checks the configuration. It makes no call.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(cfg.URL)
	switch {
	case err != nil || base.Scheme != "https" && base.Scheme != "http" || base.Host == "" || base.User != nil || base.RawQuery != "" ||
		base.Fragment != "":
		return nil, errors.New("classifier: the URL must be http or https, with a host and no user, query or fragment")
	case cfg.Model == "":
		return nil, errors.New("classifier: the model is empty")
	case cfg.APIKey == "" || strings.ContainsAny(cfg.APIKey, " \t\r\n"):
		return nil, errors.New("classifier: the key is empty or contains white space")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = Timeout
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the standard library's own type
	transport.MaxIdleConnsPerHost = 16
	client := &http.Client{Transport: transport, Timeout: cfg.Timeout}
	// A redirect would take the text and the key elsewhere.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{cfg: cfg, endpoint: base.JoinPath("chat/completions").String(), http: client}, nil
}

// Reads reports whether the goals of an organisation may be read by the model.
func (c *Client) Reads(orgID string) bool { return slices.Contains(c.cfg.Orgs, orgID) }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Read asks the model about a text that reached us at now. The kind of what it returns is At; where the model did not name a time that is
// still to come, or anything failed, it returns an error, and the caller keeps to what the rules read. That the model finds no time is no
// reading either: the rules found one, and a goal that runs at once by mistake cannot be taken back.
func (c *Client) Read(ctx context.Context, text, locale string, zone *time.Location, now time.Time) (timeparse.Reading, error) {
	if len(text) > maxText {
		return timeparse.Reading{}, ErrAnswer
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	said, err := c.ask(ctx, question(c.cfg.Model, text, locale, now.In(zone)))
	if err != nil {
		return timeparse.Reading{}, err
	}
	goal := said.Goal
	if goal == "" || !subsequence(goal, text) || negated(goal) != negated(text) {
		goal = timeparse.Read(text, locale, zone, now).Goal
	}
	return said.reading(goal, locale, zone, now)
}

// negated counts the words that turn a goal into its opposite. A goal that lost one says something else, though each of its words was said.
func negated(text string) int {
	count := 0
	for word := range strings.FieldsSeq(strings.ToLower(text)) {
		if words.Together().Has("negation", strings.Trim(letters.Straight(word), ".,;:!?()\"'")) {
			count++
		}
	}
	return count
}

// subsequence reports whether the words of a goal are words of the text in their order, whatever stands between and around them.
func subsequence(goal, text string) bool {
	rest := bare(text)
	for _, want := range bare(goal) {
		at := slices.Index(rest, want)
		if at < 0 {
			return false
		}
		rest = rest[at+1:]
	}
	return true
}

// bare are the words of a text without the marks around them.
func bare(text string) []string {
	var words []string
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) || strings.ContainsRune(",;!?()[]{}\"“”…", r)
	}) {
		if word = strings.Trim(word, ".,;:!?()[]{}<>\"'“”‘’-–—…"); word != "" {
			words = append(words, word)
		}
	}
	return words
}

// answer is the answer that the model is asked for.
type answer struct {
	Kind   string `json:"kind"`
	Year   *int   `json:"year"`
	Month  *int   `json:"month"`
	Day    *int   `json:"day"`
	Hour   *int   `json:"hour"`
	Minute *int   `json:"minute"`
	Amount *int   `json:"amount"`
	Unit   string `json:"unit"`
	Goal   string `json:"goal"`
}

// reading makes the instant of an answer.
func (a *answer) reading(goal, locale string, zone *time.Location, now time.Time) (timeparse.Reading, error) {
	var read timeparse.Reading
	switch a.Kind {
	case "none", "unclear":
		return read, ErrNoTime
	case "at":
		if a.Year == nil || a.Month == nil || a.Day == nil || a.Hour == nil || a.Minute == nil {
			return read, ErrAnswer
		}
		wall := time.Date(*a.Year, time.Month(*a.Month), *a.Day, *a.Hour, *a.Minute, 0, 0, time.UTC)
		if wall.Year() != *a.Year || int(wall.Month()) != *a.Month || wall.Day() != *a.Day || wall.Hour() != *a.Hour ||
			wall.Minute() != *a.Minute {
			return read, ErrAnswer // 30 February, 25:00
		}
		read = timeparse.OnClock(wall, goal, locale, zone, now)
	case "in":
		amount, ok := a.amount()
		if !ok {
			return read, ErrAnswer
		}
		read = timeparse.FromNow(amount, goal, locale, zone, now)
	default:
		return read, ErrAnswer
	}
	if read.Kind != timeparse.At {
		return timeparse.Reading{}, ErrNoTime
	}
	return read, nil
}

// maxAmount is more of any unit than a scheduler's plan reaches.
const maxAmount = 1_000_000

// units lists the units of the schema.
var units = map[string]timeparse.Amount{
	"seconds": {Exact: time.Second}, "minutes": {Exact: time.Minute}, "hours": {Exact: time.Hour}, "days": {Days: 1}, "weeks": {Days: 7},
}

func (a *answer) amount() (timeparse.Amount, bool) {
	unit, known := units[a.Unit]
	if !known || a.Amount == nil || *a.Amount < 1 || *a.Amount > maxAmount {
		return timeparse.Amount{}, false
	}
	return timeparse.Amount{Days: *a.Amount * unit.Days, Exact: time.Duration(*a.Amount) * unit.Exact}, true
}

// ask sends one question and decodes its answer.
func (c *Client) ask(ctx context.Context, q []byte) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(q))
	if err != nil {
		return nil, fmt.Errorf("classifier: build the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.cfg.APIKey)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("classifier: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, fmt.Errorf("classifier: read the answer: %w", err)
	}
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, &StatusError{Status: resp.StatusCode}
	case len(body) > maxAnswer:
		return nil, ErrAnswer
	}
	return decode(body)
}

// decode reads the answer out of a completion.
func decode(body []byte) (*answer, error) {
	var completion struct {
		Choices []struct {
			FinishReason string `json:"finish_reason"`
			Message      struct {
				Content string `json:"content"`
				Refusal string `json:"refusal"`
			} `json:"message"`
		} `json:"choices"`
	}
	if json.Unmarshal(body, &completion) != nil || len(completion.Choices) == 0 {
		return nil, ErrAnswer
	}
	choice := completion.Choices[0]
	if choice.Message.Refusal != "" || choice.FinishReason != "stop" {
		return nil, ErrRefused
	}
	decoder := json.NewDecoder(strings.NewReader(choice.Message.Content))
	decoder.DisallowUnknownFields()
	var said answer
	if decoder.Decode(&said) != nil || decoder.More() {
		return nil, ErrAnswer
	}
	return &said, nil
}
