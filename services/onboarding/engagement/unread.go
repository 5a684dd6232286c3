package engagement

import (
	"context"
	"errors"
	"strings"
	"sync"

	"paceline.internal/services/onboarding/people"
)

const (
	mostLogged = 300  // bytes of what is wrong with rules
	mostUnread = 4096 // organisations that are remembered
)

// unreadRules has what was logged about organisations with rules that cannot be read, so that a log has one line for each change of them.
type unreadRules struct {
	mu     sync.Mutex
	logged map[string]string // why, by the organisation
}

// noted logs rules that cannot be read, once until they change, and returns every other error. No run of the organisation begins then: it
// would send by rules that were replaced. Its people are answered by the deployment's.
func (s *Service) noted(ctx context.Context, orgID string, err error) error {
	s.unread.mu.Lock()
	defer s.unread.mu.Unlock()
	if !errors.Is(err, people.ErrLaterRules) {
		delete(s.unread.logged, orgID)
		return err
	}
	why := strings.ReplaceAll(err.Error(), "\n", "; ")
	why = why[:min(len(why), mostLogged)]
	if s.unread.logged[orgID] == why {
		return nil
	}
	if s.unread.logged == nil || len(s.unread.logged) >= mostUnread {
		s.unread.logged = map[string]string{}
	}
	s.unread.logged[orgID] = why
	s.Log.ErrorContext(ctx, "engagement.rules_unread", "org_id", orgID, "error", strings.ToValidUTF8(why, ""))
	return nil
}
