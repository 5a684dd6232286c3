package dedup

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// What every store of reservations has to do is tested in package dedup_test. These tests are about Redis.

func openRedis(t *testing.T, url string) *Redis {
	t.Helper()
	s, err := OpenRedis(url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

var begin = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func leased(lease time.Duration) Claim {
	return Claim{Key: "k", Owner: "a", Now: begin, Until: begin.Add(lease)}
}

func TestRedisOptions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		url  string
		want string // of the error
	}{
		{name: "Plain", url: "redis://localhost:6379/2"},
		{name: "WithPassword", url: "redis://user:s3cret@redis.example:6379"},
		{name: "TLS", url: "rediss://default:s3cret@eu1-x.upstash.io:6379"},
		{name: "Socket", url: "unix:///run/redis.sock?db=1"},
		{name: "LimitsOfItsOwnAreNotTaken", url: "redis://localhost?read_timeout=0&dial_timeout=1h&pool_timeout=1h&pool_size=500&max_retries=50"},
		{name: "AnotherScheme", url: "https://:s3cret@redis.example", want: "want redis://"},
		{name: "NoURL", url: "s3cret", want: "want redis://"},
		{name: "DatabaseThatIsNoNumber", url: "redis://:s3cret@localhost/s3cret", want: "want redis://"},
		{name: "BrokenEscape", url: "redis://:s3cret%zz@localhost", want: "want redis://"},
		{name: "UnknownSetting", url: "redis://localhost?s3cret=1", want: "want redis://"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, err := RedisOptions(tt.url)
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want)
				require.NotContains(t, err.Error(), "s3cret", "it never quotes the URL")
				return
			}
			require.NoError(t, err)
			require.Equal(t, []time.Duration{dialTimeout, timeout, timeout, timeout}, []time.Duration{o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout})
			require.LessOrEqual(t, o.PoolSize, 8)
			require.LessOrEqual(t, o.MaxRetries, 1)
			require.Equal(t, strings.HasPrefix(tt.url, "rediss:"), o.TLSConfig != nil)
		})
	}
}

func TestRedisTLS(t *testing.T) {
	t.Parallel()
	web := httptest.NewTLSServer(nil) // for its certificate
	web.Close()
	memory := miniredis.NewMiniRedis()
	require.NoError(t, memory.StartTLS(&tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}))
	t.Cleanup(memory.Close)
	trusting := func(t *testing.T, authorities *x509.CertPool) *Redis {
		t.Helper()
		o, err := RedisOptions("rediss://" + memory.Addr())
		require.NoError(t, err)
		o.TLSConfig.RootCAs, o.DialTimeout = authorities, time.Minute // a busy machine takes its time
		s := &Redis{client: redis.NewClient(o)}
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}

	t.Run("CertificateOfAnUnknownAuthorityIsRefused", func(t *testing.T) {
		t.Parallel()
		_, err := trusting(t, nil).Reserve(t.Context(), leased(time.Minute))
		var unknown x509.UnknownAuthorityError
		require.ErrorAs(t, err, &unknown)
	})

	t.Run("CertificateOfAKnownAuthorityIsTaken", func(t *testing.T) {
		t.Parallel()
		authority := x509.NewCertPool()
		authority.AddCert(web.Certificate())
		got, err := trusting(t, authority).Reserve(t.Context(), leased(time.Minute))
		require.NoError(t, err)
		require.Equal(t, "a", got.Owner)
	})
}

func TestRedisKeys(t *testing.T) {
	t.Parallel()

	t.Run("OutliveTheirValueByAnHourAndNotForEver", func(t *testing.T) {
		t.Parallel()
		memory := miniredis.RunT(t)
		s := openRedis(t, "redis://"+memory.Addr())
		_, err := s.Reserve(t.Context(), leased(240*time.Second))
		require.NoError(t, err)
		require.Equal(t, []string{prefix + "k"}, memory.Keys())
		require.Equal(t, 240*time.Second+Slack, memory.TTL(prefix+"k"))
		require.NoError(t, s.Finish(t.Context(), leased(24*time.Hour), true))
		require.Equal(t, 24*time.Hour+Slack, memory.TTL(prefix+"k"))
		memory.FastForward(25 * time.Hour)
		require.Empty(t, memory.Keys())
	})

	t.Run("OfAnotherProgramAreAnError", func(t *testing.T) {
		t.Parallel()
		memory := miniredis.RunT(t)
		require.NoError(t, memory.Set(prefix+"k", "something"))
		s := openRedis(t, "redis://"+memory.Addr())
		_, err := s.Reserve(t.Context(), leased(time.Minute))
		require.Error(t, err)
		for _, err := range []error{s.Finish(t.Context(), leased(time.Minute), true), s.Finish(t.Context(), leased(time.Minute), false)} {
			require.Error(t, err)
			require.NotErrorIs(t, err, ErrLost)
		}
	})
}

func TestRedisOutage(t *testing.T) {
	t.Parallel()

	t.Run("S1_30_RedisThatHangsIsAnErrorInTime", func(t *testing.T) {
		t.Parallel()
		var network net.ListenConfig
		mute, err := network.Listen(t.Context(), "tcp", "127.0.0.1:0") // connections are taken and never answered
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, mute.Close()) })
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err = openRedis(t, "redis://"+mute.Addr().String()).Reserve(ctx, leased(time.Minute))
		require.Error(t, err)
		require.NoError(t, ctx.Err(), "by our own timeout, not the caller's")
	})

	t.Run("S1_30_RedisThatComesBackIsUsedAgain", func(t *testing.T) {
		t.Parallel()
		memory := miniredis.RunT(t)
		s := openRedis(t, "redis://"+memory.Addr())
		require.ErrorIs(t, s.Finish(t.Context(), leased(0), false), ErrLost)
		memory.Close()
		_, err := s.Reserve(t.Context(), leased(time.Minute))
		require.Error(t, err)
		require.NotErrorIs(t, s.Finish(t.Context(), leased(0), false), ErrLost)
		require.NoError(t, memory.Restart())
		_, err = s.Reserve(t.Context(), leased(time.Minute))
		require.NoError(t, err)
		require.NoError(t, s.Finish(t.Context(), leased(time.Minute), true))
	})

	t.Run("ForgottenScriptsAreSentAgain", func(t *testing.T) {
		t.Parallel()
		memory := miniredis.RunT(t)
		s := openRedis(t, "redis://"+memory.Addr())
		_, err := s.Reserve(t.Context(), leased(time.Minute))
		require.NoError(t, err)
		require.NoError(t, s.client.ScriptFlush(t.Context()).Err())
		_, err = s.Reserve(t.Context(), leased(time.Minute))
		require.NoError(t, err)
	})
}

// TestDurations: else all retries of a delivery after its worker died would be refused, or the last one would repeat what was done.
func TestDurations(t *testing.T) {
	t.Parallel()
	t.Run("S1_38_TheLeasesAreShorterThanTheRetriesAndTheMemoryIsLonger", func(t *testing.T) {
		t.Parallel()
		require.Less(t, Lock, retryWindow)
		require.Less(t, ttl, retryWindow)
		require.Greater(t, memory, retryWindow)
	})
}
