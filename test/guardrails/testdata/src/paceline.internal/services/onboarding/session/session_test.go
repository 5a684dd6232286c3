package session

import "time"

func inATest() time.Time { return time.Now() }
