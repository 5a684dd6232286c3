package people_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/platform/roster"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

const newPhone = "+5511987659999"

// changes is an operator's call.
func (b *bundle) changes(p people.Profile, in *onboardingv1.UpdateProfileRequest) (*onboardingv1.Profile, error) {
	b.T.Helper()
	in.ProfileId = p.ID
	out, err := onboardingtest.Ask(b.Bundle, b.Current().Server.UpdateProfile, in)
	return out.GetProfile(), err
}

// moves gives a person the new phone.
func (b *bundle) moves(p people.Profile) (people.Profile, error) {
	b.T.Helper()
	changed, err := b.changes(p, &onboardingv1.UpdateProfileRequest{Phone: new("+55 (11) 98765-9999")})
	if err == nil {
		require.Equal(b.T, newPhone, changed.GetPhone())
		p.Phone = newPhone
	}
	return p, err
}

func TestUpdateProfile(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "GuessedZoneFollowsThePhoneUntilOneIsGiven", setup, func(t *testing.T, b *bundle) {
		p, _, err := b.Current().Persons.Enrol(t.Context(), onboardingtest.OrgID, roster.Person{Phone: "+14155550150", FirstName: "Ana"})
		require.NoError(t, err)
		changed, err := b.changes(p, &onboardingv1.UpdateProfileRequest{Phone: new("+12125550150")})
		require.NoError(t, err)
		require.Equal(t, "America/New_York", changed.GetTimeZone())
		require.True(t, changed.GetTimeZoneGuessed())
		changed, err = b.changes(p, &onboardingv1.UpdateProfileRequest{TimeZone: new("America/Denver")})
		require.NoError(t, err)
		require.False(t, changed.GetTimeZoneGuessed())
		changed, err = b.changes(p, &onboardingv1.UpdateProfileRequest{Phone: new("+14155550150")})
		require.NoError(t, err)
		require.Equal(t, "America/Denver", changed.GetTimeZone())
	})

	onboardingtest.Subtest(t, "ChangesTheFieldsThatItHasAndNoOther", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		changed, err := b.changes(p, &onboardingv1.UpdateProfileRequest{FirstName: new("  Ana   Maria "), TimeZone: new("America/Sao_Paulo")})
		require.NoError(t, err)
		require.Equal(t, []string{"Ana Maria", "America/Sao_Paulo", p.Locale, p.Phone}, []string{
			changed.GetFirstName(), changed.GetTimeZone(), changed.GetLocale(), changed.GetPhone(),
		})
		changed, err = b.changes(p, &onboardingv1.UpdateProfileRequest{Locale: new("PT-br")})
		require.NoError(t, err)
		require.Equal(t, []string{"Ana Maria", "pt-BR"}, []string{changed.GetFirstName(), changed.GetLocale()})
		read, err := onboardingtest.Ask(b.Bundle, b.Current().Server.GetProfile, &onboardingv1.GetProfileRequest{ProfileId: p.ID})
		require.NoError(t, err)
		require.NotNil(t, read.GetProfile().GetState())
		read.GetProfile().State = nil // the answer of a change leaves it out
		require.Equal(t, changed.String(), read.GetProfile().String())
	})

	onboardingtest.Subtest(t, "IsRefusedWithWhatToSend", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		for _, tt := range []struct {
			name string
			in   *onboardingv1.UpdateProfileRequest
			want []string
		}{
			{name: "Nothing", in: &onboardingv1.UpdateProfileRequest{}, want: []string{"send first_name, locale, time_zone, phone or fields"}},
			{
				name: "EverythingThatIsWrongAtOnce", want: []string{"phone", "first_name", "locale", "time_zone"},
				in: &onboardingv1.UpdateProfileRequest{FirstName: new(""), Locale: new("fr"), TimeZone: new("Mars"), Phone: new("x")},
			},
			{name: "EmptyIsNotTheDefault", in: &onboardingv1.UpdateProfileRequest{Locale: new(""), TimeZone: new("")}, want: []string{"locale must not be empty", "time_zone must not be empty"}},
		} {
			_, err := b.changes(p, tt.in)
			onboardingtest.Refused(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
			for _, words := range tt.want {
				require.ErrorContains(t, err, words, tt.name)
			}
		}
		_, err := b.changes(people.Profile{ID: onboardingtest.NewID()}, &onboardingv1.UpdateProfileRequest{FirstName: new("Bia")})
		onboardingtest.Refused(t, err, codes.NotFound, onboardingv1.Reason_REASON_PROFILE_NOT_FOUND)
		other := b.Person()
		_, err = b.changes(p, &onboardingv1.UpdateProfileRequest{Phone: &other.Phone})
		onboardingtest.Refused(t, err, codes.AlreadyExists, onboardingv1.Reason_REASON_PHONE_TAKEN)
		same, err := b.changes(p, &onboardingv1.UpdateProfileRequest{Phone: &p.Phone})
		require.NoError(t, err)
		require.Equal(t, p.Phone, same.GetPhone())
	})

	for _, tt := range []struct {
		name   string
		open   func(b *bundle) people.Profile
		reason onboardingv1.Reason
		says   string
	}{
		{name: "AnActiveSession", open: func(b *bundle) people.Profile { p, _ := b.Activated(); return p }, says: ":reset"},
		{name: "AParkedSession", open: func(b *bundle) people.Profile { p, _, _ := b.ParkedAtStep(messagingtest.Reject); return p }, says: "parked as undeliverable"},
		{name: "AMessageInDoubt", open: func(b *bundle) people.Profile {
			p, r := b.Asking(messagingtest.UnknownForever)
			b.Resets(r)
			return p
		}, says: "is unknown"},
		{name: "AMessageThatIsWorkedOn", open: func(b *bundle) people.Profile {
			p := b.Person()
			b.Exec(`insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
values (gen_random_uuid(), $1, 'k', 'twilio', 'e', $2, '{}', 'pending', $3, $3, $3)`, onboardingtest.OrgID, p.Phone, b.Clock.Now())
			return p
		}, says: "is being worked on"},
		{name: "QueuedOutreach", open: (*bundle).GoodbyeQueued, says: "/v1/outreach/"},
		{name: "AGoalOfTheirPhone", open: func(b *bundle) people.Profile { p, _ := b.Reminded(onboardingtest.JohnAtNine); return p }, says: "/v1/goals/"},
		{
			name: "ASafetyHold", reason: onboardingv1.Reason_REASON_SAFETY_HOLD, says: "release the profile first",
			open: func(b *bundle) people.Profile { p := b.Person(); b.Hold(p); return p },
		},
		{name: "WordsThatAnOperatorHasToJudge", reason: onboardingv1.Reason_REASON_AWAITS_OPERATOR, says: "opt-out", open: func(b *bundle) people.Profile {
			p := b.Person()
			b.Exec(`insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, processed_at, error_message, created_at, updated_at)
values (gen_random_uuid(), $1, 'k', 'twilio', 'e', $2, '{}', 'failed', $3, $4, $3, $3)`, onboardingtest.OrgID, p.Phone, b.Clock.Now(), conversation.NeedsOperator+" x")
			return p
		}},
	} {
		onboardingtest.Subtest(t, "APhoneIsNotChangedBeside"+tt.name, setup, func(t *testing.T, b *bundle) {
			p := tt.open(b)
			_, err := b.moves(p)
			if tt.reason == onboardingv1.Reason_REASON_UNSPECIFIED {
				tt.reason = onboardingv1.Reason_REASON_PROFILE_BUSY
			}
			onboardingtest.Refused(t, err, codes.FailedPrecondition, tt.reason)
			require.ErrorContains(t, err, "phone cannot be changed now")
			require.ErrorContains(t, err, tt.says)
			require.NotContains(t, err.Error(), p.Phone)
			_, err = b.changes(p, &onboardingv1.UpdateProfileRequest{TimeZone: new("Europe/Lisbon")})
			require.NoError(t, err, "no message is about that")
		})
	}

	onboardingtest.Subtest(t, "APhoneIsNotChangedWhileMessagingCannotSay", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Messaging.SetDown(true)
		_, err := b.moves(p)
		onboardingtest.Refused(t, err, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE)
		b.Messaging.SetDown(false)
		b.Messaging.SetOlder(true)
		_, err = b.moves(p)
		onboardingtest.Refused(t, err, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE)
		b.Messaging.SetOlder(false)
		_, err = b.moves(p)
		require.NoError(t, err)
	})

	onboardingtest.Subtest(t, "ANameStaysWhileItIsBeingWritten", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		_, err := b.changes(p, &onboardingv1.UpdateProfileRequest{FirstName: new("Bia")})
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_PROFILE_BUSY)
		same, err := b.changes(p, &onboardingv1.UpdateProfileRequest{FirstName: &p.FirstName, Locale: &p.Locale})
		require.NoError(t, err)
		require.Equal(t, p.FirstName, same.GetFirstName())
		b.Unmute()
		b.Quiet()
		b.At(r.ID, session.AwaitingInterviewStart, "")
		_, err = b.changes(p, &onboardingv1.UpdateProfileRequest{FirstName: new("Bia")})
		require.NoError(t, err, "the burst is over")
	})

	onboardingtest.Subtest(t, "ANewPhoneBeginsWithoutConsent", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Reply(p, "STOP")
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
		_, err := b.Activates(p, nil)
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_OPTED_OUT)
		p, err = b.moves(p)
		require.NoError(t, err)
		require.True(t, b.Engaged(p).OptedOut, "a no goes along until they are activated anew")
		require.Empty(t, b.Messaging.Taken(newPhone))

		b.Exec(`insert into organisation_settings (org_id, require_consent_record, updated_at) values ($1, true, $2)
on conflict (org_id) do update set require_consent_record = true`, onboardingtest.OrgID, b.Clock.Now())
		_, err = b.Activates(p, nil)
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_CONSENT_RECORD_REQUIRED)
		require.True(t, b.Engaged(p).OptedOut)
		b.Exec(`update organisation_settings set require_consent_record = false`)
		b.Activate(p)
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
		require.False(t, b.Engaged(p).OptedOut)
		b.Reply(p, "STOP")
		require.True(t, b.Engaged(p).OptedOut)
	})

	onboardingtest.Subtest(t, "OfAnActivationAndAChangeAtOnceEachIsWholeOrRefused", setup, func(t *testing.T, b *bundle) {
		for n := range 8 {
			p, phone := b.Person(), fmt.Sprintf("+1415555%04d", 2000+n)
			var moved, activated error
			var both sync.WaitGroup
			both.Go(func() { _, moved = b.changes(p, &onboardingv1.UpdateProfileRequest{Phone: &phone}) })
			both.Go(func() {
				_, activated = b.Current().Service.Begin(t.Context(), onboardingtest.OrgID, conversation.Start{ProfileID: p.ID})
			})
			both.Wait()
			before, after := len(b.Messaging.Taken(p.Phone)), len(b.Messaging.Taken(phone))
			switch {
			case moved == nil && activated == nil: // the change came first
				require.Equal(t, []int{0, 1}, []int{before, after})
			case moved == nil: // between what the activation read and what it stored
				require.ErrorIs(t, activated, people.ErrConflict)
				require.Equal(t, []int{0, 0}, []int{before, after})
			default:
				require.NoError(t, activated)
				onboardingtest.Refused(t, moved, codes.FailedPrecondition, onboardingv1.Reason_REASON_PROFILE_BUSY)
				require.Equal(t, []int{1, 0}, []int{before, after})
			}
		}
	})

	onboardingtest.Subtest(t, "OfTwoChangesAtOnceToOnePhoneOneWins", setup, func(t *testing.T, b *bundle) {
		all := []people.Profile{b.Person(), b.Person(), b.Person()}
		results := make(chan error, len(all))
		for _, p := range all {
			go func() {
				_, err := b.moves(p)
				results <- err
			}()
		}
		won := 0
		for range all {
			switch err := <-results; {
			case err == nil:
				won++
			default:
				onboardingtest.Refused(t, err, codes.AlreadyExists, onboardingv1.Reason_REASON_PHONE_TAKEN)
			}
		}
		require.Equal(t, 1, won)
	})

	onboardingtest.Subtest(t, "ChangesOfOnePersonAtOnceAreAllMade", setup, func(t *testing.T, b *bundle) {
		p, zones := b.Person(), []string{"America/Denver", "America/New_York", "Europe/Lisbon", "America/Chicago"}
		results := make(chan error, 2*len(zones))
		for n, zone := range zones {
			go func() {
				_, err := b.changes(p, &onboardingv1.UpdateProfileRequest{TimeZone: &zone})
				results <- err
			}()
			go func() {
				_, err := b.changes(p, &onboardingv1.UpdateProfileRequest{FirstName: new(fmt.Sprintf("Name%d", n))})
				results <- err
			}()
		}
		for range cap(results) {
			require.NoError(t, <-results)
		}
		now, err := b.Store.Profile(t.Context(), p.OrgID, p.ID)
		require.NoError(t, err)
		require.Contains(t, zones, now.TimeZone)
		require.Contains(t, now.FirstName, "Name", "no change undoes another one")
	})

	onboardingtest.Subtest(t, "AnActivationThatReadTheOldPhoneIsTriedAgain", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		_, err := b.moves(p)
		require.NoError(t, err)
		_, err = b.Store.OpenSession(t.Context(), conversation.Opening{
			Session: session.Record{ID: onboardingtest.NewID(), OrgID: onboardingtest.OrgID, ProfileID: p.ID, Mode: session.Onboarding, Token: session.AwaitingOpeningResponse, CreatedAt: b.Clock.Now()},
			Phone:   p.Phone,
		})
		require.ErrorIs(t, err, people.ErrConflict)
		require.Zero(t, b.Sessions())
	})
}
