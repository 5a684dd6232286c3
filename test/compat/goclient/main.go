// Command goclient is a client that oapi-codegen makes of /openapi.yaml, which plays the conversation with the running product, from a new
// person to the interview. It is a module outside go.work: what it imports is generated when it is judged (../clients.go).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	api "paceline.internal/test/compat/goclient/generated"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	err := play(ctx, os.Getenv("GATEWAY_URL"), os.Getenv("OPERATOR_TOKEN"), os.Getenv("PHONE_URL"), os.Getenv("PHONE"))
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// passes prints what came of a call, as the judges do. The error says that there is no point in going on.
func passes(call string, err error) error {
	r := map[string]string{"call": call, "outcome": "passed", "note": ""}
	if err != nil {
		r["outcome"], r["note"] = "failed", err.Error()
	}
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(r))
}

// refused is an answer that was not expected.
func refused(status int, body []byte) error { return fmt.Errorf("it answered %d: %s", status, body) }

func play(ctx context.Context, gateway, token, phoneURL, phone string) error {
	client, err := api.NewClientWithResponses(gateway, api.WithRequestEditorFn(func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+token)
		return nil
	}))
	if err != nil {
		return err
	}
	profile, err := enrol(ctx, client, phone)
	if err := passes("POST /v1/profiles", err); err != nil {
		return err
	}
	session, err := activate(ctx, client, profile)
	if err := passes("POST /v1/profiles/{profile_id}:activate", err); err != nil {
		return err
	}
	says := func() error { return text(ctx, phoneURL, phone) }
	return errors.Join(
		passes("GET /v1/sessions/{session_id}, until the interview", converse(ctx, client, session, says)),
		passes("GET /v1/messages, a page after the other", messages(ctx, client, profile)),
		passes("GET /v1/profiles/{profile_id} of an unknown id is an error of its shape", unknown(ctx, client)),
	)
}

func enrol(ctx context.Context, client *api.ClientWithResponses, phone string) (profile uuid.UUID, err error) {
	made, err := client.CreateProfileWithResponse(ctx, api.CreateProfileRequest{Phone: phone, FirstName: "Ana"})
	switch {
	case err != nil:
		return profile, err
	case made.JSON201 == nil || made.JSON201.Profile == nil:
		return profile, refused(made.StatusCode(), made.Body)
	}
	return made.JSON201.Profile.ProfileId, nil
}

func activate(ctx context.Context, client *api.ClientWithResponses, profile uuid.UUID) (session uuid.UUID, err error) {
	opened, err := client.ActivateProfileWithResponse(ctx, profile, api.ActivateProfileRequest{})
	switch {
	case err != nil:
		return session, err
	case opened.JSON200 == nil || opened.JSON200.Session == nil:
		return session, refused(opened.StatusCode(), opened.Body)
	}
	return opened.JSON200.Session.SessionId, nil
}

// converse answers whatever the session waits for until it is over.
func converse(ctx context.Context, client *api.ClientWithResponses, id uuid.UUID, says func() error) error {
	answered := map[string]bool{"onboarding:awaiting_burst": true} // which waits for no reply
	every := time.NewTicker(250 * time.Millisecond)
	defer every.Stop()
	for {
		read, err := client.GetSessionWithResponse(ctx, id)
		if err != nil {
			return err
		}
		if read.JSON200 == nil || read.JSON200.Session == nil {
			return refused(read.StatusCode(), read.Body)
		}
		switch session := read.JSON200.Session; {
		case session.Mode == api.SessionModeInterviewing:
			return nil
		case session.Status != api.SessionStatusActive:
			return fmt.Errorf("it is %s: %s", session.Status, session.Reason)
		case !answered[session.StateToken]:
			answered[session.StateToken] = true
			if err := says(); err != nil {
				return err
			}
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// text says yes on the phone.
func text(ctx context.Context, phoneURL, phone string) error {
	form := url.Values{"From": {phone}, "Body": {"yes please"}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, phoneURL+"/phone", strings.NewReader(form))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = errors.New("the phone: " + response.Status)
	}
	return errors.Join(err, response.Body.Close())
}

func messages(ctx context.Context, client *api.ClientWithResponses, profile uuid.UUID) error {
	size, token, found := int32(4), "", map[api.MessageDirection]int{}
	for {
		page, err := client.ListMessagesWithResponse(ctx, &api.ListMessagesParams{
			ProfileId: &profile, PageSize: &size, PageToken: &token,
		})
		if err != nil {
			return err
		}
		if page.JSON200 == nil {
			return refused(page.StatusCode(), page.Body)
		}
		for _, m := range page.JSON200.Messages {
			found[m.Direction]++
		}
		if token = page.JSON200.NextPageToken; token == "" {
			break
		}
	}
	if found[api.MessageDirectionOutbound] != 6 || found[api.MessageDirectionInbound] != 3 {
		return fmt.Errorf("6 messages out and 3 in were to be listed, not %v", found)
	}
	return nil
}

func unknown(ctx context.Context, client *api.ClientWithResponses) error {
	answer, err := client.GetProfileWithResponse(ctx, uuid.MustParse("01900000-0000-7000-8000-000000000001"))
	if err != nil {
		return err
	}
	if answer.JSON404 == nil || len(answer.JSON404.Details) == 0 || answer.JSON404.Details[0].Reason == nil {
		return refused(answer.StatusCode(), answer.Body)
	}
	if reason := *answer.JSON404.Details[0].Reason; reason != "REASON_PROFILE_NOT_FOUND" {
		return errors.New("the reason is " + reason)
	}
	return nil
}
