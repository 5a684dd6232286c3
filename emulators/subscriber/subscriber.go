// Package subscriber judges events as a host application does that generates its types from the webhooks of /openapi.yaml.
package subscriber

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/jackc/pgx/v5"
)

// mediaType is the media type of CloudEvents over HTTP.
const mediaType = "application/cloudevents+json"

// webhooks reads the webhooks of the description strictly: data with a field that it does not have breaks it, though subscribers are told
// to expect some.
var webhooks = sync.OnceValues(func() (map[string]*openapi3.PathItem, error) { //nolint:gochecknoglobals // read once
	_, here, _, _ := runtime.Caller(0)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(here), "../../gateway/gen/openapi.yaml"))
	if err != nil {
		return nil, err
	}
	document, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	nothingElse := false
	document.Components.Schemas["Event"].Value.AdditionalProperties.Has = &nothingElse
	for _, webhook := range document.Webhooks {
		dataOf(bodyOf(webhook.Post)).AdditionalProperties.Has = &nothingElse
	}
	return document.Webhooks, nil
})

func bodyOf(post *openapi3.Operation) *openapi3.Schema {
	return post.RequestBody.Value.Content[mediaType].Schema.Value
}

func dataOf(event *openapi3.Schema) *openapi3.Schema {
	return event.AllOf[1].Value.Properties["data"].Value
}

func options() []openapi3.SchemaValidationOption {
	uuid := openapi3.NewRegexpFormatValidator(openapi3.FormatOfStringForUUIDOfRFC9562)
	return []openapi3.SchemaValidationOption{openapi3.MultiErrors(), openapi3.WithStringFormatValidator("uuid", uuid)}
}

// webhook finds the request that events of a type are posted with, and the schema of its body.
func webhook(kind string) (*openapi3.Operation, *openapi3.Schema, error) {
	all, err := webhooks()
	if err != nil {
		return nil, nil, err
	}
	if all[kind] == nil {
		return nil, nil, fmt.Errorf("/openapi.yaml has no webhook %q", kind)
	}
	post := all[kind].Post
	return post, bodyOf(post), nil
}

// CheckPost reports how a request to a subscriber differs from the webhook of its event.
func CheckPost(header http.Header, body []byte) error {
	var event map[string]any
	if err := json.Unmarshal(body, &event); err != nil {
		return err
	}
	kind, _ := event["type"].(string)
	post, schema, err := webhook(kind)
	if err != nil {
		return err
	}
	if got := header.Get("Content-Type"); got != mediaType {
		return fmt.Errorf("an event is sent as %q", got)
	}
	for _, p := range post.Parameters {
		err = errors.Join(err, p.Value.Schema.Value.VisitJSON(header.Get(p.Value.Name), options()...))
	}
	return errors.Join(err, schema.VisitJSON(event, options()...))
}

// checkData reports how the data of an event differs from its schema.
func checkData(kind string, data map[string]any) error {
	_, schema, err := webhook(kind)
	if err != nil {
		return err
	}
	return dataOf(schema).VisitJSON(data, options()...)
}

// querier is a pool.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Watch holds every event that a test leaves in its database to the description, when the test ends.
func Watch(tb testing.TB, database querier, tables ...string) {
	tb.Helper()
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), time.Minute)
		defer cancel()
		for _, table := range tables {
			if err := checkTable(ctx, database, table); err != nil {
				tb.Errorf("%s is not as /openapi.yaml has it: %v", table, err)
			}
		}
	})
}

func checkTable(ctx context.Context, database querier, table string) error {
	rows, err := database.Query(ctx, `select type, data from `+pgx.Identifier{table}.Sanitize())
	if err != nil {
		return err
	}
	var kind string
	var text json.RawMessage
	var problems []error
	_, err = pgx.ForEachRow(rows, []any{&kind, &text}, func() error {
		var data map[string]any
		if err := errors.Join(json.Unmarshal(text, &data), checkData(kind, data)); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", kind, err))
		}
		return nil
	})
	return errors.Join(append(problems, err)...)
}
