package stack_test

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// alternatives are the fields that are not always required, as their comments say.
var alternatives = []string{ //nolint:gochecknoglobals // a constant list
	"CreateGoalRequest.goal", "CreateGoalRequest.profile_id", "RescheduleGoalRequest.when", "EnqueueWebhookJobRequest.payload",
	"RegisterDeviceRequest.profile_id", "ResolveMessageRequest.twilio_sid", "CreateSenderRequest.messaging_service_sid",
	"StartRunRequest.people", "StartRunRequest.filter",
	"SendAnswerRequest.body", "SendAnswerRequest.saved_reply_id", "UpdateSavedReplyRequest.title", "UpdateSavedReplyRequest.body",
	"SendAnswerRequest.idempotency_key", "AddNoteRequest.idempotency_key", "StartRunRequest.idempotency_key", // or the header
	"RunEngagementRequest.dry_run", "SetConsentRequest.evidence", "CapInput.messages", "CapInput.segments",
	"SaveFlowDraftRequest.version", "SaveFlowDraftRequest.language", "SaveFlowDraftRequest.texts",
	"EnqueueTextRequest.idempotency_key", "CreateGoalRequest.idempotency_key", "EnqueueWebhookJobRequest.idempotency_key", "ReportActionRequest.idempotency_key", // or the header
}

// TestRequiredFields compares what /openapi.yaml says of the fields of requests with what the services do without them. The gateway's tests
// hold the rest of it to the wire, and know nothing of what a service refuses.
func TestRequiredFields(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	b := setup(t)
	p := b.enrol(t, "en")
	d := b.requests(t)
	tried := map[string]bool{}
	for path, methods := range d.Paths {
		for method, o := range methods {
			media := o.RequestBody.Content["application/json"]
			if media.Example == nil {
				continue
			}
			delete(media.Example, "page_token")  // of no page
			if media.Example["send_at"] != nil { // the example's own is over
				now := time.Now
				media.Example["send_at"] = now().Add(time.Hour).UTC().Format(time.RFC3339)
			}
			if media.Example["to"] != nil && media.Example["profile_id"] != nil { // a text is in the name of the person with the phone
				media.Example["to"], media.Example["profile_id"] = p.phone, p.id
			}
			message := media.Schema.name()
			if message == "StartRunRequest" { // the example has it in the header
				media.Example["idempotency_key"] = "spring"
			}
			address := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(
				strings.NewReplacer("{profile_id}", p.id, "{phone}", p.phone).Replace(path), uuid.NewString())
			bodies := append(d.without(message, media.Example), omission{body: media.Example})
			for _, left := range bodies {
				tried[left.field] = true
			}
			t.Run(o.OperationID, func(t *testing.T) {
				t.Parallel()
				for _, left := range bodies {
					token := b.operator
					if strings.HasPrefix(path, "/v1/organisations") {
						token = b.token(t, "platform", "", "root")
					}
					status, answer := b.try(t, token, strings.ToUpper(method), address, left.body)
					if !slices.Contains(alternatives, left.field) {
						require.Equal(t, left.required, strings.Contains(string(answer), `"REASON_INVALID"`), "without %s: %d %s", left.field, status, answer)
					}
				}
			})
		}
	}
	for name, schema := range d.Components.Schemas {
		for _, field := range schema.Required {
			require.True(t, tried[name+"."+field] || schema.More == nil, "no golden case that is an example has %s.%s", name, field)
		}
	}
}

// requests is the part of /openapi.yaml that this test reads.
type requests struct {
	Paths map[string]map[string]struct {
		OperationID string `yaml:"operationId"`
		Parameters  []struct {
			Name string `yaml:"name"`
		} `yaml:"parameters"`
		RequestBody struct {
			Content map[string]struct {
				Schema  reference      `yaml:"schema"`
				Example map[string]any `yaml:"example"`
			} `yaml:"content"`
		} `yaml:"requestBody"`
	} `yaml:"paths"`
	Components struct {
		Schemas map[string]struct {
			Required   []string             `yaml:"required"`
			Properties map[string]reference `yaml:"properties"`
			More       *bool                `yaml:"additionalProperties"` // of requests
		} `yaml:"schemas"`
	} `yaml:"components"`
}

type reference struct {
	Ref string `yaml:"$ref"`
}

func (r reference) name() string { return r.Ref[strings.LastIndex(r.Ref, "/")+1:] }

func (b *bundle) requests(t *testing.T) (d requests) {
	t.Helper()
	status, text := b.try(t, "", http.MethodGet, "/openapi.yaml", nil)
	require.Equal(t, http.StatusOK, status)
	require.NoError(t, yaml.Unmarshal(text, &d))
	require.NotEmpty(t, d.Paths)
	return d
}

// omission is a body without one field, named as Message.field.
type omission struct {
	field    string
	required bool
	body     map[string]any
}

// without are all bodies that lack one field of an example, at any depth.
func (d requests) without(message string, example map[string]any) (all []omission) {
	schema := d.Components.Schemas[message]
	for field, value := range example {
		body := maps.Clone(example)
		delete(body, field)
		all = append(all, omission{message + "." + field, slices.Contains(schema.Required, field), body})
		inner, ok := value.(map[string]any)
		if nested := schema.Properties[field].name(); ok && nested != "" {
			for _, o := range d.without(nested, inner) {
				body := maps.Clone(example)
				body[field] = o.body
				all = append(all, omission{o.field, o.required, body})
			}
		}
	}
	return all
}
