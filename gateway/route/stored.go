package route

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"paceline.internal/platform/config"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// Keys are the secrets that a vendor may sign with: more than one while they are changed, or when each of its webhooks has its own.
type Keys []key

// key signs for one organisation, or for every one when it names none.
type key struct{ orgID, secret string }

// NewKeys reads secrets that are separated by commas, each of them alone or as ORG_ID=SECRET. None means a vendor that is not used; an
// empty one among them is refused, because any stranger could sign with it.
func NewKeys(secrets config.Secret) (keys Keys, err error) {
	separated, err := secrets.Keys()
	if err != nil {
		return nil, err
	}
	for _, text := range separated {
		orgID, secret, _ := strings.Cut(strings.TrimRight(text, "="), "=") // base64 may end with it
		org, err := uuid.Parse(orgID)
		switch {
		case secret == "" && (err != nil || text == orgID):
			keys = append(keys, key{secret: text})
		case secret == "":
			return nil, errors.New("has an organisation without a secret")
		case err != nil:
			return nil, errors.New("has an organisation that is no UUID: write SECRET or ORG_ID=SECRET")
		default:
			keys = append(keys, key{orgID: org.String(), secret: text[len(orgID)+1:]})
		}
	}
	return keys, nil
}

// signers returns the keys under which mac is the HMAC-SHA256 of the raw body. Every key is tried in constant time.
func (k Keys) signers(body, mac []byte) (signers Keys) {
	for _, one := range k {
		sum := hmac.New(sha256.New, []byte(one.secret))
		sum.Write(body)
		if hmac.Equal(sum.Sum(nil), mac) {
			signers = append(signers, one)
		}
	}
	return signers
}

// signFor reports whether one of the keys may sign for an organisation.
func (k Keys) signFor(orgID string) bool {
	return slices.ContainsFunc(k, func(one key) bool { return one.orgID == "" || strings.EqualFold(one.orgID, orgID) })
}

// Enqueue makes the request that stores an event as a job: once per key, which is the same on every delivery of the event. Jobs with one
// subject are worked in their order.
func Enqueue(source, eventType, key, subject string, payload []byte) *onboardingv1.EnqueueWebhookJobRequest {
	return &onboardingv1.EnqueueWebhookJobRequest{
		Source: source, EventType: eventType, IdempotencyKey: key, Subject: subject,
		Event: &onboardingv1.EnqueueWebhookJobRequest_PayloadJson{PayloadJson: payload},
	}
}

// eventName matches an event's name. It is stored, logged and compared, so it is plain and short.
var eventName = regexp.MustCompile(`^[a-z][a-z0-9_]*([./][a-z0-9_]+)*$`)

const (
	maxEventName = 100
	maxEventID   = 150 // with a name and the separators at most the 255 of a key
	maxDepth     = 100 // of JSON, well within the depth that Postgres can store
)

// CheckEventName refuses a malformed name of an event.
func CheckEventName(name string) error {
	if len(name) > maxEventName || !eventName.MatchString(name) {
		return errors.New("the event type is missing or malformed")
	}
	return nil
}

// CheckEventID refuses an id that cannot be part of a key.
func CheckEventID(what, id string) error {
	if id == "" {
		return fmt.Errorf("%s is missing", what)
	}
	if len(id) > maxEventID || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%s is malformed", what)
	}
	return nil
}

// Storable returns the text as gRPC and Postgres can store it: a carrier's broken encoding must not lose a person's STOP.
func Storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

var errNoObject = errors.New("the body is no JSON object")

// StorableObject returns a JSON object as Postgres can store it: no character and no number that jsonb refuses, no depth that its parser
// refuses. The vendor has signed it and cannot be made to send another, so a broken character must not lose the event.
func StorableObject(body []byte) (json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil || object == nil {
		return nil, errNoObject
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errNoObject
	}
	kept, err := storableValue(object, 0)
	if err != nil {
		return nil, err
	}
	return Encode(kept)
}

// Encode marshals as json.Marshal does, without its escapes for HTML, which turn each < into six bytes and take a body over the limits of
// the services.
func Encode(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

func storableValue(value any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errors.New("the body is nested too deeply")
	}
	switch v := value.(type) {
	case string:
		return Storable(v), nil
	case json.Number:
		if _, err := v.Float64(); err != nil {
			return nil, errors.New("the body holds a number out of range")
		}
	case []any:
		for i, one := range v {
			kept, err := storableValue(one, depth+1)
			if err != nil {
				return nil, err
			}
			v[i] = kept
		}
	case map[string]any:
		object := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) { // two names may become one, and a repeat has to become the same
			kept, err := storableValue(v[name], depth+1)
			if err != nil {
				return nil, err
			}
			object[Storable(name)] = kept
		}
		return object, nil
	}
	return value, nil
}
