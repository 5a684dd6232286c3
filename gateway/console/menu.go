package console

import (
	"strings"

	"paceline.internal/platform/rpc"
)

// menuEntry is a page of the menu.
type menuEntry struct {
	Path, Title, Icon string

	Begins bool // a group of pages
	Here   bool
}

// Menu is the pages that the reader may see.
func (f frame) Menu() []menuEntry {
	menu := []menuEntry{
		{Path: root + "/inbox", Title: "inbox.title", Icon: "inbox"},
		{Path: root, Title: "overview.title", Icon: "overview"},
		{Path: root + "/needs", Title: "needs.title", Icon: "needs"},
		{Path: root + "/people", Title: "people.title", Icon: "people"},
		{Path: root + "/goals", Title: "goals.title", Icon: "goals"},
		{Path: root + "/flows", Title: "flows.title", Icon: "flow", Begins: true},
		{Path: root + "/engagement", Title: "engagement.title", Icon: "engagement"},
		{Path: root + "/queues", Title: "queues.title", Icon: "queues", Begins: true},
		{Path: root + "/ledger", Title: "menu.ledger", Icon: "ledger"},
		{Path: root + "/audit", Title: "audit.title", Icon: "audit"},
	}
	if f.handsets {
		menu = append(menu, menuEntry{Path: root + "/handsets", Title: "handsets.title", Icon: "handsets"})
	}
	at := f.Path
	if f.Who.Role == rpc.RoleUser {
		if at == root { // where a person begins
			at = root + "/goals"
		}
		menu = []menuEntry{
			{Path: root + "/goals", Title: "goals.title", Icon: "goals"}, {Path: root + "/me", Title: "me.title", Icon: "settings"},
		}
	}
	for i := range menu {
		menu[i].Here = at == menu[i].Path || menu[i].Path != root && strings.HasPrefix(at, menu[i].Path+"/") ||
			menu[i].Title == "inbox.title" && at == root+"/replies" || menu[i].Title == "flows.title" && at == root+"/flow"
	}
	return menu
}
