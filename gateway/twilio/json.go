package twilio

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/url"
	"strconv"
)

// bodyHashParameter is in the query of a request that Twilio posts as JSON. The signature covers the URL, and by it the body:
// https://www.twilio.com/docs/usage/webhooks/webhooks-security.
const bodyHashParameter = "bodySHA256"

// isJSON reports whether a body says that it is JSON.
func isJSON(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == "application/json"
}

// validJSON reports whether a signature covers a URL and, by the hash in its query, a body. Without the hash it covers no body: one that
// was made for the bare URL would then pass with any.
func (s signatures) validJSON(fullURL string, query url.Values, body []byte, signature string) bool {
	hashes := query[bodyHashParameter]
	if len(hashes) != 1 {
		return false
	}
	said, err := hex.DecodeString(hashes[0])
	is := sha256.Sum256(body)
	return err == nil && subtle.ConstantTimeCompare(said, is[:]) == 1 && s.valid(fullURL, nil, signature)
}

var (
	errForged    = errors.New("the signature is invalid")
	errNotFields = errors.New("the body is no JSON object of texts and numbers")
)

// decodeJSON reads one flat object as the form that it stands for. A name that is there twice has both values, as in a form; null is no
// value.
func decodeJSON(body []byte) (url.Values, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	form := url.Values{}
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return nil, errNotFields
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, errNotFields
		}
		value, err := decoder.Token()
		if err != nil {
			return nil, errNotFields
		}
		key, _ := name.(string) // the decoder takes nothing else for a name
		switch value := value.(type) {
		case string:
			form.Add(key, value)
		case json.Number:
			form.Add(key, value.String())
		case bool:
			form.Add(key, strconv.FormatBool(value))
		case nil:
		default: // an object or an array, which no parameter is
			return nil, errNotFields
		}
	}
	if _, err := decoder.Token(); err != nil { // the closing brace
		return nil, errNotFields
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errNotFields
	}
	return form, nil
}
