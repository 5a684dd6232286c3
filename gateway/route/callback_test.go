package route

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
)

// unsent is a body that must not be waited for.
type unsent struct{}

func (unsent) Read([]byte) (int, error) { panic("the body was read") }

// aCallback takes bodies that say "genuine", and works by work.
func aCallback(l *Limiter, work func(ctx context.Context, body string) Answer) Callback[string] {
	return Callback[string]{
		Timeout: time.Minute, Limit: MaxBody, Limiter: l, Signed: Has("Signature"), Work: work,
		Verify: func(_ *http.Request, body []byte) (string, *Answer) {
			if string(body) != "genuine" {
				return "", &Answer{Status: http.StatusUnauthorized, Err: Refuse(codes.Unauthenticated, ReasonUnauthenticated, "forged")}
			}
			return string(body), nil
		},
	}
}

func done(context.Context, string) Answer { return Answer{Status: http.StatusOK} }

func posts(t *testing.T, c Callback[string], body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Signature", "x")
	w := httptest.NewRecorder()
	c.Serve(w, r)
	return w
}

func TestCallback(t *testing.T) {
	t.Parallel()

	t.Run("S1_33_WithoutAFreeSlotIsRefused", func(t *testing.T) {
		t.Parallel()
		l := NewLimiter(1, 0)
		c := aCallback(l, done)
		occupy(t, l, 1)
		refused := posts(t, c, "genuine")
		require.Equal(t, http.StatusTooManyRequests, refused.Code)
		require.Equal(t, "2", refused.Header().Get("Retry-After"))
		require.Contains(t, refused.Body.String(), ReasonFull)

		c.Backoff = true
		refused = posts(t, c, "genuine")
		require.Equal(t, http.StatusTooManyRequests, refused.Code)
		require.Empty(t, refused.Header().Get("Retry-After"))
		require.NotContains(t, refused.Body.String(), "retry_delay")

		require.Equal(t, http.StatusUnauthorized, posts(t, c, "forged").Code, "its signature is looked at first")
		l.Release()
		require.Equal(t, http.StatusOK, posts(t, c, "genuine").Code)
		require.Equal(t, 1, l.free)
	})

	t.Run("R_15_ThatIsForgedTakesNoSlot", func(t *testing.T) {
		t.Parallel()
		l := NewLimiter(1, 1)
		require.Equal(t, http.StatusUnauthorized, posts(t, aCallback(l, done), "forged").Code)
		require.Equal(t, 1, l.free)
		require.Zero(t, l.came)
	})

	t.Run("S1_33_WithoutASignatureIsRefusedWithoutItsBody", func(t *testing.T) {
		t.Parallel()
		w := httptest.NewRecorder()
		aCallback(NewLimiter(1, 0), done).Serve(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", unsent{}))
		require.Equal(t, http.StatusUnauthorized, w.Code)
	})

	t.Run("S1_33_ThatPanicsReleasesItsSlot", func(t *testing.T) {
		t.Parallel()
		l := NewLimiter(1, 0)
		c := aCallback(l, func(context.Context, string) Answer { panic("boom") })
		var given Answer
		c.Answered = func(_ *http.Request, signed string, a Answer) {
			require.Equal(t, "genuine", signed)
			given = a
		}
		require.Panics(t, func() { posts(t, c, "genuine") })
		require.Equal(t, 1, l.free)
		require.Equal(t, http.StatusInternalServerError, given.Status)
	})

	t.Run("WaitsByItsPriorityAndItsDueTime", func(t *testing.T) {
		t.Parallel()
		l := NewLimiter(1, 1)
		occupy(t, l, 1)
		c := aCallback(l, done)
		c.Priority, c.Timeout = 1, time.Hour
		c.Due = func(string) time.Time {
			// The callback joins the waiters after this; the one before it is as late, so it is refused.
			_, _ = l.join(1, noon())
			return noon()
		}
		require.Equal(t, http.StatusTooManyRequests, posts(t, c, "genuine").Code)
	})
}
