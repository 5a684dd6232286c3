package rpc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
)

// authority signs certificates for 127.0.0.1.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	dir         string
	now         time.Time
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	now := time.Now
	a := authority{dir: t.TempDir(), now: now()}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: a.now.Add(-time.Hour), NotAfter: a.now.Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	require.NoError(t, err)
	a.certificate, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	writePEM(t, filepath.Join(a.dir, "ca.pem"), "CERTIFICATE", der)
	return a
}

// issue writes a certificate and its key for a process at the address.
func (a authority) issue(t *testing.T, ip net.IP) rpc.TLSFiles {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), IPAddresses: []net.IP{ip}, NotBefore: a.now.Add(-time.Hour), NotAfter: a.now.Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	files := rpc.TLSFiles{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), CA: filepath.Join(a.dir, "ca.pem")}
	writePEM(t, files.Cert, "CERTIFICATE", der)
	writePEM(t, files.Key, "PRIVATE KEY", keyDER)
	return files
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func TestTLS(t *testing.T) {
	t.Parallel()
	local, ours := net.IPv4(127, 0, 0, 1), newAuthority(t)
	load := func(t *testing.T, files rpc.TLSFiles) rpc.TLS {
		t.Helper()
		loaded, err := rpc.LoadTLS(files)
		require.NoError(t, err)
		return loaded
	}
	server := load(t, ours.issue(t, local))

	for _, tc := range []struct {
		name   string
		client func(*testing.T) *tls.Config
		want   codes.Code
	}{
		{
			name: "ProcessesOfOneAuthorityTalk", want: codes.OK,
			client: func(t *testing.T) *tls.Config { t.Helper(); return load(t, ours.issue(t, local)).Client },
		},
		{
			name: "AClientOfAnotherAuthorityIsRefused", want: codes.Unavailable,
			client: func(t *testing.T) *tls.Config {
				t.Helper()
				foreign := load(t, newAuthority(t).issue(t, local)).Client
				foreign.RootCAs = server.Client.RootCAs // it trusts us, we do not trust it
				return foreign
			},
		},
		{
			name: "AClientWithoutCertificateIsRefused", want: codes.Unavailable,
			client: func(*testing.T) *tls.Config {
				return &tls.Config{RootCAs: server.Client.RootCAs, MinVersion: tls.VersionTLS13}
			},
		},
		{
			name: "AClientRefusesAnotherAuthoritysServer", want: codes.Unavailable,
			client: func(t *testing.T) *tls.Config { t.Helper(); return load(t, newAuthority(t).issue(t, local)).Client },
		},
		{
			name: "AnOlderProtocolIsRefused", want: codes.Unavailable,
			client: func(t *testing.T) *tls.Config {
				t.Helper()
				old := load(t, ours.issue(t, local)).Client
				old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
				return old
			},
		},
		{
			name: "PlainTextIsRefused", want: codes.Unavailable,
			client: func(*testing.T) *tls.Config { return nil },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, repeat, func(cfg *rpc.ServerConfig) { cfg.TLS = server.Server })
			_, err := call(t.Context(), b.dial(func(cfg *rpc.ClientConfig) { cfg.TLS = tc.client(t) }), echo, "hi")
			require.Equal(t, tc.want, status.Code(err), "%v", err)
		})
	}

	t.Run("AClientRefusesAServerAtAnotherAddress", func(t *testing.T) {
		t.Parallel()
		elsewhere := load(t, ours.issue(t, net.IPv4(10, 0, 0, 1)))
		b := setup(t, repeat, func(cfg *rpc.ServerConfig) { cfg.TLS = elsewhere.Server })
		_, err := call(t.Context(), b.dial(func(cfg *rpc.ClientConfig) { cfg.TLS = server.Client }), echo, "hi")
		require.Equal(t, codes.Unavailable, status.Code(err))
	})

	t.Run("NoFilesMeanPlainText", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, rpc.TLS{}, load(t, rpc.TLSFiles{}))
	})

	t.Run("SomeFilesAreAProblem", func(t *testing.T) {
		t.Parallel()
		for _, some := range []rpc.TLSFiles{
			{Cert: "c"}, {Key: "k"}, {CA: "a"}, {Cert: "c", Key: "k"}, {Cert: "c", CA: "a"}, {Key: "k", CA: "a"},
		} {
			_, err := rpc.LoadTLS(some)
			var problem *config.Problem
			require.ErrorAs(t, err, &problem)
		}
		var c struct{ TLS rpc.TLSFiles }
		require.ErrorContains(t, config.Load(map[string]string{"GRPC_TLS_CA_FILE": "ca.pem"}, &c), "must all be set, or none")
	})

	t.Run("AFileThatCannotBeReadIsNamed", func(t *testing.T) {
		t.Parallel()
		good := ours.issue(t, local)
		empty := filepath.Join(t.TempDir(), "empty.pem")
		require.NoError(t, os.WriteFile(empty, nil, 0o600))
		for name, files := range map[string]rpc.TLSFiles{
			"GRPC_TLS_CERT_FILE":              {Cert: "/missing", Key: good.Key, CA: good.CA},
			"GRPC_TLS_CA_FILE":                {Cert: good.Cert, Key: good.Key, CA: "/missing"},
			"no certificate in the file":      {Cert: good.Cert, Key: good.Key, CA: empty},
			"and GRPC_TLS_KEY_FILE: tls: fai": {Cert: good.Cert, Key: empty, CA: good.CA},
		} {
			_, err := rpc.LoadTLS(files)
			require.ErrorContains(t, err, name)
		}
	})
}
