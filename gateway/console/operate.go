package console

import (
	"net/http"

	"paceline.internal/gateway/console/operations"
	"paceline.internal/platform/rpc"
)

// MaxListForm bounds the body of a form with a list of people; that of other forms is smaller.
const MaxListForm = operations.MaxForm

// operate returns the pages with which an operator runs the organisation.
func (c *Console) operate() *operations.Pages {
	return &operations.Pages{
		Onboarding: c.services.Onboarding, Flows: c.services.Flows, Runs: c.services.Runs, Events: c.services.Events, Goals: c.services.Goals,
		Keys: c.services.Keys, Senders: c.services.Senders, Organisations: c.services.Organisations, Now: c.now,
		Root: root, Zone: c.zoneOf, Named: c.profilesOf,
	}
}

func operating(v operations.View) view {
	return func(r *http.Request) (page, error) {
		p, err := v.Draw(r)
		return page{Name: p.Name, Title: p.Title, Body: p.Body}, err
	}
}

func operated(a operations.Action) action {
	return func(r *http.Request) (notice, error) {
		n, err := a.Do(r)
		return notice{Key: n.Key, Bad: n.Bad, To: n.To, Secret: n.Secret, Typed: n.Typed}, err
	}
}

// addOperations adds the pages to those of the console.
func (c *Console) addOperations(inside *http.ServeMux) {
	get, post := func(path string, serve http.HandlerFunc) { inside.HandleFunc("GET "+path, c.naming(path, serve)) },
		func(path string, serve http.HandlerFunc) { inside.HandleFunc("POST "+path, c.naming(path, serve)) }
	for _, v := range c.operations.Views() {
		get(v.Path, c.serveView(route{view: operating(v)}))
	}
	for _, v := range c.operations.PlatformViews() {
		get(v.Path, c.serveView(route{view: operating(v), platform: true}))
	}
	for _, a := range c.operations.PlatformActions() {
		post(a.Path, c.serveAction(deedRoute{action: operated(a), platform: true}))
	}
	for _, v := range c.operations.Lists() {
		post(v.Path, c.serveView(route{view: operating(v), most: operations.MaxForm}))
	}
	for _, a := range c.operations.Actions() {
		post(a.Path, c.serveAction(deedRoute{action: operated(a)}))
	}
	list := c.operations.ListAction()
	post(list.Path, c.serveAction(deedRoute{action: operated(list), most: operations.MaxForm}))
	get(root+"/people/{id}/export", c.exportPerson)
}

// exportPerson answers with a file of everything that is kept about a person.
func (c *Console) exportPerson(w http.ResponseWriter, r *http.Request) {
	err := c.permitted(r, rpc.RoleOperator, 0)
	var body []byte
	if err == nil {
		body, err = c.operations.Export(r)
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", `attachment; filename="person.json"`)
	_, _ = w.Write(body) // or the client has gone
}
