package twilio

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

const maxRequest = 64 << 10 // bytes of a create request that are read

func (e *Emulator) routes() http.Handler {
	const account = "/2010-04-01/Accounts/{account}"
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2010-04-01/Accounts/{file}", e.fetchAccount)
	mux.HandleFunc("POST "+account+"/Messages.json", e.create)
	mux.HandleFunc("GET "+account+"/Messages.json", filtered(e.list, listFilters()...))
	mux.HandleFunc("GET "+account+"/Messages/{file}", e.fetch)
	mux.HandleFunc("POST "+account+"/Messages/{file}", e.update)
	mux.HandleFunc("DELETE "+account+"/Messages/{file}", e.remove)
	mux.HandleFunc("GET "+account+"/IncomingPhoneNumbers.json", filtered(e.listNumbers, "PhoneNumber"))
	mux.HandleFunc("GET /v1/Services/{service}/PhoneNumbers", filtered(e.listSenders(phoneNumbers())))
	mux.HandleFunc("GET /v1/Services/{service}/ShortCodes", filtered(e.listSenders(shortCodes())))
	mux.HandleFunc("/", notPlayed)
	return e.authenticated(mux)
}

// authenticated lets only requests of an account that is played through, about that account.
func (e *Emulator) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := e.caller(r)
		if caller == nil {
			w.Header().Set("WWW-Authenticate", `Basic realm="Twilio API"`)
			refuse(w, refusal{http.StatusUnauthorized, 20003, "Authenticate"})
			return
		}
		account, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/2010-04-01/Accounts/"), "/")
		if strings.HasPrefix(account, "AC") && strings.TrimSuffix(account, ".json") != caller.SID {
			notFound(w, r)
			return
		}
		next.ServeHTTP(w, calledBy(r, caller))
	})
}

// create takes a message, unless the script says otherwise or the request is invalid.
func (e *Emulator) create(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
	if err := r.ParseForm(); err != nil {
		refuse(w, refusal{http.StatusBadRequest, 20001, "The request body cannot be read"})
		return
	}
	draft, no := e.draft(callerOf(r), r.PostForm)
	var fault CreateFault
	if no == nil {
		fault = e.director.create(draft)
	}
	message := draft
	if fault.Refuse != 0 {
		no = bad(fault.Refuse, draft)
	}
	if no == nil && (fault.Answer == AnswerNormal || fault.Commit && fault.Answer != AnswerTooMany) {
		message, no = e.commit(draft)
	}
	if no != nil {
		e.report(Event{Kind: EventRefused, Message: draft, Code: no.code})
		refuse(w, *no)
		return
	}
	if fault != (CreateFault{}) {
		e.report(Event{Kind: EventFault, Message: message})
	}
	if e.pause(r, fault.Delay) {
		e.answer(w, r, fault.Answer, message)
	}
}

// pause delays an answer. It reports whether the caller still waits for it.
func (e *Emulator) pause(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	over := make(chan struct{})
	stop := e.cfg.Clock.AfterFunc(d, func() { close(over) })
	defer stop()
	select {
	case <-over:
		return true
	case <-r.Context().Done():
	case <-e.ctx.Done():
	}
	return false
}

func (e *Emulator) answer(w http.ResponseWriter, r *http.Request, a Answer, m Message) {
	switch a {
	case AnswerNormal:
		writeJSON(w, http.StatusCreated, e.resource(m))
	case AnswerTooMany:
		w.Header().Set("Retry-After", "1")
		refuse(w, refusal{http.StatusTooManyRequests, 20429, "Too Many Requests"})
	case AnswerServerError:
		refuse(w, refusal{http.StatusInternalServerError, 20500, "An internal server error has occurred"})
	case AnswerUnavailable:
		writePage(w, http.StatusServiceUnavailable, "<html><body><h1>503 Service Unavailable</h1></body></html>")
	case AnswerRedirect:
		w.Header().Set("Location", r.URL.Path)
		writePage(w, http.StatusFound, "<html><body>Found</body></html>")
	case AnswerGarbage:
		writePage(w, http.StatusCreated, "<html><body>Created</body></html>")
	case AnswerReset:
		reset(w)
	case AnswerHang:
		select {
		case <-r.Context().Done():
		case <-e.ctx.Done():
		}
		panic(http.ErrAbortHandler) // without this net/http would answer an empty 200
	}
}

// reset drops the connection with an RST, as a dying proxy does.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 or a recorder: the nearest there is
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		err = tcp.SetLinger(0) // discard instead of FIN
	}
	if errors.Join(err, conn.Close()) != nil {
		panic(http.ErrAbortHandler)
	}
}

func (e *Emulator) fetch(w http.ResponseWriter, r *http.Request) {
	sid, _ := strings.CutSuffix(r.PathValue("file"), ".json")
	e.mu.Lock()
	m, ok := e.bySID[sid]
	ok = ok && m.AccountSID == callerOf(r).SID
	var found Message
	if ok {
		found = m.snapshot()
	}
	e.mu.Unlock()
	if !ok {
		notFound(w, r)
		return
	}
	writeJSON(w, http.StatusOK, e.resource(found))
}

// refusal is an error answer of the API.
type refusal struct {
	status  int
	code    int
	message string
}

func refuse(w http.ResponseWriter, no refusal) {
	writeJSON(w, no.status, map[string]any{
		"code": no.code, "message": no.message, "status": no.status,
		"more_info": moreInfo(no.code),
	})
}

func notFound(w http.ResponseWriter, r *http.Request) {
	refuse(w, refusal{http.StatusNotFound, 20404, "The requested resource " + r.URL.Path + " was not found"})
}

// writeJSON and writePage ignore a failed write: the client has gone.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func writePage(w http.ResponseWriter, status int, html string) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(html))
}
