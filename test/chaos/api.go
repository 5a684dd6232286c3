package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"paceline.internal/emulators/qstash"
	api "paceline.internal/platform/qstash"
	"paceline.internal/services/onboarding/session"
)

// refusal is an answer that asking again does not change.
type refusal struct{ status int }

func (r *refusal) Error() string { return fmt.Sprintf("refused with status %d", r.status) }

func refused(err error) bool {
	var r *refusal
	return errors.As(err, &r)
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 1 << 20

// call speaks to /v1 as an operator.
func (w *world) call(ctx context.Context, method, path string, in, out any) (err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, w.url()+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+w.operator)
	request.Header.Set("Content-Type", "application/json")
	response, err := w.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return err
	case response.StatusCode/100 == 4:
		return &refusal{response.StatusCode}
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s %s: %s", method, path, response.Status)
	case out == nil:
		return nil
	}
	return json.Unmarshal(answer, out)
}

func (w *world) enrol(ctx context.Context, phone, name, locale string) (string, error) {
	var answer struct {
		Profile struct {
			ProfileID string `json:"profile_id"`
		}
	}
	err := w.call(ctx, http.MethodPost, "/v1/profiles", map[string]string{"phone": phone, "first_name": name, "locale": locale}, &answer)
	return answer.Profile.ProfileID, err
}

func (w *world) activate(ctx context.Context, profile string) (string, error) {
	var answer struct {
		Session struct {
			SessionID string `json:"session_id"`
		}
	}
	err := w.call(ctx, http.MethodPost, "/v1/profiles/"+profile+":activate", struct{}{}, &answer)
	w.know(answer.Session.SessionID, profile)
	return answer.Session.SessionID, err
}

// deliverByHand posts a step as QStash does, whether or not it is due: somebody replays it. Nobody minds the answer.
func (w *world) deliverByHand(ctx context.Context, profile, sessionID string, step session.StepID) {
	if sessionID == "" {
		return
	}
	body, err := stepPayload(profile, sessionID, step)
	if err != nil {
		w.fail(err)
		return
	}
	url := w.url() + "/api/onboarding/step"
	signature, err := api.Sign(qstash.DevCurrentKey, url, body, w.clock.Now())
	if err != nil {
		w.fail(err)
		return
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		w.fail(err)
		return
	}
	request.Header.Set(api.HeaderSignature, signature)
	request.Header.Set(api.HeaderMessageID, "msg_by_hand")
	w.mu.Lock()
	w.byHand[sessionID] = append(w.byHand[sessionID], step)
	w.mu.Unlock()
	if response, err := w.http.Do(request); err == nil {
		_ = response.Body.Close() // the answer does not matter
	}
}
