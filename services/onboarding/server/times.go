package server

import (
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A time of a caller before 2000 or after 2200 is a mistake, such as a zero value or a number of milliseconds.
const firstYear, lastYear = 2000, 2200

// meant refuses a time that cannot be meant; the field's own rules say which of the others are taken.
func meant(field string, at *timestamppb.Timestamp) error {
	if at.CheckValid() != nil || at.AsTime().Year() < firstYear || at.AsTime().Year() > lastYear {
		return invalid("%s must be a time of the years %d to %d, such as 2026-11-20T12:00:00Z", field, firstYear, lastYear)
	}
	return nil
}
