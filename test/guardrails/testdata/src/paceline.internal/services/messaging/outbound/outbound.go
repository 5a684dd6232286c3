package outbound

import "context"

type Request struct{ Key string }

type Desk struct{ Store deskStore }

type deskStore interface {
	Enqueue(ctx context.Context, r Request) error
	Text(ctx context.Context, id string) error
}

func (d *Desk) Enqueue(ctx context.Context, r Request) error { return d.Store.Enqueue(ctx, r) }

func (d *Desk) shortcut(ctx context.Context, r Request) {
	d.Store.Enqueue(ctx, r) // want `^burst enqueue detected - use QStash scheduling: .*deskStore\)\.Enqueue\.`
}
