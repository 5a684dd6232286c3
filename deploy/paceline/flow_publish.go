package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"paceline.internal/deploy/operator"
)

// flowPushCommand publishes a flow.
type flowPushCommand struct {
	flowFolder
	apiFlags
}

// Help returns the text of --help after the first line.
func (c *flowPushCommand) Help() string {
	return "It sends flow.yaml and the other .yaml files of the folder. New sessions of the flow get them from then on; a session that has " +
		"begun stays on its version. It takes an operator's token, as paceline events does."
}

// Run publishes the folder.
func (c *flowPushCommand) Run(ctx context.Context, t terminal) error {
	files, err := flowFiles(os.DirFS(c.Dir))
	if err != nil {
		return err
	}
	return c.publish(ctx, t, files)
}

// flowFiles reads what is sent of the folder of a flow.
func flowFiles(folder fs.FS) (map[string]string, error) {
	names, err := fs.Glob(folder, "*.yaml")
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, name := range names {
		if strings.HasPrefix(name, ".") { // an editor's own file
			continue
		}
		text, err := readFile(folder, name)
		if err != nil {
			return nil, err
		}
		if !utf8.Valid(text) { // JSON would change it
			return nil, fmt.Errorf("%s: the file is not in UTF-8; save it as UTF-8", name)
		}
		files[name] = string(text)
	}
	return files, nil
}

// maxFlowFile bounds a file of a flow: a deployment takes no longer ones.
const maxFlowFile = 1 << 20

// readFile reads a file of a flow, but not one that is too long.
func readFile(folder fs.FS, name string) (text []byte, err error) {
	file, err := folder.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	text, err = io.ReadAll(io.LimitReader(file, maxFlowFile+1))
	if err == nil && len(text) > maxFlowFile {
		err = fmt.Errorf("%s: the file is too long; at most %d bytes are read", name, maxFlowFile)
	}
	return text, err
}

// publish sends files, and prints which version is current then.
func (f apiFlags) publish(ctx context.Context, t terminal, files map[string]string) error {
	api, err := f.client(ctx, t)
	if err != nil {
		return err
	}
	said, err := pushFlow(ctx, api, files)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.out, said)
	return err
}

// pushFlow publishes files, and returns a line about the version that is current then.
func pushFlow(ctx context.Context, api *operator.Client, files map[string]string) (string, error) {
	var done struct {
		Version        flowVersion `json:"version"`
		Created        bool        `json:"created"`
		AlreadyCurrent bool        `json:"already_current"`
	}
	if err := callFlows(ctx, api, http.MethodPost, "/v1/flows", map[string]any{"files": files}, &done); err != nil {
		return "", err
	}
	said := "is current again"
	switch {
	case done.AlreadyCurrent:
		said = "is already current; nothing changed"
	case done.Created:
		said = "is published and current"
	}
	return fmt.Sprintf("%s: version %s %s", done.Version.Flow, done.Version.Version, said), nil
}

// client speaks to the deployment of the flags.
func (f apiFlags) client(ctx context.Context, t terminal) (*operator.Client, error) {
	gateway, token, err := f.reach(ctx, t)
	if err != nil {
		return nil, err
	}
	return &operator.Client{
		BaseURL: strings.TrimSuffix(gateway.String(), "/"), Token: token, HTTP: &http.Client{Timeout: 30 * time.Second},
	}, nil
}

// call makes one call of /v1.
func (f apiFlags) call(ctx context.Context, t terminal, method, path string, in, out any) error {
	api, err := f.client(ctx, t)
	if err != nil {
		return err
	}
	return callFlows(ctx, api, method, path, in, out)
}

// callFlows makes one call of /v1. What is wrong with the files of a flow is an error with a line for each problem.
func callFlows(ctx context.Context, api *operator.Client, method, path string, in, out any) error {
	err := api.Call(ctx, method, path, in, out)
	answered, refused := errors.AsType[*operator.StatusError](err)
	if !refused {
		return err
	}
	var said struct {
		Details []struct {
			Violations []struct {
				Field       string `json:"field"`
				Description string `json:"description"`
			} `json:"field_violations"`
		} `json:"details"`
	}
	if json.Unmarshal([]byte(answered.Answer), &said) != nil {
		return err
	}
	var lines []string
	for _, detail := range said.Details {
		for _, v := range detail.Violations {
			lines = append(lines, v.Field+": "+v.Description)
		}
	}
	if len(lines) == 0 {
		return errors.New(messageOf(answered))
	}
	return errors.New(strings.Join(lines, "\n"))
}

// flowVersion is a version of a flow as /v1 shows it.
type flowVersion struct {
	Flow        string    `json:"flow"`
	Version     string    `json:"version"`
	Current     bool      `json:"current"`
	PublishedAt time.Time `json:"published_at"`
	PublishedBy *struct {
		Subject string `json:"subject"`
	} `json:"published_by"`
}

// flowListCommand lists flows, or the versions of one.
type flowListCommand struct {
	apiFlags

	Flow string `arg:"" optional:"" help:"List the versions of this flow, the last published first."`
}

// Run prints a line for each.
func (c *flowListCommand) Run(ctx context.Context, t terminal) error {
	var listed struct {
		Flows    []flowVersion `json:"flows"`
		Versions []flowVersion `json:"versions"`
	}
	path := "/v1/flows"
	if c.Flow != "" {
		path += "/" + url.PathEscape(c.Flow) + "/versions?page_size=500"
	}
	if err := c.call(ctx, t, http.MethodGet, path, nil, &listed); err != nil {
		return err
	}
	if c.Flow != "" && len(listed.Versions) == 0 {
		return fmt.Errorf("no flow %q is published; paceline flow list names those that are", c.Flow)
	}
	table := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	for _, v := range append(listed.Flows, listed.Versions...) {
		mark, by := "", ""
		if v.Current {
			mark = "current"
		}
		if v.PublishedBy != nil {
			by = v.PublishedBy.Subject
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", v.Flow, v.Version, v.PublishedAt.UTC().Format(time.RFC3339), by, mark)
	}
	return table.Flush()
}

// flowRollbackCommand publishes an older version again.
type flowRollbackCommand struct {
	apiFlags

	Flow    string `arg:"" help:"The name of the flow."`
	Version string `arg:"" help:"The version that is to be current again; paceline flow list FLOW lists them."`
}

// Run reads the files of the version and publishes them.
func (c *flowRollbackCommand) Run(ctx context.Context, t terminal) error {
	var older struct {
		Files map[string]string `json:"files"`
	}
	path := "/v1/flows/" + url.PathEscape(c.Flow) + "/versions/" + url.PathEscape(c.Version)
	if err := c.call(ctx, t, http.MethodGet, path, nil, &older); err != nil {
		return err
	}
	return c.publish(ctx, t, older.Files)
}
