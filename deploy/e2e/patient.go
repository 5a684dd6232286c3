package e2e

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"paceline.internal/platform/process"
)

// patient asks again while the deployment is out of reach for a moment, as when one of its services is being replaced. Everything that
// the harness asks may be asked twice: so do the vendors that it plays.
type patient struct {
	base     http.RoundTripper
	now      func() time.Time
	rest     process.Rest
	patience time.Duration // with one request
	tell     func(line string)
}

// RoundTrip returns the first answer that does not say to come again, or the last one of those.
func (p *patient) RoundTrip(r *http.Request) (*http.Response, error) {
	began, told := p.now(), false
	for {
		response, err := p.base.RoundTrip(r)
		why, again := momentary(response, err)
		if !again || p.now().Sub(began) >= p.patience {
			return response, err
		}
		if response != nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxAnswer)) // so that the connection can be used again
			_ = response.Body.Close()                                            // it is not wanted
		}
		if !told {
			p.tell(why + "; asking again")
			told = true
		}
		if !p.rest(r.Context(), look, nil) {
			return nil, r.Context().Err()
		}
		r = r.Clone(r.Context())
		if r.GetBody != nil {
			if r.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

// momentary reports whether the same request may be answered differently in a moment.
func momentary(response *http.Response, err error) (why string, again bool) {
	if err != nil {
		return "the deployment does not answer", true
	}
	switch response.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return fmt.Sprintf("the deployment answers %d", response.StatusCode), true
	}
	return "", false
}
