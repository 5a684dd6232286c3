package dedup

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// dialTimeout bounds a connection with its TLS; timeout a write, a read and the wait for a free connection, each.
	dialTimeout, timeout = 3 * time.Second, 2 * time.Second
	prefix               = "paceline:reservation:" // keeps our keys apart from those of other users
)

// RedisOptions reads a URL. Timeouts and limits are ours, whatever it says of them. The error never repeats it: it may hold a password.
func RedisOptions(url string) (*redis.Options, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("redis: want redis://user:password@host:port/database, or rediss:// for TLS, or unix:///path")
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = dialTimeout, timeout, timeout, timeout
	o.ContextTimeoutEnabled, o.DisableIdentity = true, true
	o.PoolSize, o.MaxActiveConns = 8, 8
	o.DialerRetries, o.MaxRetries = 1, 1 // for a connection that the server closed while it was idle; every script bears a repetition
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return o, nil
}

// Redis is a store that several services or regions share. A key of it is a hash of the value's state, its owner, and its end in
// microseconds since 1970, by the clock of our processes; the server's clock only deletes keys, after Slack.
type Redis struct{ client *redis.Client }

// OpenRedis returns a store that connects when it is used first: a Redis that is down refuses deliveries and nothing else.
func OpenRedis(url string) (*Redis, error) {
	o, err := RedisOptions(url)
	if err != nil {
		return nil, err
	}
	return &Redis{client: redis.NewClient(o)}, nil
}

// Close closes the connections.
func (s *Redis) Close() error { return s.client.Close() }

// The scripts' ARGV are the owner, now, the end, and the key's expiry in ms. The second one takes besides whether the work was done, and
// returns whether the owner had a live lease.
var (
	scriptReserve = redis.NewScript(`
local v = redis.call('HMGET', KEYS[1], 'state', 'owner', 'until')
if v[3] and tonumber(v[3]) > tonumber(ARGV[2]) then return v end
redis.call('HSET', KEYS[1], 'state', 'in_flight', 'owner', ARGV[1], 'until', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {'in_flight', ARGV[1], ARGV[3]}`)
	scriptFinish = redis.NewScript(`
local v = redis.call('HMGET', KEYS[1], 'state', 'owner', 'until')
if v[2] ~= ARGV[1] or tonumber(v[3]) <= tonumber(ARGV[2]) then return 0 end
if ARGV[5] == '0' then return v[1] == 'in_flight' and redis.call('DEL', KEYS[1]) or 0 end
redis.call('HSET', KEYS[1], 'state', 'done', 'until', ARGV[3])
return redis.call('PEXPIRE', KEYS[1], ARGV[4])`)
)

func (s *Redis) run(ctx context.Context, script *redis.Script, c Claim, done bool) *redis.Cmd {
	life := (max(0, c.Until.Sub(c.Now)) + Slack).Milliseconds()
	return script.Run(ctx, s.client, []string{prefix + c.Key}, c.Owner, c.Now.UnixMicro(), c.Until.UnixMicro(), life, done)
}

// Reserve gives the key to the claim's owner if it is absent, and returns its value.
func (s *Redis) Reserve(ctx context.Context, c Claim) (Value, error) {
	v, err := s.run(ctx, scriptReserve, c, false).StringSlice() // state, owner, until
	if err != nil {
		return Value{}, err
	}
	until, err := strconv.ParseInt(v[2], 10, 64)
	return Value{Done: v[0] == "done", Owner: v[1], Until: time.UnixMicro(until)}, err
}

// Finish turns the owner's lease into done, or makes it absent; ErrLost.
func (s *Redis) Finish(ctx context.Context, c Claim, done bool) error {
	held, err := s.run(ctx, scriptFinish, c, done).Bool()
	if err == nil && !held {
		err = ErrLost
	}
	return err
}
