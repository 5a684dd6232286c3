package delivery

import "time"

func silence() { <-time.NewTimer(time.Second).C } // messaging waits for Twilio, not between steps
