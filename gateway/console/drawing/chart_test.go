package drawing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/gateway/console/drawing"
)

func TestBars(t *testing.T) {
	t.Parallel()
	c := drawing.Bars([]string{"failed", "delivered"}, []drawing.Column{
		{Parts: []int64{1, 2999}, Label: "12:00", Hint: "all"}, {Parts: []int64{0, 0}}, {Parts: []int64{0, 1000}, Label: "day", Over: 1}, {Parts: []int64{2, 0}},
	}, 1)
	require.Equal(t, []drawing.Mark{{Y: 150, Label: "0"}, {Y: 75, Label: "2k"}, {Y: 0, Label: "4k"}}, c.Lines)
	require.Equal(t, []drawing.Bar{
		{Class: "failed", X: 15, Y: 148, Width: 120, Height: 2}, // one among thousands is seen
		{Class: "delivered", X: 15, Y: 36, Width: 120, Height: 112},
		{Class: "delivered", X: 315, Y: 113, Width: 120, Height: 37},
		{Class: "failed", X: 465, Y: 148, Width: 120, Height: 2},
	}, c.Bars)
	require.Equal(t, []drawing.Mark{{X: 0, Y: 172, Label: "12:00"}, {X: 375, Y: 172, Label: "day"}}, c.Marks)
	require.Equal(t, []drawing.Hint{{X: 0, Width: 150, Text: "all"}}, c.Hints)

	for highest, want := range map[int64]string{0: "1", 1: "1", 3: "4", 9: "10", 27: "40", 1_100_000: "2M", 1500: "2k"} {
		lines := drawing.Bars([]string{"a"}, []drawing.Column{{Parts: []int64{highest}}}, 1).Lines
		require.Equal(t, want, lines[len(lines)-1].Label)
	}
	money := drawing.Bars([]string{"a"}, []drawing.Column{{Parts: []int64{15_800}}}, 1_000_000).Lines
	require.Equal(t, "0.02", money[len(money)-1].Label)
}
