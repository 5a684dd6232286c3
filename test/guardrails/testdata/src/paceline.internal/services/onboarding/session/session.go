// Package session does all that a pure package may not do.
package session

import (
	"database/sql/driver" // want `^pure package made impure: it imports database/sql/driver\.`
	"fmt"
	"log/slog"
	"math/rand/v2" // want `it imports math/rand/v2`
	"net/netip"    // want `it imports net/netip`
	"os"           // want `it imports os`
	"time"

	"paceline.internal/platform/config" // want `it imports paceline\.internal/platform/config`
	"paceline.internal/services/onboarding/session/step"
)

var (
	_ driver.Value
	_ = rand.N[int]
	_ netip.Addr
	_ = os.Getenv
	_ config.Secret
	_ step.ID
)

func clocks() time.Duration {
	began := time.Now()                    // want `it has a clock, time\.Now`
	now := time.Now                        // want `it has a clock, time\.Now`
	time.Sleep(1)                          // want `it has a clock, time\.Sleep`
	_ = now().Local()                      // want `it asks the machine, \(time\.Time\)\.Local`
	_ = time.Local                         // want `it asks the machine, time\.Local`
	time.LoadLocation("America/Sao_Paulo") // want `it asks the machine, time\.LoadLocation`
	return time.Since(began)               // want `it has a clock, time\.Since`
}

func prints(log *slog.Logger) { // want `it logs, log/slog\.Logger`
	fmt.Println("x") // want `it does I/O, fmt\.Println`
	println("x")     // want `it prints`
	slog.Info("x")   // want `it logs, log/slog\.Info`
	log.Info("x")    // want `it logs, .*Logger\)\.Info`
}

// What follows is pure.

type Body string

func (b Body) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("characters", len(b)), slog.Any("kind", slog.KindString))
}

func due(now time.Time) time.Time { return now.Add(8 * time.Second).UTC() }

func words() (string, error) { return fmt.Sprint("x"), fmt.Errorf("x") }
