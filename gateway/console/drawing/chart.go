package drawing

import (
	"slices"
	"strconv"
)

// Chart is bars over time in the units of its picture: chartWidth wide and chartHeight high, with labels around them. A bar is stacked of
// parts, the first part at the bottom.
type Chart struct {
	Bars  []Bar
	Hints []Hint
	Lines []Mark // of the numbers, at the left
	Marks []Mark // of the time, below
}

// Bar is one part of a column.
type Bar struct {
	Class               string
	X, Y, Width, Height int
}

// Hint is the text of a whole column, where the reader points at it.
type Hint struct {
	X, Width int
	Text     string
}

// Mark is a label of an axis.
type Mark struct {
	X, Y  int
	Label string
}

// Column is a time and its numbers, one for each class of the chart.
type Column struct {
	Parts []int64
	Label string // empty for a column without one
	Over  int    // how many columns the label stands under; 0 puts it at the left edge, as the time at which the column begins
	Hint  string // may be empty
}

const (
	chartWidth  = 600
	chartHeight = 150
	labelBelow  = 22
	// leastPart is the height of the smallest part: one among thousands is still seen.
	leastPart = 2
)

// Bars draws columns. classes names the parts, and unit is 1 at the axis.
func Bars(classes []string, columns []Column, unit int64) (c Chart) {
	highest := int64(1)
	for _, column := range columns {
		highest = max(highest, column.sum())
	}
	top := roundUp(highest)
	for _, n := range slices.Compact([]int64{0, top / 2, top}) {
		c.Lines = append(c.Lines, Mark{Y: chartHeight - int(n*chartHeight/top), Label: short(n, unit)})
	}
	for i, column := range columns {
		left, right := i*chartWidth/len(columns), (i+1)*chartWidth/len(columns)
		gap := max(2, (right-left)/5)
		low := chartHeight
		for part, n := range column.Parts {
			if n == 0 {
				continue
			}
			height := max(leastPart, int(n*chartHeight/top))
			low -= height
			c.Bars = append(c.Bars, Bar{Class: classes[part], X: left + gap/2, Y: max(low, 0), Width: right - left - gap, Height: height})
		}
		if column.Hint != "" {
			c.Hints = append(c.Hints, Hint{X: left, Width: right - left, Text: column.Hint})
		}
		if column.Label != "" {
			c.Marks = append(c.Marks, Mark{X: left + column.Over*(right-left)/2, Y: chartHeight + labelBelow, Label: column.Label})
		}
	}
	return c
}

func (c Column) sum() (n int64) {
	for _, part := range c.Parts {
		n += part
	}
	return n
}

// roundUp returns the next number that is easy to read at an axis, and to halve.
func roundUp(n int64) int64 {
	for unit := int64(1); ; unit *= 10 {
		for _, step := range []int64{1, 2, 4, 6, 8} {
			if step*unit >= n {
				return step * unit
			}
		}
	}
}

// short writes a number of an axis in units: 1500000 of 1 is 1.5M.
func short(n, unit int64) string {
	of := float64(n) / float64(unit)
	for _, big := range []struct {
		size float64
		name string
	}{{1_000_000_000, "G"}, {1_000_000, "M"}, {1000, "k"}} {
		if of >= big.size {
			return strconv.FormatFloat(of/big.size, 'f', -1, 64) + big.name
		}
	}
	return strconv.FormatFloat(of, 'f', -1, 64)
}
