package gateway

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/routers"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// routes are the generated ones of the description: "GET /v1/profiles/{profile_id}" to getProfile.
func routes(t testing.TB) map[string]*routers.Route {
	t.Helper()
	found := map[string]*routers.Route{}
	for _, o := range operations(t) {
		if strings.HasPrefix(o.Path, "/v1/") && !streams(o) {
			found[o.Method+" "+o.Path] = o
		}
	}
	return found
}

func TestRules(t *testing.T) {
	t.Parallel()

	rules, err := rulesOf(slices.Concat(onboardingServices, messagingServices))
	require.NoError(t, err)

	// ExecuteStep is the one method that an operator may call and not over /v1 (docs/runbooks), and the stream of events is a route next to the
	// generated ones; a service needs no route.
	t.Run("EveryMethodThatPeopleMayCallHasARouteAndNoOther", func(t *testing.T) {
		t.Parallel()
		var served []string
		for _, operation := range routes(t) {
			served = append(served, rpcOf(operation))
		}
		people := []string{}
		for method, rule := range rules {
			if slices.ContainsFunc(rule.Callers, func(r rpc.Role) bool { return r != rpc.RoleService }) {
				people = append(people, method[strings.LastIndex(method, ".")+1:])
			}
		}
		require.ElementsMatch(t, append(served, "OnboardingService/ExecuteStep", "EventService/StreamEvents"), people)
	})

	t.Run("AServiceWithoutRulesStopsTheStart", func(t *testing.T) {
		t.Parallel()
		_, err := rulesOf([]string{"grpc.health.v1.Health"})
		require.ErrorContains(t, err, "/grpc.health.v1.Health/Check has no option (paceline.method.v1.method)")
	})

	t.Run("AMethodWithoutARuleCannotBeCalled", func(t *testing.T) {
		t.Parallel()
		ctx := rpc.WithPrincipal(t.Context(), rpc.Principal{Subject: "ada", OrgID: orgID, Role: rpc.RoleOperator})
		nowhere := guarded{rules: rules} // without a connection: a call that is let through panics
		err := nowhere.Invoke(ctx, "/grpc.health.v1.Health/Check", &onboardingv1.ExecuteStepRequest{}, nil)
		require.ErrorContains(t, err, "no rule for /grpc.health.v1.Health/Check")
	})

	t.Run("ACallWithoutAPrincipalIsNotMade", func(t *testing.T) {
		t.Parallel()
		err := guarded{rules: rules}.Invoke(t.Context(), onboardingv1.OnboardingService_GetSession_FullMethodName,
			&onboardingv1.GetSessionRequest{}, nil)
		require.ErrorContains(t, err, "a call without a principal")
	})

	// grpc-gateway ignores an unknown key in http.yaml without an error (T11), so every route is called, with its body.
	t.Run("EveryRouteHasAGoldenCaseThatReachesItsRPC", func(t *testing.T) {
		t.Parallel()
		files, err := filepath.Glob("testdata/*.yaml")
		require.NoError(t, err)
		var cases []golden
		for _, file := range files {
			cases = append(cases, readGolden(t, file)...)
		}
		for route, operation := range routes(t) {
			method, template, _ := strings.Cut(route, " ")
			rpcName := rpcOf(operation)
			reached := false
			for _, c := range cases {
				path, _, _ := strings.Cut(c.Request.Path, "?")
				reached = reached || c.Request.Method == method && matches(template, path) && c.Want.Status/100 == 2 &&
					len(c.Want.Calls) > 0 && c.Want.Calls[len(c.Want.Calls)-1].RPC == rpcName // a text of the queue asks for its hours first
			}
			require.True(t, reached, "%s has no golden case", route)
		}
	})
}

// matches reports whether a path is one of a template.
func matches(template, path string) bool {
	return regexp.MustCompile("^" + parameter.ReplaceAllString(template, "[^/:]+") + "$").MatchString(path)
}
