package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/config"
)

func TestInterval(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		want       time.Duration
		ok         bool
	}{
		{name: "Minutes", text: "5m", want: 5 * time.Minute, ok: true},
		{name: "Never", text: "0", ok: true},
		{name: "NeverWithAUnit", text: "0s", ok: true},
		{name: "Negative", text: "-1s"},
		{name: "NoUnit", text: "5"},
		{name: "NoDuration", text: "often"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var c struct {
				Every config.Interval `env:"EVERY" envDefault:"1h" help:"how often"`
			}
			err := config.Load(map[string]string{"EVERY": tt.text}, &c)
			if !tt.ok {
				require.EqualError(t, err, "EVERY must be a duration such as 30s or 5m, or 0 for never (how often)")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, c.Every.Every())
			require.Equal(t, tt.want == 0, c.Every.Never())
		})
	}
}
