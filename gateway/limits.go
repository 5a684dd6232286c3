package gateway

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"paceline.internal/gateway/route"
	"paceline.internal/platform/rpc"
)

// maxCallers bounds the callers that a limit remembers, in 5 MiB. Where there are more, it forgets the one that has not called for longest:
// its quota is whole again by then, or so many others have called since that it does not matter.
const maxCallers = 1 << 15

// The fields of https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/: what the limits are, and how the
// caller stands.
const (
	headerRateLimitPolicy = "RateLimit-Policy"
	headerRateLimit       = "RateLimit"
)

// limits bound the requests that one organisation, and one caller of it, may make of /v1. They protect this process, so they are its
// own: of N processes behind a load balancer a caller gets up to N times as much.
type limits struct {
	limits  []*limit
	now     func() time.Time // the machine's clock: a simulated one stands still while its world works
	refused metric.Int64Counter

	mu sync.Mutex // one for all, so that a request counts against all limits or against none
}

// limit is one Rate, and how each of its callers stands.
type limit struct {
	Rate

	name string
	key  func(rpc.Principal) string
	// callers have, by the hash of their key, when the quota of each is whole again. A subject may be long; a hash is not.
	callers *simplelru.LRU[[sha256.Size]byte, time.Time]
}

func newLimits(org, token Rate, meter metric.Meter, now func() time.Time) (*limits, error) {
	refused, err := meter.Int64Counter("paceline_api_rate_limited_total",
		metric.WithDescription("Requests of /v1 that were refused, by the limit that refused them."))
	if err != nil {
		return nil, err
	}
	ls := &limits{now: now, refused: refused}
	for _, l := range []*limit{
		{Rate: org, name: "org", key: func(p rpc.Principal) string { return p.OrgID }},
		// By whom the token names and not by its bytes: a new token is no new quota, and all programs that share one share its quota.
		{Rate: token, name: "token", key: func(p rpc.Principal) string { return p.OrgID + " " + string(p.Role) + " " + p.Subject }},
	} {
		if l.off() {
			continue
		}
		if l.callers, err = simplelru.NewLRU[[sha256.Size]byte, time.Time](maxCallers, nil); err != nil {
			return nil, err
		}
		ls.limits = append(ls.limits, l)
		refused.Add(context.Background(), 0, by(l))
	}
	return ls, nil
}

func by(l *limit) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("limit", l.name))
}

// bound lets a request on while its caller keeps to the limits. A stream counts once, when it is opened.
func (ls *limits) bound(next http.Handler) http.Handler {
	if len(ls.limits) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, _ := rpc.PrincipalFrom(r.Context())
		tooMany := ls.take(r.Context(), w.Header(), caller)
		if tooMany == nil {
			next.ServeHTTP(w, r)
			return
		}
		route.EventFrom(r.Context()).At(r, "/v1")
		route.WriteError(r.Context(), w, http.StatusTooManyRequests, tooMany)
	})
}

// take counts a request, or says why it is refused.
func (ls *limits) take(ctx context.Context, header http.Header, caller rpc.Principal) *rpc.Error {
	refusing, wait := ls.count(header, caller)
	if refusing == nil {
		return nil
	}
	ls.refused.Add(ctx, 1, by(refusing))
	tooMany := route.Refuse(codes.ResourceExhausted, route.ReasonRateLimited,
		fmt.Sprintf("the limit %q of requests is reached; the next one is taken in %d s", refusing.name, int(wait.Seconds())+1))
	tooMany.RetryAfter = wait
	return tooMany
}

// counted is a connection that counts each call as a request of its caller: a page of the console has several.
type counted struct {
	grpc.ClientConnInterface

	limits *limits
}

// Invoke implements grpc.ClientConnInterface.
func (c counted) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	caller, _ := rpc.PrincipalFrom(ctx)
	if tooMany := c.limits.take(ctx, http.Header{}, caller); tooMany != nil {
		return tooMany
	}
	return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

// count counts a request against every limit, or against none and returns the one that refuses it and for how long. The header says how the
// caller stands after it.
func (ls *limits) count(header http.Header, caller rpc.Principal) (refusing *limit, wait time.Duration) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	keys, whole := make([][sha256.Size]byte, len(ls.limits)), make([]time.Time, len(ls.limits))
	for i, l := range ls.limits {
		keys[i] = sha256.Sum256([]byte(l.key(caller)))
		whole[i], _ = l.callers.Get(keys[i]) // of one that is not known it has been whole for ever
		if w := l.wait(whole[i], now); w > wait {
			refusing, wait = l, w
		}
	}
	var policies, standings []string
	for i, l := range ls.limits {
		if refusing == nil {
			whole[i] = l.spend(whole[i], now)
			l.callers.Add(keys[i], whole[i])
		}
		policies = append(policies, fmt.Sprintf("%q;q=%d;w=%d", l.name, l.burst, l.window()))
		standings = append(standings, fmt.Sprintf("%q;r=%d;t=%d", l.name, l.left(whole[i], now), l.resets(whole[i], now)))
	}
	header.Set(headerRateLimitPolicy, strings.Join(policies, ", "))
	header.Set(headerRateLimit, strings.Join(standings, ", "))
	return refusing, wait
}

// Rate is a number of requests a second, and of requests at once after a rest. The zero Rate is no limit.
//
// It uses the generic cell rate algorithm, which keeps one value of a caller, the instant at which the quota is whole again: every
// request moves it on by a slot, the time in which one comes back.
type Rate struct{ perSecond, burst int }

// off reports whether there is no limit.
func (r Rate) off() bool { return r.perSecond == 0 }

func (r Rate) slot() time.Duration { return time.Second / time.Duration(r.perSecond) }

// window returns the seconds in which the whole quota comes back.
func (r Rate) window() int { return (r.burst + r.perSecond - 1) / r.perSecond }

// spend returns the instant at which the quota is whole again after one request more.
func (r Rate) spend(whole, now time.Time) time.Time {
	if whole.Before(now) {
		whole = now
	}
	return whole.Add(r.slot())
}

// wait returns the time that the next request would have to wait; zero or less when it may come now.
func (r Rate) wait(whole, now time.Time) time.Duration {
	return r.spend(whole, now).Sub(now) - time.Duration(r.burst)*r.slot()
}

// left returns the number of requests that may come now.
func (r Rate) left(whole, now time.Time) int {
	spent := max(0, whole.Sub(now))
	return r.burst - int((spent+r.slot()-1)/r.slot())
}

// resets returns the seconds until the quota is whole again.
func (r Rate) resets(whole, now time.Time) int {
	return int(math.Ceil(max(0, whole.Sub(now)).Seconds()))
}

// maxRate bounds both numbers of a Rate: beyond it there is no limit worth the name.
const maxRate = 1_000_000

// String is rate:burst, as UnmarshalText reads it.
func (r Rate) String() string { return strconv.Itoa(r.perSecond) + ":" + strconv.Itoa(r.burst) }

// MarshalText is String.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads rate:burst, a rate alone, which is its burst too, or 0 for no limit.
func (r *Rate) UnmarshalText(text []byte) error {
	rate, burst, both := strings.Cut(string(text), ":")
	if !both {
		burst = rate
	}
	perSecond, err := strconv.Atoi(rate)
	most, burstErr := strconv.Atoi(burst)
	if err != nil || burstErr != nil || min(perSecond, most) < 0 || max(perSecond, most) > maxRate || (perSecond == 0) != (most == 0) {
		return fmt.Errorf("must be requests a second and how many at once, such as 100:500, both from 1 to %d, or 0 for no limit", maxRate)
	}
	r.perSecond, r.burst = perSecond, most
	return nil
}
