package outbound

import "context"

type Request struct{ Key string }

type Intake struct{ Store intakeStore }

type intakeStore interface {
	Enqueue(ctx context.Context, r Request) error
	Text(ctx context.Context, id string) error
}

func (d *Intake) Enqueue(ctx context.Context, r Request) error { return d.Store.Enqueue(ctx, r) }

func (d *Intake) shortcut(ctx context.Context, r Request) {
	d.Store.Enqueue(ctx, r) // want `^burst enqueue detected - use QStash scheduling: .*intakeStore\)\.Enqueue\.`
}
