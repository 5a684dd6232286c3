package postgres

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"
)

// ErrReadOnly is a server that answers and refuses every write.
var ErrReadOnly = errors.New("postgres: the server refuses writes")

// sqlReadOnly asks for what a standby and default_transaction_read_only have in common, and for what tells them apart.
const sqlReadOnly = `select current_setting('transaction_read_only') = 'on', pg_is_in_recovery()`

// Writable is nil when the server takes writes; ErrReadOnly says why it does not, and what to do.
func Writable(ctx context.Context, db DB) error {
	var readOnly, standby bool
	if err := db.QueryRow(AcrossOrganisations(ctx), sqlReadOnly).Scan(&readOnly, &standby); err != nil {
		return fmt.Errorf("postgres: ask whether it takes writes: %w", err)
	}
	switch {
	case standby:
		return fmt.Errorf("%w: it is a standby; lead the URL to the primary, or give all hosts and target_session_attrs=read-write", ErrReadOnly)
	case readOnly:
		return fmt.Errorf("%w: default_transaction_read_only is on; set it off, or give the URL of the primary", ErrReadOnly)
	}
	return nil
}

// ObserveWrites registers the gauge that says whether the server refuses writes. It asks the database; without an answer there is no value.
func ObserveWrites(meter metric.Meter, db DB) error {
	refuses, err := meter.Int64ObservableGauge("paceline_postgres_read_only",
		metric.WithDescription("1 while the database refuses writes, as a standby does, else 0."))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, pingTimeout)
		defer cancel()
		switch err := Writable(ctx, db); {
		case errors.Is(err, ErrReadOnly):
			o.ObserveInt64(refuses, 1)
		case err == nil:
			o.ObserveInt64(refuses, 0)
		default:
			return err
		}
		return nil
	}, refuses)
	return err
}
