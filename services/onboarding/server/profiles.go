package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/postgres"
	"paceline.internal/services/onboarding/session"
)

// CreateProfile enrols a person in the caller's organisation.
func (s *Server) CreateProfile(
	ctx context.Context, in *onboardingv1.CreateProfileRequest,
) (*onboardingv1.CreateProfileResponse, error) {
	p, created, err := s.Conversations.Enrol(ctx, org(ctx), conversation.Person{
		Phone: in.GetPhone(), FirstName: in.GetFirstName(), Locale: in.GetLocale(), TimeZone: in.GetTimeZone(),
	})
	if err != nil {
		return nil, answer(err)
	}
	return &onboardingv1.CreateProfileResponse{Profile: profile(p), Created: created}, nil
}

// GetProfile reads one profile.
func (s *Server) GetProfile(ctx context.Context, in *onboardingv1.GetProfileRequest) (*onboardingv1.GetProfileResponse, error) {
	if err := ownProfile(ctx, in.GetProfileId()); err != nil {
		return nil, err
	}
	p, err := s.Store.StandingProfile(ctx, org(ctx), in.GetProfileId())
	if errors.Is(err, conversation.ErrNoProfile) {
		if e, gone := s.Store.Erasure(ctx, org(ctx), in.GetProfileId()); gone == nil && e.ErasedAt != nil {
			err = erasure.ErrErased
		}
	}
	if err != nil {
		return nil, answer(err)
	}
	return &onboardingv1.GetProfileResponse{Profile: standing(ctx, p)}, nil
}

// ListProfiles lists people of the caller's organisation.
func (s *Server) ListProfiles(ctx context.Context, in *onboardingv1.ListProfilesRequest) (*onboardingv1.ListProfilesResponse, error) {
	filter, err := profileFilter(in)
	if err != nil {
		return nil, err
	}
	if filter.Limit, filter.Before, err = page(in); err != nil {
		return nil, err
	}
	filter.OrgID = org(ctx)
	found, next, err := s.Store.ListProfiles(ctx, filter)
	if err != nil {
		return nil, answer(err)
	}
	out := &onboardingv1.ListProfilesResponse{}
	if next != "" {
		out.NextPageToken = rpc.NextPage(in, next)
	}
	for _, p := range found {
		out.Profiles = append(out.Profiles, standing(ctx, p))
	}
	return out, nil
}

// maxName is how much of a name can be looked for, in characters: all of one.
const maxName = 60

// notActivated is where a person stands who never had a session.
const notActivated = "none"

// maxOfThese is how many people can be asked for by their ids at once.
const maxOfThese = 100

func profileFilter(in *onboardingv1.ListProfilesRequest) (f postgres.ProfileFilter, err error) {
	if f.IDs = in.GetProfileId(); len(f.IDs) > maxOfThese {
		return f, invalid("profile_id must be given at most %d times", maxOfThese)
	}
	for _, id := range f.IDs {
		if err := validID("profile_id", id); err != nil {
			return f, err
		}
	}
	if given := in.GetPhone(); given != "" {
		if f.Phone, err = conversation.ReadPhone(plus(given)); err != nil {
			return f, answer(err)
		}
	}
	f.Name = strings.Join(strings.Fields(letters.Compose(in.GetName())), " ")
	unprintable := strings.ContainsFunc(f.Name, func(r rune) bool { return !unicode.IsPrint(r) })
	if in.GetName() != "" && (f.Name == "" || utf8.RuneCountInString(f.Name) > maxName || unprintable) {
		return f, invalid("name must be 1 to %d printable characters", maxName)
	}
	f.Held, f.OptedOut = in.GetHeld(), in.GetOptedOut()
	if given := in.GetLocale(); given != "" {
		if f.Locale, err = conversation.ParseLocale(given); err != nil {
			return f, answer(err)
		}
	}
	switch state := in.GetState(); state {
	case "":
	case notActivated:
		f.NotActivated = true
	case "held":
		f.Held = true
	case "parked":
		f.Newest = []session.Status{session.Stuck, session.Undeliverable}
	default:
		if !session.Status(state).Known() {
			return f, invalid("state must be none, active, stopped, closed, stuck, undeliverable, parked or held")
		}
		f.Newest = []session.Status{session.Status(state)}
	}
	return f, nil
}

// plus puts back the + that the query of a URL had unescaped, where it means a space: no spelling of a phone begins with one.
func plus(phone string) string {
	if rest, spaced := strings.CutPrefix(phone, " "); spaced {
		return "+" + strings.TrimLeft(rest, " +")
	}
	return phone
}

// UpdateProfile changes the fields that the request has.
func (s *Server) UpdateProfile(ctx context.Context, in *onboardingv1.UpdateProfileRequest) (*onboardingv1.UpdateProfileResponse, error) {
	if err := validID("profile_id", in.GetProfileId()); err != nil {
		return nil, err
	}
	change := conversation.Change{FirstName: in.FirstName, Locale: in.Locale, TimeZone: in.TimeZone, Phone: in.Phone}
	p, err := s.Conversations.ChangeProfile(ctx, org(ctx), in.GetProfileId(), change)
	if err != nil {
		return nil, answer(err)
	}
	rpc.Annotate(ctx, slog.String("profile_id", p.ID), slog.Bool("phone_changed", in.Phone != nil))
	return &onboardingv1.UpdateProfileResponse{Profile: profile(p)}, nil
}

// standing is a person with where they stand. Why they are held, and whether the law keeps their data, is for operators.
func standing(ctx context.Context, p postgres.StandingProfile) *onboardingv1.Profile {
	out := profile(p.Profile)
	out.State = &onboardingv1.ProfileState{
		SessionId: p.SessionID, Status: cmp.Or(string(p.Status), notActivated), StateToken: string(p.StateToken), Paused: p.Paused,
	}
	if p.OptedOutAt != nil {
		out.State.OptedOutAt = timestamppb.New(*p.OptedOutAt)
	}
	if p.Hold {
		out.State.HeldSince = orAbsent(conversation.HeldSince(p.HoldVersion))
	}
	if caller, _ := rpc.PrincipalFrom(ctx); caller.Role == rpc.RoleOperator {
		out.State.HoldReason = p.HoldReason
		if p.LegalHoldAt != nil {
			out.LegalHoldAt = timestamppb.New(*p.LegalHoldAt)
		}
	}
	return out
}

func profile(p conversation.Profile) *onboardingv1.Profile {
	return &onboardingv1.Profile{
		ProfileId: p.ID, OrgId: p.OrgID, Phone: p.Phone, FirstName: p.FirstName, Locale: p.Locale, TimeZone: p.TimeZone,
		TimeZoneGuessed: p.TimeZoneGuessed, Hold: p.Hold, CreatedAt: timestamppb.New(p.CreatedAt),
	}
}
