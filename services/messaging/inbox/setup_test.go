package inbox_test

import (
	"testing"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging/inbox"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

const (
	ours     = sendtest.Ours
	theirs   = sendtest.Theirs
	body     = sendtest.Body
	lease    = sendtest.Lease
	interval = sendtest.Interval
)

// bundle is sendtest's, with what the tests of this package do with it.
type bundle struct{ *sendtest.Bundle }

func setup(t *testing.T) *bundle {
	t.Helper()
	return &bundle{sendtest.Setup(t)}
}

// inbox is one on the bundle's database, whose sends have something changed.
func (b *bundle) inbox(change func(*send.Config)) *inbox.Service {
	return b.Inbox(b.Service(change), nil)
}
