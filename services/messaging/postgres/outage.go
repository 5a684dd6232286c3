package postgres

import (
	"errors"
	"fmt"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/delivery"
)

// mark makes an error that another try may not meet a delivery.ErrUnavailable; every method of Store ends with it.
func mark(err *error) {
	if *err != nil && (postgres.Outage(*err) || errors.Is(*err, errClaimContended)) {
		*err = fmt.Errorf("%w: %w", delivery.ErrUnavailable, *err)
	}
	if errors.Is(*err, postgres.ErrLocked) {
		*err = fmt.Errorf("%w: %w", delivery.ErrLocked, *err)
	}
}
