package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"paceline.internal/emulators/clock"
)

// nginxServer is Debian's nginx with deploy/proxy/nginx.conf, in which only places are replaced.
type nginxServer struct {
	dir     string // with its files and logs
	addr    string
	trusted *x509.CertPool
	cmd     *exec.Cmd
	stderr  *strings.Builder
}

const (
	nginxFile = "deploy/proxy/nginx.conf"
	nginxName = "paceline.test" // in place of the file's, at which the gateway would refuse the emulators' published keys
)

// nginxBinary is where Debian installs it, which is in the PATH of root alone.
func nginxBinary() (string, error) {
	if found, err := exec.LookPath("nginx"); err == nil {
		return found, nil
	}
	if found, err := exec.LookPath("/usr/sbin/nginx"); err == nil {
		return found, nil
	}
	return "", &unavailableError{"nginx is not installed: apt-get install nginx-light"}
}

func nginxVersion(ctx context.Context, binary string) (string, error) {
	out, err := exec.CommandContext(ctx, binary, "-v").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("nginx -v: %w\n%s", err, out)
	}
	found := regexp.MustCompile(`nginx/(\S+)`).FindSubmatch(out)
	if found == nil {
		return "", fmt.Errorf("nginx -v says %q", out)
	}
	return string(found[1]), nil
}

// startNginx puts nginx in front of an upstream. It gets its port as a socket that is open already, as at an upgrade of its binary: so no
// other process can have the port, and a connection that is made early waits in the socket's queue.
func startNginx(ctx context.Context, binary, upstream string) (n *nginxServer, err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, listener.Close()) }() // nginx has its own copy by then
	dir, err := os.MkdirTemp("", "paceline-nginx-")
	if err != nil {
		return nil, err
	}
	n = &nginxServer{dir: dir, addr: listener.Addr().String(), stderr: &strings.Builder{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if err := errors.Join(n.certify(), n.configure(upstream)); err != nil {
		return nil, err
	}
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("no TCP listener: %T", listener)
	}
	socket, err := tcp.File()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, socket.Close()) }()
	conf, log := filepath.Join(dir, "nginx.conf"), filepath.Join(dir, "start.log")
	n.cmd = exec.CommandContext(ctx, binary, "-c", conf, "-e", log)
	n.cmd.Env = append(os.Environ(), "NGINX=3;") // the first of ExtraFiles is 3
	n.cmd.ExtraFiles, n.cmd.Stderr = []*os.File{socket}, n.stderr
	n.cmd.Cancel, n.cmd.WaitDelay = func() error { return n.cmd.Process.Signal(syscall.SIGTERM) }, 5*time.Second
	return n, n.cmd.Start()
}

// certify makes a certificate for the name.
func (n *nginxServer) certify() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := clock.System().Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{nginxName}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	n.trusted = x509.NewCertPool()
	n.trusted.AppendCertsFromPEM(public)
	return errors.Join(os.WriteFile(filepath.Join(n.dir, "tls.crt"), public, 0o600),
		os.WriteFile(filepath.Join(n.dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}

// configure writes the file with places of this machine.
func (n *nginxServer) configure(upstream string) error {
	content, err := os.ReadFile(nginxFile)
	if err != nil {
		return err
	}
	me, err := user.Current()
	if err != nil {
		return err
	}
	conf := string(content)
	var temporary strings.Builder
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temporary, "\n\t%s_temp_path %s/%s;", kind, n.dir, kind)
	}
	for old, here := range map[string]string{
		"user www-data;":                     "user " + me.Username + ";",
		"/run/nginx.pid":                     n.dir + "/pid",
		"/var/log/nginx/error.log":           n.dir + "/error.log",
		"/var/log/nginx/access.log":          n.dir + "/access.log",
		"/etc/nginx/tls/paceline.crt":        n.dir + "/tls.crt",
		"/etc/nginx/tls/paceline.key":        n.dir + "/tls.key",
		"server 127.0.0.1:8080;":             "server " + upstream + ";",
		"listen 443 ssl default_server;":     "listen " + n.addr + " ssl default_server;",
		"server_name paceline.example.com;":  "server_name " + nginxName + ";",
		"listen 443 ssl http2;":              "listen " + n.addr + " ssl http2;",
		"\tdefault_type application/octet-s": temporary.String()[1:] + "\n\tdefault_type application/octet-s",
	} {
		if strings.Count(conf, old) != 1 {
			return fmt.Errorf("%s has %q %d times", nginxFile, old, strings.Count(conf, old))
		}
		conf = strings.Replace(conf, old, here, 1)
	}
	return os.WriteFile(filepath.Join(n.dir, "nginx.conf"), []byte(conf), 0o600) //nolint:gosec // a folder that was made for it
}

// dial is a connection to nginx whatever the address, with TLS: so a client that knows the gateway's own origin comes through it.
func (n *nginxServer) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return n.dialFrom(ctx, network, "127.0.0.1", "http/1.1")
}

func (n *nginxServer) dialFrom(ctx context.Context, network, from string, protocols ...string) (net.Conn, error) {
	raw := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	return (&tls.Dialer{NetDialer: raw, Config: &tls.Config{
		RootCAs: n.trusted, ServerName: nginxName, NextProtos: protocols, MinVersion: tls.VersionTLS12,
	}}).DialContext(ctx, network, n.addr)
}

// client calls nginx by its name, as a stranger.
func (n *nginxServer) client() *http.Client {
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return n.dialFrom(ctx, network, stranger, "http/1.1")
	}
	return &http.Client{Transport: &http.Transport{DisableCompression: true, DialTLSContext: dial}}
}

// log is what nginx has written down.
func (n *nginxServer) log() (string, error) {
	access, err := os.ReadFile(filepath.Join(n.dir, "access.log"))
	problems, missing := os.ReadFile(filepath.Join(n.dir, "error.log"))
	return string(access) + string(problems), errors.Join(err, missing)
}

// close ends it. Its own exit status says nothing: a signal ended it.
func (n *nginxServer) close() error {
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	err := n.cmd.Wait()
	if err != nil {
		err = fmt.Errorf("nginx: %w\n%s", err, n.stderr)
	}
	return errors.Join(err, os.RemoveAll(n.dir))
}
