package console

import (
	"strings"

	"paceline.internal/platform/rpc"
)

// menuEntry is a page of the menu.
type menuEntry struct {
	Path, Title string
	Here        bool
}

// Menu is the pages that the reader may see.
func (f frame) Menu() []menuEntry {
	menu := []menuEntry{
		{Path: root, Title: "overview.title"},
		{Path: root + "/needs", Title: "needs.title"},
		{Path: root + "/people", Title: "people.title"},
		{Path: root + "/goals", Title: "goals.title"},
		{Path: root + "/queues", Title: "queues.title"},
		{Path: root + "/engagement", Title: "engagement.title"},
		{Path: root + "/flow", Title: "menu.script"},
		{Path: root + "/ledger", Title: "menu.ledger"},
		{Path: root + "/audit", Title: "audit.title"},
	}
	if f.handsets {
		menu = append(menu, menuEntry{Path: root + "/handsets", Title: "handsets.title"})
	}
	at := f.Path
	if f.Who.Role == rpc.RoleUser {
		if at == root { // where a person begins
			at = root + "/goals"
		}
		menu = []menuEntry{{Path: root + "/goals", Title: "goals.title"}, {Path: root + "/me", Title: "me.title"}}
	}
	for i := range menu {
		menu[i].Here = at == menu[i].Path || menu[i].Path != root && strings.HasPrefix(at, menu[i].Path+"/")
	}
	return menu
}
