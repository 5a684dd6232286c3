package chaos

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"paceline.internal/deploy/stack"
)

// ErrNoNginx is a machine without nginx.
var ErrNoNginx = errors.New("nginx is not installed; on Debian: apt-get install nginx-light")

const (
	// nginxName is the name that the documented configuration has.
	nginxName = "paceline.example.com"
	// nginxFile is the documented configuration, from the folder of the repository.
	nginxFile = "deploy/proxy/nginx.conf"
	// handover is the time that nginx has after a reload until its old workers ask nobody anew; docs/deploy.md has a longer one.
	handover = time.Second
)

// nginx runs with the documented configuration. Only what an operator has to fill in differs, and where its files are.
type nginx struct {
	program, dir, addr, conf string
	cmd                      *exec.Cmd
}

func openNginx(ctx context.Context, dir string, gateways []string) (n *nginx, err error) {
	n = &nginx{dir: filepath.Join(dir, "nginx")}
	if n.program, err = exec.LookPath("nginx"); err != nil {
		if n.program, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			return nil, ErrNoNginx
		}
	}
	ports, err := stack.FreePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	n.addr = ports[0]
	documented, err := readUp(nginxFile)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(n.dir, 0o711); err != nil { //nolint:gosec // its workers run as another user when we are root
		return nil, err
	}
	if err := writeCertificate(n.dir); err != nil {
		return nil, err
	}
	n.conf = strings.NewReplacer(
		"listen 443 ", "listen "+n.addr+" ", "server_name "+nginxName, "server_name "+nginxName+" 127.0.0.1",
		"/etc/nginx/tls/", n.dir+"/", "/run/nginx.pid", n.dir+"/pid", "/var/log/nginx/", n.dir+"/",
		"default_type application/octet-stream;", "client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; "+
			"uwsgi_temp_path uwsgi; scgi_temp_path scgi; default_type application/octet-stream;",
	).Replace(documented)
	if err := n.write(gateways); err != nil {
		return nil, err
	}
	n.cmd = exec.Command(n.program, "-p", n.dir, "-c", "nginx.conf", "-g", "daemon off;") //nolint:noctx,gosec // close ends nginx
	output, err := os.Create(filepath.Join(n.dir, "output"))
	if err != nil {
		return nil, err
	}
	n.cmd.Stdout, n.cmd.Stderr = output, output
	return n, errors.Join(n.cmd.Start(), output.Close())
}

// readUp reads a file of the repository from any folder in it.
func readUp(name string) (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		text, readErr := os.ReadFile(filepath.Join(dir, name))
		if readErr == nil || dir == filepath.Dir(dir) {
			return string(text), readErr
		}
	}
	return "", err
}

// gatewayLine is the line of a replica in the upstream of the gateways.
var gatewayLine = regexp.MustCompile(`(?m)^\t\tserver 127\.0\.0\.1:8080( [^;]*)?;.*\n`)

func (n *nginx) write(gateways []string) error {
	var lines strings.Builder
	for _, to := range gateways {
		_, _ = fmt.Fprintf(&lines, "\t\tserver %s$1;\n", to) // a builder has no error
	}
	if !gatewayLine.MatchString(n.conf) {
		return fmt.Errorf("%s has no line of a gateway", nginxFile)
	}
	return os.WriteFile(filepath.Join(n.dir, "nginx.conf"), []byte(gatewayLine.ReplaceAllString(n.conf, lines.String())), 0o600)
}

// lead has nginx ask these gateways, as an operator does, and returns when it asks no other one.
func (n *nginx) lead(ctx context.Context, gateways []string) error {
	if err := n.write(gateways); err != nil {
		return err
	}
	reload := exec.CommandContext(ctx, n.program, "-p", n.dir, "-c", "nginx.conf", "-s", "reload") //nolint:gosec // it is nginx
	if output, err := reload.CombinedOutput(); err != nil {
		return fmt.Errorf("reload nginx: %w: %s", err, output)
	}
	pause(ctx, handover)
	return nil
}

func (n *nginx) close() error {
	if n.cmd == nil || n.cmd.Process == nil {
		return nil
	}
	return errors.Join(n.cmd.Process.Signal(os.Interrupt), n.cmd.Wait())
}

// writeCertificate writes the certificate of nginxName and its key, by no authority.
func writeCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now() //nolint:forbidigo // certificates are on the machine's clock
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{nginxName}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
	}
	certificate, certErr := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	private, keyErr := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(certErr, keyErr); err != nil {
		return err
	}
	for name, block := range map[string]*pem.Block{
		"paceline.crt": {Type: "CERTIFICATE", Bytes: certificate}, "paceline.key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
	}
	return nil
}
