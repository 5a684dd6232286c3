package qstash

import (
	"encoding/json"
	"errors"
	"net/http"
)

// maxBatch bounds one batch in bytes, as QStash does since December 2024.
const maxBatch = 100 << 20

// batchItem is one message of a batch.
type batchItem struct {
	Destination string            `json:"destination"`
	Headers     map[string]string `json:"headers"`
	Body        string            `json:"body"`
	Queue       string            `json:"queue"`
}

// publishBatch takes each message of a batch for itself: one that is refused has an error in its place, and the others are taken. The fault
// script is about single messages and is not asked.
func (e *Emulator) publishBatch(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(w, r, maxBatch)
	if _, bad := errors.AsType[*refusal](err); err != nil && !bad {
		panic(http.ErrAbortHandler) // the caller hung up while sending
	}
	var items []batchItem
	if err == nil && json.Unmarshal(body, &items) != nil {
		err = badRequest("invalid batch: not an array of messages")
	}
	if err != nil {
		answerRefusal(w, err)
		return
	}
	results := make([]any, 0, len(items))
	for _, item := range items {
		results = append(results, e.publishItem(item, r.RemoteAddr))
	}
	answer(w, http.StatusOK, results)
}

// publishItem returns what the batch's answer says of one message.
func (e *Emulator) publishItem(item batchItem, remote string) any {
	h := http.Header{}
	for name, value := range item.Headers {
		h.Set(name, value)
	}
	if len(item.Body) > maxBody {
		return map[string]string{"error": "message is larger than the plan allows"}
	}
	if item.Queue != "" {
		return map[string]string{"error": notPlayed("queues").Error()}
	}
	m, dedupKey, err := e.read(h, remote, item.Destination, []byte(item.Body))
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	id, err := e.accept(m, dedupKey)
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return publishedJSON{MessageID: id, Deduplicated: id != m.ID}
}
