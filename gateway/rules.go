package gateway

import (
	"errors"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"paceline.internal/gateway/route"
	"paceline.internal/platform/rpc"
)

// rulesOf are the rules of all methods of some services, as their protos have them.
func rulesOf(services []string) (map[string]rpc.Rule, error) {
	all := map[string]rpc.Rule{}
	var problems []error
	for _, service := range services {
		rules, err := rpc.Rules(service)
		maps.Copy(all, rules)
		problems = append(problems, err)
	}
	return all, errors.Join(problems...)
}

// permit reports whether a principal may make this call over /v1, and narrows the request to what they may see. A service enforces
// the same for its own rows; this checks what can be seen in the request alone.
func permit(rule rpc.Rule, p rpc.Principal, request proto.Message) error {
	switch {
	case !slices.Contains(rule.Callers, p.Role):
		return denied(onlyFor(rule))
	case p.Role == rpc.RoleUser:
		return ownOnly(rule, p, request)
	}
	return nil
}

// onlyFor names the roles that may make a request about any person.
func onlyFor(rule rpc.Rule) string {
	if slices.Contains(rule.Callers, rpc.RolePlatform) {
		return "only those who run this deployment may do this: a token with the role platform"
	}
	if slices.Contains(rule.Callers, rpc.RoleApp) {
		return "only an operator or an app may do this"
	}
	return "only an operator may do this"
}

// ownOnly keeps a user's request to their own profile, if it has room for one: when it names none, it gets theirs. For any other request
// the service checks who owns the row.
func ownOnly(rule rpc.Rule, p rpc.Principal, request proto.Message) error {
	message := request.ProtoReflect()
	fields := message.Descriptor().Fields()
	field := fields.ByName("profile_id")
	if field == nil {
		return nil
	}
	list := fields.ByName("page_token") != nil
	switch wanted := message.Get(field).String(); {
	case wanted == p.Subject:
	case wanted == "": // of a path it is never empty
		message.Set(field, protoreflect.ValueOfString(p.Subject))
	case list:
		return denied("a user sees only their own profile")
	default:
		return denied(onlyFor(rule))
	}
	return nil
}

func denied(message string) error {
	return route.Refuse(codes.PermissionDenied, route.ReasonPermissionDenied, message)
}
