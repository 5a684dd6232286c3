package pause

import "time"

func For(d time.Duration) { wait(d) } // want For:`waits by time\.NewTimer`

func wait(d time.Duration) { <-time.NewTimer(d).C } // want wait:`waits by time\.NewTimer`

type Pacer struct{}

func (Pacer) Gap() { For(8 * time.Second) } // want Gap:`waits by time\.NewTimer`

func Pure(d time.Duration) time.Duration { return 2 * d }
