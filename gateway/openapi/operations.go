package main

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"

	methodv1 "paceline.internal/proto/gen/paceline/method/v1"
)

// route is one rule of http.yaml. A key that is not here is an error: grpc-gateway would ignore it.
type route struct {
	Selector string `yaml:"selector"`
	Get      string `yaml:"get"`
	Post     string `yaml:"post"`
	Put      string `yaml:"put"`
	Patch    string `yaml:"patch"`
	Delete   string `yaml:"delete"`
	Body     string `yaml:"body"`
}

func (r route) where() (method, path string, err error) {
	found := 0
	for name, template := range map[string]string{"get": r.Get, "post": r.Post, "put": r.Put, "patch": r.Patch, "delete": r.Delete} {
		if template != "" {
			method, path = name, template
			found++
		}
	}
	switch takesBody := method == "post" || method == "put" || method == "patch"; {
	case found != 1:
		return "", "", fmt.Errorf("http.yaml: %s has %d routes", r.Selector, found)
	case takesBody != (r.Body == "*"):
		return "", "", fmt.Errorf(`http.yaml: %s %s takes body: "*" if it is a POST, PUT or PATCH, and no other`, r.Selector, method)
	}
	return method, path, nil
}

// routes describes all of them.
func (d *describer) routes(routes []route, methods map[string]*protogen.Method) error {
	for _, r := range routes { // whole, before the first schema is named
		m := methods[r.Selector]
		if m == nil {
			return fmt.Errorf("http.yaml: there is no method %s", r.Selector)
		}
		reach(m.Input, d.requested)
		reach(m.Output, d.answered)
	}
	written := d.rules.Document.get("paths")
	for _, path := range written.keys() {
		for _, method := range written.get(path).keys() {
			d.claim(written.get(path).get(method).text("operationId"), path)
		}
	}
	for _, r := range routes {
		method, path, err := r.where()
		if err != nil {
			return err
		}
		item := d.paths.get(path)
		if item.has(method) {
			return fmt.Errorf("http.yaml: two rules for %s %s", method, path)
		}
		d.claim(operationID(methods[r.Selector]), r.Selector)
		d.paths.set(path, item.set(method, d.operation(methods[r.Selector], method, path)))
		d.tag(methods[r.Selector].Parent)
	}
	return errors.Join(d.problems...)
}

// operationID names an operation as its method, without the service: clients are generated from it, and services are our own affair.
func operationID(m *protogen.Method) string {
	name := string(m.Desc.Name())
	return strings.ToLower(name[:1]) + name[1:]
}

// claim notes that an operation id is taken. Two methods of one name need another name in their protos.
func (d *describer) claim(id, by string) {
	if owner, taken := d.ids[id]; taken {
		d.problems = append(d.problems, fmt.Errorf("%s and %s would both be the operation %s: rename one of them", owner, by, id))
	}
	d.ids[id] = by
}

func tagOf(service *protogen.Service) string {
	return strings.TrimSuffix(string(service.Desc.Name()), "Service")
}

func (d *describer) tag(service *protogen.Service) {
	name := tagOf(service)
	if !slices.ContainsFunc(d.tags, func(tag *object) bool { return tag.text("name") == name }) {
		d.tags = append(d.tags, newObject("name", name, "description", comment(service.Comments)))
	}
}

var parameterOfPath = regexp.MustCompile(`\{(\w+)\}`)

func (d *describer) operation(m *protogen.Method, method, path string) *object {
	id := operationID(m)
	var inPath []string
	for _, match := range parameterOfPath.FindAllStringSubmatch(path, -1) {
		inPath = append(inPath, match[1])
	}
	hasBody := method != "get" && method != "delete"
	hasKey := hasBody && m.Input.Desc.Fields().ByName("idempotency_key") != nil
	more := d.rules.ofOperation(id, len(inPath) > 0, hasBody, hasKey)
	operation := newObject(
		"operationId", id, "tags", []string{tagOf(m.Parent)}, "summary", summary(m), "description", description(m))
	if parameters := d.parameters(m, inPath, hasBody, more.Parameters); len(parameters) > 0 {
		operation.set("parameters", parameters)
	}
	shown := exampleOf(d.examples, method, path)
	if hasBody {
		operation.set("requestBody", d.body(m, inPath, shown.request))
	}
	return operation.set("responses", d.responses(m, more, shown.answer))
}

// parameters are the fields in the path, of a request without a body all others in the query, and those of the rules.
func (d *describer) parameters(m *protogen.Method, inPath []string, hasBody bool, more []string) (all []*object) {
	for _, f := range m.Input.Fields {
		name := string(f.Desc.Name())
		placed := slices.Contains(inPath, name)
		if !placed && hasBody {
			continue
		}
		place := "query"
		if placed {
			place = "path"
		}
		schema := d.field(f, true)
		parameter := newObject("name", name, "in", place, "description", comment(f.Comments))
		if placed || d.rules.requires(string(m.Input.Desc.Name()), name) {
			parameter.set("required", true)
		}
		schema.drop("description")
		all = append(all, parameter.set("schema", schema))
	}
	for _, name := range more {
		all = append(all, ref("parameters", name))
	}
	return all
}

// body is the request without what is in the path. It may be left out if nothing in it is required.
func (d *describer) body(m *protogen.Method, inPath []string, example *object) *object {
	name := string(m.Input.Desc.Name())
	if d.mine(name, m.Input.Desc.FullName()) {
		d.schemas[name] = d.message(m.Input, true, inPath)
	}
	return newObject("required", d.schemas[name].has("required"), "content", content(name, example))
}

// responses are the successful ones, and the errors of the rules.
func (d *describer) responses(m *protogen.Method, more extras, example *object) *object {
	headers := newObject()
	for _, name := range more.Headers {
		headers.set(name, ref("headers", name))
	}
	success := more.Success
	if len(success) == 0 {
		success = map[string]string{"200": comment(m.Output.Comments)}
	}
	d.refer(m.Output, false)
	all := newObject()
	for _, status := range slices.Sorted(maps.Keys(success)) {
		all.set(status, newObject(
			"description", success[status], "headers", headers, "content", content(schemaOf(string(m.Output.Desc.Name())), example)))
	}
	for _, status := range slices.Sorted(maps.Keys(more.Responses)) {
		all.set(status, ref("responses", more.Responses[status]))
	}
	return all
}

func content(schema string, example *object) *object {
	media := newObject("schema", ref("schemas", schema))
	if example != nil {
		media.set("example", example)
	}
	return newObject("application/json", media)
}

// summary is the first sentence about a method, without the method's name at its beginning.
func summary(m *protogen.Method) string {
	text, _, _ := strings.Cut(strings.TrimPrefix(comment(m.Comments), string(m.Desc.Name())+" "), ". ")
	text, _, _ = strings.Cut(strings.TrimSuffix(text, "."), ": ")
	return strings.ToUpper(text[:1]) + text[1:]
}

// description is all that is said about a method, and who may call it.
func description(m *protogen.Method) string {
	rule, _ := proto.GetExtension(m.Desc.Options(), methodv1.E_Method).(*methodv1.Method)
	var roles []string
	for _, caller := range rule.GetCallers() {
		if caller != methodv1.Caller_CALLER_GATEWAY && caller != methodv1.Caller_CALLER_ONBOARDING {
			roles = append(roles, strings.ToLower(strings.TrimPrefix(caller.String(), "CALLER_")))
		}
	}
	return comment(m.Comments) + "\n\nRoles: " + strings.Join(roles, ", ") + "."
}
