package main

import (
	"fmt"
	"time"
)

// exampleInstant shows how an instant is written.
const exampleInstant = "2026-11-30T21:00:00Z"

// instant is a time on the command line, in RFC 3339.
type instant struct{ time.Time }

// UnmarshalText reads an instant.
func (i *instant) UnmarshalText(text []byte) (err error) {
	if i.Time, err = time.Parse(time.RFC3339, string(text)); err != nil {
		return fmt.Errorf("%q is no instant: write it such as %s", text, exampleInstant)
	}
	return nil
}

// past refuses an instant after now.
func (i *instant) past(flag string, now time.Time) error {
	if i.After(now) {
		return fmt.Errorf("%s %s is in the future: name an instant that has passed, such as %s", flag, i.Format(time.RFC3339), exampleInstant)
	}
	return nil
}
