package messagingtest

import (
	"cmp"
	"context"
	"slices"
	"strings"

	auditv1 "paceline.internal/proto/gen/paceline/audit/v1"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
)

// Kept adds to what messaging has kept of the calls of an organisation.
func (s *Service) Kept(orgID string, entry *auditv1.AuditEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = map[string][]*auditv1.AuditEntry{}
	}
	s.kept[orgID] = append(s.kept[orgID], entry)
	slices.SortFunc(s.kept[orgID], func(a, b *auditv1.AuditEntry) int { return -order(a, b) })
}

// order is by time, and by id at the same time.
func order(a, b *auditv1.AuditEntry) int {
	return cmp.Or(a.GetAt().AsTime().Compare(b.GetAt().AsTime()), strings.Compare(a.GetAuditId(), b.GetAuditId()))
}

// ListMessagingAudit knows of the filters subject and method, and where a page begins.
func (s *Service) ListMessagingAudit(
	_ context.Context, in *messagingv1.ListMessagingAuditRequest,
) (*messagingv1.ListMessagingAuditResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, unavailable()
	}
	behind := &auditv1.AuditEntry{At: in.GetBehindAt(), AuditId: in.GetBehindId()}
	out := &messagingv1.ListMessagingAuditResponse{}
	for _, e := range s.kept[in.GetOrgId()] {
		wanted := (in.GetSubject() == "" || in.GetSubject() == e.GetActor().GetSubject()) &&
			(in.GetMethod() == "" || in.GetMethod() == e.GetMethod()) && (in.GetBehindId() == "" || order(e, behind) < 0)
		if wanted && len(out.GetEntries()) < int(in.GetLimit()) {
			out.Entries = append(out.Entries, e)
		}
	}
	return out, nil
}
