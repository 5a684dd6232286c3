package attack

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/process"
)

const (
	pathInbound = "/api/webhooks/twilio/inbound"
	// A stranger sends dribbleBytes every dribblePause: a thousand of them need 50 kB/s.
	dribbleBytes = 5
	dribblePause = 100 * time.Millisecond
	// claimedBody is the length of the body that the strangers announce, in bytes.
	claimedBody = 60000
	// promptly is the time within which a callback has to be answered.
	promptly = time.Second
)

// Dribble opens connections to the route of Twilio's messages, each with a forged signature and a body that arrives very slowly,
// and opens a new one for each that is cut off; meanwhile people write STOP, signed as Twilio does.
type Dribble struct {
	Target      string // the origin of the gateway
	PublicURL   string // the origin that signatures are made over
	AuthToken   string // Twilio's
	To          string // the number that people write to
	Connections int
	Duration    time.Duration
	Genuine     int // how many people write
	Now         func() time.Time
}

// DribbleReport is the result.
type DribbleReport struct {
	Connections int            `json:"connections"`
	Seconds     float64        `json:"seconds"`
	Genuine     int            `json:"genuine"`
	Answered    int            `json:"answered"` // of them, with 200 and promptly
	P50MS       float64        `json:"p50_ms"`
	MaxMS       float64        `json:"max_ms"`
	Other       map[string]int `json:"other,omitempty"` // what the rest of them got
	Strangers   map[string]int `json:"strangers"`       // the count of each status that they got, and of those cut off without one
	Kept        bool           `json:"kept"`
}

// Run attacks until the time is over.
func (d Dribble) Run(ctx context.Context) (DribbleReport, error) {
	target, err := url.Parse(d.Target)
	if err != nil || target.Scheme != "http" {
		return DribbleReport{}, errors.New("--target must be http://host:port of a gateway on this machine")
	}
	if err := onlyHere(target.Host); err != nil {
		return DribbleReport{}, err
	}
	if d.Connections < 1 || d.Genuine < 1 || d.Duration <= 0 {
		return DribbleReport{}, errors.New("--connections, --genuine and --duration must be above zero")
	}
	ctx, cancel := context.WithTimeout(ctx, d.Duration)
	defer cancel()
	var (
		clients          sync.WaitGroup
		strangers, other tally
		mu               sync.Mutex
		took             []time.Duration
	)
	for range d.Connections {
		clients.Go(func() {
			for ctx.Err() == nil {
				strangers.add(d.dribble(ctx, target.Host))
			}
		})
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // Twilio's calls come from anywhere
	for i := range d.Genuine {
		clients.Go(func() {
			if !process.RestOnMachineClock(ctx, d.Duration*time.Duration(2*i+1)/time.Duration(2*d.Genuine), nil) {
				return
			}
			began := d.Now()
			status, err := d.stop(context.WithoutCancel(ctx), client)
			elapsed := d.Now().Sub(began)
			switch {
			case err != nil:
				other.add(err.Error())
			case status != http.StatusOK:
				other.add(strconv.Itoa(status))
			case elapsed >= promptly:
				other.add("200, too late")
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, elapsed)
		})
	}
	clients.Wait()
	return d.report(took, other.counts, strangers.counts), nil
}

func (d Dribble) report(took []time.Duration, other, strangers map[string]int) DribbleReport {
	r := DribbleReport{
		Connections: d.Connections, Seconds: d.Duration.Seconds(), Genuine: d.Genuine, Answered: len(took), Other: other, Strangers: strangers,
	}
	for _, n := range other {
		r.Answered -= n
	}
	if len(took) > 0 {
		slices.Sort(took)
		r.P50MS, r.MaxMS = float64(took[len(took)/2].Microseconds())/1000, float64(took[len(took)-1].Microseconds())/1000
	}
	r.Kept = r.Answered == r.Genuine
	return r
}

// dribble is one connection, until it is cut off or the time is over. It returns what happened to it.
func (d Dribble) dribble(ctx context.Context, addr string) string {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		process.RestOnMachineClock(ctx, dribblePause, nil)
		return "not connected"
	}
	defer func() { _ = conn.Close() }() // an error changes nothing
	_, err = fmt.Fprintf(conn, "POST "+pathInbound+" HTTP/1.1\r\nHost: %s\r\nX-Twilio-Signature: Zm9yZ2VkIGJ5IGEgc3RyYW5nZXI=\r\n"+
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n", addr, claimedBody)
	answer := bufio.NewReader(conn)
	for err == nil && ctx.Err() == nil {
		if _, err = io.WriteString(conn, strings.Repeat("x", dribbleBytes)); err != nil {
			break
		}
		if err = conn.SetReadDeadline(d.Now().Add(dribblePause)); err != nil {
			break
		}
		if _, err = answer.Peek(1); errors.Is(err, os.ErrDeadlineExceeded) {
			err = nil
			continue
		}
		response, err := http.ReadResponse(answer, nil)
		if err != nil {
			break
		}
		_ = response.Body.Close() // the connection is closed next
		return strconv.Itoa(response.StatusCode)
	}
	if ctx.Err() != nil {
		return "held to the end"
	}
	return "cut off"
}

// stop is a person who writes STOP.
func (d Dribble) stop(ctx context.Context, client *http.Client) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*promptly) // Twilio waits no longer
	defer cancel()
	number := rand.Text()
	form := url.Values{
		"MessageSid": {fmt.Sprintf("SM%x", number[:16])}, "From": {fmt.Sprintf("+1202555%04d", 100+int(number[0])%100)},
		"To": {d.To}, "Body": {"STOP"},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.Target+pathInbound, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("X-Twilio-Signature", twilio.Sign(d.AuthToken, d.PublicURL+pathInbound, form))
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
