package flows_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/flows"
)

func TestDraft(t *testing.T) {
	t.Parallel()

	// drafted is a flow with a comment among its texts, and the RPCs on it.
	drafted := func(t *testing.T) (*bundle, *flows.RPC, *onboardingv1.FlowDraft) {
		t.Helper()
		b := setup(t)
		sent := files("welcome", `"Hi" # a greeting`)
		sent["en.yaml"] += "# The end.\n"
		b.publish(sent, noon)
		service := &flows.RPC{Store: b.Store, Now: func() time.Time { return noon }}
		out, err := service.GetFlowDraft(b.asked(), &onboardingv1.GetFlowDraftRequest{Flow: "welcome"})
		require.NoError(t, err)
		return b, service, out.GetDraft()
	}
	save := func(b *bundle, s *flows.RPC, d *onboardingv1.FlowDraft, text string) (*onboardingv1.FlowDraft, error) {
		out, err := s.SaveFlowDraft(b.asked(), &onboardingv1.SaveFlowDraftRequest{
			Flow: "welcome", Version: d.GetVersion().GetVersion(), Revision: d.GetRevision(), Language: "en",
			Texts: map[string]string{"HELLO": text},
		})
		return out.GetDraft(), err
	}

	t.Run("IsSavedCheckedAndPublished", func(t *testing.T) {
		t.Parallel()
		b, service, none := drafted(t)
		require.Zero(t, none.GetRevision())
		require.Equal(t, "Hi", none.GetTexts()[0].GetText())

		long, err := save(b, service, none, "{nobody} "+strings.Repeat("x", 400))
		require.NoError(t, err, "a draft may be wrong until it is published")
		require.Len(t, long.GetTexts()[0].GetProblems(), 2)
		_, err = service.PublishFlowDraft(b.asked(), &onboardingv1.PublishFlowDraftRequest{Flow: "welcome", Revision: long.GetRevision()})
		require.ErrorContains(t, err, "problems: 2")

		good, err := save(b, service, long, "Hi {first_name|there}: yes 🎉\nand \"no\"")
		require.NoError(t, err)
		text := good.GetTexts()[0]
		require.Equal(t, []any{"Hi there: yes 🎉\nand \"no\"", "Hi", int32(1), int32(1), 0},
			[]any{text.GetShown(), text.GetPublished(), text.GetSegments(), text.GetMostSegments(), len(text.GetProblems())})
		require.Equal(t, noon, good.GetChangedAt().AsTime())
		current, err := b.Current(t.Context(), b.org, "welcome")
		require.NoError(t, err)
		require.Equal(t, none.GetVersion().GetVersion(), current.Version, "a draft is nobody's flow")

		done, err := service.PublishFlowDraft(b.asked(), &onboardingv1.PublishFlowDraftRequest{Flow: "welcome", Revision: good.GetRevision()})
		require.NoError(t, err)
		published, err := service.GetFlowVersion(b.asked(), &onboardingv1.GetFlowVersionRequest{
			Flow: "welcome", Version: done.GetVersion().GetVersion(),
		})
		require.NoError(t, err)
		require.Contains(t, published.GetFiles()["en.yaml"], "# The end.")
		current, err = b.Current(t.Context(), b.org, "welcome")
		require.NoError(t, err)
		body, err := current.Render("HELLO", "en", "", map[string]flow.Value{})
		require.NoError(t, err)
		require.Equal(t, "Hi there: yes 🎉\nand \"no\"", body)
		_, err = service.PublishFlowDraft(b.asked(), &onboardingv1.PublishFlowDraftRequest{Flow: "welcome", Revision: good.GetRevision()})
		require.ErrorIs(t, err, flows.ErrNoDraft)
	})

	t.Run("TwoWritersDoNotOverwriteEachOther", func(t *testing.T) {
		t.Parallel()
		b, service, none := drafted(t)
		first, err := save(b, service, none, "Hello")
		require.NoError(t, err)
		again, err := save(b, service, none, "Hello")
		require.NoError(t, err, "the same once more, as a browser sends it that loads a page again")
		require.Equal(t, first.GetRevision(), again.GetRevision())
		_, err = save(b, service, none, "Good day")
		require.ErrorIs(t, err, flows.ErrDraftOutdated)

		b.publish(files("welcome", "Hey"), noon)
		_, err = service.PublishFlowDraft(b.asked(), &onboardingv1.PublishFlowDraftRequest{Flow: "welcome", Revision: first.GetRevision()})
		require.ErrorIs(t, err, flows.ErrDraftOutdated, "it would undo what was published since")
		seen, err := service.GetFlowDraft(b.asked(), &onboardingv1.GetFlowDraftRequest{Flow: "welcome"})
		require.NoError(t, err)
		require.True(t, seen.GetDraft().GetOutdated())
		require.Equal(t, []string{"Hello", "Hey"}, []string{
			seen.GetDraft().GetTexts()[0].GetText(), seen.GetDraft().GetTexts()[0].GetPublished(),
		})
		again, err = save(b, service, seen.GetDraft(), "Hello")
		require.NoError(t, err)
		require.False(t, again.GetOutdated())
		_, err = service.PublishFlowDraft(b.asked(), &onboardingv1.PublishFlowDraftRequest{Flow: "welcome", Revision: again.GetRevision()})
		require.NoError(t, err)
	})

	t.Run("OfAnotherVersionUndoesNothingThatWasPublishedSince", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		published := func(german, bye string) map[string]string {
			return map[string]string{
				"flow.yaml": "flow: welcome\nlanguages: [en, de]\nstart: hello\n" +
					"steps:\n  hello: {send: HELLO, then: bye}\n  bye: {send: BYE, then: done}\n  done: {end: completed}\n",
				"en.yaml": "texts:\n  HELLO: Hi\n  BYE: " + bye + "\n",
				"de.yaml": "texts:\n  HELLO: " + german + "\n  BYE: Ade\n",
			}
		}
		version := b.publish(published("Hallo", "Bye"), noon).Version.Version
		saves := func(language, key, text string) error {
			had, err := b.Draft(t.Context(), b.org, "welcome")
			require.NoError(t, err)
			return b.SaveDraft(t.Context(), b.org, flows.DraftChange{
				Flow: "welcome", Version: version, Revision: had.Revision, Language: language, Texts: map[string]string{key: text},
			}, noon)
		}
		require.NoError(t, saves("de", "HELLO", "Moin"))
		version = b.publish(published("Servus", "Bye"), noon).Version.Version
		err := saves("en", "HELLO", "Hey")
		require.ErrorIs(t, err, flows.ErrDraftOutdated)
		require.ErrorContains(t, err, "de HELLO")
		require.ErrorIs(t, saves("de", "BYE", "Tschau"), flows.ErrDraftOutdated)
		require.NoError(t, saves("de", "HELLO", "Moin"), "who saves the text has seen what is under it")
		version = b.publish(published("Servus", "Good bye"), noon).Version.Version
		require.NoError(t, saves("en", "HELLO", "Hey"), "nothing was published under the text of the draft")
		d, err := b.Draft(t.Context(), b.org, "welcome")
		require.NoError(t, err)
		require.Equal(t, version, d.Of)
		require.Equal(t, map[string]map[string]string{"en": {"HELLO": "Hey"}, "de": {"HELLO": "Moin"}}, d.Texts)
	})

	t.Run("EndsWhenNothingIsChangedAnyMore", func(t *testing.T) {
		t.Parallel()
		b, service, none := drafted(t)
		changed, err := save(b, service, none, "Hello")
		require.NoError(t, err)
		back, err := save(b, service, changed, "Hi")
		require.NoError(t, err)
		require.Zero(t, back.GetRevision())
		_, err = save(b, service, back, "Hello")
		require.NoError(t, err)
		kept, err := b.Draft(t.Context(), b.org, "welcome")
		require.NoError(t, err)
		_, err = service.DeleteFlowDraft(b.asked(), &onboardingv1.DeleteFlowDraftRequest{Flow: "welcome", Revision: kept.Revision - 1})
		require.ErrorIs(t, err, flows.ErrDraftOutdated, "a colleague has saved it since")
		_, err = service.DeleteFlowDraft(b.asked(), &onboardingv1.DeleteFlowDraftRequest{Flow: "welcome", Revision: kept.Revision})
		require.NoError(t, err)
		_, err = service.DeleteFlowDraft(b.asked(), &onboardingv1.DeleteFlowDraftRequest{Flow: "welcome", Revision: kept.Revision})
		require.NoError(t, err, "it is gone")
		_, err = save(b, service, back, "Hello")
		require.NoError(t, err)
		_, err = service.DeleteFlowDraft(b.asked(), &onboardingv1.DeleteFlowDraftRequest{Flow: "welcome"})
		require.NoError(t, err)
		d, err := b.Draft(t.Context(), b.org, "welcome")
		require.NoError(t, err)
		require.Zero(t, d)
	})

	t.Run("WhatTheFlowDoesNotHave", func(t *testing.T) {
		t.Parallel()
		b, service, none := drafted(t)
		of := flows.DraftChange{Flow: "welcome", Version: none.GetVersion().GetVersion(), Language: "de", Texts: map[string]string{"HELLO": "x"}}
		require.ErrorIs(t, b.SaveDraft(t.Context(), b.org, of, noon), flows.ErrDraftText)
		of.Language, of.Texts = "en", map[string]string{"BYE": "x"}
		require.ErrorIs(t, b.SaveDraft(t.Context(), b.org, of, noon), flows.ErrDraftText)
		of.Texts = map[string]string{"HELLO": strings.Repeat("x", flows.MaxBytes)}
		require.ErrorIs(t, b.SaveDraft(t.Context(), b.org, of, noon), flows.ErrDraftText)
		_, err := service.GetFlowDraft(b.asked(), &onboardingv1.GetFlowDraftRequest{Flow: "nothing"})
		require.ErrorIs(t, err, flow.ErrNotFound)
	})
}

// asked returns the context of a call by an operator of the organisation.
func (b *bundle) asked() context.Context {
	return rpc.WithPrincipal(b.t.Context(), rpc.Principal{Subject: "ada", OrgID: b.org, Role: rpc.RoleOperator})
}
