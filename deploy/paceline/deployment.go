package main

import (
	"cmp"
	"errors"
	"maps"
	"net/url"
	"path/filepath"
)

// errNoDeployment is a command that speaks to a deployment, where nothing says to which.
var errNoDeployment = errors.New("no deployment is named: in a shell, read the environment file of your `paceline up` (\". DATA/" +
	environFile + "\"), set PUBLIC_BASE_URL and API_JWT_SECRET or PACELINE_API_TOKEN as the deployment has them, or give --url")

// deploymentEnviron returns the environment of the deployment that a command speaks to: the `paceline up` in the folder data where one
// is given, else what the shell has where it names a deployment, else the `paceline up` in the usual folder. What the shell has besides,
// such as a token for /v1, stays.
func deploymentEnviron(shell map[string]string, data string) (map[string]string, error) {
	if data == "" && shell["PUBLIC_BASE_URL"] != "" {
		return shell, nil
	}
	folder := data
	if folder == "" {
		var err error
		if folder, err = defaultData(); err != nil {
			return shell, err
		}
	}
	up, err := readEnviron(folder)
	switch {
	case err == nil:
		environ := maps.Clone(shell)
		if environ == nil {
			environ = map[string]string{}
		}
		maps.Copy(environ, up)
		return environ, nil
	case data != "":
		return shell, errors.New("no paceline up runs with --data " + data + ": " + filepath.Join(data, environFile) + " is not there")
	}
	return shell, nil
}

// gatewayAt returns the origin of the gateway that a command speaks to: the one asked for, or that of the deployment.
func gatewayAt(asked string, environ map[string]string) (*url.URL, error) {
	origin := cmp.Or(asked, environ["PUBLIC_BASE_URL"])
	if origin == "" {
		return nil, errNoDeployment
	}
	where, err := url.Parse(origin)
	if err != nil || where.Host == "" {
		return nil, errors.New(origin + " is no origin of a gateway; it is like https://texts.example.com")
	}
	return where, nil
}
