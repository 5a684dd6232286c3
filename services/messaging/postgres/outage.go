package postgres

import (
	"errors"
	"fmt"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/send"
)

// mark makes an error that another try may not meet a send.ErrUnavailable; every method of Store ends with it.
func mark(err *error) {
	if *err != nil && (postgres.Outage(*err) || errors.Is(*err, errClaimContended)) {
		*err = fmt.Errorf("%w: %w", send.ErrUnavailable, *err)
	}
	if *err != nil && postgres.Unanswered(*err) {
		*err = fmt.Errorf("%w: %w", send.ErrUnanswered, *err)
	}
	if errors.Is(*err, postgres.ErrLocked) {
		*err = fmt.Errorf("%w: %w", send.ErrLocked, *err)
	}
}
