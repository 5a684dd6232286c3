package inbound_test

import (
	"testing"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/inbound"
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

// inbox is one on the bundle's database, with something changed about its sends.
func (b *bundle) inbox(change func(*send.Config)) listener {
	sending := b.Service(change)
	return listener{b.Inbox(sending, nil), noted{b.Consents(sending)}}
}

// listener takes what is said in messages and elsewhere.
type listener struct {
	*inbound.Service
	noted
}

type noted struct{ *ledger.Service }
