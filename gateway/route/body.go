package route

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"

	"google.golang.org/grpc/codes"

	"paceline.internal/platform/rpc"
)

// MaxBody bounds the body of every request but Shopify's and those with the files of a flow, which have their limits.
const MaxBody = 64 << 10

// ReadUpTo reads the whole body, or fails with *http.MaxBytesError, without reading anything when the length is given. A
// body that is shorter than it should be, because it broke off or was read from before, is an error.
func ReadUpTo(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err == nil && r.ContentLength > int64(len(body)) {
		return nil, io.ErrUnexpectedEOF
	}
	return body, err
}

// Unreadable returns the answer to a body that could not be read.
func Unreadable(err error) (httpStatus int, answer *rpc.Error) {
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge, Refuse(codes.InvalidArgument, ReasonTooLarge,
			"the body is over "+strconv.FormatInt(large.Limit>>10, 10)+" KiB")
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
		return http.StatusRequestTimeout, Refuse(codes.DeadlineExceeded, ReasonTooSlow, "the body came too slowly; send it at once")
	}
	return http.StatusBadRequest, Refuse(codes.InvalidArgument, ReasonInvalid, "the body did not arrive whole")
}

// withoutBody returns a request that is refused without waiting for its body. A Content-Length over the limit is still refused for that.
func withoutBody(r *http.Request, limit int64) *http.Request {
	r = r.Clone(r.Context())
	r.Body = http.NoBody
	if r.ContentLength <= limit {
		r.ContentLength = 0
	}
	return r
}
