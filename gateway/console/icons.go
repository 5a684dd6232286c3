package console

import "html/template"

// icons are drawn for this console, on a grid of 24 by 24, with lines alone.
var icons = map[string]string{
	"brand":    `<path d="M4 17l5-10 4 8 3-5h4"/>`,
	"inbox":    `<path d="M3 13l3-8h12l3 8v6H3z"/><path d="M3 13h5l1.5 3h5l1.5-3h5"/>`,
	"overview": `<path d="M4 20V11M10 20V4M16 20v-6M21 20H3"/>`,
	"needs":    `<path d="M12 3l10 17H2z"/><path d="M12 10v4M12 17v.2"/>`,
	"people": `<circle cx="9" cy="8" r="4"/><path d="M2 20c.5-4 3-6 7-6s6.5 2 7 6"/>` +
		`<path d="M16 4.5a4 4 0 0 1 0 7M18.5 14.5c2 .8 3.2 2.6 3.5 5.5"/>`,
	"goals":         `<circle cx="12" cy="12" r="9"/><circle cx="12" cy="12" r="5"/><circle cx="12" cy="12" r="1"/>`,
	"queues":        `<path d="M12 3l9 5-9 5-9-5z"/><path d="M3 12.5l9 5 9-5M3 17l9 5 9-5"/>`,
	"engagement":    `<path d="M12 20s-8-5-8-11a4.5 4.5 0 0 1 8-2.8A4.5 4.5 0 0 1 20 9c0 6-8 11-8 11z"/>`,
	"flow":          `<path d="M3 3h6v6H3zM15 15h6v6h-6zM9 6h6a3 3 0 0 1 3 3v6"/>`,
	"ledger":        `<path d="M5 3h14v18l-3-2-2 2-2-2-2 2-2-2-3 2z"/><path d="M9 8h6M9 12h6"/>`,
	"audit":         `<circle cx="12" cy="12" r="9"/><path d="M12 7v5l3 3"/>`,
	"handsets":      `<rect x="7" y="2" width="10" height="20" rx="2"/><path d="M11 18h2"/>`,
	"settings":      `<path d="M4 7h10M18 7h2M4 17h2M10 17h10"/><circle cx="16" cy="7" r="2"/><circle cx="8" cy="17" r="2"/>`,
	"import":        `<path d="M12 3v12M7 10l5 5 5-5"/><path d="M4 17v4h16v-4"/>`,
	"subscriptions": `<circle cx="6" cy="18" r="2"/><path d="M4 11a9 9 0 0 1 9 9M4 4a16 16 0 0 1 16 16"/>`,
	"devices":       `<rect x="3" y="4" width="18" height="12" rx="2"/><path d="M8 20h8M12 16v4"/>`,
	"key":           `<circle cx="8" cy="15" r="4"/><path d="M11 12l9-9M16 7l3 3"/>`,
	"organisations": `<path d="M4 21V4h9v17M13 9h7v12M2 21h20M8 8h1M8 12h1M8 16h1"/>`,
	"download":      `<path d="M12 3v12M7 10l5 5 5-5M4 21h16"/>`,
	"paused":        `<path d="M8 5v14M16 5v14"/>`,
	"menu":          `<path d="M4 6h16M4 12h16M4 18h16"/>`,
	"out":           `<path d="M10 4H5v16h5M15 8l4 4-4 4M19 12H9"/>`,
	"copy":          `<rect x="9" y="9" width="11" height="11" rx="2"/><path d="M5 15H4V4h11v1"/>`,
	"check":         `<path d="M4 12.5l5 5L20 6.5"/>`,
	"cross":         `<path d="M6 6l12 12M18 6L6 18"/>`,
	"search":        `<circle cx="11" cy="11" r="7"/><path d="M16 16l5 5"/>`,
	"send":          `<path d="M3 11l18-8-8 18-2-8z"/>`,
	"note":          `<path d="M5 3h14v12l-6 6H5z"/><path d="M13 21v-6h6"/>`,
	"back":          `<path d="M15 5l-7 7 7 7"/>`,
	"person":        `<circle cx="12" cy="8" r="4"/><path d="M4 21c.6-4.5 3.4-7 8-7s7.4 2.5 8 7"/>`,
	"scheduled":     `<circle cx="12" cy="12" r="9"/><path d="M12 6v6.3l4 2.7"/>`,
	"running":       `<path d="M7 5v14l11-7z"/>`,
	"cancelled":     `<circle cx="12" cy="12" r="9"/><path d="M5.6 18.4L18.4 5.6"/>`,
	"completed":     `<path d="M4 12.5l5 5L20 6.5"/>`,
	"failed":        `<path d="M12 3l10 17H2z"/><path d="M12 10v4M12 17v.2"/>`,
}

// Icon draws an icon by its name, which says nothing to a screen reader: words stand next to it.
func (frame) Icon(name string) template.HTML {
	const begin = `<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">`
	return template.HTML(begin + icons[name] + `</svg>`) //nolint:gosec // constants
}
