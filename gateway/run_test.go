package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/process"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
)

// running is a gateway as a process runs it, on other ports.
type running struct {
	url, ops string
	stop     context.CancelFunc
	closed   chan struct{} // when the public port takes no more connections
	ended    chan error
	log      *lines
}

// observed is a listener that reports when it is closed.
type observed struct {
	net.Listener

	once   *sync.Once
	closed chan struct{}
}

func (l observed) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

func start(t *testing.T, changes ...string) *running {
	t.Helper()
	env := environ()
	for i := 0; i < len(changes); i += 2 {
		env[changes[i]] = changes[i+1]
	}
	cfg, err := LoadConfig(env)
	require.NoError(t, err)
	var network net.ListenConfig
	listener, err := network.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	opsListener, err := network.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{
		url: "http://" + listener.Addr().String(), ops: "http://" + opsListener.Addr().String(),
		stop: cancel, closed: make(chan struct{}), ended: make(chan error, 1), log: new(lines),
	}
	ready := make(chan struct{})
	go func() {
		r.ended <- Run(ctx, cfg, process.Deps{
			Log: telemetry.NewLogger(r.log, telemetry.Config{}, "gateway"), Now: noon,
			Listener: observed{listener, new(sync.Once), r.closed}, OpsListener: opsListener, Ready: func() { close(ready) },
		})
	}()
	select {
	case <-ready:
	case err := <-r.ended:
		t.Fatalf("it ended before it was ready: %v", err)
	}
	return r
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("ServesBothPortsUntilItIsStopped", func(t *testing.T) {
		t.Parallel()
		services := startServices(t)
		r := start(t, "ONBOARDING_ADDR", services.addr, "MESSAGING_ADDR", services.addr)
		for _, url := range []string{r.url + "/healthz", r.url + "/readyz", r.url + "/openapi.yaml", r.ops + "/healthz", r.ops + "/readyz", r.ops + "/metrics"} {
			require.Eventually(t, func() bool { // the first calls of the services make the connections
				code, _ := get(t, url)
				return code == http.StatusOK
			}, 10*time.Second, 50*time.Millisecond, url)
		}
		_, body := get(t, r.url+"/readyz")
		require.JSONEq(t, `{"status": "ready"}`, body)
		_, shown := get(t, r.ops+"/debug/config")
		require.NotContains(t, shown, twilioToken)
		require.Eventually(t, func() bool { // it is counted once the page is written, which is after it can be read
			_, metrics := get(t, r.ops+"/metrics")
			return strings.Contains(metrics, `http_route="/openapi.yaml"`)
		}, 10*time.Second, 5*time.Millisecond)
		r.stop()
		require.NoError(t, <-r.ended)
	})

	t.Run("R_18_PlainTextBeyondThisMachineIsAWarning", func(t *testing.T) {
		t.Parallel()
		for addr, warned := range map[string]bool{"messaging.invalid:9002": true, ":9002": false} {
			r := start(t, "MESSAGING_ADDR", addr)
			r.stop()
			require.NoError(t, <-r.ended)
			require.Equal(t, warned, strings.Contains(r.log.String(), `"process.plain_text"`), addr)
			require.Equal(t, warned, strings.Contains(r.log.String(), "called at messaging.invalid:9002"), addr)
		}
	})

	t.Run("IsNotReadyWhileAServiceIsAway", func(t *testing.T) {
		t.Parallel()
		services := startServices(t)
		r := start(t, "ONBOARDING_ADDR", services.addr, "MESSAGING_ADDR", unusedAddr(t))
		for _, url := range []string{r.url + "/readyz", r.ops + "/readyz"} {
			code, body := get(t, url)
			require.Equal(t, http.StatusServiceUnavailable, code)
			require.Contains(t, body, "messaging is not serving")
			require.NotContains(t, body, "onboarding")
			require.NotContains(t, body, "127.0.0.1", "no address is shown")
		}
		code, _ := get(t, r.url+"/healthz")
		require.Equal(t, http.StatusOK, code)
		r.stop()
		require.NoError(t, <-r.ended)
	})

	t.Run("IsNotReadyWithAKeyThatNobodyBelieves", func(t *testing.T) {
		t.Parallel()
		services := startServices(t)
		r := start(t, "ONBOARDING_ADDR", services.addr, "MESSAGING_ADDR", services.addr, "SERVICE_AUTH_SECRET", "another service secret of at least 32 bytes")
		for _, url := range []string{r.url + "/readyz", r.ops + "/readyz"} {
			code, body := get(t, url)
			require.Equal(t, http.StatusServiceUnavailable, code)
			for _, name := range []string{"onboarding", "messaging"} {
				require.Contains(t, body, name+" does not believe this gateway's key")
			}
		}
		require.Contains(t, r.log.String(), `"gateway.not_believed"`)
		require.Contains(t, r.log.String(), "the public key of GATEWAY_SIGNING_KEY")
		code, _ := get(t, r.url+"/healthz")
		require.Equal(t, http.StatusOK, code)
		r.stop()
		require.NoError(t, <-r.ended)
	})

	t.Run("R_19_IsNotReadyWhileADatabaseIsAwayAndAlive", func(t *testing.T) {
		t.Parallel()
		services := startServices(t)
		services.away.Store(true)
		r := start(t, "ONBOARDING_ADDR", services.addr, "MESSAGING_ADDR", services.addr)
		for _, url := range []string{r.url + "/readyz", r.ops + "/readyz"} {
			code, body := get(t, url)
			require.Equal(t, http.StatusServiceUnavailable, code)
			for _, name := range []string{"onboarding", "messaging"} {
				require.Contains(t, body, name+" cannot use its database")
			}
			require.NotContains(t, body, "10.0.0.7", "no address is shown")
		}
		for _, url := range []string{r.url + "/healthz", r.ops + "/healthz"} {
			code, _ := get(t, url)
			require.Equal(t, http.StatusOK, code)
		}
		services.away.Store(false)
		require.Eventually(t, func() bool { code, _ := get(t, r.url+"/readyz"); return code == http.StatusOK }, time.Minute, 50*time.Millisecond)
		r.stop()
		require.NoError(t, <-r.ended)
	})
}

func TestStop(t *testing.T) {
	t.Parallel()

	t.Run("StoppingFinishesWhatIsInFlight", func(t *testing.T) {
		t.Parallel()
		services := startServices(t)
		arrived, goOn := make(chan struct{}), make(chan struct{})
		services.on("OnboardingService/ListSessions", func(context.Context) (json.RawMessage, error) {
			close(arrived)
			<-goOn
			return json.RawMessage(`{"next_page_token":"finished"}`), nil
		})
		r := start(t, "ONBOARDING_ADDR", services.addr, "MESSAGING_ADDR", services.addr)
		answered := make(chan string, 1)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/v1/sessions", nil)
		require.NoError(t, err)
		request.Header.Set("Authorization", bearer(t, "operator"))
		go func() {
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				answered <- err.Error()
				return
			}
			body, err := io.ReadAll(response.Body)
			if err = firstOf(err, response.Body.Close()); err != nil {
				answered <- err.Error()
				return
			}
			answered <- string(body)
		}()
		<-arrived
		r.stop()
		<-r.closed
		code, body := get(t, r.ops+"/readyz")
		require.Equal(t, http.StatusServiceUnavailable, code)
		require.Contains(t, body, "the gateway is stopping")
		close(goOn)
		require.Contains(t, <-answered, "finished")
		require.NoError(t, <-r.ended)
	})

	t.Run("APortThatIsTakenIsNamed", func(t *testing.T) {
		t.Parallel()
		var network net.ListenConfig
		taken, err := network.Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { require.NoError(t, taken.Close()) }()
		env := environ()
		env["GATEWAY_ADDR"] = taken.Addr().String()
		cfg, err := LoadConfig(env)
		require.NoError(t, err)
		err = Run(t.Context(), cfg, process.Deps{Log: telemetry.NewLogger(new(lines), telemetry.Config{}, "gateway")})
		require.ErrorContains(t, err, "GATEWAY_ADDR: listen tcp "+taken.Addr().String())
	})
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	examine := func(t *testing.T, changes ...string) (string, error) {
		t.Helper()
		env := environ()
		for i := 0; i < len(changes); i += 2 {
			env[changes[i]] = changes[i+1]
		}
		cfg, err := LoadConfig(env)
		require.NoError(t, err)
		var out bytes.Buffer
		err = Doctor(t.Context(), cfg).Report(&out, false)
		return out.String(), err
	}

	t.Run("S0_06_AllIsWell", func(t *testing.T) {
		t.Parallel()
		now := time.Now // the doctor's tokens are dated by the host's clock
		services, origin := startServicesAt(t, now), startOrigin(t, http.StatusOK)
		said, err := examine(t, "ONBOARDING_ADDR", services.addr, "MESSAGING_ADDR", services.addr, "API_JWKS_URL", issuer.url,
			"PUBLIC_BASE_URL", origin, "API_JWT_ISSUER", "https://id.example", "API_JWT_AUDIENCE", "paceline")
		require.NoError(t, err, said)
		require.Equal(t, strings.Join([]string{
			"ok      configuration  every variable is set and well-formed",
			"warning service keys   SERVICE_AUTH_SECRET is set: its holder can speak as any process",
			"                       to mend: give every process its keys, then leave SERVICE_AUTH_SECRET out; docs/runbooks/key-rotation.md has the order",
			"ok      settings       not the default: GATEWAY_ADDR=127.0.0.1:0, GATEWAY_OPS_ADDR=127.0.0.1:0, ONBOARDING_ADDR=" + services.addr + ", MESSAGING_ADDR=" + services.addr,
			"ok      public origin  " + origin + " leads to a gateway with these keys",
			"ok      tls            off: plain text between the processes, on this machine",
			"ok      onboarding     serving at " + services.addr,
			"ok      messaging      serving at " + services.addr,
			"warning api keys       API_JWKS_URL is plain http: a host on the way could choose who is an operator",
			"                       to mend: open API_JWKS_URL from this machine; it must answer with a JSON Web Key Set", "",
		}, "\n"), said)
	})

	for name, tt := range map[string]struct {
		status int // that the origin answers to every request; 0 means that nothing listens there
		want   string
	}{
		"AnOriginOfOtherKeys":      {http.StatusUnauthorized, "failed  public origin  .* does not believe our signature"},
		"AnOriginWithoutAGateway":  {http.StatusNotFound, "failed  public origin  .* is answered 404"},
		"AnOriginThatRedirects":    {http.StatusFound, "failed  public origin  .* is answered 302"},
		"AnOriginThatIsOutOfReach": {0, "warning public origin  .* cannot be reached from here"},
	} {
		t.Run("Sees"+name, func(t *testing.T) {
			t.Parallel()
			origin := "http://" + unusedAddr(t)
			if tt.status != 0 {
				origin = startOrigin(t, tt.status)
			}
			said, _ := examine(t, "PUBLIC_BASE_URL", origin)
			require.Regexp(t, tt.want, said)
			require.NotContains(t, said, environ()["QSTASH_CURRENT_SIGNING_KEY"])
		})
	}

	t.Run("NamesTheOriginAndTheTokenThatTwilioSignsBy", func(t *testing.T) {
		t.Parallel()
		said, err := examine(t, "PUBLIC_BASE_URL", startOrigin(t, http.StatusForbidden), "QSTASH_CURRENT_SIGNING_KEY", "", "QSTASH_NEXT_SIGNING_KEY", "",
			"ALARMS", "postgres")
		require.ErrorIs(t, err, process.ErrUnwell)
		require.Regexp(t, `failed  public origin  .* by our PUBLIC_BASE_URL \(http://127\.0\.0\.1:\d+\) and TWILIO_AUTH_TOKEN: .*\n +to mend: make PUBLIC_BASE_URL `+
			`the same here and there, letter by letter; if it is, .* TWILIO_AUTH_TOKEN`, said)
	})

	t.Run("NamesTheSettingsOfTLSThatOneSideLacks", func(t *testing.T) {
		t.Parallel()
		services := startServicesAt(t, time.Now) //nolint:forbidigo // the gateway's tokens live by the machine's clock
		secured := httptest.NewTLSServer(http.NotFoundHandler())
		defer secured.Close()
		said, err := examine(t, "ONBOARDING_ADDR", secured.Listener.Addr().String(), "MESSAGING_ADDR", services.addr)
		require.ErrorIs(t, err, process.ErrUnwell)
		require.Regexp(t, `failed  onboarding +\S+: the service there uses TLS, and the gateway does not: .*\n +to mend: give GRPC_TLS_CERT_FILE`, said)
		require.Contains(t, said, "ok      messaging ")

		speaks, known := speaksTLS(t.Context(), services.addr)
		require.Equal(t, []bool{false, true}, []bool{speaks, known})
		here := Config{TLS: rpc.TLSFiles{Cert: "cert.pem"}}
		require.ErrorContains(t, here.oneSidedTLS(t.Context(), services.addr, io.EOF), "the gateway uses TLS (GRPC_TLS_CERT_FILE), and the service")
		require.NoError(t, here.oneSidedTLS(t.Context(), unusedAddr(t), io.EOF), "nothing listens there")
	})

	t.Run("SeesAPIKeysThatSignForOthersToo", func(t *testing.T) {
		t.Parallel()
		said, _ := examine(t, "API_JWKS_URL", issuer.url)
		require.Contains(t, said, "warning api keys       every token that API_JWKS_URL signs is believed")
	})

	t.Run("SeesAProviderThatIsAwayOrIsAnother", func(t *testing.T) {
		t.Parallel()
		var says string
		provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"issuer":"`+says+`","authorization_endpoint":"`+says+`/a","token_endpoint":"`+says+`/t","jwks_uri":"`+says+`/k"}`)
		}))
		defer provider.Close()
		look := func() string {
			said, _ := examine(t, "CONSOLE", "on", "CONSOLE_KEY", strings.Repeat("0f", 32), "OIDC_ISSUER", provider.URL, "OIDC_CLIENT_ID", "paceline",
				"OIDC_CLIENT_SECRET", "hunter2", "OIDC_ORG_CLAIM", "org", "OIDC_ROLE_CLAIM", "roles")
			return said
		}
		says = provider.URL
		require.Contains(t, look(), "ok      sign-in        OIDC_ISSUER tells its endpoints")
		says = "https://another.example"
		require.Contains(t, look(), "failed  sign-in        oidc: issuer URL provided to client")
		provider.Close()
		require.Contains(t, look(), "failed  sign-in ")
	})

	t.Run("EveryProblemSaysHowToMendIt", func(t *testing.T) {
		t.Parallel()
		addr := unusedAddr(t)
		said, err := examine(t, "ONBOARDING_ADDR", addr, "MESSAGING_ADDR", addr, "API_JWKS_URL", "http://"+addr+"/keys",
			"PUBLIC_BASE_URL", "http://gateway_1.example")
		require.ErrorIs(t, err, process.ErrUnwell)
		require.Equal(t, 4, strings.Count(said, "failed"), said)
		for _, want := range []string{"underscore", "start the onboarding service, or set ONBOARDING_ADDR", "start the messaging service", "no key was found"} {
			require.Contains(t, said, want)
		}
	})

	t.Run("PlainHTTPIsForThisMachineOnly", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, plausible("http://127.0.0.1:8080"))
		require.NoError(t, plausible("http://localhost:8080"))
		require.ErrorContains(t, plausible("http://paceline.example"), "plain http")
		require.NoError(t, plausible("http://gateway:8080"), "the name of a neighbour in a network of containers")
	})

	t.Run("BrokenTLSFilesAreNamed", func(t *testing.T) {
		t.Parallel()
		said, err := examine(t, "GRPC_TLS_CERT_FILE", "/nowhere/a", "GRPC_TLS_KEY_FILE", "/nowhere/b", "GRPC_TLS_CA_FILE", "/nowhere/c")
		require.ErrorIs(t, err, process.ErrUnwell)
		require.Contains(t, said, "failed  tls")
	})
}

// unusedAddr is an address that nothing listens on.
func unusedAddr(t *testing.T) string {
	t.Helper()
	var network net.ListenConfig
	listener, err := network.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// startOrigin starts a public origin: one that answers a signed callback without a payload as ours does, when the status
// is 200, and else a server that answers with that status.
func startOrigin(t *testing.T, status int) string {
	t.Helper()
	env := environ()
	verifier, err := qstash.NewVerifier(qstash.VerifierConfig{
		CurrentKey: env["QSTASH_CURRENT_SIGNING_KEY"], NextKey: env["QSTASH_NEXT_SIGNING_KEY"], Now: time.Now,
	})
	require.NoError(t, err)
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		switch {
		case status != http.StatusOK:
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		case err == nil && verifier.Verify(r.Header.Get(qstash.HeaderSignature), body, server.URL+r.URL.RequestURI()) == nil:
			w.WriteHeader(qstash.StatusNonRetryable)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}
