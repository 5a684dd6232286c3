// Package stack brings the whole product up in one process: the three services, over real gRPC and HTTP, with QStash and
// Twilio played by their emulators. The command, and every test of the whole, stand on it.
package stack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"time"

	"paceline.internal/emulators/clock"
	"paceline.internal/emulators/loopback"
	"paceline.internal/emulators/qstash"
	"paceline.internal/emulators/twilio"
)

// The first account that the Twilio emulator plays. Its numbers are of the range reserved for fiction.
const (
	accountSID = "ACfeedfacefeedfacefeedfacefeedface"
	// AuthToken signs what the emulated Twilio posts.
	AuthToken = "0123456789abcdef0123456789abcdef"
	// What messaging calls with, as deploy/compose/secrets.sh has it.
	apiKeySID    = "SKfeedfacefeedfacefeedfacefeedface" //nolint:gosec // of the emulator
	apiKeySecret = "fedcba9876543210fedcba9876543210"
	// FromNumber is the number that texts come from and go to.
	FromNumber = "+12025550100"
)

// Second is another account that the Twilio emulator plays: no variable has it, a sender over /v1 may.
func Second() twilio.Account {
	return twilio.Account{
		SID: "ACdecafdecafdecafdecafdecafdecafde", AuthToken: "89abcdef0123456789abcdef01234567",
		APIKeys: map[string]string{"SKdecafdecafdecafdecafdecafdecafde": "76543210fedcba9876543210fedcba98"},
		Numbers: []string{"+12025550180"}, Services: map[string][]string{"MGdecafdecafdecafdecafdecafdecafde": {"+12025550181", "+12025550182"}},
	}
}

// VendorConfig sets the behaviour of the vendors.
type VendorConfig struct {
	Clock    clock.Clock
	Log      *slog.Logger
	OnTwilio func(twilio.Event) // told of everything that happens at Twilio; may be nil
	OnQStash func(qstash.Event) // and at QStash
	// QStashListener and TwilioListener replace free ports on the loopback when they are not nil.
	QStashListener, TwilioListener net.Listener
	// WithoutQStash leaves QStash out: it has no URL, and Environ names none.
	WithoutQStash bool
	// DialQStash and DialTwilio connect each of them to the services; nil connects directly.
	DialQStash, DialTwilio Dial
}

// Dial connects to an address, as net.Dialer does.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

// Vendors are the emulators, served over HTTP. They outlive the services, as the real ones do.
type Vendors struct {
	QStash    *qstash.Emulator
	Twilio    *twilio.Emulator
	QStashURL string
	TwilioURL string

	clock   clock.Clock
	calls   []*http.Client // of the services, by each of them
	servers []*http.Server
	served  chan error
}

// maxCalls is the number of connections to the gateway that each vendor keeps.
const maxCalls = 64

// StartVendors serves the emulators until Stop.
func StartVendors(ctx context.Context, cfg VendorConfig) (*Vendors, error) {
	twilioListener, err := listen(ctx, cfg.TwilioListener, "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	rings, posts := client(cfg.DialQStash), client(cfg.DialTwilio)
	carrier, err := twilio.New(twilio.Config{
		Clock: cfg.Clock, AccountSID: accountSID, AuthToken: AuthToken, Numbers: []string{FromNumber},
		APIKeys: map[string]string{apiKeySID: apiKeySecret}, Others: []twilio.Account{Second()},
		HTTPClient: posts, OnEvent: cfg.OnTwilio, Log: cfg.Log,
	})
	if err != nil {
		return nil, errors.Join(err, twilioListener.Close())
	}
	v := &Vendors{
		QStash: qstash.New(qstash.Config{Clock: cfg.Clock, HTTPClient: rings, OnEvent: cfg.OnQStash}),
		Twilio: carrier, calls: []*http.Client{rings, posts},
		TwilioURL: "http://" + twilioListener.Addr().String(), clock: cfg.Clock, served: make(chan error, 2),
	}
	if !cfg.WithoutQStash {
		qstashListener, err := listen(ctx, cfg.QStashListener, "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, twilioListener.Close())
		}
		v.QStashURL = "http://" + qstashListener.Addr().String()
		v.serve(v.QStash, qstashListener)
	}
	v.serve(withPhones(v), twilioListener)
	return v, nil
}

func client(dial Dial) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: maxCalls, DisableCompression: true}}
}

func (v *Vendors) serve(handler http.Handler, listener net.Listener) {
	server := &http.Server{
		Handler: loopback.Guard(handler), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: time.Minute,
	}
	v.servers = append(v.servers, server)
	go func() {
		err := server.Serve(listener)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		v.served <- err
	}()
}

// Stop ends the emulators: deliveries in flight are finished as long as ctx lasts.
func (v *Vendors) Stop(ctx context.Context) error {
	problems := []error{v.QStash.Shutdown(ctx), v.Twilio.Shutdown(ctx)}
	for _, server := range v.servers {
		if err := server.Shutdown(ctx); err != nil {
			problems = append(problems, server.Close())
		}
		problems = append(problems, <-v.served)
	}
	v.HangUp()
	return errors.Join(problems...)
}

// HangUp closes the connections that no call uses. net/http waits five seconds for one on which nothing was ever asked,
// and pools open more of those than one would think.
func (v *Vendors) HangUp() {
	for _, calls := range v.calls {
		calls.CloseIdleConnections()
	}
}

// Idle waits until neither vendor has anything in flight or due now.
func (v *Vendors) Idle(ctx context.Context) error {
	return errors.Join(v.QStash.Idle(ctx), v.Twilio.Idle(ctx))
}

// Environ returns the variables by which a service reaches the vendors.
func (v *Vendors) Environ() map[string]string {
	environ := Credentials()
	environ["QSTASH_URL"], environ["TWILIO_API_URL"], environ["CONSOLE_HANDSETS_URL"] = v.QStashURL, v.TwilioURL, v.TwilioURL
	if v.QStashURL == "" {
		maps.DeleteFunc(environ, func(name, _ string) bool { return strings.HasPrefix(name, "QSTASH_") })
		environ["ALARMS"] = "postgres"
	}
	return environ
}

// Credentials returns the credentials of the emulated accounts, as variables of the environment.
func Credentials() map[string]string {
	return map[string]string{
		"QSTASH_TOKEN":               qstash.DevToken,
		"QSTASH_CURRENT_SIGNING_KEY": qstash.DevCurrentKey,
		"QSTASH_NEXT_SIGNING_KEY":    qstash.DevNextKey,
		"TWILIO_ACCOUNT_SID":         accountSID,
		"TWILIO_AUTH_TOKEN":          AuthToken,
		"TWILIO_API_KEY_SID":         apiKeySID,
		"TWILIO_API_KEY_SECRET":      apiKeySecret,
		"TWILIO_FROM_NUMBER":         FromNumber,
	}
}

func listen(ctx context.Context, given net.Listener, addr string) (net.Listener, error) {
	if given != nil {
		return given, nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return listener, nil
}
