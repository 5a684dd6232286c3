package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/config"
)

type service struct {
	pair

	Token    config.Secret `env:"TOKEN,required"      help:"publishes alarms"`
	Public   config.Origin `env:"PUBLIC_URL,required" help:"how we are reached"`
	Addr     config.Addr   `env:"ADDR"                envDefault:":9001"         help:"listen address"`
	Lease    time.Duration `env:"LEASE"               envDefault:"30s"           help:"how long a claim lives"`
	Disabled bool          `env:"DISABLED"            help:"records alarms only"`
	Retries  int           `env:"RETRIES"             envDefault:"5"             help:"published retry policy"`
	Level    slog.Level    `env:"LEVEL"               help:"how much to log"`
	Nested   struct {
		URL config.Secret `env:"DATABASE_URL,required" help:"Postgres URL"`
	} `envPrefix:"SERVICE_"`
	Files    pair
	Unmapped string
}

// pair is both or none.
type pair struct {
	Cert string `env:"CERT" help:"certificate"`
	Key  string `env:"KEY"  help:"private key"`
}

func (p *pair) Validate() error {
	if (p.Cert == "") != (p.Key == "") {
		return &config.Problem{Variable: "CERT and KEY", Reason: "must both be set, or neither"}
	}
	return nil
}

func complete() map[string]string {
	return map[string]string{
		"TOKEN": "abc", "PUBLIC_URL": "https://paceline.example/", "SERVICE_DATABASE_URL": "postgres://u:hunter2@db/x",
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()

	t.Run("FillsValuesAndDefaults", func(t *testing.T) {
		t.Parallel()
		environ := complete()
		environ["LEASE"], environ["DISABLED"], environ["TOKEN"] = "", "1", "abc\n"
		c := service{Unmapped: "kept", Level: slog.LevelWarn}

		require.NoError(t, config.Load(environ, &c))

		require.Equal(t, "abc", c.Token.Reveal(), "the newline of a mounted file is no part of a key")
		require.Equal(t, "https://paceline.example", c.Public.String())
		require.Equal(t, ":9001", c.Addr.String())
		require.Equal(t, 30*time.Second, c.Lease, "an empty value is an absent one")
		require.True(t, c.Disabled)
		require.Equal(t, 5, c.Retries)
		require.Equal(t, "postgres://u:hunter2@db/x", c.Nested.URL.Reveal())
		require.Equal(t, "kept", c.Unmapped)
		require.Equal(t, slog.LevelWarn, c.Level, "an absent variable leaves the field alone")
	})

	t.Run("ReportsEveryProblemAtOnceWithoutAValue", func(t *testing.T) {
		t.Parallel()
		environ := map[string]string{
			"TOKEN": " ", "PUBLIC_URL": "https://paceline.example/hunter2", "ADDR": "hunter2", "LEASE": "-1s", "DISABLED": "yes",
			"RETRIES": "hunter2", "CERT": "hunter2.pem",
		}

		err := config.Load(environ, new(service))

		require.Equal(t, strings.Join([]string{
			"TOKEN is missing (publishes alarms)",
			"PUBLIC_URL must be a bare origin, without credentials, a path, a query or a fragment (how we are reached)",
			"ADDR must be host:port such as 127.0.0.1:9001 or :9001 (listen address)",
			"LEASE must be a duration above zero such as 500ms, 30s or 5m (how long a claim lives)",
			"DISABLED must be 1, true, 0 or false (records alarms only)",
			"RETRIES must be a whole number within range (published retry policy)",
			"SERVICE_DATABASE_URL is missing (Postgres URL)",
			"CERT and KEY must both be set, or neither",
			"CERT and KEY must both be set, or neither",
		}, "\n"), err.Error(), "the pair is asked once where it is embedded and once where it is a field")
		require.NotContains(t, err.Error(), "hunter2")
		var problem *config.Problem
		require.ErrorAs(t, err, &problem)
		require.Equal(t, "TOKEN", problem.Variable)
	})

	t.Run("AVariableWithoutHelpIsRefused", func(t *testing.T) {
		t.Parallel()
		var c struct {
			Addr string `env:"ADDR"`
		}
		require.EqualError(t, config.Load(nil, &c), "ADDR has no help tag that says what it is for")
	})

	t.Run("AnAbsentRequiredVariableWithADefaultIsFine", func(t *testing.T) {
		t.Parallel()
		var c struct {
			Addr string `env:"ADDR,required" envDefault:"x" help:"address"`
		}
		require.NoError(t, config.Load(nil, &c))
		require.Equal(t, "x", c.Addr)
	})

	t.Run("ATypesOwnWordingIsShown", func(t *testing.T) {
		t.Parallel()
		err := config.Load(map[string]string{"LEVEL": "loud"}, new(service))
		require.ErrorContains(t, err, "LEVEL is malformed: slog: level string \"loud\": unknown name (how much to log)")
	})
}

func TestRenamed(t *testing.T) {
	t.Parallel()
	for name, environ := range map[string]map[string]string{
		"new":      {"NEW_NAME": "3"},
		"old":      {"OLD_NAME": "3"},
		"newFirst": {"NEW_NAME": "3", "OLD_NAME": "4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cfg struct {
				Renamed int `env:"NEW_NAME" was:"OLD_NAME" envDefault:"1" help:"a setting with another name than before"`
			}
			require.NoError(t, config.Load(environ, &cfg))
			require.Equal(t, 3, cfg.Renamed)
		})
	}
}

func TestBool(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, value string
		ok, want    bool
	}{
		{name: "One", value: "1", ok: true, want: true},
		{name: "True", value: "true", ok: true, want: true},
		{name: "Zero", value: "0", ok: true},
		{name: "False", value: "false", ok: true},
		{name: "CapitalIsRefused", value: "True"},
		{name: "LetterIsRefused", value: "t"},
		{name: "NumberIsRefused", value: "2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var c struct {
				On bool `env:"ON" help:"switch"`
			}
			err := config.Load(map[string]string{"ON": tc.value}, &c)
			require.Equal(t, tc.ok, err == nil, "%v", err)
			require.Equal(t, tc.want, c.On)
		})
	}
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{name: "Bare", text: "https://paceline.example", want: "https://paceline.example"},
		{name: "TrailingSlashIsDropped", text: "http://127.0.0.1:8080/", want: "http://127.0.0.1:8080"},
		{name: "IPv6", text: "http://[::1]:8080", want: "http://[::1]:8080"},
		{name: "LetterCaseIsKept", text: "https://Paceline.Example", want: "https://Paceline.Example"},
		{name: "PathIsRefused", text: "https://paceline.example/api"},
		{name: "TwoSlashesAreRefused", text: "https://paceline.example//"},
		{name: "QueryIsRefused", text: "https://paceline.example?a=b"},
		{name: "EmptyQueryIsRefused", text: "https://paceline.example?"},
		{name: "FragmentIsRefused", text: "https://paceline.example#top"},
		{name: "CredentialsAreRefused", text: "https://user:pass@paceline.example"},
		{name: "OtherSchemeIsRefused", text: "ftp://paceline.example"},
		{name: "MissingSchemeIsRefused", text: "paceline.example"},
		{name: "MissingHostIsRefused", text: "https://:8080"},
		{name: "HugePortIsRefused", text: "https://paceline.example:70000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			origin, err := config.ParseOrigin(tc.text)
			require.Equal(t, tc.want == "", err != nil)
			require.Equal(t, tc.want, origin.String())
			require.Equal(t, tc.want == "", origin.IsZero())
		})
	}
}

func TestAddr(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		want       bool
	}{
		{name: "HostAndPort", text: "messaging:9002", want: true},
		{name: "PortOnly", text: ":9002", want: true},
		{name: "AnyPort", text: "127.0.0.1:0", want: true},
		{name: "IPv6", text: "[::1]:9002", want: true},
		{name: "NoPort", text: "messaging"},
		{name: "EmptyPort", text: "messaging:"},
		{name: "NamedPort", text: "messaging:http"},
		{name: "PortOutOfRange", text: "messaging:65536"},
		{name: "URL", text: "http://messaging:9002"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := config.ParseAddr(tc.text)
			require.Equal(t, tc.want, err == nil, "%v", err)
		})
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	const value = "hunter2"
	secret := config.NewSecret(value)

	t.Run("NoWayOfPrintingShowsIt", func(t *testing.T) {
		t.Parallel()
		holder := struct {
			Public config.Secret `json:"public"`
			hidden config.Secret
		}{secret, secret}
		var log strings.Builder
		slog.New(slog.NewJSONHandler(&log, nil)).Info("start", "secret", secret, "holder", holder, "error", errors.New(fmt.Sprint(secret)))
		encoded, err := json.Marshal(holder)
		require.NoError(t, err)

		printed := []string{log.String(), string(encoded)}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			printed = append(printed, fmt.Sprintf(verb, secret), fmt.Sprintf(verb, &secret), fmt.Sprintf(verb, holder))
		}
		for _, text := range printed {
			require.NotContains(t, text, value)
			require.NotContains(t, text, fmt.Sprintf("%x", value))
		}
		require.JSONEq(t, `{"public":"***"}`, string(encoded))
		require.Equal(t, value, secret.Reveal())
	})

	t.Run("SeveralArePartedByCommas", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string][]string{"": nil, "a": {"a"}, "a,b": {"a", "b"}, "new , old": {"new", "old"}} {
			keys, err := config.NewSecret(text).Keys()
			require.NoError(t, err)
			require.Equal(t, want, keys)
			require.Equal(t, strings.Join(append(want, "")[:1], ""), config.NewSecret(text).First())
		}
		for _, text := range []string{",", "a,", ",a", "a, ,b"} {
			_, err := config.NewSecret(text).Keys()
			require.ErrorContains(t, err, "empty secret")
			require.Empty(t, config.NewSecret(text).First())
		}
	})

	t.Run("AnAbsentOneShowsThatItIsAbsent", func(t *testing.T) {
		t.Parallel()
		require.True(t, config.NewSecret("").IsZero())
		require.Empty(t, config.Secret{}.String())
		require.Empty(t, config.Secret{}.Reveal())
		require.False(t, secret.IsZero())
	})
}

func TestChanged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		sets map[string]string
		want []string
	}{
		{name: "NothingThatIsSetToItsDefault"},
		{name: "WhatDiffersInTheOrderOfTheFields", sets: map[string]string{"RETRIES": "7", "LEASE": "1m", "DISABLED": "1"}, want: []string{"LEASE=1m0s", "DISABLED=true", "RETRIES=7"}},
		{name: "NothingThatHasNoDefault", sets: map[string]string{"CERT": "c", "KEY": "k"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			given := complete()
			maps.Copy(given, tt.sets)
			var c service
			require.NoError(t, config.Load(given, &c))
			require.Equal(t, tt.want, config.Changed(&c))
		})
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	variables := config.Describe[service]()

	require.Equal(t, config.Variable{Name: "TOKEN", Required: true, Secret: true, Help: "publishes alarms"}, variables[2])
	require.Equal(t, config.Variable{Name: "ADDR", Default: ":9001", Help: "listen address"}, variables[4])
	require.Equal(t, config.Variable{Name: "SERVICE_DATABASE_URL", Required: true, Secret: true, Help: "Postgres URL"}, variables[9])
}

func TestEnviron(t *testing.T) {
	t.Parallel()
	require.Equal(t, map[string]string{"A": "1", "B": "x=y", "C": ""}, config.Environ([]string{"A=1", "B=x=y", "C=", "broken"}))
}
