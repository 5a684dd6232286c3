package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"paceline.internal/test/attack"
)

// attackCommand attacks as a stranger could.
type attackCommand struct {
	Dribble attackDribbleCommand `cmd:"" help:"Hold connections to the gateway with forged signatures, while people write STOP."`
	Streams attackStreamsCommand `cmd:"" help:"Send large gRPC messages without a token, and measure the memory of the service."`
}

// errNoDeployment is returned where the environment names no deployment.
var errNoDeployment = errors.New("the environment names no deployment; " +
	"\". environ.sh\" in the data folder of paceline up sets it while it runs")

// attackDribbleCommand attacks the gateway.
type attackDribbleCommand struct {
	Target      string        `placeholder:"URL" help:"The gateway, on this machine. Default: PUBLIC_BASE_URL."`
	Connections int           `default:"1200" help:"How many dribble at a time; each is opened again when it is cut off."`
	Genuine     int           `default:"40" help:"How many people write STOP meanwhile, signed as Twilio does."`
	Duration    time.Duration `default:"10s" help:"How long."`
}

// Help is the long text of --help.
func (c *attackDribbleCommand) Help() string {
	return `Only this machine is attacked: another target is refused. PUBLIC_BASE_URL, TWILIO_AUTH_TOKEN and TWILIO_FROM_NUMBER are set as
the deployment has them; ". environ.sh" in the data folder of paceline up sets them while it runs. The texts come from numbers that are
reserved for fiction, and are stored.

The exit code is 0 only if every STOP was answered with 200 within a second.`
}

// Run returns an error unless every message was answered in time.
func (c *attackDribbleCommand) Run(ctx context.Context, t terminal) error {
	environ := t.environ
	if environ["PUBLIC_BASE_URL"] == "" || environ["TWILIO_AUTH_TOKEN"] == "" {
		return errNoDeployment
	}
	report, err := attack.Dribble{
		Target: cmp.Or(c.Target, environ["PUBLIC_BASE_URL"]), PublicURL: environ["PUBLIC_BASE_URL"], AuthToken: environ["TWILIO_AUTH_TOKEN"],
		To: environ["TWILIO_FROM_NUMBER"], Connections: c.Connections, Duration: c.Duration, Genuine: c.Genuine, Now: time.Now,
	}.Run(ctx)
	if err != nil {
		return err
	}
	return t.judge(report, report.Kept)
}

// attackStreamsCommand attacks a service behind the gateway.
type attackStreamsCommand struct {
	Target   string        `placeholder:"HOST:PORT" help:"A gRPC port of a service on this machine. Default: ONBOARDING_ADDR."`
	Ops      string        `placeholder:"HOST:PORT" help:"The ops port of the same service. Default: ONBOARDING_OPS_ADDR."`
	Method   string        `default:"/paceline.onboarding.v1.OnboardingService/ExecuteStep" help:"What is called."`
	Streams  int           `default:"80" help:"How many streams."`
	Bytes    int           `default:"3145000" help:"How much is sent on each."`
	Duration time.Duration `default:"10s" help:"How long they are held."`
}

// Run prints what happened to the streams.
func (c *attackStreamsCommand) Run(ctx context.Context, t terminal) error {
	c.Target, c.Ops = cmp.Or(c.Target, t.environ["ONBOARDING_ADDR"]), cmp.Or(c.Ops, t.environ["ONBOARDING_OPS_ADDR"])
	if c.Target == "" {
		return fmt.Errorf("%w, or give --target and --ops", errNoDeployment)
	}
	report, err := attack.Streams{
		Target: c.Target, Method: c.Method, Streams: c.Streams, Bytes: c.Bytes, Duration: c.Duration, Memory: c.memory,
	}.Run(ctx)
	if err != nil {
		return err
	}
	return t.judge(report, true)
}

// memory is the resident memory of the service, by its own metrics.
func (c *attackStreamsCommand) memory(ctx context.Context) (_ float64, err error) {
	const metric = "process_resident_memory_bytes "
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.Ops+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return 0, fmt.Errorf("--ops: %w", err)
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), metric); found {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("--ops: %s does not report its memory", c.Ops)
}
