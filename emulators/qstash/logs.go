package qstash

import (
	"net/http"
	"slices"
	"strconv"
)

// logJSON is one step of a message's life, as the API shows it: https://upstash.com/docs/qstash/howto/debug-logs.
type logJSON struct {
	Time             int64    `json:"time"`
	State            string   `json:"state"`
	MessageID        string   `json:"messageId"`
	URL              string   `json:"url"`
	NextDeliveryTime int64    `json:"nextDeliveryTime,omitempty"`
	ResponseStatus   int      `json:"responseStatus,omitempty"`
	Error            string   `json:"error,omitempty"`
	Label            string   `json:"label,omitempty"`
	Labels           []string `json:"labels,omitempty"`
}

// statesOf are the states that an event is told as, the latest first. What the fault script did is no part of any log.
func statesOf(event Event) []string {
	switch event.Kind {
	case Published:
		return []string{"CREATED"}
	case Attempted:
		if event.Fault {
			return nil
		}
		return []string{"ACTIVE"}
	case Waiting:
		return []string{"RETRY", "ERROR"}
	case Delivered:
		return []string{"DELIVERED"}
	case DeadLettered:
		return []string{"FAILED", "ERROR"}
	case CancelRequested:
		return []string{"CANCEL_REQUESTED"}
	case Cancelled:
		return []string{"CANCELED"} // the documents write CANCELLED, the SDKs' types this
	case Duplicate, Refused, Answered, Lost:
	}
	return nil
}

// wantedStates are the states that a filter's values mean.
func wantedStates(values []string) ([]string, error) {
	var wanted []string
	for _, value := range values {
		switch value {
		case "CREATED", "ACTIVE", "RETRY", "ERROR", "DELIVERED", "FAILED", "CANCEL_REQUESTED", "CANCELED":
			wanted = append(wanted, value)
		case "CANCELLED":
			wanted = append(wanted, "CANCELED")
		case "IN_PROGRESS":
			wanted = append(wanted, "ACTIVE", "RETRY", "ERROR")
		default:
			return nil, badRequest("invalid state")
		}
	}
	return wanted, nil
}

const (
	// maxLogs is the largest count of a page of logs, and what it is without one.
	maxLogs, defaultLogs = 1000, 100
	// statesPerEvent is the most that statesOf returns. A cursor counts in states: that of the next page's first is below it.
	statesPerEvent = 2
)

// listLogs answers a page of what has happened, the latest first, under the given name.
func (e *Emulator) listLogs(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		logs, cursor, err := e.findLogs(r)
		if err != nil {
			answerRefusal(w, err)
			return
		}
		page := map[string]any{name: logs}
		if cursor != "" {
			page["cursor"] = cursor
		}
		answer(w, http.StatusOK, page)
	}
}

func (e *Emulator) findLogs(r *http.Request) (logs []logJSON, cursor string, err error) {
	query := r.URL.Query()
	f, err := readFilter(query, maxLogs)
	if err != nil {
		return nil, "", err
	}
	if !query.Has("count") {
		f.count = defaultLogs
	}
	states, err := wantedStates(f.values["state"])
	if err != nil {
		return nil, "", err
	}
	delete(f.values, "state")
	if ids, named := f.values["messageIds"]; named {
		delete(f.values, "messageIds")
		f.values["messageId"] = ids
	}
	before, err := readInt(query, "cursor", 1<<62)
	if err != nil {
		return nil, "", err
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	logs = []logJSON{}
	last := 0
	for i, event := range slices.Backward(e.record) {
		for k, state := range statesOf(event) {
			at := statesPerEvent*(e.forgotten+i) + statesPerEvent - 1 - k
			if int64(at) >= before || len(states) > 0 && !slices.Contains(states, state) ||
				!f.matches(event.Time, about(event.MessageID, event.URL, event.Label)) {
				continue
			}
			if len(logs) == f.count {
				return logs, strconv.Itoa(last), nil
			}
			logs, last = append(logs, logOf(event, state)), at
		}
	}
	return logs, "", nil
}

func logOf(event Event, state string) logJSON {
	log := logJSON{Time: event.Time.UnixMilli(), State: state, MessageID: event.MessageID, URL: event.URL, Label: event.Label}
	if event.Label != "" {
		log.Labels = []string{event.Label}
	}
	switch state {
	case "CREATED", "RETRY":
		log.NextDeliveryTime = event.Due.UnixMilli()
	case "ERROR", "FAILED", "DELIVERED":
		log.ResponseStatus, log.Error = event.Status, event.Err
	}
	return log
}
