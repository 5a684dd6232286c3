package rpc

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	methodv1 "paceline.internal/proto/gen/paceline/method/v1"
)

// Rule holds the rule of a method, from its proto's option (paceline.method.v1.method).
type Rule struct {
	Callers   []Role   // who may call it
	Services  []string // of RoleService, those that may
	Retry     bool     // whether the connection of the caller may repeat the call
	ActsAgain bool     // whether a repeat of the request acts again
	Audit     Audit    // what it does, which decides whether a call is kept
}

// Rules returns the rules of every method of a service that is linked in, by the method's full name "/package.Service/Method". A method
// without a rule is an error, so that it stops the start and not the first caller.
func Rules(service string) (map[string]Rule, error) {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return nil, fmt.Errorf("rules: service %s: %w", service, err)
	}
	described, ok := found.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil, fmt.Errorf("rules: %s is no service", service)
	}
	rules := map[string]Rule{}
	var problems []error
	for i := range described.Methods().Len() {
		method := described.Methods().Get(i)
		name := "/" + service + "/" + string(method.Name())
		if rules[name], err = ruleOf(method); err != nil {
			problems = append(problems, fmt.Errorf("rules: %s %w", name, err))
		}
	}
	return rules, errors.Join(problems...)
}

// ruleOf reads the option of one method.
func ruleOf(method protoreflect.MethodDescriptor) (Rule, error) {
	said, _ := proto.GetExtension(method.Options(), methodv1.E_Method).(*methodv1.Method)
	rule := Rule{Retry: said.GetRetry(), ActsAgain: said.GetActsAgain()}
	for _, caller := range said.GetCallers() {
		role, known := map[methodv1.Caller]Role{
			methodv1.Caller_CALLER_OPERATOR: RoleOperator,
			methodv1.Caller_CALLER_USER:     RoleUser,
			methodv1.Caller_CALLER_APP:      RoleApp,
			methodv1.Caller_CALLER_PLATFORM: RolePlatform,
		}[caller]
		process, service := map[methodv1.Caller]string{
			methodv1.Caller_CALLER_GATEWAY: Gateway, methodv1.Caller_CALLER_ONBOARDING: Onboarding,
		}[caller]
		switch {
		case known:
			rule.Callers = append(rule.Callers, role)
		case service:
			rule.Services = append(rule.Services, process)
		default:
			return Rule{}, fmt.Errorf("names a caller that is none: %s", caller)
		}
	}
	if len(rule.Services) > 0 {
		rule.Callers = append(rule.Callers, RoleService)
	}
	if len(rule.Callers) == 0 {
		return Rule{}, errors.New("has no option (paceline.method.v1.method) that says who may call it")
	}
	rule.Audit = map[methodv1.Audit]Audit{
		methodv1.Audit_AUDIT_CHANGE: AuditChange, methodv1.Audit_AUDIT_READ: AuditRead, methodv1.Audit_AUDIT_NONE: AuditNone,
	}[said.GetAudit()]
	if onlyServices := slices.Equal(rule.Callers, []Role{RoleService}); onlyServices != (rule.Audit == "") {
		return Rule{}, errors.New("must say audit: AUDIT_CHANGE, AUDIT_READ or AUDIT_NONE if others than services may call it, and only then")
	}
	return rule, nil
}
