package flows_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/flows"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/schema"
)

func TestMain(m *testing.M) { onboardingtest.Main(m) }

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// bundle is the room on a real database, for one organisation.
type bundle struct {
	*flows.Store

	t    *testing.T
	pool *pgxpool.Pool
	org  string
}

func setup(t *testing.T) *bundle {
	t.Helper()
	pool := pgtest.New(t, schema.Migrations())
	return &bundle{Store: flows.NewStore(pool), t: t, pool: pool, org: uuid.NewString()}
}

// files is a small flow that says hello, and is entered by keywords.
func files(name, hello string, keywords ...string) map[string]string {
	entry := ""
	if len(keywords) > 0 {
		entry = "entry: {keywords: [" + strings.Join(keywords, ", ") + "]}\n"
	}
	return map[string]string{
		"flow.yaml": "flow: " + name + "\nlanguages: [en]\nstart: hello\n" + entry +
			"steps:\n  hello: {send: HELLO, then: done}\n  done: {end: completed}\n",
		"en.yaml": "texts:\n  HELLO: " + hello + "\n",
	}
}

func (b *bundle) publish(files map[string]string, at time.Time) flows.Published {
	b.t.Helper()
	done, err := b.Publish(b.t.Context(), b.org, files, at)
	require.NoError(b.t, err)
	return done
}

func TestPublish(t *testing.T) {
	t.Parallel()

	t.Run("TheNewestIsCurrentAndAnOlderOneComesBack", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first := b.publish(files("welcome", "Hi"), noon)
		require.True(t, first.Created && first.Current)
		require.Equal(t, noon, first.PublishedAt.UTC())
		second := b.publish(files("welcome", "Hello"), noon.Add(-time.Hour)) // by a replica with another clock
		require.True(t, second.Created)
		current, err := b.Current(t.Context(), b.org, "welcome")
		require.NoError(t, err)
		require.Equal(t, second.Version.Version, current.Version)

		again := b.publish(files("welcome", "Hello"), noon)
		require.True(t, again.Unchanged)
		require.Equal(t, second.Number, again.Number)

		back := b.publish(files("welcome", "Hi"), noon)
		require.False(t, back.Created || back.Unchanged)
		require.Equal(t, first.Version.Version, back.Version.Version)
		older, err := b.Version(t.Context(), b.org, "welcome", second.Version.Version)
		require.NoError(t, err)
		text, err := older.Render("HELLO", "en", "", nil)
		require.NoError(t, err)
		require.Equal(t, "Hello", text)

		listed, err := b.List(t.Context(), b.org)
		require.NoError(t, err)
		require.Equal(t, []flows.Version{back.Version}, listed)
		history, err := b.Versions(t.Context(), b.org, "welcome", 0, 10)
		require.NoError(t, err)
		require.Len(t, history, 2)
		require.Equal(t, back.Version, history[0])
		require.False(t, history[1].Current)
	})

	t.Run("AnotherStoreReadsTheFilesAsTheyWereSent", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		sent := files("welcome", "Hi")
		sent["flow.yaml"] = "\ufeff" + strings.ReplaceAll(sent["flow.yaml"], "\n", "\r\n")
		done := b.publish(sent, noon)
		require.True(t, b.publish(files("welcome", "Hi"), noon).Unchanged, "the ends of lines make no version")
		got, err := b.Files(t.Context(), b.org, "welcome", done.Version.Version)
		require.NoError(t, err)
		require.Equal(t, sent, got)
		current, err := flows.NewStore(b.pool).Current(t.Context(), b.org, "welcome")
		require.NoError(t, err)
		require.Equal(t, []string{"hello", "done"}, current.Order)
	})

	t.Run("WhatIsNotThere", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		done := b.publish(files("welcome", "Hi"), noon)
		_, err := b.Current(t.Context(), b.org, "goodbye")
		require.ErrorIs(t, err, flow.ErrNotFound)
		_, err = b.Version(t.Context(), b.org, "welcome", "0123456789abcdef")
		require.ErrorIs(t, err, flow.ErrNotFound)
		_, err = b.Version(t.Context(), uuid.NewString(), "welcome", done.Version.Version)
		require.ErrorIs(t, err, flow.ErrNotFound)
	})

	t.Run("TwoAtOnceAreOneAfterTheOther", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var at errgroup.Group
		results := make([]flows.Published, 8)
		refusals := make([]error, len(results))
		for i := range results {
			at.Go(func() error { // half of them have the same files; all of them want one keyword
				results[i], refusals[i] = b.Publish(t.Context(), b.org, files(fmt.Sprintf("flow_%d", i%2), "Hi", "join"), noon)
				return nil
			})
		}
		require.NoError(t, at.Wait())
		created, conflicts := 0, 0
		for i, err := range refusals {
			if err != nil {
				require.ErrorContains(t, err, `cannot have the keyword "join"`)
				conflicts++
			} else if results[i].Created {
				created++
			}
		}
		require.Equal(t, 1, created)
		require.Equal(t, len(results)/2, conflicts)
	})
}

func TestKeywords(t *testing.T) {
	t.Parallel()
	b := setup(t)
	welcome := b.publish(files("welcome", "Hi", "JOIN", "Começar"), noon)
	b.publish(files("guests", "Hi", "dinner"), noon)

	for said, want := range map[string]string{"Join!": "welcome", " comecar ": "welcome", "DINNER": "guests", "I want to join": "", "": ""} {
		found, ok, err := b.ByKeyword(t.Context(), b.org, said)
		require.NoError(t, err)
		require.Equal(t, want != "", ok, said)
		require.Equal(t, want, found.Name)
	}
	_, ok, err := b.ByKeyword(t.Context(), uuid.NewString(), "join")
	require.NoError(t, err)
	require.False(t, ok)

	_, err = b.Publish(t.Context(), b.org, files("guests", "Hi", "dinner", "join"), noon)
	require.EqualError(t, err, `flow.yaml: entry: flow guests cannot have the keyword "join": it is one of flow welcome`)
	_, err = b.Check(t.Context(), b.org, files("guests", "Hi", "join"))
	require.ErrorContains(t, err, "flow welcome")

	b.publish(files("welcome", "Hi"), noon) // which gives the keyword up
	b.publish(files("guests", "Hi", "join"), noon)
	_, err = b.Publish(t.Context(), b.org, files("welcome", "Hi", "JOIN", "Começar"), noon)
	require.ErrorContains(t, err, "it is one of flow guests", "nor does %s take it back", welcome.Version.Version)
}

func TestLimits(t *testing.T) {
	t.Parallel()

	t.Run("Files", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		tooLong, tooMany, unread := files("welcome", "Hi"), files("welcome", "Hi"), files("welcome", "Hi")
		tooLong["en.yaml"] += "# " + strings.Repeat("x", flows.MaxBytes)
		for i := range 41 {
			tooMany[fmt.Sprintf("x%d.yaml", i)] = ""
		}
		unread["de.yaml"] = "texts: {HELLO: Hallo}\n"
		for want, sent := range map[string]map[string]string{
			"the files are too long": tooLong, "these are 43 files": tooMany, "de.yaml: no language of the flow has this file": unread,
			"flow.yaml: the file is missing": {},
		} {
			_, err := b.Publish(t.Context(), b.org, sent, noon)
			require.ErrorContains(t, err, want)
			require.ErrorAs(t, err, new(flow.Problems))
		}
	})

	t.Run("Versions", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first := b.publish(files("welcome", "Hi"), noon)
		b.fill("welcome", flows.MaxVersions-1)
		_, err := b.Publish(t.Context(), b.org, files("welcome", "One more"), noon)
		require.ErrorIs(t, err, flows.ErrTooMany)
		require.Equal(t, first.Version.Version, b.publish(files("welcome", "Hi"), noon).Version.Version, "one that is there comes back")
	})

	t.Run("Publications", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.publish(files("welcome", "Hi"), noon)
		_, err := b.pool.Exec(t.Context(), `insert into flow_publications (org_id, flow, number, version, published_at)
			select org_id, flow, n, version, published_at from flow_publications, generate_series(2, $1) n`, flows.MaxPublications)
		require.NoError(t, err)
		_, err = b.Publish(t.Context(), b.org, files("welcome", "One more"), noon)
		require.ErrorIs(t, err, flows.ErrTooMany)
	})

	t.Run("TwoFlowsDoNotStartEachOther", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		starts := func(name, other string) map[string]string {
			of := files(name, "Hi")
			of["flow.yaml"] = strings.Replace(of["flow.yaml"], "{end: completed}", "{start: "+other+"}", 1)
			return of
		}
		b.publish(starts("one", "two"), noon)
		b.publish(starts("three", "one"), noon)
		_, err := b.Publish(t.Context(), b.org, starts("two", "three"), noon)
		require.ErrorContains(t, err, "flow two starts flow one, which starts two again, without an answer of the person")
		b.publish(files("two", "Hi"), noon)
	})

	t.Run("WhatTheHostMaySetIsWhatTheQuestionsTake", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		asks := func(name, choices string) map[string]string {
			return map[string]string{
				"flow.yaml": "flow: " + name + "\nlanguages: [en]\nstart: pet\nsteps:\n  pet: {ask: Q, expect: {choice: [" + choices +
					"]}, save: pet, unclear: {send: U, then: done}, then: done}\n  done: {end: completed}\n",
				"en.yaml": "texts: {Q: Which one, U: Again}",
			}
		}
		b.publish(asks("first", "cat, dog"), noon)
		b.publish(asks("second", "dog, fish"), noon)
		declared, err := b.Declared(t.Context(), b.org)
		require.NoError(t, err)
		for _, pet := range []string{"cat", "dog", "fish"} { // of either flow
			_, err := declared.Read(map[string]any{"pet": pet})
			require.NoError(t, err)
		}
		_, err = declared.Read(map[string]any{"pet": "cow"})
		require.ErrorContains(t, err, "pet must be one of cat, dog or one of dog, fish")
	})

	t.Run("AVersionThatIsUnreadable", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.publish(files("welcome", "Hi", "JOIN"), noon)
		_, err := pgtest.Owner(t, b.pool).Exec(t.Context(), `update flow_versions set files = '{"flow.yaml": "later: true"}'`)
		require.NoError(t, err)
		store := flows.NewStore(b.pool) // of another process
		_, _, err = store.ByKeyword(t.Context(), b.org, "join")
		require.ErrorIs(t, err, flow.ErrUnreadable)
		require.ErrorContains(t, err, "this release cannot read a version of the flow; publish the flow again: version ")
		declared, err := store.Declared(t.Context(), b.org)
		require.NoError(t, err)
		require.Empty(t, declared)
	})

	t.Run("Flows", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for i := range flows.MaxFlows {
			b.fill(fmt.Sprintf("flow_%d", i), 1)
		}
		_, err := b.Publish(t.Context(), b.org, files("welcome", "Hi"), noon)
		require.ErrorIs(t, err, flows.ErrTooMany)
		b.publish(files("flow_7", "Hi"), noon)
	})
}

// fill stores published versions of a flow.
func (b *bundle) fill(name string, versions int) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), `with v as (
		insert into flow_versions (org_id, flow, version, files, keywords, published_at)
		select $1, $2, lpad(to_hex(i), 16, '0'), '{}', '{}', now() from generate_series(1, $3) i returning *
	) insert into flow_publications (org_id, flow, number, version, published_at)
	select org_id, flow, row_number() over () + (select count(*) from flow_publications where org_id = $1 and flow = $2), version,
		published_at from v`, b.org, name, versions)
	require.NoError(b.t, err)
}

// TestVersionsNeverChange: the login that serves may add a version and no more.
func TestVersionsNeverChange(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.publish(files("welcome", "Hi"), noon)
	for _, sql := range []string{
		`update flow_versions set files = '{}'`, `delete from flow_versions`, `update flow_publications set version = version`,
		`delete from flow_publications`,
		`insert into flow_publications (org_id, flow, number, version, published_at, published_by)
			select org_id, flow, 2, version, now(), '{"subject": "somebody"}' from flow_versions`,
	} {
		_, err := b.pool.Exec(t.Context(), sql)
		require.ErrorContains(t, err, "permission denied", sql)
	}
}

func TestRPC(t *testing.T) {
	t.Parallel()
	b := setup(t)
	service := &flows.RPC{Store: b.Store, Now: func() time.Time { return noon }}
	ctx := rpc.WithPrincipal(t.Context(), rpc.Principal{Subject: "ada", OrgID: b.org, Role: rpc.RoleOperator})

	wrong := files("welcome", "Hi {nobody}")
	wrong["flow.yaml"] = strings.Replace(wrong["flow.yaml"], "then: done", "then: nowhere", 1)
	checked, err := service.CheckFlow(ctx, &onboardingv1.CheckFlowRequest{Files: wrong})
	require.NoError(t, err)
	require.Greater(t, len(checked.GetProblems()), 1)
	require.Empty(t, checked.GetVersion())
	_, err = service.PublishFlow(ctx, &onboardingv1.PublishFlowRequest{Files: wrong})
	refusal := status.Convert(err)
	require.Equal(t, codes.InvalidArgument, refusal.Code())
	bad, ok := refusal.Details()[1].(*errdetails.BadRequest)
	require.True(t, ok)
	require.Len(t, bad.GetFieldViolations(), len(checked.GetProblems()))
	require.Equal(t, "en.yaml:2", bad.GetFieldViolations()[0].GetField())
	listed, err := service.ListFlows(ctx, &onboardingv1.ListFlowsRequest{})
	require.NoError(t, err)
	require.Empty(t, listed.GetFlows(), "neither stores anything")

	checked, err = service.CheckFlow(ctx, &onboardingv1.CheckFlowRequest{Files: files("welcome", "Hi")})
	require.NoError(t, err)
	done, err := service.PublishFlow(ctx, &onboardingv1.PublishFlowRequest{Files: files("welcome", "Hi")})
	require.NoError(t, err)
	require.Equal(t, checked.GetVersion(), done.GetVersion().GetVersion())
	for i := range 3 {
		b.publish(files("welcome", fmt.Sprintf("Hi %d", i)), noon)
	}
	current, err := service.GetCurrentFlow(ctx, &onboardingv1.GetCurrentFlowRequest{Flow: "welcome"})
	require.NoError(t, err)
	require.Equal(t, files("welcome", "Hi 2"), current.GetFiles())
	older, err := service.GetFlowVersion(ctx, &onboardingv1.GetFlowVersionRequest{Flow: "welcome", Version: checked.GetVersion()})
	require.NoError(t, err)
	require.Equal(t, files("welcome", "Hi"), older.GetFiles())
	require.False(t, older.GetVersion().GetCurrent())

	var pages []int
	in := &onboardingv1.ListFlowVersionsRequest{Flow: "welcome", PageSize: 3}
	for {
		page, err := service.ListFlowVersions(ctx, in)
		require.NoError(t, err)
		pages = append(pages, len(page.GetVersions()))
		if in.PageToken = page.GetNextPageToken(); in.GetPageToken() == "" {
			break
		}
	}
	require.Equal(t, []int{3, 1}, pages)
}
