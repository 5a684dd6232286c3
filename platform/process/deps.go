package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/audit"
	"paceline.internal/platform/config"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/rpc"
)

// Deps holds the things that a process gives to a service beyond its environment. The zero value is production.
type Deps struct {
	Log         *slog.Logger     // default: as the environment says, to standard output
	Now         func() time.Time // default: the machine's clock
	Rest        Rest             // how the service's loops wait; default: on the machine's clock
	PassBound   time.Duration    // how long a pass of a loop may be silent; default: PassBound
	Listener    net.Listener     // default: on the service's address
	OpsListener net.Listener     // default: on the service's ops address
	Ready       func()           // called once both ports are served; default: none
	// Inside accepts calls of the services that share the process, besides Listener; default: none do. Dial connects to one of them by its
	// name; default: over the network.
	Inside net.Listener
	Dial   func(ctx context.Context, service string) (net.Conn, error)

	// Beats says that the service watches whether its database goes back in time, by the machine's clock. It is so where nobody gave a Rest:
	// a simulated month has too many seconds.
	Beats bool
}

// Listeners returns those of the service's calls.
func (d *Deps) Listeners() []net.Listener {
	if d.Inside == nil {
		return []net.Listener{d.Listener}
	}
	return []net.Listener{d.Listener, d.Inside}
}

// DialTo returns how a service is called that shares the process; nil is over the network.
func (d *Deps) DialTo(service string) func(ctx context.Context) (net.Conn, error) {
	if d.Dial == nil {
		return nil
	}
	return func(ctx context.Context) (net.Conn, error) { return d.Dial(ctx, service) }
}

// Fill puts the defaults in the place of what was not given, with log as the logger.
func (d *Deps) Fill(log *slog.Logger) {
	if d.Log == nil {
		d.Log = log
	}
	if d.Now == nil {
		d.Now = wallClock
	}
	if d.Rest == nil {
		d.Rest, d.Beats = RestOnMachineClock, true
	}
	if d.PassBound == 0 {
		d.PassBound = PassBound
	}
	if d.Ready == nil {
		d.Ready = func() {}
	}
}

// Listen opens the ports that were not given. Errors name the variable, which is prefix_ADDR or prefix_OPS_ADDR.
func (d *Deps) Listen(ctx context.Context, prefix string, addr, opsAddr config.Addr) (err error) {
	if d.OpsListener, err = listen(ctx, d.OpsListener, opsAddr); err != nil {
		return fmt.Errorf("%s_OPS_ADDR: %w", prefix, err)
	}
	if d.Listener, err = listen(ctx, d.Listener, addr); err != nil {
		return errors.Join(fmt.Errorf("%s_ADDR: %w", prefix, err), d.OpsListener.Close())
	}
	return nil
}

func listen(ctx context.Context, given net.Listener, addr config.Addr) (net.Listener, error) {
	if given != nil {
		return given, nil
	}
	var network net.ListenConfig
	return network.Listen(ctx, "tcp", addr.String())
}

// Scope bounds a call of an operator or an app to the rows of their organisation, and one of a user to their own, in the database itself. A
// service's call names sessions and messages by ids that say nothing of an organisation, so it sees them all. What a call writes says who
// made it.
func Scope(ctx context.Context, caller rpc.Principal) context.Context {
	ctx = audit.Mark(ctx, caller)
	switch caller.Role {
	case rpc.RoleService:
		return postgres.AcrossOrganisations(ctx)
	case rpc.RoleUser:
		person, _ := uuid.Parse(caller.Subject) // a caller without a profile is the nil UUID, and has no row
		return postgres.ForProfile(ctx, caller.OrgID, person)
	default:
		return postgres.ForOrganisation(ctx, caller.OrgID)
	}
}

// wallClock reads the machine's clock in microseconds, as Postgres keeps times, so an answer has the time that is read later.
func wallClock() time.Time {
	now := time.Now()                                       //nolint:forbidigo // the clock that is handed on
	return now.Add(-time.Duration(now.Nanosecond() % 1000)) // unlike Truncate it keeps the monotonic reading
}
