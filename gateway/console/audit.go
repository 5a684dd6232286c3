package console

import (
	"net/http"
	"path"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	auditv1 "paceline.internal/proto/gen/paceline/audit/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const auditShown = 50

// auditPage is what pages/audit.html shows.
type auditPage struct {
	Subject, Profile, Target string
	Calls                    []auditedCall
	Next                     string // the address of the next page; empty on the last
	Problem                  notice // why the filters cannot be used; its Key and Text are empty when they can
}

// auditedCall is a line of the audit.
type auditedCall struct {
	*auditv1.AuditEntry

	Deed string // the method without its service, such as HoldProfile
}

// audit lists who asked for what, and about whom, newest first.
func (c *Console) audit(r *http.Request) (page, error) {
	field := func(name string) string { return strings.TrimSpace(r.Form.Get(name)) }
	shown := auditPage{Subject: field("subject"), Profile: field("profile"), Target: field("target")}
	id, problem, err := c.whose(r.Context(), shown.Profile)
	if err != nil {
		return page{}, err
	}
	if shown.Problem = problem; problem.Key == "" && problem.Text == "" {
		out, err := c.services.Onboarding.ListAudit(r.Context(), &onboardingv1.ListAuditRequest{
			Subject: shown.Subject, ProfileId: id, TargetId: shown.Target, PageSize: auditShown, PageToken: r.Form.Get("page"),
		})
		switch status.Code(err) {
		case codes.OK:
		case codes.InvalidArgument:
			shown.Problem = notice{Text: saidBy(err)}
		default:
			return page{}, err
		}
		for _, e := range out.GetEntries() {
			shown.Calls = append(shown.Calls, auditedCall{e, path.Base(e.GetMethod())})
		}
		shown.Next = nextPage(r, out.GetNextPageToken())
	}
	return page{Name: "audit", Title: "audit.title", Body: shown}, nil
}
