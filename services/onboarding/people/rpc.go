package people

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/roster"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/request"
	"paceline.internal/services/onboarding/session"
)

// RPC serves the people of OnboardingService.
type RPC struct {
	People  *Service
	Store   *Store
	Erasure erased
	Now     func() time.Time
}

// erased knows who was erased; erasure.Store implements it.
type erased interface {
	Find(ctx context.Context, orgID, profileID string) (erasure.Erasure, error)
}

// CreateProfile enrols a person in the caller's organisation.
func (s *RPC) CreateProfile(
	ctx context.Context, in *onboardingv1.CreateProfileRequest,
) (*onboardingv1.CreateProfileResponse, error) {
	p, created, err := s.People.Enrol(ctx, request.Org(ctx), roster.Person{
		Phone: in.GetPhone(), FirstName: in.GetFirstName(), Locale: in.GetLocale(), TimeZone: in.GetTimeZone(),
	})
	if err != nil {
		return nil, err
	}
	return &onboardingv1.CreateProfileResponse{Profile: profile(p), Created: created}, nil
}

// GetProfile reads one profile.
func (s *RPC) GetProfile(ctx context.Context, in *onboardingv1.GetProfileRequest) (*onboardingv1.GetProfileResponse, error) {
	if err := request.OwnProfile(ctx, in.GetProfileId()); err != nil {
		return nil, err
	}
	p, err := s.Store.StandingProfile(ctx, request.Org(ctx), in.GetProfileId())
	if errors.Is(err, ErrNoProfile) {
		if e, gone := s.Erasure.Find(ctx, request.Org(ctx), in.GetProfileId()); gone == nil && e.ErasedAt != nil {
			err = erasure.ErrErased
		}
	}
	if err != nil {
		return nil, err
	}
	out := standing(ctx, p)
	out.Fields, err = s.fields(ctx, p.ID)
	return &onboardingv1.GetProfileResponse{Profile: out}, err
}

// ListProfiles lists people of the caller's organisation.
func (s *RPC) ListProfiles(ctx context.Context, in *onboardingv1.ListProfilesRequest) (*onboardingv1.ListProfilesResponse, error) {
	filter, err := profileFilter(in)
	if err != nil {
		return nil, err
	}
	if filter.Limit, filter.Before, err = request.Page(in); err != nil {
		return nil, err
	}
	filter.OrgID = request.Org(ctx)
	found, next, err := s.Store.ListProfiles(ctx, filter)
	if err != nil {
		return nil, err
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

// maxName limits how much of a name can be looked for, in characters: all of one.
const maxName = 60

// NotActivated is the state of a person who never had a session.
const NotActivated = "none"

// maxOfThese limits how many people can be asked for by their ids at once.
const maxOfThese = 100

func profileFilter(in *onboardingv1.ListProfilesRequest) (f ProfileFilter, err error) {
	if f.IDs = in.GetProfileId(); len(f.IDs) > maxOfThese {
		return f, request.Invalid("profile_id must be given at most %d times", maxOfThese)
	}
	for _, id := range f.IDs {
		if err := request.ID("profile_id", id); err != nil {
			return f, err
		}
	}
	if given := in.GetPhone(); given != "" {
		if f.Phone, err = ReadPhone(plus(given)); err != nil {
			return f, err
		}
	}
	f.Name = strings.Join(strings.Fields(letters.Compose(in.GetName())), " ")
	unprintable := strings.ContainsFunc(f.Name, func(r rune) bool { return !unicode.IsPrint(r) })
	if in.GetName() != "" && (f.Name == "" || utf8.RuneCountInString(f.Name) > maxName || unprintable) {
		return f, request.Invalid("name must be 1 to %d printable characters", maxName)
	}
	part := strings.Join(strings.Fields(letters.Compose(in.GetQuery())), " ")
	if utf8.RuneCountInString(part) > maxName || strings.ContainsFunc(part, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return f, request.Invalid("query must be at most %d printable characters", maxName)
	}
	if part != "" && len(f.IDs) > 0 {
		return f, request.Invalid("query and profile_id cannot be combined")
	}
	if f = f.split(part); part != "" && f.Part == "" && f.Digits == "" { // which would be everybody
		return f, request.Invalid("query needs a letter or a digit other than 0")
	}
	f.Held, f.OptedOut = in.GetHeld(), in.GetOptedOut()
	if given := in.GetLocale(); given != "" {
		if f.Locale, err = ParseLocale(given); err != nil {
			return f, err
		}
	}
	switch state := in.GetState(); state {
	case "":
	case NotActivated:
		f.NotActivated = true
	case "held":
		f.Held = true
	case "parked":
		f.Newest = []session.Status{session.Stuck, session.Undeliverable}
	default:
		if !session.Status(state).Known() {
			return f, request.Invalid("state must be none, active, stopped, closed, stuck, undeliverable, parked or held")
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
func (s *RPC) UpdateProfile(ctx context.Context, in *onboardingv1.UpdateProfileRequest) (*onboardingv1.UpdateProfileResponse, error) {
	if err := request.ID("profile_id", in.GetProfileId()); err != nil {
		return nil, err
	}
	change := Change{FirstName: in.FirstName, Locale: in.Locale, TimeZone: in.TimeZone, Phone: in.Phone, Fields: in.GetFields().AsMap()}
	p, err := s.People.ChangeProfile(ctx, request.Org(ctx), in.GetProfileId(), change)
	if err != nil {
		return nil, err
	}
	rpc.Annotate(ctx, slog.String("profile_id", p.ID), slog.Bool("phone_changed", in.Phone != nil))
	out := profile(p)
	out.Fields, err = s.fields(ctx, p.ID)
	return &onboardingv1.UpdateProfileResponse{Profile: out}, err
}

// fields returns the fields of a person, each as JSON has it.
func (s *RPC) fields(ctx context.Context, profileID string) (*structpb.Struct, error) {
	kept, err := s.Store.Fields(ctx, request.Org(ctx), profileID)
	if err != nil {
		return nil, err
	}
	return structpb.NewStruct(kept)
}

// standing is a person with where they stand. Why they are held, and whether the law keeps their data, is for operators.
func standing(ctx context.Context, p StandingProfile) *onboardingv1.Profile {
	out := profile(p.Profile)
	out.State = &onboardingv1.ProfileState{
		SessionId: p.SessionID, Status: cmp.Or(string(p.Status), NotActivated), StateToken: string(p.StateToken), Paused: p.Paused,
	}
	if p.OptedOutAt != nil {
		out.State.OptedOutAt = timestamppb.New(*p.OptedOutAt)
	}
	if p.Hold {
		out.State.HeldSince = request.Stamp(HeldSince(p.HoldVersion))
	}
	if caller, _ := rpc.PrincipalFrom(ctx); caller.Role == rpc.RoleOperator {
		out.State.HoldReason = p.HoldReason
		if p.LegalHoldAt != nil {
			out.LegalHoldAt = timestamppb.New(*p.LegalHoldAt)
		}
	}
	return out
}

func profile(p Profile) *onboardingv1.Profile {
	return &onboardingv1.Profile{
		ProfileId: p.ID, OrgId: p.OrgID, Phone: p.Phone, FirstName: p.FirstName, Locale: p.Locale, TimeZone: p.TimeZone,
		TimeZoneGuessed: p.TimeZoneGuessed, Hold: p.Hold, CreatedAt: timestamppb.New(p.CreatedAt),
	}
}
