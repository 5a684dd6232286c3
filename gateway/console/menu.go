package console

import (
	"slices"
	"strings"

	"paceline.internal/platform/rpc"
)

// menuGroup is pages of the menu that belong together.
type menuGroup struct {
	Title string // empty for a menu of one group
	Pages []menuEntry
}

// menuEntry is a page of the menu.
type menuEntry struct {
	Path, Title, Icon string

	Here bool
}

// Menu returns the pages that the reader may see.
func (f frame) Menu() []menuGroup {
	menu := []menuGroup{
		{Title: "menu.work", Pages: []menuEntry{
			{Path: root + "/inbox", Title: "inbox.title", Icon: "inbox"},
			{Path: root, Title: "overview.title", Icon: "overview"},
			{Path: root + "/needs", Title: "needs.title", Icon: "needs"},
			{Path: root + "/people", Title: "people.title", Icon: "people"},
			{Path: root + "/goals", Title: "goals.title", Icon: "goals"},
		}},
		{Title: "menu.conversations", Pages: []menuEntry{
			{Path: root + "/flows", Title: "flows.title", Icon: "flow"},
			{Path: root + "/runs", Title: "runs.title", Icon: "send"},
			{Path: root + "/engagement", Title: "engagement.title", Icon: "engagement"},
		}},
		{Title: "menu.operate", Pages: []menuEntry{
			{Path: root + "/queues", Title: "queues.title", Icon: "queues"},
			{Path: root + "/ledger", Title: "menu.ledger", Icon: "ledger"},
			{Path: root + "/audit", Title: "audit.title", Icon: "audit"},
			{Path: root + "/import", Title: "import.title", Icon: "import"},
			{Path: root + "/subscriptions", Title: "subscriptions.title", Icon: "subscriptions"},
			{Path: root + "/devices", Title: "devices.title", Icon: "devices"},
			{Path: root + "/senders", Title: "senders.title", Icon: "send"},
			{Path: root + "/keys", Title: "keys.title", Icon: "key"},
			{Path: root + "/settings", Title: "settings.title", Icon: "settings"},
		}},
	}
	if f.handsets {
		last := &menu[len(menu)-1]
		last.Pages = append(last.Pages, menuEntry{Path: root + "/handsets", Title: "handsets.title", Icon: "handsets"})
	}
	at := f.Path
	if f.Who.Role == rpc.RoleUser {
		if at == root { // where a person begins
			at = root + "/goals"
		}
		menu = []menuGroup{{Pages: []menuEntry{
			{Path: root + "/goals", Title: "goals.title", Icon: "goals"}, {Path: root + "/me", Title: "me.title", Icon: "settings"},
		}}}
	}
	if f.Who.Role == rpc.RolePlatform {
		menu = []menuGroup{{Pages: []menuEntry{{Path: root + "/organisations", Title: "orgs.title", Icon: "organisations"}}}}
	}
	for _, group := range menu {
		for i, e := range group.Pages {
			group.Pages[i].Here = at == e.Path || e.Path != root && strings.HasPrefix(at, e.Path+"/") ||
				slices.Contains(elsewhere[e.Title], at)
		}
	}
	return menu
}

// elsewhere lists pages with another path than that of their entry.
var elsewhere = map[string][]string{"inbox.title": {root + "/replies"}, "flows.title": {root + "/flow"}}
