package server

import "paceline.internal/services/onboarding/request"

// Short names of what every room asks of a request.
const (
	domain      = request.Domain
	maxPage     = request.MaxPage
	defaultPage = request.DefaultPage
)

var (
	org, ownProfile, page   = request.Org, request.OwnProfile, request.Page
	validID, isID           = request.ID, request.IsID
	meant, orAbsent, moment = request.Time, request.Stamp, request.StampOf
	refuse, invalid, answer = request.Refuse, request.Invalid, Answer
	errNotYours             = request.ErrNotTheirs
)
