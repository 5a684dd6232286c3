package engagement_test

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
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"paceline.internal/platform/retention"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
)

func silently(in *onboardingv1.ReportActionRequest) {
	celebrate := false
	in.Celebrate = &celebrate
}

// celebrated asserts which tiers of a person are queued to be celebrated.
func (b *bundle) celebrated(p people.Profile, tiers ...int) {
	b.T.Helper()
	want := []string{}
	for _, tier := range tiers {
		want = append(want, "ENGAGEMENT_TIER_"+strconv.Itoa(tier))
	}
	require.Equal(b.T, want, onboardingtest.List[string](b.Bundle, `select message_key from engagement_outreach where profile_id = $1 and event_type = 'tier_unlock'
		order by message_key`, p.ID))
}

// refused asserts that a report is refused, and that nothing of it is kept.
func (b *bundle) refused(in *onboardingv1.ReportActionRequest, code codes.Code, says ...string) {
	b.T.Helper()
	const all = `select (select count(*) from engagement_actions) + (select count(*) from user_engagement_states) + (select count(*) from event_outbox)`
	before := b.Count(all)
	_, err := b.Report(in)
	refusal, known := rpc.ErrorFrom(onboarding.Answer(err))
	require.True(b.T, known, "%v", err)
	require.Equal(b.T, code, refusal.Code)
	for _, words := range says {
		require.Contains(b.T, refusal.Message, words)
	}
	require.Equal(b.T, before, b.Count(all))
}

func TestReportAction(t *testing.T) {
	t.Parallel()

	// Also: S4-12.
	onboardingtest.Subtest(t, "S4_67_TierIsCompletedOnceByItsActionsInAnyOrder", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Clock.Advance(3 * onboardingtest.Day)
		for _, action := range []string{"add_category", "add_expense", "delete_expense", "add_expense"} {
			require.Zero(t, b.Reports(p, action).GetTier())
		}
		out := b.Reports(p, "edit_category")
		require.EqualValues(t, 1, out.GetTier())
		require.Equal(t, []int32{1}, out.GetCompleted())
		require.Empty(t, b.Reports(p, "edit_category").GetCompleted())
		b.celebrated(p, 1)
		require.Equal(t, 1, b.Count(`select count(*) from profiles where id = $1 and onboarding_tier = 1
			and (onboarding_tier_progress -> 'tier1' ->> 'completed_at')::timestamptz = $2 and onboarding_tier_progress -> 'tier3' ->> 'edit_category' = 'true'`,
			p.ID, b.Clock.Now()))
	})

	onboardingtest.Subtest(t, "S4_67_HighestTierIsShownWithoutAGate", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		require.EqualValues(t, 3, b.Tier(p, 3).GetTier())
		require.EqualValues(t, 3, b.Tier(p, 2).GetTier())
		b.celebrated(p, 2, 3)
	})

	onboardingtest.Subtest(t, "S4_71_CompletionTellsHowLongItTook", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Clock.Advance(3 * onboardingtest.Day)
		b.Tier(p, 1)
		b.Clock.Advance(2 * onboardingtest.Day)
		b.Tier(p, 2)
		b.Clock.Advance(4 * onboardingtest.Day)
		b.Tier(p, 3)
		b.Tells(p, engagement.EventTierCompleted, "tier", "1", "2", "3")
		b.Tells(p, engagement.EventTierCompleted, "time_to_complete_days", "3", "2", "4")
		b.Tells(p, engagement.EventTierCompleted, "days_since_signup", "3", "5", "9")
	})

	onboardingtest.Subtest(t, "S4_84_TwoTiersOfOneDayAreBothCelebrated", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Reports(p, "view_report")
		for _, action := range []string{"add_expense", "delete_expense", "add_category"} {
			b.Reports(p, action)
		}
		require.Equal(t, []int32{1, 3}, b.Reports(p, "edit_category").GetCompleted(), "one action may complete two")
		b.celebrated(p, 1, 3)
	})

	onboardingtest.Subtest(t, "S4_69_TipsOffAreSilentAndTracked", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.Reply(p, "stop tips")
		out := b.Tier(p, 1)
		require.EqualValues(t, 1, out.GetTier())
		b.celebrated(p)
		b.Tells(p, engagement.EventTierCompleted, "tier", "1")
		b.Clock.Advance(time.Second)
		b.Reply(p, "start tips")
		b.Tier(p, 2)
		b.celebrated(p, 2)
	})

	onboardingtest.Subtest(t, "S4_69_SilentAndOldActionsAreCountedAndNotTold", setup, func(t *testing.T, b *bundle) {
		p, late := b.Person(), b.Person()
		b.Clock.Advance(30 * onboardingtest.Day)
		require.EqualValues(t, 1, b.Tier(p, 1, silently).GetTier())
		require.EqualValues(t, 1, b.Tier(late, 1, func(in *onboardingv1.ReportActionRequest) {
			in.OccurredAt = timestamppb.New(b.Clock.Now().Add(-onboardingtest.Day - time.Second))
		}).GetTier())
		b.celebrated(p)
		b.celebrated(late)
		require.Zero(t, b.Count(`select count(*) from engagement_actions where answer ->> 'hint' <> ''`))
	})

	onboardingtest.Subtest(t, "S4_69_WhoMayNotBeWrittenToIsNotCelebrated", setup, func(t *testing.T, b *bundle) {
		p, _ := b.Activated()
		b.Tier(p, 1)
		b.celebrated(p)
	})

	onboardingtest.Subtest(t, "S4_67_ResetBeginsANewEpochOfCelebrations", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.Tier(p, 1)
		b.Clock.Advance(14 * onboardingtest.Day)
		b.Standing(p, rules.Inactivity14d)
		b.accepts(p)
		b.Clock.Advance(time.Hour)
		b.Reply(p, "1")
		require.Zero(t, b.Engaged(p).Progress.Tier1)
		b.Tier(p, 1)
		b.celebrated(p, 1, 1)
		require.Equal(t, 1, b.Engaged(p).Progress.Epoch)
	})

	onboardingtest.Subtest(t, "S4_68_IncomeCompletesNothing", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Reports(p, "add_income")
		b.Reports(p, "add_expense", onboardingtest.NLP, func(in *onboardingv1.ReportActionRequest) {
			in.Attributes = map[string]string{"income": "true", "category": "salary"}
		})
		v := b.Engaged(p)
		require.Zero(t, v.Progress)
		require.Zero(t, v.Expenses)
		require.Zero(t, v.MagicAt)
		require.Equal(t, 2, b.Count(`select count(*) from engagement_actions where profile_id = $1`, p.ID))
	})

	onboardingtest.Subtest(t, "S4_65_MagicMomentIsTheFirstRecognisedActionOnce", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Clock.Advance(2 * onboardingtest.Day)
		unsure := 0.4
		require.False(t, b.Reports(p, "add_expense").GetMagicMoment(), "of the web")
		require.False(t, b.Reports(p, "add_expense", onboardingtest.NLP, func(in *onboardingv1.ReportActionRequest) { in.Confidence = &unsure }).GetMagicMoment())
		require.True(t, b.Reports(p, "add_expense", onboardingtest.NLP).GetMagicMoment())
		b.Clock.Advance(time.Hour)
		require.False(t, b.Reports(p, "add_expense", onboardingtest.NLP).GetMagicMoment())
		require.True(t, b.Engaged(p).MagicAt.Equal(b.Clock.Now().Add(-time.Hour)))
		b.Tells(p, engagement.EventMagicMoment, "days_since_signup", "2")
	})

	onboardingtest.Subtest(t, "S4_75_RepeatIsAnsweredAsTheFirstWas", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		in := b.Did(p, "add_expense", onboardingtest.NLP)
		first, err := b.Report(in)
		require.NoError(t, err)
		require.NotEmpty(t, first.GetHint())
		require.True(t, first.GetMagicMoment())
		b.Clock.Advance(onboardingtest.Day)
		again, err := b.Report(in)
		require.NoError(t, err)
		require.True(t, again.GetDuplicate())
		require.Equal(t, first.GetHint(), again.GetHint())
		require.True(t, again.GetMagicMoment())
		require.Equal(t, 1, b.Engaged(p).Expenses)
		b.refused(b.Did(p, "view_report", func(other *onboardingv1.ReportActionRequest) { other.IdempotencyKey = in.GetIdempotencyKey() }), codes.AlreadyExists)
	})
}

// TestRepeatedReport: a key stands for one request.
func TestRepeatedReport(t *testing.T) {
	t.Parallel()
	sure, unsure := 1.0, 0.5
	others := map[string]func(in *onboardingv1.ReportActionRequest){
		"Action":     func(in *onboardingv1.ReportActionRequest) { in.Action = "view_report" },
		"Attributes": onboardingtest.InCategory("rent"),
		"Source":     func(in *onboardingv1.ReportActionRequest) { in.Source = "command" },
		"Time":       func(in *onboardingv1.ReportActionRequest) { in.OccurredAt.Nanos += 1000 },
	}
	food := func(b *bundle, change ...func(in *onboardingv1.ReportActionRequest)) *onboardingv1.ReportActionRequest {
		in := b.Did(b.Person(), "add_expense", append([]func(*onboardingv1.ReportActionRequest){
			onboardingtest.NLP, onboardingtest.InCategory("Food"),
		}, change...)...)
		_, err := b.Report(in)
		require.NoError(b.T, err)
		return in
	}
	undated := func(in *onboardingv1.ReportActionRequest) { in.OccurredAt = nil }
	repeats := func(b *bundle, in *onboardingv1.ReportActionRequest) {
		b.T.Helper()
		out, err := b.Report(in)
		require.NoError(b.T, err)
		require.True(b.T, out.GetDuplicate())
	}
	changed := func(in *onboardingv1.ReportActionRequest, change func(in *onboardingv1.ReportActionRequest)) *onboardingv1.ReportActionRequest {
		other, _ := proto.Clone(in).(*onboardingv1.ReportActionRequest)
		change(other)
		return other
	}

	onboardingtest.Subtest(t, "IsRefusedWithAnotherRequest", setup, func(_ *testing.T, b *bundle) {
		in := food(b)
		for _, change := range others {
			b.refused(changed(in, change), codes.AlreadyExists)
		}
		for _, change := range []func(in *onboardingv1.ReportActionRequest){
			silently, undated,
			func(in *onboardingv1.ReportActionRequest) { in.Confidence = &unsure },
			func(in *onboardingv1.ReportActionRequest) { in.Attributes["shop"] = "corner" },
		} {
			b.refused(changed(in, change), codes.AlreadyExists)
		}
		repeats(b, changed(in, func(in *onboardingv1.ReportActionRequest) { in.Confidence = &sure })) // the default
		repeats(b, in)
	})

	onboardingtest.Subtest(t, "WithoutATimeIsTheSameLater", setup, func(_ *testing.T, b *bundle) {
		in := food(b, undated)
		b.Clock.Advance(time.Hour)
		repeats(b, in)
		b.refused(changed(in, func(in *onboardingv1.ReportActionRequest) { in.OccurredAt = timestamppb.New(b.Clock.Now()) }), codes.AlreadyExists)
	})

	onboardingtest.Subtest(t, "OfAnOlderReleaseIsComparedByWhatIsStored", setup, func(_ *testing.T, b *bundle) {
		in, late := food(b, func(in *onboardingv1.ReportActionRequest) { in.OccurredAt.Nanos += 999 }), food(b, undated)
		b.Exec(`update engagement_actions set answer = answer - 'asked'`)
		b.Clock.Advance(time.Hour)
		repeats(b, in)
		repeats(b, late)
		repeats(b, changed(in, silently)) // which is not stored
		for _, change := range others {
			b.refused(changed(in, change), codes.AlreadyExists)
		}
	})
}

// TestActionsAreForgotten: the table is bounded.
func TestActionsAreForgotten(t *testing.T) {
	t.Parallel()
	onboardingtest.Subtest(t, "S4_75_WhenTheyAreNotCountedAnyMore", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		old := b.Did(p, "add_expense")
		_, err := b.Report(old)
		require.NoError(t, err)
		b.Clock.Advance(time.Second)
		kept := b.Did(p, "view_report", func(in *onboardingv1.ReportActionRequest) {
			in.OccurredAt = timestamppb.New(b.Clock.Now().Add(-365 * onboardingtest.Day))
		})
		_, err = b.Report(kept)
		require.NoError(t, err)
		b.Clock.Advance(engagement.ActionsKept)
		sweep := retention.Sweep{DB: b.Pool, Rules: onboarding.Rules(onboarding.Kept{}), Log: slog.New(slog.DiscardHandler), Now: b.Clock.Now}
		require.NoError(t, sweep.Pass(t.Context()))
		again, err := b.Report(kept)
		require.NoError(t, err)
		require.True(t, again.GetDuplicate(), "by when it was reported, not by when it was")
		require.Equal(t, 1, b.Engaged(p).Expenses)
	})
}

// TestActionIsActivity is about where an action leaves its person.
func TestActionIsActivity(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S4_39_FirstActionBeginsARow", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		in := b.Did(p, "view_report")
		_, err := b.Report(in)
		require.NoError(t, err)
		require.True(t, b.In(p, rules.Active).Person.LastActivityAt.Equal(b.Clock.Now()))
		require.Equal(t, []string{"action:" + in.GetIdempotencyKey()},
			onboardingtest.List[string](b.Bundle, `select cause from engagement_state_transitions where profile_id = $1`, p.ID))
		b.Tells(p, engagement.EventStateChanged, "to", "active")
	})

	onboardingtest.Subtest(t, "S4_43_ReturnsFromAGoodbye", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.Reports(p, "edit_category")
		b.Reports(p, "view_report")
		b.celebrated(p, 3)
		require.Zero(t, b.Count(`select count(*) from engagement_outreach where event_type <> 'goodbye' and transition_id is not null`),
			"no transition asks for a celebration")
		b.In(p, rules.Active)
		require.Equal(t, []rules.Trigger{rules.UserMessage, rules.Inactivity14d, rules.UserMessage}, b.Triggers(p))
	})

	onboardingtest.Subtest(t, "S4_82_WithdrawsAGoodbyeThatWaits", setup, func(t *testing.T, b *bundle) {
		p := b.GoodbyeQueued()
		b.Reports(p, "view_report")
		b.In(p, rules.Active)
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "cancelled", "returned"))
	})

	onboardingtest.Subtest(t, "S4_41_OldActionMovesNobody", setup, func(t *testing.T, b *bundle) {
		p, stranger := b.asked(), b.Person()
		b.Reports(p, "view_report", func(in *onboardingv1.ReportActionRequest) {
			in.OccurredAt = timestamppb.New(b.Engaged(p).Person.LastActivityAt)
		})
		b.In(p, rules.GoodbyeSent)
		b.Reports(stranger, "view_report", func(in *onboardingv1.ReportActionRequest) {
			in.OccurredAt = timestamppb.New(b.Clock.Now().Add(-14 * onboardingtest.Day))
		})
		require.False(t, b.Engaged(stranger).Known, "an import begins nothing that a run would say goodbye to")
		require.True(t, b.Engaged(stranger).Progress.Tier3.Done["view_report"])
	})
}

func TestHints(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S4_66_FirstExpenseAndThirdOfACategory", setup, func(t *testing.T, b *bundle) {
		p, brazilian := b.Person(), b.Person()
		b.Exec(`update profiles set locale = 'pt-BR' where id = $1`, brazilian.ID)
		b.Clock.Advance(time.Hour)
		hints := func(p people.Profile) (all []string) {
			for _, category := range []string{"Food", "food", "rent", " FOOD "} {
				all = append(all, b.Reports(p, "add_expense", onboardingtest.InCategory(category)).GetHint())
			}
			return append(all, b.Reports(p, "edit_category", onboardingtest.InCategory("food")).GetHint())
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

	onboardingtest.Subtest(t, "S4_66_MonthIsThatOfThePerson", setup, func(t *testing.T, b *bundle) {
		p, other := b.Person(), b.Person()
		b.Exec(`update profiles set time_zone = 'America/Sao_Paulo'`)
		b.Clock.Advance(time.Date(2026, 12, 1, 2, 30, 0, 0, time.UTC).Sub(b.Clock.Now())) // still November there
		b.Reports(p, "add_expense", onboardingtest.InCategory("food"))
		b.Reports(p, "add_expense", onboardingtest.InCategory("food"))
		for _, hint := range []string{"By the way", "", "Curious how food adds up"} { // all three in November there
			text := b.Reports(other, "add_expense", onboardingtest.InCategory("food")).GetHint()
			require.True(t, strings.HasPrefix(text, hint))
			require.Equal(t, hint == "", text == "")
		}
		b.Clock.Advance(time.Hour)
		require.Empty(t, b.Reports(p, "add_expense", onboardingtest.InCategory("food")).GetHint())
		b.Reports(p, "add_expense", onboardingtest.InCategory("food"))
		require.NotEmpty(t, b.Reports(p, "add_expense", onboardingtest.InCategory("food")).GetHint())
	})

	onboardingtest.Subtest(t, "S4_66_NoneAfterTierTwoNorWithTipsOff", setup, func(t *testing.T, b *bundle) {
		p, quiet := b.Person(), b.Known()
		b.Tier(p, 2)
		require.Empty(t, b.Reports(p, "add_expense").GetHint())
		b.Reply(quiet, "stop tips")
		require.Empty(t, b.Reports(quiet, "add_expense").GetHint())
	})
}

func TestReportIsChecked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(b *bundle, in *onboardingv1.ReportActionRequest)
		says   string
	}{
		"AnUnknownAction": {func(_ *bundle, in *onboardingv1.ReportActionRequest) { in.Action = "dance" }, `action "dance" must be one of add_expense, edit_category`},
		"AnUnknownSource": {func(_ *bundle, in *onboardingv1.ReportActionRequest) { in.Source = "fax" }, "must be nlp, command or web"},
		"TheFuture": {func(b *bundle, in *onboardingv1.ReportActionRequest) {
			in.OccurredAt = timestamppb.New(b.Clock.Now().Add(5*time.Minute + time.Second))
		}, "occurred_at must be there and at most 5 minutes ahead"},
		"AConfidenceAboveOne": {func(_ *bundle, in *onboardingv1.ReportActionRequest) {
			too := 1.5
			in.Source, in.Confidence = "nlp", &too
		}, "confidence 1.5 must be 0 to 1"},
		"NoKey":    {func(_ *bundle, in *onboardingv1.ReportActionRequest) { in.IdempotencyKey = "" }, "idempotency_key must be 1 to 200 characters"},
		"ALongKey": {func(_ *bundle, in *onboardingv1.ReportActionRequest) { in.IdempotencyKey = strings.Repeat("k", 201) }, "idempotency_key must be"},
		"ALongAttribute": {func(_ *bundle, in *onboardingv1.ReportActionRequest) {
			onboardingtest.InCategory(strings.Repeat("x", 201))(in)
		}, "attributes must have keys of 1 to 60"},
		"AnAttributeWith": {func(_ *bundle, in *onboardingv1.ReportActionRequest) { onboardingtest.InCategory("a\x00b")(in) }, "attributes must have keys"},
		"OddIncome": {func(_ *bundle, in *onboardingv1.ReportActionRequest) {
			in.Attributes = map[string]string{"income": "perhaps"}
		}, "attributes.income must be true or false"},
		"NoUUID": {func(_ *bundle, in *onboardingv1.ReportActionRequest) { in.ProfileId = "ada" }, "profile_id must be a UUID"},
	} {
		onboardingtest.Subtest(t, "S4_67_Refuses"+name, setup, func(_ *testing.T, b *bundle) {
			in := b.Did(b.Person(), "add_expense")
			tt.change(b, in)
			b.refused(in, codes.InvalidArgument, tt.says)
		})
	}

	onboardingtest.Subtest(t, "S4_67_NamesAllProblemsAndRefusesAnUnknownPerson", setup, func(_ *testing.T, b *bundle) {
		p := b.Person()
		b.refused(b.Did(p, "dance", func(in *onboardingv1.ReportActionRequest) { in.Source, in.IdempotencyKey = "fax", "" }), codes.InvalidArgument, "action", "source", "idempotency_key")
		stranger := people.Profile{ID: onboardingtest.NewID()}
		b.refused(b.Did(stranger, "add_expense"), codes.NotFound)
		_, err := b.Report(b.Did(stranger, "add_expense"))
		require.EqualError(b.T, err, "there is no such person in this organisation", "no package is named to a caller")
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
			p := b.Person()
			reports := rapid.SliceOfN(rapid.SampledFrom(decided.Actions()), 1, 16).Draw(t, "actions")
			want, expenses := rules.Progress{}, 0
			answers := make(chan *onboardingv1.ReportActionResponse, 2*len(reports))
			var all sync.WaitGroup
			for _, name := range reports {
				in := b.Did(p, name, onboardingtest.NLP)
				want = decided.Record(want, rules.Action{Name: name, OccurredAt: b.Clock.Now()}, p.CreatedAt, false, b.Clock.Now()).Progress
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
			v := b.Engaged(p)
			require.Equal(t, len(reports), fresh)
			require.Equal(t, asStored(t, want), asStored(t, v.Progress))
			require.Equal(t, expenses, v.Expenses)
			counted := slices.ContainsFunc(reports, func(name string) bool { return !slices.Contains(decided.Uncounted, name) })
			require.Equal(t, counted, magic == 1)
			require.LessOrEqual(t, magic, 1)
			slices.Sort(completed)
			require.Equal(t, slices.Compact(slices.Clone(completed)), completed, "no tier is completed twice")
			require.Equal(t, len(completed), b.Outreach(p, rules.TierUnlock, "pending", ""))
			require.Len(t, b.Triggers(p), 1)
		})
	})
}

// TestActionIsDecidedAgain: something happens between the read of a person and the write.
func TestActionIsDecidedAgain(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S4_66_AfterAnotherExpense", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Reports(p, "add_expense", onboardingtest.InCategory("food"))
		b.Current().Ports.BeforeApply = func() { require.Empty(t, b.Reports(p, "add_expense", onboardingtest.InCategory("food")).GetHint()) }
		require.NotEmpty(t, b.Reports(p, "add_expense", onboardingtest.InCategory("food")).GetHint(), "it is the third")
		require.Equal(t, 3, b.Engaged(p).Expenses)
	})

	onboardingtest.Subtest(t, "S4_65_AfterTheMagicMoment", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Reports(p, "view_report")
		b.Current().Ports.BeforeApply = func() { require.True(t, b.Reports(p, "view_report", onboardingtest.NLP).GetMagicMoment()) }
		require.False(t, b.Reports(p, "view_report", onboardingtest.NLP).GetMagicMoment())
		b.Tells(p, engagement.EventMagicMoment, "action", "view_report")
	})

	onboardingtest.Subtest(t, "S4_69_AfterTipsWereSwitchedOff", setup, func(_ *testing.T, b *bundle) {
		p := b.Known()
		b.Reports(p, "view_report")
		b.Current().Ports.BeforeApply = func() { b.Reply(p, "stop tips") }
		require.Equal(b.T, []int32{3}, b.Reports(p, "edit_category").GetCompleted())
		b.celebrated(p)
	})

	onboardingtest.Subtest(t, "S4_40_AfterAMessage", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.Current().Ports.BeforeApply = func() {
			b.Clock.Advance(time.Second)
			b.Reply(p, "2")
		}
		b.Reports(p, "view_report")
		b.In(p, rules.RemindLater)
		require.Equal(t, 1, b.Count(`select count(*) from engagement_actions`))
	})
}

// reportsAtLast is a call of the host application, which repeats it while it is told to.
func (b *bundle) reportsAtLast(in *onboardingv1.ReportActionRequest) *onboardingv1.ReportActionResponse {
	for {
		out, err := b.Report(in)
		refusal, known := rpc.ErrorFrom(onboarding.Answer(err))
		if err == nil || !known || refusal.Code != codes.Unavailable {
			if err != nil {
				b.T.Error(err) // require would end the wrong goroutine
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
