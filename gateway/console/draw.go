package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"paceline.internal/gateway/console/signin"
)

//go:embed pages/*.html assets
var files embed.FS

// page is the result of a view.
type page struct {
	Name  string // pages/NAME.html
	Title string // key of the catalog, or a text
	Full  bool   // it fills the window, and its parts scroll
	Topic string // what makes the page new: a person's id, "all", or nothing
	Body  any
	Place *time.Location // where its times are shown; nil for the reader's zone
}

// frame is the data of a template.
type frame struct {
	page
	reader

	Who    signin.Session // zero before signing in
	Notice *notice
	URL    string // of this page, for the forms that come back to it
	Path   string
	Kept   []field // of the query, for the form that changes only how the page is read
	Now    time.Time
	looks  *looks

	handsets bool // the reader has a page of them
}

// T says a key in the reader's language.
func (f frame) T(key string, args ...any) string { return f.printer.Sprintf(key, args...) }

// Outcomes are the ways in which a conversation goes on when its ticket is closed.
func (frame) Outcomes() []string { return []string{"resume", "restart", "end"} }

// Languages lists the languages that a reader may choose.
func (f frame) Languages() []vocabulary { return vocabularies }

// Word says a word of the API, such as a status, in the reader's language, and unchanged when it has none, for a newer service may have
// more.
func (f frame) Word(group, word string) string {
	if key := group + "." + word; word != "" && known(key) {
		return f.T(key)
	}
	return word
}

// shownPart is one row of a page, with the frame that says its words.
type shownPart struct {
	Frame frame
	Of    any
}

// With pairs a row with its frame, for a template that several pages share.
func (f frame) With(of any) shownPart { return shownPart{f, of} }

// ID shows an id as a button that copies it: people compare words, programs ids.
func (f frame) ID(id string) template.HTML {
	shown := template.HTMLEscapeString(id)
	return template.HTML(`<button type="button" class="copy-id" data-copy="` + shown + `" data-done="` + //nolint:gosec // all is escaped
		template.HTMLEscapeString(f.T("layout.copied")) + `" aria-label="` + template.HTMLEscapeString(f.T("layout.copy")+" "+id) +
		`" title="` + shown + `">` + string(f.Icon("copy")) + `</button>`)
}

// Said is a notice in the reader's language.
func (f frame) Said(n notice) string {
	if n.Key == "" {
		return n.Text
	}
	args := make([]any, len(n.Args))
	for i, a := range n.Args {
		args[i] = a
	}
	return f.T(n.Key, args...)
}

// Typed returns the value that was typed into a field of a form that did not work; empty on another page.
func (f frame) Typed(field string) string {
	if f.Notice == nil {
		return ""
	}
	return f.Notice.Typed[field]
}

// Again returns the value of a field as it was typed into a form that did not work, also an empty one; else the stored one.
func (f frame) Again(field string, stored any) any {
	if f.Notice != nil {
		if typed, kept := f.Notice.Typed[field]; kept {
			return typed
		}
	}
	return stored
}

// Ticked reports whether a box was ticked in a form that did not work; else whether it is by what is stored.
func (f frame) Ticked(field, value string, stored bool) bool {
	if f.Notice != nil {
		if typed, kept := f.Notice.Typed[field]; kept {
			return slices.Contains(strings.Split(typed, ","), value)
		}
	}
	return stored
}

// Asset is the address of an asset, which changes with what it holds.
func (f frame) Asset(name string) string { return root + "/assets/" + f.looks.assets[name] }

// looks are the templates of all pages, and the assets by what they are asked for.
type looks struct {
	pages   map[string]*template.Template
	assets  map[string]string // by their names in the folder
	content map[string][]byte // by their names with the hash
}

func newLooks() (*looks, error) {
	l := &looks{pages: map[string]*template.Template{}, assets: map[string]string{}, content: map[string][]byte{}}
	shared, err := template.New("layout").ParseFS(files, "pages/layout.html", "pages/parts.html")
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(files, "pages/*.html")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		one, err := shared.Clone()
		if err == nil {
			_, err = one.ParseFS(files, name)
		}
		if err != nil {
			return nil, err
		}
		l.pages[strings.TrimSuffix(path.Base(name), ".html")] = one
	}
	entries, err := files.ReadDir("assets")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		body, err := files.ReadFile("assets/" + entry.Name())
		if err != nil {
			return nil, err
		}
		sum, ext := sha256.Sum256(body), path.Ext(entry.Name())
		hashed := strings.TrimSuffix(entry.Name(), ext) + "." + hex.EncodeToString(sum[:6]) + ext
		l.assets[entry.Name()], l.content[hashed] = hashed, body
	}
	return l, nil
}

// serveAsset answers with what never changes under its name.
func (l *looks) serveAsset(w http.ResponseWriter, r *http.Request) {
	body, ok := l.content[r.PathValue("name")]
	if !ok {
		http.Error(w, "there is no such file", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(r.PathValue("name"))))
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(body) // or the client has gone
}

// draw answers with a page; with its main part alone when htmx asks for that.
func (c *Console) draw(w http.ResponseWriter, r *http.Request, httpStatus int, p page) {
	f := frame{
		page: p, reader: readerOf(c.door.Cookies, w, r), Who: signin.SessionFrom(r.Context()),
		URL: r.URL.RequestURI(), Path: r.URL.Path, Now: c.now(),
		Kept: kept(r), looks: c.looks, handsets: c.handsets.Of(signin.SessionFrom(r.Context()).OrgID),
	}
	if p.Place != nil {
		f.place = p.Place
	}
	var n notice
	part := r.Header.Get("HX-Request") != "" // which does not show the notice
	theirs := c.door.Get(r, signin.PurposeNotice, &n) == nil && n.For == signedIn(signin.SessionFrom(r.Context()))
	if !part && httpStatus == http.StatusOK && theirs && (n.Of == "" || n.Of == f.Path) {
		f.Notice = &n
		c.door.Clear(w, signin.PurposeNotice)
	} else if f.Unknown != "" {
		f.Notice = &notice{Key: "layout.zone.unknown", Args: []string{f.Unknown}, Bad: true}
	}
	name := "layout"
	if part {
		name = "main"
	}
	var out bytes.Buffer
	tmpl, ok := c.looks.pages[p.Name]
	err := errors.New("no template " + p.Name)
	if ok {
		err = tmpl.ExecuteTemplate(&out, name, f)
	}
	if err != nil {
		c.log.ErrorContext(r.Context(), "console.not_drawn", "page", p.Name, "error", err)
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Vary", "HX-Request")
	w.WriteHeader(httpStatus)
	_, _ = w.Write(out.Bytes()) // or the client has gone
}

// showSignIn is the page of who has not signed in.
func (c *Console) showSignIn(w http.ResponseWriter, r *http.Request, httpStatus int, p signin.Page) {
	c.named(r, signin.PathSignIn)
	c.draw(w, r, httpStatus, page{Name: "signin", Title: "signin.title", Body: p})
}
