package inbox_test

import (
	"testing"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging/inbox"
	"paceline.internal/services/messaging/messagingtest"
	"paceline.internal/services/messaging/send"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

const (
	ours     = messagingtest.Ours
	theirs   = messagingtest.Theirs
	body     = messagingtest.Body
	lease    = messagingtest.Lease
	interval = messagingtest.Interval
)

// bundle is messagingtest's, with what the tests of this package do with it.
type bundle struct{ *messagingtest.Bundle }

func setup(t *testing.T) *bundle {
	t.Helper()
	return &bundle{messagingtest.Setup(t)}
}

// inbox is one on the bundle's database, whose sends have something changed.
func (b *bundle) inbox(change func(*send.Config)) *inbox.Service {
	return b.Inbox(b.Service(change), nil)
}
