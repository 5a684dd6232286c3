package e2e

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/qstash"
	"paceline.internal/services/onboarding/session"
)

// vendors posts what QStash and Twilio would, signed as they sign.
type vendors struct {
	cfg  Config
	http *http.Client
	now  func() time.Time
}

// says posts a text of the phone.
func (v *vendors) says(ctx context.Context, text string) error {
	const path = "/api/webhooks/twilio/inbound"
	sid, err := newSID()
	if err != nil {
		return err
	}
	form := url.Values{
		"MessageSid": {sid}, "From": {v.cfg.Phone}, "To": {v.cfg.FromNumber}, "Body": {text}, "NumSegments": {"1"}, "NumMedia": {"0"},
	}
	code, answer, err := v.post(ctx, path, form.Encode(), http.Header{
		"Content-Type":       {"application/x-www-form-urlencoded"},
		"X-Twilio-Signature": {twilio.Sign(v.cfg.AuthToken.First(), v.cfg.PublicBaseURL.String()+path, form)},
	})
	switch {
	case err != nil:
		return err
	case code == http.StatusForbidden:
		return errors.New("the gateway does not believe our signature: TWILIO_AUTH_TOKEN and PUBLIC_BASE_URL must be those of the deployment")
	case code != http.StatusOK:
		return fmt.Errorf("the text was answered %d: %s", code, answer)
	}
	return nil
}

// rings posts the alarm of a step, and returns how it was answered.
func (v *vendors) rings(ctx context.Context, p session.StepPayload) (code int, answer string, err error) {
	const path = "/api/onboarding/step"
	body, err := p.Encode()
	if err != nil {
		return 0, "", err
	}
	signature, err := qstash.Sign(v.cfg.SigningKey.Reveal(), v.cfg.PublicBaseURL.String()+path, body, v.now())
	if err != nil {
		return 0, "", err
	}
	id, err := newSID()
	if err != nil {
		return 0, "", err
	}
	code, answer, err = v.post(ctx, path, string(body), http.Header{
		"Content-Type": {"application/json"}, qstash.HeaderMessageID: {"msg_e2e_" + id}, qstash.HeaderSignature: {signature},
	})
	if err == nil && code == http.StatusUnauthorized {
		err = errors.New("the gateway does not believe our signature: " +
			"QSTASH_CURRENT_SIGNING_KEY and PUBLIC_BASE_URL must be those of the deployment")
	}
	return code, answer, err
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 10

func (v *vendors) post(ctx context.Context, path, body string, header http.Header) (code int, answer string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, v.cfg.origin()+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header = header
	response, err := v.http.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return response.StatusCode, string(content), err
}

// newSID is an id that no message had before, in the form of Twilio's.
func newSID() (string, error) {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", fmt.Errorf("draw an id: %w", err)
	}
	return "SM" + hex.EncodeToString(random[:]), nil
}
