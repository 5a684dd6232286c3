package qstash

import "context"

// late measures how late a step ended. The due time is in a header that the signature does not cover, so it is measured
// only of a signed body.
func (a *Alarms) late(ctx context.Context, d *delivery, outcome string) {
	if !d.due.IsZero() {
		a.lateness.Record(ctx, a.Now().Sub(d.due), outcome)
	}
}
