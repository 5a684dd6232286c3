package onboarding

import (
	"cmp"
	"context"
	"encoding/base64"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/audit"
	"paceline.internal/platform/rpc"
	auditv1 "paceline.internal/proto/gen/paceline/audit/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/request"
)

// auditor has messaging's part of the audit.
type auditor interface {
	Audit(ctx context.Context, f audit.Filter) ([]*auditv1.AuditEntry, error)
}

var (
	methodName = regexp.MustCompile(`^[a-z0-9.]+\.[A-Za-z0-9]+/[A-Za-z0-9]+$`)
	e164       = regexp.MustCompile(`^\+[0-9]{7,15}$`)
)

// ListAudit lists what both services have kept, merged by time: neither has the other's, so that the list is as good as each.
func (s *Operations) ListAudit(ctx context.Context, in *onboardingv1.ListAuditRequest) (*onboardingv1.ListAuditResponse, error) {
	filter, wanted, err := auditFilter(ctx, in)
	if err != nil {
		return nil, err
	}
	theirs, err := s.Messaging.Audit(ctx, filter)
	if err != nil {
		return nil, err
	}
	ours, err := s.Calls.List(ctx, filter)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(ours, theirs)
	slices.SortFunc(all, func(a, b *auditv1.AuditEntry) int {
		return cmp.Or(b.GetAt().AsTime().Compare(a.GetAt().AsTime()), strings.Compare(b.GetAuditId(), a.GetAuditId()))
	})
	out := &onboardingv1.ListAuditResponse{Entries: all}
	if len(all) > wanted {
		out.Entries = all[:wanted]
		out.NextPageToken = auditToken(all[wanted-1])
	}
	if filter.Changes { // messaging of the release before does not know the filter: its reads make a page shorter, and no more
		out.Entries = slices.DeleteFunc(out.GetEntries(), func(e *auditv1.AuditEntry) bool { return !audit.Changes(e.GetMethod()) })
	}
	return out, nil
}

func auditFilter(ctx context.Context, in *onboardingv1.ListAuditRequest) (f audit.Filter, wanted int, err error) {
	f = audit.Filter{
		OrgID: request.Org(ctx), Subject: in.GetSubject(), Method: in.GetMethod(), ProfileID: in.GetProfileId(), TargetID: in.GetTargetId(),
		Phone: in.GetPhone(), Changes: in.GetChanges(),
	}
	for field, id := range map[string]string{"profile_id": f.ProfileID, "target_id": f.TargetID} {
		if id != "" && !request.IsID(id) {
			return f, 0, request.Invalid("%s must be a UUID", field)
		}
	}
	switch {
	case f.Subject != "" && rpc.CheckSubject(f.Subject) != nil:
		return f, 0, request.Invalid("subject must be the sub of a token")
	case f.Method != "" && !methodName.MatchString(f.Method):
		return f, 0, request.Invalid("method must be one such as paceline.onboarding.v1.OnboardingService/HoldProfile")
	case f.Phone != "" && !e164.MatchString(f.Phone):
		return f, 0, request.Invalid("phone must be E.164, such as +15005550006")
	case in.GetSince() != nil && !in.GetSince().IsValid(), in.GetUntil() != nil && !in.GetUntil().IsValid():
		return f, 0, request.Invalid("since or until is out of range")
	}
	f.Since, f.Until = timeOf(in.GetSince()), timeOf(in.GetUntil())
	if f.Behind, err = auditPlace(in.GetPageToken()); err != nil {
		return f, 0, err
	}
	switch wanted = int(in.GetPageSize()); {
	case wanted < 0 || wanted > request.MaxPage:
		return f, 0, request.Invalid("page_size must be 0 to %d", request.MaxPage)
	case wanted == 0:
		wanted = request.DefaultPage
	}
	f.Limit = wanted + 1 // one more shows whether there is a next page
	return f, wanted, nil
}

// timeOf is the zero time for an absent one.
func timeOf(at *timestamppb.Timestamp) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.AsTime()
}

// auditToken is the place of the last entry of a page, as the database knows it: in microseconds.
func auditToken(last *auditv1.AuditEntry) string {
	place := strconv.FormatInt(last.GetAt().AsTime().UnixMicro(), 10) + "/" + last.GetAuditId()
	return base64.RawURLEncoding.EncodeToString([]byte(place))
}

func auditPlace(token string) (audit.Place, error) {
	if token == "" {
		return audit.Place{}, nil
	}
	place, err := base64.RawURLEncoding.DecodeString(token)
	at, id, _ := strings.Cut(string(place), "/")
	micros, notOne := strconv.ParseInt(at, 10, 64)
	if when := time.UnixMicro(micros).UTC(); err == nil && notOne == nil && request.IsID(id) && timestamppb.New(when).IsValid() {
		return audit.Place{At: when, ID: id}, nil
	}
	return audit.Place{}, request.Invalid("page_token is not one of ours; leave it out to begin again")
}
