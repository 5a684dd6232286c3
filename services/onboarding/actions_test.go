package onboarding_test

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"paceline.internal/platform/retention"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/postgres"
)

type (
	reportAction   = onboardingv1.ReportActionRequest
	actionReported = onboardingv1.ReportActionResponse
)

// did is an action of a person, now, as the host application reports it.
func (b *bundle) did(p conversation.Profile, action string, change ...func(*reportAction)) *reportAction {
	in := &reportAction{
		ProfileId: p.ID, Action: action, OccurredAt: timestamppb.New(b.clock.Now()), Source: "web", IdempotencyKey: newID(),
	}
	for _, do := range change {
		do(in)
	}
	return in
}

func nlp(in *reportAction) { in.Source = "nlp" }

func inCategory(category string) func(*reportAction) {
	return func(in *reportAction) { in.Attributes = map[string]string{"category": category} }
}

func silently(in *reportAction) {
	celebrate := false
	in.Celebrate = &celebrate
}

// report is a call of the host application.
func (b *bundle) report(in *reportAction) (*actionReported, error) {
	ctx := rpc.WithPrincipal(b.t.Context(), rpc.Principal{Subject: "app", Role: rpc.RoleApp, OrgID: orgID})
	return b.current().people.ReportAction(ctx, in)
}

// reports asserts that an action is counted for the first time.
func (b *bundle) reports(p conversation.Profile, action string, change ...func(*reportAction)) *actionReported {
	b.t.Helper()
	out, err := b.report(b.did(p, action, change...))
	require.NoError(b.t, err)
	require.False(b.t, out.GetDuplicate())
	return out
}

// tier has a person complete a tier.
func (b *bundle) tier(p conversation.Profile, number int, change ...func(*reportAction)) (last *actionReported) {
	b.t.Helper()
	for _, action := range rules.DefaultConfig().Tiers[number-1] {
		last = b.reports(p, action, change...)
	}
	return last
}

// celebrated asserts which tiers of a person are queued to be celebrated.
func (b *bundle) celebrated(p conversation.Profile, tiers ...int) {
	b.t.Helper()
	want := []string{}
	for _, tier := range tiers {
		want = append(want, "ENGAGEMENT_TIER_"+strconv.Itoa(tier))
	}
	require.Equal(b.t, want, listed[string](b, `select message_key from engagement_outreach where profile_id = $1 and event_type = 'tier_unlock'
		order by message_key`, p.ID))
}

// refused asserts that a report is refused, and that nothing of it is kept.
func (b *bundle) refused(in *reportAction, code codes.Code, says ...string) {
	b.t.Helper()
	const all = `select (select count(*) from engagement_actions) + (select count(*) from user_engagement_states) + (select count(*) from event_outbox)`
	before := b.count(all)
	_, err := b.report(in)
	refusal, known := rpc.ErrorFrom(err)
	require.True(b.t, known, "%v", err)
	require.Equal(b.t, code, refusal.Code)
	for _, words := range says {
		require.Contains(b.t, refusal.Message, words)
	}
	require.Equal(b.t, before, b.count(all))
}

func TestReportAction(t *testing.T) {
	t.Parallel()

	// Also: S4-12.
	subtest(t, "S4_67_TierIsCompletedOnceByItsActionsInAnyOrder", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.clock.Advance(3 * day)
		for _, action := range []string{"add_category", "add_expense", "delete_expense", "add_expense"} {
			require.Zero(t, b.reports(p, action).GetTier())
		}
		out := b.reports(p, "edit_category")
		require.EqualValues(t, 1, out.GetTier())
		require.Equal(t, []int32{1}, out.GetCompleted())
		require.Empty(t, b.reports(p, "edit_category").GetCompleted())
		b.celebrated(p, 1)
		require.Equal(t, 1, b.count(`select count(*) from profiles where id = $1 and onboarding_tier = 1
			and (onboarding_tier_progress -> 'tier1' ->> 'completed_at')::timestamptz = $2 and onboarding_tier_progress -> 'tier3' ->> 'edit_category' = 'true'`,
			p.ID, b.clock.Now()))
	})

	subtest(t, "S4_67_HighestTierIsShownWithoutAGate", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		require.EqualValues(t, 3, b.tier(p, 3).GetTier())
		require.EqualValues(t, 3, b.tier(p, 2).GetTier())
		b.celebrated(p, 2, 3)
	})

	subtest(t, "S4_71_CompletionTellsHowLongItTook", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.clock.Advance(3 * day)
		b.tier(p, 1)
		b.clock.Advance(2 * day)
		b.tier(p, 2)
		b.clock.Advance(4 * day)
		b.tier(p, 3)
		b.tells(p, engagement.EventTierCompleted, "tier", "1", "2", "3")
		b.tells(p, engagement.EventTierCompleted, "time_to_complete_days", "3", "2", "4")
		b.tells(p, engagement.EventTierCompleted, "days_since_signup", "3", "5", "9")
	})

	subtest(t, "S4_84_TwoTiersOfOneDayAreBothCelebrated", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.reports(p, "view_report")
		for _, action := range []string{"add_expense", "delete_expense", "add_category"} {
			b.reports(p, action)
		}
		require.Equal(t, []int32{1, 3}, b.reports(p, "edit_category").GetCompleted(), "one action may complete two")
		b.celebrated(p, 1, 3)
	})

	subtest(t, "S4_69_TipsOffAreSilentAndTracked", setup, func(t *testing.T, b *bundle) {
		p := b.known()
		b.reply(p, "stop tips")
		out := b.tier(p, 1)
		require.EqualValues(t, 1, out.GetTier())
		b.celebrated(p)
		b.tells(p, engagement.EventTierCompleted, "tier", "1")
		b.clock.Advance(time.Second)
		b.reply(p, "start tips")
		b.tier(p, 2)
		b.celebrated(p, 2)
	})

	subtest(t, "S4_69_SilentAndOldActionsAreCountedAndNotTold", setup, func(t *testing.T, b *bundle) {
		p, late := b.person(), b.person()
		b.clock.Advance(30 * day)
		require.EqualValues(t, 1, b.tier(p, 1, silently).GetTier())
		require.EqualValues(t, 1, b.tier(late, 1, func(in *reportAction) {
			in.OccurredAt = timestamppb.New(b.clock.Now().Add(-day - time.Second))
		}).GetTier())
		b.celebrated(p)
		b.celebrated(late)
		require.Zero(t, b.count(`select count(*) from engagement_actions where answer ->> 'hint' <> ''`))
	})

	subtest(t, "S4_69_WhoMayNotBeWrittenToIsNotCelebrated", setup, func(t *testing.T, b *bundle) {
		p, _ := b.activated()
		b.tier(p, 1)
		b.celebrated(p)
	})

	subtest(t, "S4_67_ResetBeginsANewEpochOfCelebrations", setup, func(t *testing.T, b *bundle) {
		p := b.known()
		b.tier(p, 1)
		b.clock.Advance(14 * day)
		b.standing(p, rules.Inactivity14d)
		b.accepts(p)
		b.clock.Advance(time.Hour)
		b.reply(p, "1")
		require.Zero(t, b.engaged(p).Progress.Tier1)
		b.tier(p, 1)
		b.celebrated(p, 1, 1)
		require.Equal(t, 1, b.engaged(p).Progress.Epoch)
	})

	subtest(t, "S4_68_IncomeCompletesNothing", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.reports(p, "add_income")
		b.reports(p, "add_expense", nlp, func(in *reportAction) { in.Attributes = map[string]string{"income": "true", "category": "salary"} })
		v := b.engaged(p)
		require.Zero(t, v.Progress)
		require.Zero(t, v.Expenses)
		require.Zero(t, v.MagicAt)
		require.Equal(t, 2, b.count(`select count(*) from engagement_actions where profile_id = $1`, p.ID))
	})

	subtest(t, "S4_65_MagicMomentIsTheFirstRecognisedActionOnce", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.clock.Advance(2 * day)
		unsure := 0.4
		require.False(t, b.reports(p, "add_expense").GetMagicMoment(), "of the web")
		require.False(t, b.reports(p, "add_expense", nlp, func(in *reportAction) { in.Confidence = &unsure }).GetMagicMoment())
		require.True(t, b.reports(p, "add_expense", nlp).GetMagicMoment())
		b.clock.Advance(time.Hour)
		require.False(t, b.reports(p, "add_expense", nlp).GetMagicMoment())
		require.True(t, b.engaged(p).MagicAt.Equal(b.clock.Now().Add(-time.Hour)))
		b.tells(p, engagement.EventMagicMoment, "days_since_signup", "2")
	})

	subtest(t, "S4_75_RepeatIsAnsweredAsTheFirstWas", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		in := b.did(p, "add_expense", nlp)
		first, err := b.report(in)
		require.NoError(t, err)
		require.NotEmpty(t, first.GetHint())
		require.True(t, first.GetMagicMoment())
		b.clock.Advance(day)
		again, err := b.report(in)
		require.NoError(t, err)
		require.True(t, again.GetDuplicate())
		require.Equal(t, first.GetHint(), again.GetHint())
		require.True(t, again.GetMagicMoment())
		require.Equal(t, 1, b.engaged(p).Expenses)
		b.refused(b.did(p, "view_report", func(other *reportAction) { other.IdempotencyKey = in.GetIdempotencyKey() }), codes.AlreadyExists)
	})
}

// TestActionsAreForgotten: the table is bounded.
func TestActionsAreForgotten(t *testing.T) {
	t.Parallel()
	subtest(t, "S4_75_WhenTheyAreNotCountedAnyMore", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		old := b.did(p, "add_expense")
		_, err := b.report(old)
		require.NoError(t, err)
		b.clock.Advance(time.Second)
		kept := b.did(p, "view_report", func(in *reportAction) { in.OccurredAt = timestamppb.New(b.clock.Now().Add(-365 * day)) })
		_, err = b.report(kept)
		require.NoError(t, err)
		b.clock.Advance(postgres.ActionsKept)
		sweep := retention.Sweep{DB: b.pool, Rules: postgres.Rules(postgres.Kept{}), Log: slog.New(slog.DiscardHandler), Now: b.clock.Now}
		require.NoError(t, sweep.Pass(t.Context()))
		again, err := b.report(kept)
		require.NoError(t, err)
		require.True(t, again.GetDuplicate(), "by when it was reported, not by when it was")
		require.Equal(t, 1, b.engaged(p).Expenses)
	})
}

// TestActionIsActivity is about where an action leaves its person.
func TestActionIsActivity(t *testing.T) {
	t.Parallel()

	subtest(t, "S4_39_FirstActionBeginsARow", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		in := b.did(p, "view_report")
		_, err := b.report(in)
		require.NoError(t, err)
		require.True(t, b.in(p, rules.Active).Person.LastActivityAt.Equal(b.clock.Now()))
		require.Equal(t, []string{"action:" + in.GetIdempotencyKey()},
			listed[string](b, `select cause from engagement_state_transitions where profile_id = $1`, p.ID))
		b.tells(p, engagement.EventStateChanged, "to", "active")
	})

	subtest(t, "S4_43_ReturnsFromAGoodbye", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.reports(p, "edit_category")
		b.reports(p, "view_report")
		b.celebrated(p, 3)
		require.Zero(t, b.count(`select count(*) from engagement_outreach where event_type <> 'goodbye' and transition_id is not null`),
			"no transition asks for a celebration")
		b.in(p, rules.Active)
		require.Equal(t, []rules.Trigger{rules.UserMessage, rules.Inactivity14d, rules.UserMessage}, b.triggers(p))
	})

	subtest(t, "S4_82_WithdrawsAGoodbyeThatWaits", setup, func(t *testing.T, b *bundle) {
		p := b.goodbyeQueued()
		b.reports(p, "view_report")
		b.in(p, rules.Active)
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "cancelled", "returned"))
	})

	subtest(t, "S4_41_OldActionMovesNobody", setup, func(t *testing.T, b *bundle) {
		p, stranger := b.asked(), b.person()
		b.reports(p, "view_report", func(in *reportAction) { in.OccurredAt = timestamppb.New(b.engaged(p).Person.LastActivityAt) })
		b.in(p, rules.GoodbyeSent)
		b.reports(stranger, "view_report", func(in *reportAction) { in.OccurredAt = timestamppb.New(b.clock.Now().Add(-14 * day)) })
		require.False(t, b.engaged(stranger).Known, "an import begins nothing that a run would say goodbye to")
		require.True(t, b.engaged(stranger).Progress.Tier3.Done["view_report"])
	})
}

func TestHints(t *testing.T) {
	t.Parallel()

	subtest(t, "S4_66_FirstExpenseAndThirdOfACategory", setup, func(t *testing.T, b *bundle) {
		p, brazilian := b.person(), b.person()
		b.exec(`update profiles set locale = 'pt-BR' where id = $1`, brazilian.ID)
		b.clock.Advance(time.Hour)
		hints := func(p conversation.Profile) (all []string) {
			for _, category := range []string{"Food", "food", "rent", " FOOD "} {
				all = append(all, b.reports(p, "add_expense", inCategory(category)).GetHint())
			}
			return append(all, b.reports(p, "edit_category", inCategory("food")).GetHint())
		}
		require.Equal(t, []string{
			"By the way, you can file this under any category you like, even one you make up.", "", "",
			"Curious how FOOD adds up over the month? A budget for it keeps the total in view.", "",
		}, hints(p))
		require.Equal(t, []string{
			"Aliás, dá pra colocar esse gasto na categoria que você quiser, até numa que você inventar.", "", "",
			"Se quiser acompanhar quanto vai pra FOOD no mês, dá pra criar um orçamento.", "",
		}, hints(brazilian))
	})

	subtest(t, "S4_66_MonthIsThatOfThePerson", setup, func(t *testing.T, b *bundle) {
		p, other := b.person(), b.person()
		b.exec(`update profiles set time_zone = 'America/Sao_Paulo'`)
		b.clock.Advance(time.Date(2026, 12, 1, 2, 30, 0, 0, time.UTC).Sub(b.clock.Now())) // still November there
		b.reports(p, "add_expense", inCategory("food"))
		b.reports(p, "add_expense", inCategory("food"))
		for _, hint := range []string{"By the way", "", "Curious how food adds up"} { // all three in November there
			text := b.reports(other, "add_expense", inCategory("food")).GetHint()
			require.True(t, strings.HasPrefix(text, hint))
			require.Equal(t, hint == "", text == "")
		}
		b.clock.Advance(time.Hour)
		require.Empty(t, b.reports(p, "add_expense", inCategory("food")).GetHint())
		b.reports(p, "add_expense", inCategory("food"))
		require.NotEmpty(t, b.reports(p, "add_expense", inCategory("food")).GetHint())
	})

	subtest(t, "S4_66_NoneAfterTierTwoNorWithTipsOff", setup, func(t *testing.T, b *bundle) {
		p, quiet := b.person(), b.known()
		b.tier(p, 2)
		require.Empty(t, b.reports(p, "add_expense").GetHint())
		b.reply(quiet, "stop tips")
		require.Empty(t, b.reports(quiet, "add_expense").GetHint())
	})
}

func TestReportIsChecked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(b *bundle, in *reportAction)
		says   string
	}{
		"AnUnknownAction": {func(_ *bundle, in *reportAction) { in.Action = "dance" }, `action "dance" must be one of add_expense, edit_category`},
		"AnUnknownSource": {func(_ *bundle, in *reportAction) { in.Source = "fax" }, "must be nlp, command or web"},
		"TheFuture": {func(b *bundle, in *reportAction) {
			in.OccurredAt = timestamppb.New(b.clock.Now().Add(5*time.Minute + time.Second))
		}, "occurred_at must be there and at most 5 minutes ahead"},
		"AConfidenceAboveOne": {func(_ *bundle, in *reportAction) {
			too := 1.5
			in.Source, in.Confidence = "nlp", &too
		}, "confidence 1.5 must be 0 to 1"},
		"NoKey":           {func(_ *bundle, in *reportAction) { in.IdempotencyKey = "" }, "idempotency_key must be 1 to 200 characters"},
		"ALongKey":        {func(_ *bundle, in *reportAction) { in.IdempotencyKey = strings.Repeat("k", 201) }, "idempotency_key must be"},
		"ALongAttribute":  {func(_ *bundle, in *reportAction) { inCategory(strings.Repeat("x", 201))(in) }, "attributes must have keys of 1 to 60"},
		"AnAttributeWith": {func(_ *bundle, in *reportAction) { inCategory("a\x00b")(in) }, "attributes must have keys"},
		"OddIncome": {func(_ *bundle, in *reportAction) {
			in.Attributes = map[string]string{"income": "perhaps"}
		}, "attributes.income must be true or false"},
		"NoUUID": {func(_ *bundle, in *reportAction) { in.ProfileId = "ada" }, "profile_id must be a UUID"},
	} {
		subtest(t, "S4_67_Refuses"+name, setup, func(_ *testing.T, b *bundle) {
			in := b.did(b.person(), "add_expense")
			tt.change(b, in)
			b.refused(in, codes.InvalidArgument, tt.says)
		})
	}

	subtest(t, "S4_67_NamesAllProblemsAndRefusesAnUnknownPerson", setup, func(_ *testing.T, b *bundle) {
		p := b.person()
		b.refused(b.did(p, "dance", func(in *reportAction) { in.Source, in.IdempotencyKey = "fax", "" }), codes.InvalidArgument, "action", "source", "idempotency_key")
		b.refused(b.did(conversation.Profile{ID: newID()}, "add_expense"), codes.NotFound)
	})
}

// TestActionsAtOnce: whatever is reported together, repeated or not, comes to what one after the other does.
func TestActionsAtOnce(t *testing.T) {
	t.Parallel()

	t.Run("S4_67_AreCountedAsOneAfterTheOther", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		decided := rules.DefaultConfig()
		rapid.Check(t, func(t *rapid.T) {
			p := b.person()
			reports := rapid.SliceOfN(rapid.SampledFrom(decided.Actions()), 1, 16).Draw(t, "actions")
			want, expenses := rules.Progress{}, 0
			answers := make(chan *actionReported, 2*len(reports))
			var all sync.WaitGroup
			for _, name := range reports {
				in := b.did(p, name, nlp)
				want = decided.Record(want, rules.Action{Name: name, OccurredAt: b.clock.Now()}, p.CreatedAt, false, b.clock.Now()).Progress
				if name == rules.AddExpense {
					expenses++
				}
				for range 2 {
					all.Go(func() { answers <- b.reportsAtLast(in) })
				}
			}
			all.Wait()
			close(answers)
			var completed []int32
			magic, fresh := 0, 0
			for a := range answers {
				if a.GetDuplicate() {
					continue
				}
				fresh++
				completed = append(completed, a.GetCompleted()...)
				if a.GetMagicMoment() {
					magic++
				}
			}
			v := b.engaged(p)
			require.Equal(t, len(reports), fresh)
			require.Equal(t, asStored(t, want), asStored(t, v.Progress))
			require.Equal(t, expenses, v.Expenses)
			counted := slices.ContainsFunc(reports, func(name string) bool { return !slices.Contains(decided.Uncounted, name) })
			require.Equal(t, counted, magic == 1)
			require.LessOrEqual(t, magic, 1)
			slices.Sort(completed)
			require.Equal(t, slices.Compact(slices.Clone(completed)), completed, "no tier is completed twice")
			require.Equal(t, len(completed), b.outreach(p, rules.TierUnlock, "pending", ""))
			require.Len(t, b.triggers(p), 1)
		})
	})
}

// TestActionIsDecidedAgain: something happens between the read of a person and the write.
func TestActionIsDecidedAgain(t *testing.T) {
	t.Parallel()

	subtest(t, "S4_66_AfterAnotherExpense", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.reports(p, "add_expense", inCategory("food"))
		b.current().ports.beforeApply = func() { require.Empty(t, b.reports(p, "add_expense", inCategory("food")).GetHint()) }
		require.NotEmpty(t, b.reports(p, "add_expense", inCategory("food")).GetHint(), "it is the third")
		require.Equal(t, 3, b.engaged(p).Expenses)
	})

	subtest(t, "S4_65_AfterTheMagicMoment", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.reports(p, "view_report")
		b.current().ports.beforeApply = func() { require.True(t, b.reports(p, "view_report", nlp).GetMagicMoment()) }
		require.False(t, b.reports(p, "view_report", nlp).GetMagicMoment())
		b.tells(p, engagement.EventMagicMoment, "action", "view_report")
	})

	subtest(t, "S4_69_AfterTipsWereSwitchedOff", setup, func(_ *testing.T, b *bundle) {
		p := b.known()
		b.reports(p, "view_report")
		b.current().ports.beforeApply = func() { b.reply(p, "stop tips") }
		require.Equal(b.t, []int32{3}, b.reports(p, "edit_category").GetCompleted())
		b.celebrated(p)
	})

	subtest(t, "S4_40_AfterAMessage", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.current().ports.beforeApply = func() {
			b.clock.Advance(time.Second)
			b.reply(p, "2")
		}
		b.reports(p, "view_report")
		b.in(p, rules.RemindLater)
		require.Equal(t, 1, b.count(`select count(*) from engagement_actions`))
	})
}

// reportsAtLast is a call of the host application, which repeats it while it is told to.
func (b *bundle) reportsAtLast(in *reportAction) *actionReported {
	for {
		out, err := b.report(in)
		refusal, known := rpc.ErrorFrom(err)
		if err == nil || !known || refusal.Code != codes.Unavailable {
			if err != nil {
				b.t.Error(err) // require would end the wrong goroutine
			}
			return out
		}
	}
}

// asStored is a progress as JSON.
func asStored(t require.TestingT, p rules.Progress) string {
	stored, err := json.Marshal(p)
	require.NoError(t, err)
	return string(stored)
}
