// Package request has what the RPCs of every room do with a request: who asks, for which page, and how a field is refused.
package request

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// Domain is ErrorInfo.domain of every error.
const Domain = "paceline.onboarding.v1"

// ErrNotTheirs hides from a user whether another person's data exists.
var ErrNotTheirs = errors.New("this belongs to another person")

// DefaultPage and MaxPage are the sizes of a page of a list.
const (
	DefaultPage = 50
	MaxPage     = 500
)

// Org returns the caller's organisation.
func Org(ctx context.Context) string {
	caller, _ := rpc.PrincipalFrom(ctx)
	return caller.OrgID
}

// OwnProfile refuses a user who asks for another person.
func OwnProfile(ctx context.Context, profileID string) error {
	if caller, _ := rpc.PrincipalFrom(ctx); caller.Role == rpc.RoleUser && caller.Subject != profileID {
		return ErrNotTheirs
	}
	return ID("profile_id", profileID)
}

// ID refuses a field that holds no UUID.
func ID(field, id string) error {
	if !IsID(id) {
		return Invalid("%s must be a UUID", field)
	}
	return nil
}

// IsID accepts only the form that Postgres writes: it does not read all others that the library knows.
func IsID(id string) bool { return len(id) == len(uuid.Nil.String()) && uuid.Validate(id) == nil }

// PageSize returns the number of rows to list.
func PageSize(in interface{ GetPageSize() int32 }) (limit int, err error) {
	switch limit = int(in.GetPageSize()); {
	case limit < 0 || limit > MaxPage:
		return 0, Invalid("page_size must be 0 to %d", MaxPage)
	case limit == 0:
		return DefaultPage, nil
	}
	return limit, nil
}

// Page returns which part of a list to read: the number of rows, and the id that they are older than.
func Page(in interface {
	rpc.List
	GetPageSize() int32
},
) (limit int, before string, err error) {
	if limit, err = PageSize(in); err != nil {
		return 0, "", err
	}
	last, err := rpc.PageFrom(in)
	if err == nil && last != "" && !IsID(last) {
		err = rpc.ForeignPage()
	}
	if err != nil {
		return 0, "", Invalid("%s", err)
	}
	return limit, last, nil
}

// A time of a caller before 2000 or after 2200 is a mistake, such as a zero value or a number of milliseconds.
const firstYear, lastYear = 2000, 2200

// Time refuses a time that nobody can mean.
func Time(field string, at *timestamppb.Timestamp) error {
	if at.CheckValid() != nil || at.AsTime().Year() < firstYear || at.AsTime().Year() > lastYear {
		return Invalid("%s must be a time of the years %d to %d, such as 2026-11-20T12:00:00Z", field, firstYear, lastYear)
	}
	return nil
}

// Stamp writes a time; the zero time stays absent.
func Stamp(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}

// StampOf writes a time that may be absent.
func StampOf(at *time.Time) *timestamppb.Timestamp {
	if at == nil {
		return nil
	}
	return timestamppb.New(*at)
}

// Refuse makes the error that a caller gets.
func Refuse(code codes.Code, reason onboardingv1.Reason, message string, retryAfter time.Duration) error {
	return &rpc.Error{Code: code, Reason: reason.String(), Domain: Domain, Message: message, RetryAfter: retryAfter}
}

// Invalid refuses a field.
func Invalid(format string, args ...any) error {
	return Refuse(codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID, fmt.Sprintf(format, args...), 0)
}
