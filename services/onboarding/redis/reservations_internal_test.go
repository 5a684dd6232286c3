package redis

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
	"go.uber.org/goleak"

	"paceline.internal/services/onboarding/reservation"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What a store of reservations has to do is tested in package reservation. These are about Redis.

func open(t *testing.T, url string) *Reservations {
	t.Helper()
	s, err := Open(url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func claim(lease time.Duration) reservation.Claim {
	return reservation.Claim{Key: "k", Owner: "a", Now: start, Until: start.Add(lease)}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		url  string
		want error
	}{
		{name: "Plain", url: "redis://localhost:6379/2"},
		{name: "WithPassword", url: "redis://user:s3cret@redis.example:6379"},
		{name: "TLS", url: "rediss://default:s3cret@eu1-x.upstash.io:6379"},
		{name: "Socket", url: "unix:///run/redis.sock?db=1"},
		{name: "LimitsOfItsOwnAreNotTaken", url: "redis://localhost?read_timeout=0&dial_timeout=1h&pool_timeout=1h&pool_size=500&max_retries=50"},
		{name: "AnotherScheme", url: "https://:s3cret@redis.example", want: ErrURL},
		{name: "NoURL", url: "s3cret", want: ErrURL},
		{name: "DatabaseThatIsNoNumber", url: "redis://:s3cret@localhost/s3cret", want: ErrURL},
		{name: "BrokenEscape", url: "redis://:s3cret%zz@localhost", want: ErrURL},
		{name: "UnknownSetting", url: "redis://localhost?s3cret=1", want: ErrURL},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, CheckURL(tt.url), "and it never quotes the URL")
			o, err := options(tt.url)
			if tt.want != nil {
				require.Error(t, err)
				return
			}
			require.Equal(t, []time.Duration{dialTimeout, timeout, timeout, timeout}, []time.Duration{o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout})
			require.LessOrEqual(t, o.PoolSize, 8)
			require.LessOrEqual(t, o.MaxRetries, 1)
			require.Equal(t, strings.HasPrefix(tt.url, "rediss:"), o.TLSConfig != nil)
		})
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	web := httptest.NewTLSServer(nil) // for its certificate
	web.Close()
	memory := miniredis.NewMiniRedis()
	require.NoError(t, memory.StartTLS(&tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}))
	t.Cleanup(memory.Close)
	trusting := func(t *testing.T, authorities *x509.CertPool) *Reservations {
		t.Helper()
		o, err := options("rediss://" + memory.Addr())
		require.NoError(t, err)
		o.TLSConfig.RootCAs, o.DialTimeout = authorities, time.Minute // a busy machine takes its time
		s := &Reservations{client: redis.NewClient(o)}
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}

	t.Run("CertificateOfAnUnknownAuthorityIsRefused", func(t *testing.T) {
		t.Parallel()
		_, err := trusting(t, nil).Reserve(t.Context(), claim(time.Minute))
		var unknown x509.UnknownAuthorityError
		require.ErrorAs(t, err, &unknown)
	})

	t.Run("CertificateOfAKnownAuthorityIsTaken", func(t *testing.T) {
		t.Parallel()
		authority := x509.NewCertPool()
		authority.AddCert(web.Certificate())
		got, err := trusting(t, authority).Reserve(t.Context(), claim(time.Minute))
		require.NoError(t, err)
		require.Equal(t, reservation.Won, got.Verdict)
	})
}

func TestKeys(t *testing.T) {
	t.Parallel()

	t.Run("OutliveTheirValueByAnHourAndNotForEver", func(t *testing.T) {
		t.Parallel()
		memory := miniredis.RunT(t)
		s := open(t, "redis://"+memory.Addr())
		_, err := s.Reserve(t.Context(), claim(240*time.Second))
		require.NoError(t, err)
		require.Equal(t, []string{prefix + "k"}, memory.Keys())
		require.Equal(t, 240*time.Second+slack, memory.TTL(prefix+"k"))
		require.NoError(t, s.Complete(t.Context(), claim(24*time.Hour)))
		require.Equal(t, 24*time.Hour+slack, memory.TTL(prefix+"k"))
		memory.FastForward(25 * time.Hour)
		require.Empty(t, memory.Keys())
	})

	t.Run("OfSomebodyElseAreAnError", func(t *testing.T) {
		t.Parallel()
		memory := miniredis.RunT(t)
		require.NoError(t, memory.Set(prefix+"k", "something"))
		s := open(t, "redis://"+memory.Addr())
		_, err := s.Reserve(t.Context(), claim(time.Minute))
		require.Error(t, err)
		for _, err := range []error{s.Complete(t.Context(), claim(time.Minute)), s.Release(t.Context(), claim(time.Minute))} {
			require.Error(t, err)
			require.NotErrorIs(t, err, reservation.ErrLost)
		}
	})
}

func TestOutage(t *testing.T) {
	t.Parallel()

	t.Run("S1_30_RedisThatHangsIsAnErrorInTime", func(t *testing.T) {
		t.Parallel()
		var network net.ListenConfig
		mute, err := network.Listen(t.Context(), "tcp", "127.0.0.1:0") // connections are taken and never answered
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, mute.Close()) })
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err = open(t, "redis://"+mute.Addr().String()).Reserve(ctx, claim(time.Minute))
		require.Error(t, err)
		require.NoError(t, ctx.Err(), "by our own timeout, not the caller's")
	})

	t.Run("S1_30_RedisThatComesBackIsUsedAgain", func(t *testing.T) {
		t.Parallel()
		memory := miniredis.RunT(t)
		s := open(t, "redis://"+memory.Addr())
		require.NoError(t, s.Check(t.Context()))
		memory.Close()
		_, err := s.Reserve(t.Context(), claim(time.Minute))
		require.Error(t, err)
		require.Error(t, s.Check(t.Context()))
		require.NoError(t, memory.Restart())
		_, err = s.Reserve(t.Context(), claim(time.Minute))
		require.NoError(t, err)
		require.NoError(t, s.Complete(t.Context(), claim(time.Minute)))
	})

	t.Run("ForgottenScriptsAreSentAgain", func(t *testing.T) {
		t.Parallel()
		memory := miniredis.RunT(t)
		s := open(t, "redis://"+memory.Addr())
		_, err := s.Reserve(t.Context(), claim(time.Minute))
		require.NoError(t, err)
		require.NoError(t, s.client.ScriptFlush(t.Context()).Err())
		_, err = s.Reserve(t.Context(), claim(time.Minute))
		require.NoError(t, err)
	})
}
