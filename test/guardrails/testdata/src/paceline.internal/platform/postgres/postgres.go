package postgres

import "time"

func InTx() { time.Sleep(time.Millisecond) }

func Listen() {} // want `platform/postgres\.Listen waits no more: take it off the list of what is sanctioned`
