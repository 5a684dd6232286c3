package inbound

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
)

// Handlers returns the handlers of every type of job.
func (in *Service) Handlers() map[string]queue.Handler {
	handlers := map[string]queue.Handler{
		conversation.EventMessage: in.handleReply, conversation.EventWhatsApp: in.handleReply, conversation.EventResumedReply: in.handleReply,
		conversation.EventOpening: in.Conversations.SendOpening, conversation.EventFlow: in.Conversations.FollowFlow,
		kapsoNumberCreated: read(in.numberCreated), kapsoSurvey: read(in.surveyAnswered), shopifyUninstalled: typed(in.uninstalled),
		shopifyCustomersRedact: read(in.redact), shopifyDataRequest: read(in.dataRequested),
	}
	maps.Copy(handlers, in.Inbox.Handlers())
	for _, event := range []string{kapsoSent, kapsoDelivered, kapsoRead, kapsoFailed} {
		handlers[event] = typed(in.kapsoStatus)
	}
	handlers[shopifyShopRedact] = func(context.Context, queue.Job) error { return conversation.ForOperator(redactShopHand) }
	return handlers
}

// typed makes a handler of one that takes its payload decoded. A payload that is not exactly a T, with fields that T does not know or
// something behind it, is a permanent failure: no retry can help.
func typed[T any](handle func(ctx context.Context, j queue.Job, payload T) error) queue.Handler {
	return func(ctx context.Context, j queue.Job) error {
		var payload T
		decoder := json.NewDecoder(bytes.NewReader(j.Payload))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&payload)
		if err == nil {
			if _, more := decoder.Token(); more != io.EOF {
				err = errors.New("there is more behind the payload")
			}
		}
		if err != nil {
			return conversation.Unreadable(j, err)
		}
		return handle(ctx, j, payload)
	}
}

// read is typed for a payload that a vendor defines, which may get more fields.
func read[T any](handle func(ctx context.Context, j queue.Job, payload T) error) queue.Handler {
	return func(ctx context.Context, j queue.Job) error {
		var payload T
		if err := json.Unmarshal(j.Payload, &payload); err != nil {
			return conversation.Unreadable(j, err)
		}
		return handle(ctx, j, payload)
	}
}
