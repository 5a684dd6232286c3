package chaos

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/wire"
)

// site is the place where the processes run, with everything they need.
type site struct {
	*population

	cfg     Processes
	now     func() time.Time
	environ map[string]string // of the processes

	dir  string
	keep bool
	log  *slog.Logger
	file *os.File

	leave     context.CancelFunc // of the population
	postgres  *privatePostgres
	cluster   *cluster                     // behind postgres, in a run with a failover
	addresses stack.Addresses              // where the services are called
	replicas  []stack.Addresses            // where they listen
	balancers map[string]*wire.Wire        // between the two by service, where there are several replicas or one is replaced
	front     *front                       // before the gateways, where they are replaced
	nginx     *nginx                       // between the two, where it is asked for
	spare     stack.Addresses              // where the next process listens that replaces another
	wires     map[string]*wire.Wire        // by name; none in a run without silence
	wired     map[string]map[string]string // what each service has of its wires, in its environment
	services  map[string]*supervisor
	rollout   rollout
	goals     *errands // nil without goals

	outages  outages
	settled  bool           // nothing was left to do before the time was over
	silences []*silence     // of the one goroutine that makes them, and each of its watcher, until they have ended
	watchers sync.WaitGroup // of outages and silences
}

// upBound limits the time until everything serves for the first time, clusterUpBound that of a run with two servers.
const (
	upBound        = time.Minute
	clusterUpBound = bootBound + upBound
)

// open brings everything up. What has been started is in the site also after an error, to be closed.
func (p Processes) open(ctx context.Context) (*site, error) {
	s := &site{
		cfg: p, now: p.Clock.Now, services: map[string]*supervisor{}, wires: map[string]*wire.Wire{},
		wired: map[string]map[string]string{}, balancers: map[string]*wire.Wire{},
	}
	life, leave := context.WithCancel(context.WithoutCancel(ctx))
	s.population, s.leave = newPopulation(life, dice(p.Seed), p.Clock, p.tempo()), leave
	if p.goals != nil {
		s.goals = newErrands(*p.goals, s.population)
	}
	bound := upBound
	if p.failover != nil {
		bound = clusterUpBound
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bound, errors.New("the processes did not come up"))
	defer cancel()
	for _, stage := range []func(context.Context) error{
		s.openFolder, s.openAddresses, s.playVendors, s.openPostgres, s.openServices, s.openSoak, s.openGoals,
	} {
		if err := stage(ctx); err != nil {
			return s, err
		}
	}
	return s, nil
}

// openFolder makes the folder of the run under /var/tmp: the server's user can enter it, and the path of a socket in it is
// short enough on every system.
func (s *site) openFolder(context.Context) (err error) {
	if s.dir, err = os.MkdirTemp("/var/tmp", "paceline-chaos-"); err != nil {
		return err
	}
	if err := os.Chmod(s.dir, 0o711); err != nil { //nolint:gosec // the server runs as another user when we are root, and must pass
		return err
	}
	s.file, err = os.OpenFile(filepath.Join(s.dir, "chaos.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	s.log = slog.New(slog.NewJSONHandler(s.file, nil))
	return err
}

func (s *site) openAddresses(ctx context.Context) error {
	ports, err := stack.FreePorts(ctx, 6*(s.cfg.replicas()+1))
	if err != nil {
		return err
	}
	for ; len(ports) > 0; ports = ports[6:] {
		s.replicas = append(s.replicas, stack.Addresses{
			Gateway: ports[0], GatewayOps: ports[1], Onboarding: ports[2], OnboardingOps: ports[3], Messaging: ports[4], MessagingOps: ports[5],
		})
	}
	s.spare, s.replicas = s.replicas[len(s.replicas)-1], s.replicas[:len(s.replicas)-1]
	s.addresses = s.replicas[0]
	fronted := s.cfg.RollEvery > 0 || s.cfg.failover != nil // by what counts requests
	if len(s.replicas) == 1 && !fronted {
		return nil
	}
	for service, called := range map[string]*string{
		stack.Gateway: &s.addresses.Gateway, stack.Onboarding: &s.addresses.Onboarding, stack.Messaging: &s.addresses.Messaging,
	} {
		if service == stack.Gateway && fronted {
			if err := s.openFront(ctx); err != nil {
				return err
			}
			*called = s.front.addr
			continue
		}
		w, err := wire.Open(ctx, "tcp", s.listening(service)...)
		if err != nil {
			return err
		}
		s.balancers[service], *called = w, w.Addr
	}
	return nil
}

// openFront opens what counts requests, before nginx or the gateways.
func (s *site) openFront(ctx context.Context) (err error) {
	to, ending := s.listening(stack.Gateway), (*tls.Config)(nil)
	if s.cfg.Nginx {
		if s.nginx, err = openNginx(ctx, s.dir, to); err != nil {
			return err
		}
		to, ending = []string{s.nginx.addr}, &tls.Config{ServerName: nginxName, InsecureSkipVerify: true} //nolint:gosec // by no authority
	}
	s.front, err = openFront(ctx, to, ending)
	return err
}

// listening returns where the replicas of a service listen.
func (s *site) listening(service string) (all []string) {
	for _, a := range s.replicas {
		all = append(all, *at(&a, service))
	}
	return all
}

// at is the address of a service, and opsAt that of its readiness.
func at(a *stack.Addresses, service string) *string {
	return map[string]*string{stack.Gateway: &a.Gateway, stack.Onboarding: &a.Onboarding, stack.Messaging: &a.Messaging}[service]
}

func opsAt(a *stack.Addresses, service string) *string {
	return map[string]*string{stack.Gateway: &a.GatewayOps, stack.Onboarding: &a.OnboardingOps, stack.Messaging: &a.MessagingOps}[service]
}

func (s *site) playVendors(ctx context.Context) error {
	cfg := stack.VendorConfig{Clock: s.cfg.Clock, Log: s.log, OnTwilio: s.observe}
	if s.goals != nil {
		cfg.OnQStash = s.goals.alarmed
	}
	if err := s.wireVendors(ctx, &cfg); err != nil {
		return err
	}
	if s.cfg.RollEvery > 0 || s.cfg.failover != nil {
		return s.openVendors(ctx, cfg, never)
	}
	return s.openVendors(ctx, cfg, seldom)
}

func (s *site) openPostgres(ctx context.Context) (err error) {
	if s.cfg.failover != nil {
		return s.openCluster(ctx)
	}
	s.postgres, err = startPostgres(ctx, filepath.Join(s.dir, "pg"))
	return err
}

// openServices migrates, starts the three processes and waits until they serve.
func (s *site) openServices(ctx context.Context) error {
	var err error
	if s.flowFile, s.flow, err = writeFlow(s.dir, paced(s.cfg.Gap)); err != nil {
		return err
	}
	if err := s.gather(s.cfg.Sessions); err != nil {
		return err
	}
	environ, err := s.connect(s.addresses, s.postgres.onboarding, s.postgres.messaging)
	if err != nil {
		return err
	}
	s.environ = merged(environ, s.cfg.Environ)
	wired, err := s.wireServices(ctx)
	if err != nil {
		return err
	}
	for _, name := range []string{stack.Onboarding, stack.Messaging, stack.Gateway} {
		if err := s.serve(ctx, name, wired[name]); err != nil {
			return err
		}
	}
	for name, k := range s.services {
		if !s.ready(ctx, k) {
			return fmt.Errorf("%s: %w; see %s", name, context.Cause(ctx), s.dir)
		}
	}
	return s.openPools(ctx, s.postgres.onboarding, s.postgres.messaging)
}

// serve migrates for a service, and starts its replicas.
func (s *site) serve(ctx context.Context, name string, wired map[string]string) error {
	service, err := stack.ServiceNamed(name)
	if err != nil {
		return err
	}
	if err := service.Migrate(ctx, s.environ); err != nil {
		return err
	}
	s.wired[name] = wired
	for i, a := range s.replicas {
		s.services[replica(name, i, len(s.replicas))] = s.began(name, i, a)
	}
	return nil
}

// began starts the i-th process of a service, which listens there.
func (s *site) began(name string, i int, a stack.Addresses) *supervisor {
	variable := strings.ToUpper(name)
	listens := map[string]string{variable + "_ADDR": *at(&a, name), variable + "_OPS_ADDR": *opsAt(&a, name)}
	process := replica(name, i, len(s.replicas))
	return supervise(stack.ChildConfig{
		Name: process, Command: append(append([]string{}, s.cfg.Program...), name), Environ: merged(s.environ, s.wired[name], listens),
		Log: filepath.Join(s.dir, process+".log"),
	}, "http://"+*opsAt(&a, name)+"/readyz", s.log)
}

// replica returns what the i-th process of so many is called.
func replica(name string, i, of int) string {
	if of == 1 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, i+1)
}

// openSoak has Kapso come, and the ends of jobs written down.
func (s *site) openSoak(ctx context.Context) error {
	if s.cfg.soak == nil {
		return nil
	}
	s.kapso = newSender(s.population, *s.cfg.soak, s.environ[signsWith])
	if _, err := s.onboardingDB.Exec(ctx, sqlRecordEnds); err != nil {
		return fmt.Errorf("have the ends of jobs written down: %w", err)
	}
	return nil
}

// ready waits until a service says that it is, and reports whether that came.
func (s *site) ready(ctx context.Context, k *supervisor) bool {
	for {
		if s.isReady(ctx, k) {
			return true
		}
		if !pause(ctx, 10*time.Millisecond) {
			return false
		}
	}
}

func (s *site) isReady(ctx context.Context, k *supervisor) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.readyURL, nil)
	if err != nil {
		return false
	}
	response, err := s.api.HTTP.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// closeBound limits the time that the vendors and Postgres get for their end.
const closeBound = 15 * time.Second

// close ends everything that runs, and removes the folder unless it is kept.
func (s *site) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	s.end()
	s.leave()
	if s.goals != nil {
		s.goals.close()
	}
	for _, k := range s.services {
		k.close()
	}
	s.watchers.Wait() // they look at what has just been closed, and have their own bound
	s.closePools()
	var problems []error
	for _, wires := range []map[string]*wire.Wire{s.balancers, s.wires} {
		for _, w := range wires {
			problems = append(problems, w.Close()) // before the vendors, who would wait for what is under way
		}
	}
	if s.front != nil {
		problems = append(problems, s.front.close())
	}
	if s.nginx != nil {
		problems = append(problems, s.nginx.close())
	}
	if s.vendors != nil {
		if err := s.vendors.Stop(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			problems = append(problems, err)
		}
	}
	if s.postgres != nil {
		problems = append(problems, s.postgres.stop(ctx))
	}
	if s.cluster != nil {
		problems = append(problems, s.cluster.close())
	}
	problems = append(problems, s.still(ctx))
	s.api.HTTP.CloseIdleConnections()
	if s.file != nil {
		problems = append(problems, s.file.Close())
	}
	if s.dir != "" && !s.keep {
		problems = append(problems, os.RemoveAll(s.dir))
	}
	return errors.Join(problems...)
}
