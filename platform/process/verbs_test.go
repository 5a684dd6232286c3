package process

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/config"
)

func TestVerbs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		args    []string
		environ map[string]string
		keeps   bool
		want    string // what was done or printed
		wantErr string
	}{
		{name: "ServeIsTheDefault", environ: map[string]string{"A": "1"}, want: "serve 1"},
		{name: "Serve", args: []string{"serve"}, environ: map[string]string{"A": "1"}, want: "serve 1"},
		{name: "Migrate", args: []string{"migrate"}, environ: map[string]string{"A": "1"}, keeps: true, want: "migrate 1"},
		{name: "MigrateWithoutState", args: []string{"migrate"}, want: "thing keeps no state, so there is nothing to migrate\n"},
		{name: "Doctor", args: []string{"doctor"}, environ: map[string]string{"A": "1"}, want: "ok      A              1\n"},
		{
			name: "DoctorForMachines", args: []string{"doctor", "--json"}, environ: map[string]string{"A": "1"},
			want: "[\n  {\n    \"service\": \"thing\",\n    \"name\": \"A\",\n    \"state\": \"ok\",\n    \"why\": \"1\"\n  }\n]\n",
		},
		{name: "VersionWithoutAnEnvironment", args: []string{"version"}, want: Version("thing") + "\n"},
		{name: "S0_06_DoctorWithoutAVariable", args: []string{"doctor"}, wantErr: "not everything is in order: A"},
		{name: "UnknownVerb", args: []string{"dance"}, wantErr: "usage: thing [serve | migrate | doctor [--json] | health | version]"},
		{name: "TwoVerbs", args: []string{"serve", "doctor"}, wantErr: "usage: thing [serve | migrate | doctor [--json] | health | version]"},
		{name: "IncompleteEnvironment", wantErr: "the environment cannot be used; docs/configuration.md lists all variables:\nA is missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var did bytes.Buffer
			do := func(verb string) func(context.Context, string) error {
				return func(_ context.Context, cfg string) error { did.WriteString(verb + " " + cfg); return nil }
			}
			verbs := Verbs[string]{
				Load: func(environ map[string]string) (string, error) {
					if environ["A"] == "" {
						return "", &config.Problem{Variable: "A", Reason: "is missing"}
					}
					return environ["A"], nil
				},
				Serve: do("serve"),
				Doctor: func(_ context.Context, cfg string) Findings {
					return Findings{{Service: "thing", Name: "A", State: Well, Why: cfg}}
				},
			}
			if tc.keeps {
				verbs.Migrate = do("migrate")
			}
			err := verbs.run(t.Context(), "thing", tc.args, tc.environ, &did)
			if tc.wantErr != "" {
				require.EqualError(t, err, tc.wantErr)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, did.String())
		})
	}
}

func TestDeps(t *testing.T) {
	t.Parallel()

	t.Run("WhatWasNotGivenIsFilledIn", func(t *testing.T) {
		t.Parallel()
		var d Deps
		log := slog.New(slog.DiscardHandler)
		d.Fill(log)
		require.Same(t, log, d.Log)
		require.False(t, d.Now().IsZero())
		d.Ready()
	})

	t.Run("AGivenListenerIsKeptAndATakenPortIsNamed", func(t *testing.T) {
		t.Parallel()
		var network net.ListenConfig
		taken, err := network.Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { require.NoError(t, taken.Close()) }()
		addr, err := config.ParseAddr(taken.Addr().String())
		require.NoError(t, err)
		free, err := config.ParseAddr("127.0.0.1:0")
		require.NoError(t, err)

		given := Deps{Listener: taken}
		require.NoError(t, given.Listen(t.Context(), "THING", addr, free))
		require.Same(t, taken, given.Listener)
		require.NoError(t, given.OpsListener.Close())

		var d Deps
		require.ErrorContains(t, d.Listen(t.Context(), "THING", addr, free), "THING_ADDR: ")
		require.ErrorContains(t, (&Deps{}).Listen(t.Context(), "THING", free, addr), "THING_OPS_ADDR: ")
	})
}

func TestExamine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	findings := Examine(t.Context(), "thing",
		Check{Name: "first", Look: func(context.Context) (string, error) { return "fine", nil }, Mend: "nothing"},
		Check{Name: "second", Look: func(context.Context) (string, error) { return "", errors.New("broken\n\tin two") }, Mend: "mend it"},
		Check{Name: "third", Look: func(context.Context) (string, error) { return "", Warn("odd: %d", 3) }, Mend: "or leave it"},
	)
	err := findings.Report(&out, false)
	require.ErrorIs(t, err, ErrUnwell)
	require.ErrorContains(t, err, "second")
	require.NotContains(t, err.Error(), "third", "a warning is no failure")
	require.Equal(t, strings.Join([]string{
		"ok      first          fine",
		"failed  second         broken in two",
		"                       to mend: mend it",
		"warning third          odd: 3",
		"                       to mend: or leave it", "",
	}, "\n"), out.String())
}
