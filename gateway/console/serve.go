package console

import (
	"errors"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/gateway/console/signin"
	"paceline.internal/platform/rpc"
)

// maxForm bounds the body of a form.
const maxForm = 64 << 10

// errLongForm refuses a form with a longer list than a page takes.
var errLongForm = status.Error(codes.InvalidArgument, "the form is too long: at most 1 MB; the command paceline takes a file of any length")

// errBadForm refuses a form that none of our pages has.
var errBadForm = status.Error(codes.InvalidArgument, "the form cannot be read; go back and try again")

// permitted refuses a reader of another role, and reads the form.
func (c *Console) permitted(r *http.Request, need rpc.Role, most int64) error {
	has := signin.SessionFrom(r.Context()).Role
	switch {
	case need == "" && has == rpc.RolePlatform:
		return status.Error(codes.PermissionDenied, "a platform operator has organisations alone")
	case need == "" || has == need:
	case need == rpc.RolePlatform:
		return status.Error(codes.PermissionDenied, "only those who run this deployment see this page")
	default:
		return status.Error(codes.PermissionDenied, "only an operator sees this page")
	}
	if most == 0 {
		most = maxForm
	}
	r.Body = http.MaxBytesReader(nil, r.Body, most)
	err := r.ParseForm()
	if err == nil {
		err = r.ParseMultipartForm(most) // all of it in memory: the body is bounded
	}
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return errLongForm
	}
	if err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return errBadForm
	}
	return nil
}

func (c *Console) serveView(p route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := c.permitted(r, role(p.anyRole, p.platform), p.most)
		var drawn page
		if err == nil {
			drawn, err = p.view(r)
		}
		if err != nil {
			c.fail(w, r, err)
			return
		}
		c.draw(w, r, http.StatusOK, drawn)
	}
}

// serveAction answers with the page that the form came from, where the notice is shown once.
func (c *Console) serveAction(a deedRoute) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := c.permitted(r, role(a.anyRole, a.platform), a.most)
		if err != nil {
			c.fail(w, r, err)
			return
		}
		n, err := a.action(r)
		if err != nil {
			n = notice{Key: refusal(err), Text: saidBy(err), Bad: true, Typed: n.Typed}
		}
		to := n.To
		if to == "" {
			to = backTo(r)
		}
		if len(n.Typed) > 0 {
			n.Of, _, _ = strings.Cut(to, "?")
		}
		n.For = signedIn(signin.SessionFrom(r.Context()))
		if err := c.tell(w, n); err != nil {
			c.fail(w, r, err)
			return
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	}
}

// backTo is the page of the console that a form came from. Another address is not followed.
func backTo(r *http.Request) string { return signin.Back(r.Form.Get("back")) }

// fail shows an error as a page.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, err error) {
	httpStatus := http.StatusBadGateway
	switch status.Code(err) {
	case codes.NotFound:
		httpStatus = http.StatusNotFound
	case codes.PermissionDenied:
		httpStatus = http.StatusForbidden
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange:
		httpStatus = http.StatusBadRequest
	case codes.ResourceExhausted:
		httpStatus = http.StatusTooManyRequests
	case codes.Unavailable, codes.DeadlineExceeded:
		httpStatus = http.StatusServiceUnavailable
	default:
		if r.Context().Err() == nil { // else its reader has left it
			c.log.WarnContext(r.Context(), "console.page_failed", "error", err)
		}
	}
	c.draw(w, r, httpStatus, page{Name: "error", Title: "error.title", Body: struct {
		Status int
		Why    error
	}{httpStatus, err}})
}
