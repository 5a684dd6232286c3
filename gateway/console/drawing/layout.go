package drawing

import "slices"

// Layout is a flow as a picture: its steps below each other, each way from a line of its box along a lane at the right to another box.
type Layout struct {
	Width, Height int
	Boxes         []Box
	Ways          []Lane
}

// Box is a step.
type Box struct {
	Step

	Y, Height int
	Starts    bool
	Counts    *Counts // nil where nothing was counted
	Bar, BarY int     // how wide the bar of those who came is, barWidth where all did, and where it lies

	head int
}

// Counts has how many people stand at a step, and how those fared who came to it.
type Counts struct{ Now, Reached, WentOn, Answered, Silent, Stopped, Began int64 }

// Share returns the percentage of those who began that came.
func (c Counts) Share() int64 { return c.Reached * 100 / max(c.Began, 1) }

// LineY is the middle of the line of a way within the box.
func (b Box) LineY(way int) int { return b.Y + b.head + way*boxLine + boxLine/2 }

// Lane is a way from a height at the right edge of a box along a lane to the head of another.
type Lane struct {
	FromY, ToY, LaneX int
	Aside             bool // failed, unclear, silence: not the usual way
}

// The sizes of the picture.
const (
	boxWidth = 420
	boxHead  = 50
	boxLine  = 20
	boxGap   = 26
	// boxCounts is for the numbers of a step and their bar.
	boxCounts = 30
	barWidth  = boxWidth - 28
	laneGap   = 12
	boxInset  = 18 // where ways come in, from the top of a box
)

// Draw lays out a flow. counts has the numbers of its steps; it may be nil.
func Draw(f Flow, counts map[string]Counts) (d Layout) {
	at := map[string]int{}
	y := 10
	for i, s := range f.Steps {
		b := Box{Step: s, Y: y, Starts: s.ID == f.Start, head: boxHead}
		if n, counted := counts[s.ID]; counted {
			b.Counts, b.head = &n, boxHead+boxCounts
			b.Bar, b.BarY = int(barWidth*n.Reached/max(n.Began, n.Reached, 1)), y+boxHead+boxCounts-12
		}
		b.Height = b.head + len(s.Ways)*boxLine
		if len(s.Ways) > 0 {
			b.Height += 6
		}
		at[s.ID], y = i, y+b.Height+boxGap
		d.Boxes = append(d.Boxes, b)
	}
	var lanes []int // how far down each is taken, once ways are sorted by their upper ends
	for _, b := range d.Boxes {
		for n, way := range b.Ways {
			to, ok := at[way.To]
			if !ok {
				continue
			}
			aside := slices.Contains([]string{"else", "failed", "unclear", "silence"}, Condition(way.When))
			w := Lane{FromY: b.LineY(n), ToY: d.Boxes[to].Y + boxInset, Aside: aside}
			d.Ways = append(d.Ways, w)
		}
	}
	slices.SortStableFunc(d.Ways, func(a, b Lane) int { return min(a.FromY, a.ToY) - min(b.FromY, b.ToY) })
	for i := range d.Ways {
		w := &d.Ways[i]
		top, bottom := min(w.FromY, w.ToY), max(w.FromY, w.ToY)
		lane := slices.IndexFunc(lanes, func(taken int) bool { return taken < top })
		if lane < 0 {
			lane, lanes = len(lanes), append(lanes, 0)
		}
		lanes[lane] = bottom
		w.LaneX = boxWidth + 20 + lane*laneGap
	}
	d.Width, d.Height = boxWidth+40+len(lanes)*laneGap, y
	return d
}
