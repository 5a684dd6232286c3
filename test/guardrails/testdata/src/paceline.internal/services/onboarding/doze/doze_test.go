package doze

import "time"

func inATest() { time.Sleep(1) } // lint's
