package rpc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"paceline.internal/platform/config"
)

// TLSFiles is the part of every process's environment that turns on mutual TLS between the processes.
type TLSFiles struct {
	Cert string `env:"GRPC_TLS_CERT_FILE" help:"this process's certificate for mTLS, PEM"`
	Key  string `env:"GRPC_TLS_KEY_FILE"  help:"its private key, PEM"`
	CA   string `env:"GRPC_TLS_CA_FILE"   help:"the authority of all processes' certificates, PEM"`
}

// Validate insists on all three files or none: half a configuration must not mean plain text.
func (f *TLSFiles) Validate() error {
	given := f.Cert != "" || f.Key != "" || f.CA != ""
	if given && (f.Cert == "" || f.Key == "" || f.CA == "") {
		return &config.Problem{
			Variable: "GRPC_TLS_CERT_FILE, GRPC_TLS_KEY_FILE and GRPC_TLS_CA_FILE",
			Reason:   "must all be set, or none",
			Help:     "mTLS between the processes",
		}
	}
	return nil
}

// TLS is one process's side of mutual TLS as server and as client; both are nil for plain text.
type TLS struct {
	Server *tls.Config
	Client *tls.Config
}

// LoadTLS reads the files. Both sides speak TLS 1.3 only and accept no peer but one with a certificate of the CA; a
// client also checks the certificate against the host that it dials. Without files the result is plain text.
func LoadTLS(files TLSFiles) (TLS, error) {
	if err := files.Validate(); err != nil {
		return TLS{}, err
	}
	if files.Cert == "" {
		return TLS{}, nil
	}
	certificate, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return TLS{}, fmt.Errorf("GRPC_TLS_CERT_FILE and GRPC_TLS_KEY_FILE: %w", err)
	}
	pem, err := os.ReadFile(files.CA)
	if err != nil {
		return TLS{}, fmt.Errorf("GRPC_TLS_CA_FILE: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return TLS{}, errors.New("GRPC_TLS_CA_FILE: no certificate in the file")
	}
	return TLS{
		Server: &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: []tls.Certificate{certificate},
			ClientCAs:    authorities,
			ClientAuth:   tls.RequireAndVerifyClientCert,
		},
		Client: &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: []tls.Certificate{certificate},
			RootCAs:      authorities,
		},
	}, nil
}
