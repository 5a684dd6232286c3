package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/flow/studio"
)

// flowImportCommand turns a flow of another product into files.
type flowImportCommand struct {
	File     string `arg:"" type:"existingfile" help:"A flow definition of Twilio Studio, as Show Flow JSON exports it."`
	To       string `help:"The folder to write; by default the name of the flow."`
	Name     string `help:"The name of the flow; by default that of the file."`
	Language string `default:"en" help:"The language of its texts, such as pt-BR."`
}

var (
	unnamed = regexp.MustCompile(`[^a-z0-9]+`)
	written = regexp.MustCompile(`^[a-z]{2,3}(-[A-Z]{2})?$`)
)

// Help returns the text of --help after the first line.
func (c *flowImportCommand) Help() string {
	return "It writes flow.yaml and the file of texts, and lists each widget that is not carried over, or not as it was. " +
		"Then it checks the flow as paceline flow check does."
}

// Run writes the folder, lists what is left, and checks the flow.
func (c *flowImportCommand) Run(t terminal) error {
	name := c.Name
	if name == "" {
		base := strings.TrimSuffix(filepath.Base(c.File), filepath.Ext(c.File))
		name = strings.Trim(unnamed.ReplaceAllString(strings.ToLower(base), "_"), "_")
	}
	if !flow.IsName(name) {
		return fmt.Errorf("%q is no name of a flow; give --name with 1 to 40 of a-z, 0-9 and _, a letter first", name)
	}
	if !written.MatchString(c.Language) {
		return fmt.Errorf("--language %s: write a language such as en or pt-BR", c.Language)
	}
	source, err := readBounded(c.File, studio.MaxBytes)
	if err != nil {
		return err
	}
	imported, err := studio.Import(source, name, c.Language)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	dir := cmp.Or(c.To, name)
	if err := writeNew(dir, "--to", imported.Files); err != nil {
		return err
	}
	fmt.Fprintf(t.out, "%s: written from %s\n", dir, c.File)
	if len(imported.Left) > 0 {
		fmt.Fprintln(t.out, "\nNot carried over, or not as it was:")
	}
	for _, left := range imported.Left {
		fmt.Fprintln(t.out, "  "+left.String())
	}
	fmt.Fprintln(t.out)
	err = flowCheckCommand{flowFolder{Dir: dir}}.Run(t)
	if problems, wrong := errors.AsType[flow.Problems](err); wrong {
		return fmt.Errorf("the flow is not in order yet; mend it in %s and run paceline flow check:\n%w", dir, problems)
	}
	return err
}

// readBounded reads a file that has at most limit bytes, and one more of a longer one, which its reader refuses.
func readBounded(path string, limit int64) (content []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return io.ReadAll(io.LimitReader(file, limit+1))
}

// writeNew writes files into a folder that has none of them, readable by their owner only. flag names another folder.
func writeNew(dir, flag string, files map[string]string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	for name := range files {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("%s is there already; give another folder with %s", filepath.Join(dir, name), flag)
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
