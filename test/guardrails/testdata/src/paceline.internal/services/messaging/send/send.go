package send

import "time"

func silence() { <-time.NewTimer(time.Second).C } // want silence:`waits by time\.NewTimer`
