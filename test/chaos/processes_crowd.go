package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/test/stack"
)

// crowd is everybody who takes part.
type crowd struct {
	site *site

	people  []*texter
	group   sync.WaitGroup
	looking sync.WaitGroup
	stop    context.CancelFunc

	mu       sync.Mutex
	views    map[string]view // newest session by phone
	problems []string        // calls that were refused
}

// view is what a person may know of their session: what they have been asked, and whether it is over.
type view struct {
	Session, Status, Mode, Token string
	Turn                         int
}

func newCrowd(s *site) *crowd {
	c := &crowd{site: s, views: map[string]view{}}
	for i := range s.cfg.Sessions {
		c.people = append(c.people, newTexter(c, i))
	}
	return c
}

// begin lets everybody live until their conversation is over or ctx ends.
func (c *crowd) begin(ctx context.Context) {
	for _, t := range c.people {
		c.group.Go(func() { t.finished = t.live(ctx) })
	}
	looking, stop := context.WithCancel(ctx)
	c.stop = stop
	c.looking.Go(func() {
		for {
			c.look(looking)
			if !pause(looking, lookAgain) {
				return
			}
		}
	})
}

// wait returns once everybody has finished.
func (c *crowd) wait() {
	c.group.Wait()
	c.stop()
	c.looking.Wait()
}

const sqlViews = `
select distinct on (s.profile_id) p.phone, s.id::text, s.status, s.mode, s.state_token, s.turn
from conversation_sessions s join profiles p on p.id = s.profile_id order by s.profile_id, s.id desc`

// look reads where every conversation stands. A database that is gone for a moment is read the next time.
func (c *crowd) look(ctx context.Context) {
	rows, err := c.site.onboarding.Query(ctx, sqlViews)
	if err != nil {
		return
	}
	views := map[string]view{}
	var phone string
	var v view
	if _, err := pgx.ForEachRow(rows, []any{&phone, &v.Session, &v.Status, &v.Mode, &v.Token, &v.Turn}, func() error {
		views[phone] = v
		return nil
	}); err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.views = views
}

func (c *crowd) view(phone string) view {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.views[phone]
}

// unfinished is how many people still waited when the time was over.
func (c *crowd) unfinished() []*texter {
	var waiting []*texter
	for _, t := range c.people {
		if !t.finished {
			waiting = append(waiting, t)
		}
	}
	return waiting
}

func (c *crowd) problemf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// tally counts the texts of ours that Twilio has taken for each phone.
type tally struct {
	mu    sync.Mutex
	texts map[string]int
}

func (t *tally) add(phone string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.texts[phone]++
}

func (t *tally) of(phone string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.texts[phone]
}

// clientPause is how long a client waits before it repeats a call that was not answered.
const clientPause = 250 * time.Millisecond

// call makes a call of /v1 as any client should: again and again until there is an answer. Its error is an answer that will
// not change, or the end of ctx.
func (c *crowd) call(ctx context.Context, path string, in, out any) error {
	for {
		err := c.try(ctx, path, in, out)
		var no *refusal
		if err == nil || errors.As(err, &no) {
			return err
		}
		if !pause(ctx, clientPause) {
			return ctx.Err()
		}
	}
}

func (c *crowd) try(ctx context.Context, path string, in, out any) (err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.site.gateway+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.site.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := c.site.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch status := response.StatusCode; {
	case err != nil:
		return err
	case status == http.StatusOK:
		return json.Unmarshal(answer, out)
	case status == http.StatusConflict || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		return fmt.Errorf("%s: status %d", path, status)
	default:
		return &refusal{status}
	}
}

// text sends a text from a phone until Twilio got rid of it.
func (c *crowd) text(ctx context.Context, phone, words string) bool {
	for {
		delivery, err := c.site.vendors.Twilio.Receive(ctx, phone, stack.FromNumber, words)
		if err == nil && delivery.StatusCode == http.StatusOK {
			return true
		}
		if !pause(ctx, clientPause) {
			return false
		}
	}
}
