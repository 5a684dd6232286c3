package console

import "net/http"

// drawn is a view of a package of pages: what it returns is the data of a template.
func drawn[Data any](name, title string, read func(r *http.Request) (Data, error)) view {
	return func(r *http.Request) (page, error) {
		body, err := read(r)
		return page{Name: name, Title: title, Body: body}, err
	}
}

// saying is an action that returns the key of what it says, and whether it was done.
func saying(do func(r *http.Request) (key string, done bool, err error)) action {
	return func(r *http.Request) (notice, error) {
		key, done, err := do(r)
		return notice{Key: key, Bad: !done}, err
	}
}
