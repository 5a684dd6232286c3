package console

import (
	"context"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	auditv1 "paceline.internal/proto/gen/paceline/audit/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const auditShown = 50

// auditPage is the data of pages/audit.html.
type auditPage struct {
	Subject, Profile, Target string
	From, To                 string // days in the reader's zone, both included; empty for none
	Changes                  bool   // only calls that changed something
	Calls                    []auditedCall
	Next                     string // the address of the next page; empty on the last
	Problem                  notice // why the filters cannot be used; its Key and Text are empty when they can
}

// auditedCall is a line of the audit.
type auditedCall struct {
	*auditv1.AuditEntry

	Deed  string // the method without its service, such as HoldProfile
	Ended string // the key of its end, where it has no outcome
	Name  string // of the person; empty where it was not read
}

// underWay is the time for which a call without an outcome may still run: longer than any may take, but for the streams.
const underWay = time.Minute

// changesSince bounds the search for changes where the reader chose no day: no index has them alone.
const changesSince = 30 * 24 * time.Hour

// audit lists who asked for what, and about whom, newest first. Where it is opened without a filter it shows changes: the pages of the
// console themselves read so much that these would be lost among it.
func (c *Console) audit(r *http.Request) (page, error) {
	filtered := slices.ContainsFunc([]string{"subject", "profile", "target", "from", "to", "only", "page"}, r.Form.Has)
	field := func(name string) string { return strings.TrimSpace(r.Form.Get(name)) }
	shown := auditPage{
		Subject: field("subject"), Profile: field("profile"), Target: field("target"), From: field("from"), To: field("to"),
		Changes: field("only") == "changes" || !filtered,
	}
	in := &onboardingv1.ListAuditRequest{
		Subject: shown.Subject, TargetId: shown.Target, Changes: shown.Changes, PageSize: auditShown, PageToken: r.Form.Get("page"),
	}
	var err error
	if in.ProfileId, shown.Problem, err = c.whose(r.Context(), shown.Profile); err != nil {
		return page{}, err
	}
	if !c.between(r, shown.From, shown.To, in) {
		shown.Problem = said("audit.day")
	}
	if shown.Problem.Key == "" && shown.Problem.Text == "" {
		out, err := c.services.Onboarding.ListAudit(r.Context(), in)
		switch status.Code(err) {
		case codes.OK:
		case codes.InvalidArgument:
			shown.Problem = notice{Text: saidBy(err)}
		default:
			return page{}, err
		}
		for _, e := range out.GetEntries() {
			shown.Calls = append(shown.Calls, c.audited(e))
		}
		c.nameAudited(r.Context(), shown)
		if shown.Next = nextPage(r, out.GetNextPageToken()); shown.Next != "" && !filtered {
			shown.Next += "&only=changes"
		}
	}
	return page{Name: "audit", Title: "audit.title", Body: shown}, nil
}

// nameAudited adds the names of the people that changes were about. It adds none to reads: to read a name is one more read.
func (c *Console) nameAudited(ctx context.Context, shown auditPage) {
	if !shown.Changes {
		return
	}
	var ids []string
	for _, call := range shown.Calls {
		ids = append(ids, call.GetProfileId())
	}
	people := c.profilesOf(ctx, ids)
	for i, call := range shown.Calls {
		shown.Calls[i].Name = people[call.GetProfileId()].GetFirstName()
	}
}

// audited is a line as it is read.
func (c *Console) audited(e *auditv1.AuditEntry) auditedCall {
	call := auditedCall{e, path.Base(e.GetMethod()), "", ""}
	switch open := c.now().Sub(e.GetAt().AsTime()) < underWay || call.Deed == "StreamEvents"; {
	case e.GetOutcome() != "":
	case open:
		call.Ended = "audit.under_way"
	default:
		call.Ended = "audit.unended"
	}
	return call
}

// between asks for the calls of some days of the reader's zone, and reports whether they are days.
func (c *Console) between(r *http.Request, from, to string, in *onboardingv1.ListAuditRequest) bool {
	place := c.zoneOf(r)
	since, err := time.ParseInLocation(time.DateOnly, from, place)
	switch {
	case from != "" && err == nil:
		in.Since = timestamppb.New(since)
	case from != "":
		return false
	case in.GetChanges():
		in.Since = timestamppb.New(c.now().Add(-changesSince))
	}
	last, err := time.ParseInLocation(time.DateOnly, to, place)
	if to != "" && err == nil {
		in.Until = timestamppb.New(last.AddDate(0, 0, 1))
	}
	return to == "" || err == nil
}
