package sms

import "errors"

// What every room refuses. The texts of the errors never hold a phone number or a body.
var (
	// ErrInvalid is wrapped by every complaint about a request's fields.
	ErrInvalid = errors.New("invalid request")
	// ErrUnavailable means that the database, or whatever else is needed, cannot be had in time; asking again is safe.
	ErrUnavailable = errors.New("a dependency is unavailable")
	// ErrUnanswered means that the database was asked and did not answer: what was asked may be committed, or may yet be.
	ErrUnanswered = errors.New("the database did not answer")
	// ErrLocked means that another transaction has the message's row; nothing was changed.
	ErrLocked = errors.New("another transaction has locked the message")
)
