package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/sync/errgroup"

	"paceline.internal/deploy/operator"
	"paceline.internal/platform/process"
	"paceline.internal/platform/roster"
)

const (
	// maxParallel keeps one import from taking all that a gateway can answer.
	maxParallel = 64
	// tries bounds the requests for a person who cannot be taken for now: for about two minutes, unless Retry-After says more.
	tries = 12
	// firstRetry doubles with every try, up to longestRetry.
	firstRetry   = 250 * time.Millisecond
	longestRetry = 15 * time.Second
	// longestRetryAfter bounds what a gateway may ask for.
	longestRetryAfter = time.Minute
)

// importing creates people, or asks what creating them would come to.
type importing struct {
	api      operator.Client
	rest     process.Rest
	parallel int
	refused  *refusals
	bar      *progressbar.ProgressBar

	repeated func(phone string) bool // of an import that only asks: whether the file has the phone twice; nil creates

	created, known, others atomic.Int64 // people; others are there with something else than the file says

	mu      sync.Mutex
	planned map[string]operator.Person // those whom the first of the rows with their phone would create
}

// run sends every row that can be sent, some at the same time and those of one phone one after the other, so that the first of them counts.
// It ends with the first that no other could follow: the token is not accepted, or the gateway does not answer.
func (i *importing) run(ctx context.Context, each func(func(roster.Row) error) error) error {
	all, ctx := errgroup.WithContext(ctx)
	lines := make([]chan roster.Row, i.parallel)
	for n := range lines {
		lines[n] = make(chan roster.Row)
		all.Go(func() error {
			for r := range lines[n] {
				if err := i.create(ctx, r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	read := each(func(r roster.Row) error {
		if len(r.Wrong) > 0 {
			return i.refused.add(r.Wrong...)
		}
		select {
		case lines[int(crc32.ChecksumIEEE([]byte(r.Person.Phone)))%len(lines)] <- r:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	for _, line := range lines {
		close(line)
	}
	if err := all.Wait(); err != nil { // which has ended the reading
		return err
	}
	return errors.Join(read, i.bar.Finish())
}

// create sends one person, again if it has to, until it knows the result.
func (i *importing) create(ctx context.Context, r roster.Row) error {
	person := operator.Person{Phone: r.Person.Phone, FirstName: r.Person.FirstName, Locale: r.Person.Locale, TimeZone: r.Person.TimeZone}
	pause := firstRetry
	for try := 1; ; try++ {
		there, created, err := i.ask(ctx, person)
		answered, isAnswer := errors.AsType[*operator.StatusError](err)
		switch {
		case err == nil:
			return errors.Join(i.took(r, created, there), i.bar.Add(1))
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case isAnswer && !mayPass(answered.Code):
			if answered.Code == http.StatusUnauthorized || answered.Code == http.StatusForbidden {
				return fmt.Errorf("the token is not accepted: %s", messageOf(answered))
			}
			return errors.Join(i.refused.add(roster.Refusals(r.Line, messageOf(answered))...), i.bar.Add(1))
		case try == tries:
			return fmt.Errorf("line %d is not answered, after %d tries; run it again to go on: %w", r.Line, tries, err)
		}
		wait := pause
		if isAnswer {
			wait = max(wait, min(answered.RetryAfter, longestRetryAfter))
		}
		if !i.rest(ctx, wait, nil) {
			return context.Cause(ctx)
		}
		pause = min(2*pause, longestRetry)
	}
}

// ask creates a person, or only finds out whether it would, and returns who is there.
func (i *importing) ask(ctx context.Context, p operator.Person) (there operator.Person, created bool, err error) {
	if i.repeated == nil {
		var answer struct {
			Profile operator.Person `json:"profile"`
			Created bool            `json:"created"`
		}
		err := i.api.Call(ctx, http.MethodPost, "/v1/profiles", p, &answer)
		return answer.Profile, answer.Created, err
	}
	var found struct {
		Profiles []operator.Person `json:"profiles"`
	}
	err = i.api.Call(ctx, http.MethodGet, "/v1/profiles?phone="+url.QueryEscape(p.Phone), nil, &found)
	if err != nil || len(found.Profiles) > 0 {
		return append(found.Profiles, there)[0], false, err
	}
	if !i.repeated(p.Phone) {
		return p, true, nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	first, repeats := i.planned[p.Phone]
	if repeats {
		return first, false, nil
	}
	i.planned[p.Phone] = p
	return p, true, nil
}

// took counts a person who was created or is there already, and reports where the file says something else of them.
func (i *importing) took(r roster.Row, created bool, there operator.Person) error {
	if created {
		i.created.Add(1)
		return nil
	}
	i.known.Add(1)
	var wrong []roster.Refusal
	for _, column := range r.Differing(roster.Person{FirstName: there.FirstName, Locale: there.Locale, TimeZone: there.TimeZone}) {
		wrong = append(wrong, roster.Refusal{
			Line: r.Line, Column: column, Reason: "exists: the phone has a profile with another " + column + ", which is left as it is",
		})
	}
	if len(wrong) == 0 {
		return nil
	}
	i.others.Add(1)
	return i.refused.add(wrong...)
}

// mayPass reports whether the same person may be taken a little later. Creating a person twice finds the one who is there.
func mayPass(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= http.StatusInternalServerError
}

// messageOf returns the text of an answer without the prefix that names the kind of error.
func messageOf(answered *operator.StatusError) string {
	var said struct {
		Message string `json:"message"`
	}
	if json.Unmarshal([]byte(answered.Answer), &said) != nil || said.Message == "" {
		return http.StatusText(answered.Code)
	}
	return said.Message
}
