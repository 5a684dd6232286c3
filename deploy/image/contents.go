package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"strings"
)

// component is a part of a binary, as CycloneDX has it.
type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl,omitempty"`
}

// contents lists what a binary was built from, as the compiler wrote it down in the binary: its modules and the standard library. Our own
// modules are of this repository and have no version of their own.
func contents(service, binary string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	version := strings.TrimPrefix(info.GoVersion, "go")
	parts := []component{{Type: "library", Name: "std", Version: version, PURL: "pkg:golang/std@" + version}}
	for _, module := range info.Deps {
		if strings.HasPrefix(module.Path, "paceline.internal/") {
			continue
		}
		used := cmp.Or(module.Replace, module)
		parts = append(parts, component{
			Type: "library", Name: used.Path, Version: used.Version, PURL: "pkg:golang/" + used.Path + "@" + used.Version,
		})
	}
	return json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata":   map[string]any{"component": component{Type: "application", Name: "paceline/" + service}},
		"components": parts,
	}, "", "  ")
}
