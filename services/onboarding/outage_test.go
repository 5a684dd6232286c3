package onboarding_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

func TestOutageOfMessaging(t *testing.T) {
	t.Parallel()

	for _, minutes := range []int{31, 90} {
		t.Run(fmt.Sprintf("R_11_%dMinutesParkNobodyAndEveryBurstIsCompletedInOrder", minutes), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			var people []conversation.Profile
			var sessions []string
			for range 3 { // each is at another place of the burst when it begins
				p, r := b.explained()
				people, sessions = append(people, p), append(sessions, r.ID)
			}
			for _, p := range people {
				b.reply(p, "yes")
				b.pass(4 * time.Second)
			}
			b.messaging.SetDown(true)
			b.lasts(time.Duration(minutes) * time.Minute)
			require.Zero(t, b.count(`select count(*) from conversation_sessions where status <> 'active'`))
			b.messaging.SetDown(false)
			b.until(func() bool {
				return b.count(`select count(*) from conversation_sessions where state_token = $1`, session.AwaitingInterviewStart) == len(people)
			})
			for i, p := range people {
				require.Equal(t, []string{opening, explanation, first, second, third, fourth}, b.sequence(p))
				b.keepsPace(p)
				require.Equal(t, session.Active, b.session(sessions[i]).Status)
			}
		})
	}

	t.Run("R_11_AnAlarmThatFailsByItselfAfterwardsIsCounted", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, r := b.inBurst(2)
		b.qstash.SetFaults(emulator.Script{})
		b.messaging.SetDown(true)
		b.lasts(45 * time.Minute)
		require.Equal(t, session.Active, b.session(r.ID).Status)
		b.messaging.SetDown(false)
		b.mute() // and now QStash loses what it has
		b.lasts(45 * time.Minute)
		r = b.session(r.ID)
		require.Equal(t, session.Stuck, r.Status, "every sequence ends")
		require.Contains(t, r.Reason, fmt.Sprintf("%d alarms in a row", generations))
	})
}

// lasts lets something go on for d, with all loops at work as often as in production the sweeper is.
func (b *bundle) lasts(d time.Duration) {
	b.t.Helper()
	const often = 15 * time.Second
	for end := b.clock.Now().Add(d); b.clock.Now().Before(end); b.work() {
		b.clock.Advance(often)
	}
}

func TestResumeSessions(t *testing.T) {
	t.Parallel()
	// parks leaves people in their bursts with a QStash that loses everything, until they are parked.
	parks := func(b *bundle, people int) []session.Record {
		var parked []session.Record
		for range people {
			_, r := b.inBurst(2)
			parked = append(parked, r)
		}
		b.lasts(15 * time.Minute)
		for _, r := range parked {
			require.Equal(b.t, session.Stuck, b.session(r.ID).Status)
		}
		return parked
	}
	all := func(b *bundle, in *onboardingv1.ResumeSessionsRequest) *onboardingv1.ResumeSessionsResponse {
		out, err := asks(b, b.current().server.ResumeSessions, in)
		require.NoError(b.t, err)
		return out
	}

	t.Run("R_11_AfterADryRunWhatWasParkedGoesOnPageByPage", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		parked := parks(b, 3)
		began := b.session(parked[0].ID).UpdatedAt
		dry := all(b, &onboardingv1.ResumeSessionsRequest{ReasonContains: "Brought Nothing", DryRun: true})
		require.EqualValues(t, 3, dry.GetMatched())
		require.Equal(t, []string{parked[2].ID, parked[1].ID, parked[0].ID}, dry.GetSessionIds())
		require.Equal(t, 3, b.count(`select count(*) from conversation_sessions where status = 'stuck'`), "nothing has happened")
		for name, none := range map[string]*onboardingv1.ResumeSessionsRequest{
			"another reason": {ReasonContains: "21614"},
			"later":          {ReasonContains: "nothing", ParkedSince: timestamppb.New(b.clock.Now())},
			"earlier":        {ReasonContains: "nothing", ParkedUntil: timestamppb.New(began)},
		} {
			require.Zero(t, all(b, none).GetMatched(), name)
		}
		b.qstash.SetFaults(emulator.Script{})
		first := all(b, &onboardingv1.ResumeSessionsRequest{ReasonContains: "nothing", ParkedSince: timestamppb.New(began), PageSize: 2})
		require.Equal(t, []string{parked[2].ID, parked[1].ID}, first.GetSessionIds())
		rest := all(b, &onboardingv1.ResumeSessionsRequest{ReasonContains: "nothing", PageSize: 2, PageToken: first.GetNextPageToken()})
		require.Equal(t, []string{parked[0].ID}, rest.GetSessionIds())
		require.Empty(t, rest.GetNextPageToken())
		b.quiet()
		for _, r := range parked {
			b.at(r.ID, session.AwaitingInterviewStart, "")
		}
		require.Zero(t, all(b, &onboardingv1.ResumeSessionsRequest{ReasonContains: "nothing"}).GetMatched())
	})

	t.Run("R_11_SessionsOfAnotherOrganisationAreNotTouched", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		parked := parks(b, 1)
		ctx := rpc.WithPrincipal(t.Context(), rpc.Principal{Subject: "eve", Role: rpc.RoleOperator, OrgID: newID()})
		out, err := b.current().server.ResumeSessions(ctx, &onboardingv1.ResumeSessionsRequest{ReasonContains: "nothing"})
		require.NoError(t, err)
		require.Zero(t, out.GetMatched())
		require.Empty(t, out.GetSessionIds())
		require.Equal(t, session.Stuck, b.session(parked[0].ID).Status)
	})

	t.Run("R_11_OneThatCannotBeResumedIsNamedAndTheOthersAre", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		parked := parks(b, 2)
		b.exec(`insert into conversation_sessions (id, org_id, profile_id, mode, state_token, status, copy_version, created_at, updated_at)
			select gen_random_uuid(), org_id, profile_id, mode, $2, 'active', copy_version, created_at, updated_at
			from conversation_sessions where id = $1`, parked[1].ID, string(session.AwaitingInterviewStart))
		out := all(b, &onboardingv1.ResumeSessionsRequest{ReasonContains: "nothing"})
		require.Equal(t, []string{parked[0].ID}, out.GetSessionIds())
		require.Len(t, out.GetUnresumed(), 1)
		require.Equal(t, parked[1].ID, out.GetUnresumed()[0].GetSessionId())
		require.Contains(t, out.GetUnresumed()[0].GetReason(), "reset that one first")
	})

	t.Run("R_11_WordsThatChooseEverythingAreRefused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for _, in := range []*onboardingv1.ResumeSessionsRequest{
			{},
			{ReasonContains: "an"},
			{ReasonContains: "nothing", PageSize: 501},
			{ReasonContains: "nothing", PageToken: "?"},
			{ReasonContains: "nothing", ParkedSince: &timestamppb.Timestamp{Nanos: -1}},
		} {
			_, err := asks(b, b.current().server.ResumeSessions, in)
			told, _ := rpc.ErrorFrom(err)
			require.Equal(t, codes.InvalidArgument, told.Code)
		}
	})
}
