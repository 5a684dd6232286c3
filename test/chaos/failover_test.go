package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPauseAfterAFault(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 29, 1, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name        string
		texts       []float64 // seconds
		fault, over float64
		want        float64
	}{
		{name: "OneThatBeginsBeforeTheFault", texts: []float64{1, 2, 9, 10, 30}, fault: 3, over: 5, want: 6},
		{name: "OneThatBeginsWithATextThatWasUnderWay", texts: []float64{1, 3.5, 20, 21}, fault: 3, over: 15, want: 17},
		{name: "OneThatBeginsWhenThePrimaryGivesUp", texts: []float64{1, 4, 5, 8, 9, 31, 32}, fault: 3, over: 22, want: 28},
		{name: "NotOneThatBeginsLongAfterIt", texts: []float64{1, 4, 5, 6, 14, 40}, fault: 3, over: 5, want: 11},
		{name: "NoneBeforeIt", texts: []float64{1, 50, 51, 53}, fault: 50.5, over: 50.6, want: 2.5},
		{name: "NoTextComesAnyMore", texts: []float64{1, 2}, fault: 3, over: 5, want: 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
			r := new(recorder)
			for _, s := range tt.texts {
				r.note(observation{at: at(s), kind: textTaken})
			}
			require.InDelta(t, tt.want, r.pauseAfter(at(tt.fault), at(tt.over)).Seconds(), 0.001)
		})
	}
}
