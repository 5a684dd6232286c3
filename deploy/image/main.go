// Command image builds the images of the services without a container engine: one static binary on a root file system with nothing but
// certificates and a user, as an OCI archive, and beside it the list of what is in it, in CycloneDX.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// certificates are those of the machine that builds, as its distribution keeps them.
const certificates = "/etc/ssl/certs/ca-certificates.crt"

// command is where a service is built from.
type command struct{ module, pkg string }

// commands are the services of the Dockerfile.
func commands() map[string]command {
	return map[string]command{
		"gateway":    {module: "gateway", pkg: "./cmd/gateway"},
		"onboarding": {module: "services/onboarding", pkg: "./cmd/onboarding"},
		"messaging":  {module: "services/messaging", pkg: "./cmd/messaging"},
		"paceline":   {module: "deploy", pkg: "./paceline"},
	}
}

func main() {
	root := flag.String("root", ".", "the root of the repository")
	to := flag.String("to", "images", "where SERVICE.tar and SERVICE.cdx.json are written")
	arch := flag.String("arch", "amd64", "amd64 or arm64")
	flag.Parse()
	services := flag.Args()
	if len(services) == 0 {
		services = []string{"gateway", "onboarding", "messaging", "paceline"}
	}
	for _, service := range services {
		if err := produce(*root, *to, service, *arch); err != nil {
			fmt.Fprintf(os.Stderr, "image: %s: %v\n", service, err)
			os.Exit(1)
		}
	}
}

// produce builds one service, its image and its list.
func produce(root, to, service, arch string) error {
	from, ok := commands()[service]
	if !ok {
		return errors.New("there is no such service; it is gateway, onboarding, messaging or paceline")
	}
	if err := os.MkdirAll(to, 0o750); err != nil {
		return err
	}
	to, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	binary := filepath.Join(to, service+".bin")
	defer os.Remove(binary)
	if err := build(filepath.Join(root, from.module), from.pkg, binary, arch); err != nil {
		return err
	}
	list, err := contents(service, binary)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(to, service+".cdx.json"), list, 0o644); err != nil { //nolint:gosec // it is for all to read
		return err
	}
	archive, digest, err := image(binary, arch)
	if err != nil {
		return err
	}
	fmt.Printf("%s %s\n", service, digest)                                 //nolint:forbidigo // its answer
	return os.WriteFile(filepath.Join(to, service+".tar"), archive, 0o644) //nolint:gosec // it is for all to read
}

// build makes the binary as the Dockerfile does.
func build(module, pkg, binary, arch string) error {
	flags := []string{"-C", module, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", binary, pkg}
	compile := exec.Command("go", flags...) //nolint:noctx // the user's to break off
	compile.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS=linux", "GOARCH="+arch)
	compile.Stderr = os.Stderr
	return compile.Run()
}
