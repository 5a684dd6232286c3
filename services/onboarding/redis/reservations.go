// Package redis keeps the reservations of deliveries in a Redis that several services or regions share.
package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"paceline.internal/services/onboarding/reservation"
)

const (
	// dialTimeout bounds a connection, with its TLS; timeout a write, a read and the wait for a free connection, each. A
	// delivery waits for all of it, and is refused afterwards.
	dialTimeout = 3 * time.Second
	timeout     = 2 * time.Second
	// slack is how much longer than its value a key lives. Values end by the time that the caller hands in; the expiry of the
	// key, by the server's clock, only clears away what has ended.
	slack = time.Hour
	// prefix keeps our keys apart in a Redis that others use, too.
	prefix = "paceline:reservation:"
)

// ErrURL is a Redis URL that cannot be used. Its text never repeats the URL, which may hold a password.
var ErrURL = errors.New("redis: want redis://user:password@host:port/database, or rediss:// for TLS, or unix:///path")

// options reads a URL. Its timeouts and limits are ours, whatever the URL says of them.
func options(url string) (*redis.Options, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, ErrURL // the cause quotes the URL
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = dialTimeout, timeout, timeout, timeout
	o.ContextTimeoutEnabled = true
	o.DialerRetries = 1
	o.MaxRetries = 1 // for a connection that the server closed while it was idle; every script bears a repetition
	o.PoolSize, o.MaxActiveConns = 8, 8
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return o, nil
}

// CheckURL reports whether a URL can be used, without connecting; ErrURL.
func CheckURL(url string) error {
	_, err := options(url)
	return err
}

// Reservations is a store of reservations. A key of Redis holds one value: its state, its owner, and its end in
// microseconds since 1970, by the clock of our processes.
type Reservations struct{ client *redis.Client }

// Open returns a store; it connects when it is used first, for a Redis that is down refuses deliveries and nothing else.
// The caller closes it. ErrURL.
func Open(url string) (*Reservations, error) {
	o, err := options(url)
	if err != nil {
		return nil, err
	}
	return &Reservations{client: redis.NewClient(o)}, nil
}

// Close closes the connections.
func (s *Reservations) Close() error { return s.client.Close() }

// scriptReserve returns what stands under the key after it: ARGV are the owner, now, the end, and the key's expiry in ms.
var scriptReserve = redis.NewScript(`
local stands = redis.call('HMGET', KEYS[1], 'state', 'owner', 'until')
if stands[3] and tonumber(stands[3]) > tonumber(ARGV[2]) then
  return stands
end
redis.call('HSET', KEYS[1], 'state', 'in_flight', 'owner', ARGV[1], 'until', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {'in_flight', ARGV[1], ARGV[3]}`)

// scriptComplete has the same ARGV, and returns whether the owner had a live lease.
var scriptComplete = redis.NewScript(`
local stands = redis.call('HMGET', KEYS[1], 'state', 'owner', 'until')
if stands[2] ~= ARGV[1] or tonumber(stands[3]) <= tonumber(ARGV[2]) then
  return 0
end
redis.call('HSET', KEYS[1], 'state', 'done', 'until', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1`)

// scriptRelease has the owner and now as ARGV, and returns whether the owner had a live lease.
var scriptRelease = redis.NewScript(`
local stands = redis.call('HMGET', KEYS[1], 'state', 'owner', 'until')
if stands[2] ~= ARGV[1] or stands[1] ~= 'in_flight' or tonumber(stands[3]) <= tonumber(ARGV[2]) then
  return 0
end
redis.call('DEL', KEYS[1])
return 1`)

// Reserve gives the key to the claim's owner if it is absent, and says what stands under it.
func (s *Reservations) Reserve(ctx context.Context, c reservation.Claim) (reservation.Answer, error) {
	stands, err := scriptReserve.Run(ctx, s.client, []string{prefix + c.Key}, c.Owner, micros(c.Now), micros(c.Until), expiry(c)).StringSlice()
	if err != nil {
		return reservation.Answer{}, fmt.Errorf("reserve a delivery: %w", err)
	}
	if len(stands) != 3 {
		return reservation.Answer{}, fmt.Errorf("reserve a delivery: %d values instead of 3", len(stands))
	}
	until, err := strconv.ParseInt(stands[2], 10, 64)
	if err != nil {
		return reservation.Answer{}, fmt.Errorf("reserve a delivery: %w", err)
	}
	answer := reservation.Answer{Verdict: reservation.InFlight, Until: time.UnixMicro(until)}
	switch {
	case stands[0] == "done":
		answer.Verdict = reservation.Done
	case stands[1] == c.Owner:
		answer.Verdict = reservation.Won
	}
	return answer, nil
}

// Complete turns the owner's lease into done; reservation.ErrLost.
func (s *Reservations) Complete(ctx context.Context, c reservation.Claim) error {
	held, err := scriptComplete.Run(ctx, s.client, []string{prefix + c.Key}, c.Owner, micros(c.Now), micros(c.Until), expiry(c)).Bool()
	return lost("complete", held, err)
}

// Release makes the owner's key absent; reservation.ErrLost.
func (s *Reservations) Release(ctx context.Context, c reservation.Claim) error {
	held, err := scriptRelease.Run(ctx, s.client, []string{prefix + c.Key}, c.Owner, micros(c.Now)).Bool()
	return lost("release", held, err)
}

// Check reports whether Redis answers and lets us run a script. It changes nothing.
func (s *Reservations) Check(ctx context.Context) error {
	err := s.Release(ctx, reservation.Claim{Key: "nobody's", Owner: "doctor"})
	if errors.Is(err, reservation.ErrLost) {
		return nil
	}
	return err
}

func lost(verb string, held bool, err error) error {
	if err != nil {
		return fmt.Errorf("%s a delivery: %w", verb, err)
	}
	if !held {
		return reservation.ErrLost
	}
	return nil
}

func micros(t time.Time) int64 { return t.UnixMicro() }

// expiry is the life of a key whose value ends at c.Until, in milliseconds.
func expiry(c reservation.Claim) int64 { return (max(0, c.Until.Sub(c.Now)) + slack).Milliseconds() }
