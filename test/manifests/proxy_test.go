package manifests

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3" // what a typed_config may be
	buffer "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/buffer/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	manager "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	tls "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	upstream "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"

	"paceline.internal/gateway"
)

const device = "01900000-0000-7000-8000-000000000001"

// TestProxies holds the configurations of proxies to the gateway's own bounds: a body, a header, or the time for an answer that the gateway
// would take must not be refused before it.
func TestProxies(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	bounds := gateway.ProxyBounds()
	files := tree(t, "deploy/proxy")

	t.Run("NginxFitsTheGateway", func(t *testing.T) {
		t.Parallel()
		conf := regexp.MustCompile(`#.*`).ReplaceAllString(files["nginx.conf"], "")
		common, locations := nginxLocations(t, conf)
		_, upstreams, found := strings.Cut(conf, "upstream gateway")
		require.True(t, found)
		shopify, events, connect := locations["= "+bounds.Shopify], locations["= "+bounds.Events], locations["~ ^/v1/devices/[^/]+/connect$"]
		require.Regexp(t, `^/v1/devices/[^/]+/connect$`, strings.ReplaceAll(bounds.Connect, "{device_id}", device))
		for _, size := range []string{"client_max_body_size", "client_body_buffer_size"} {
			require.Equal(t, bounds.Body, nginxSize(t, common, size))
			require.Equal(t, bounds.ShopifyBody, nginxSize(t, shopify, size))
			require.Equal(t, bounds.FlowBody, nginxSize(t, locations["~ ^/v1/(flows(:check)?|flows/[^/]+:start|runs/[^/]+:add)$"], size))
			require.Equal(t, bounds.ListForm, nginxSize(t, locations["~ ^/console/(import(/do)?|runs(/new)?)$"], size))
		}
		headers := nginxWords(t, common, "large_client_header_buffers")
		count, err := strconv.ParseInt(headers[0], 10, 64)
		require.NoError(t, err)
		require.Equal(t, int64(bounds.Header), count*bytesOf(t, headers[1]))
		require.Greater(t, nginxTime(t, common, "proxy_read_timeout"), bounds.Answer)
		require.Less(t, nginxTime(t, upstreams, "keepalive_timeout"), bounds.Idle)
		for _, stream := range []string{events, connect} {
			require.GreaterOrEqual(t, nginxTime(t, stream, "proxy_read_timeout"), 3*bounds.Silent)
		}
		require.Equal(t, []string{"off"}, nginxWords(t, events, "proxy_buffering"))
		require.Contains(t, connect, "proxy_set_header Upgrade $http_upgrade;")
		for _, place := range []string{common, connect} { // a location that sets one header inherits none
			require.Contains(t, place, "proxy_set_header X-Forwarded-For $remote_addr;")
			require.Contains(t, place, "proxy_set_header Host $host;")
		}
		require.NotRegexp(t, `proxy_pass http://gateway/|rewrite `, conf, "the URL is passed on as it came")
		require.NotRegexp(t, `\$(request_uri|uri|args|request)\b`, conf, "a log would have phone numbers")
	})

	t.Run("EnvoyFitsTheGateway", func(t *testing.T) {
		t.Parallel()
		m, routes := envoy(t, files["envoy.yaml"])
		require.Equal(t, uint32(bounds.Header>>10), m.hcm.GetMaxRequestHeadersKb().GetValue())
		require.False(t, m.hcm.GetNormalizePath().GetValue())
		require.False(t, m.hcm.GetMergeSlashes())
		require.True(t, m.hcm.GetUseRemoteAddress().GetValue() && m.hcm.GetSkipXffAppend() && m.hcm.GetPreserveExternalRequestId())
		require.GreaterOrEqual(t, m.hcm.GetStreamIdleTimeout().AsDuration(), 3*bounds.Silent)
		require.Greater(t, m.hcm.GetStreamIdleTimeout().AsDuration(), bounds.Answer)
		require.Less(t, m.upstreamIdle, bounds.Idle)
		require.Equal(t, bounds.Body, m.body)

		require.Greater(t, routes["/"].GetRoute().GetTimeout().AsDuration(), bounds.Answer)
		require.Greater(t, routes[bounds.Shopify].GetRoute().GetTimeout().AsDuration(), bounds.Answer)
		require.Equal(t, bounds.ShopifyBody, int64(m.perRoute(t, routes[bounds.Shopify]).GetBuffer().GetMaxRequestBytes().GetValue()))
		flows := routes["/v1/(flows(:check)?|flows/[^/]+:start|runs/[^/]+:add)"]
		require.Greater(t, flows.GetRoute().GetTimeout().AsDuration(), bounds.Answer)
		require.Equal(t, bounds.FlowBody, int64(m.perRoute(t, flows).GetBuffer().GetMaxRequestBytes().GetValue()))
		lists := m.perRoute(t, routes["/console/(import(/do)?|runs(/new)?)"])
		require.Equal(t, bounds.ListForm, int64(lists.GetBuffer().GetMaxRequestBytes().GetValue()))
		connect := routes["/v1/devices/[^/]+/connect"]
		for _, stream := range []*route.Route{routes[bounds.Events], connect} {
			require.NotNil(t, stream.GetRoute().GetTimeout(), "without one it is 15 s")
			require.Zero(t, stream.GetRoute().GetTimeout().AsDuration())
			require.GreaterOrEqual(t, stream.GetRoute().GetIdleTimeout().AsDuration(), 3*bounds.Silent)
		}
		require.True(t, m.perRoute(t, connect).GetDisabled())
		require.True(t, connect.GetRoute().GetUpgradeConfigs()[0].GetEnabled().GetValue())
		forwarded := m.hcm.GetRouteConfig().GetRequestHeadersToAdd()[0]
		require.Equal(t, "x-forwarded-for", forwarded.GetHeader().GetKey())
		require.Equal(t, "OVERWRITE_IF_EXISTS_OR_ADD", forwarded.GetAppendAction().String())
		require.NotRegexp(t, `%(PATH|REQ\(:PATH|REQ\(X-ENVOY-ORIGINAL-PATH)`, files["envoy.yaml"], "a log would have phone numbers")
	})

	t.Run("NoticesAFieldThatEnvoyDoesNotHave", func(t *testing.T) {
		t.Parallel()
		for _, wrong := range [][2]string{{"merge_slashes: false", "merge_slash: false"}, {"max_request_bytes: 65536", "max_request_bytes: 0"}} {
			require.Contains(t, files["envoy.yaml"], wrong[0])
			require.Error(t, readEnvoy(strings.Replace(files["envoy.yaml"], wrong[0], wrong[1], 1), &bootstrap.Bootstrap{}), wrong[1])
		}
	})
}

// nginxLocations returns what a configuration says of every location, and of each by its match.
func nginxLocations(t *testing.T, conf string) (common string, locations map[string]string) {
	t.Helper()
	locations = map[string]string{}
	blocks := regexp.MustCompile(`(?s)location ([^{]+) \{(.*?)\n\t\t\}`)
	for _, block := range blocks.FindAllStringSubmatch(conf, -1) {
		locations[block[1]] = block[2]
	}
	require.Len(t, locations, 9)
	return blocks.ReplaceAllString(conf, ""), locations
}

// nginxWords are the arguments of the last directive of a name.
func nginxWords(t *testing.T, block, name string) []string {
	t.Helper()
	found := regexp.MustCompile(`\b` + name + ` ([^;]+);`).FindStringSubmatch(block)
	require.NotNil(t, found, name)
	return strings.Fields(found[1])
}

func nginxSize(t *testing.T, block, name string) int64 {
	t.Helper()
	return bytesOf(t, nginxWords(t, block, name)[0])
}

func bytesOf(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text[:len(text)-1], 10, 64)
	require.NoError(t, err)
	unit, known := map[byte]int64{'k': 1 << 10, 'm': 1 << 20}[text[len(text)-1]]
	require.True(t, known, text)
	return n * unit
}

func nginxTime(t *testing.T, block, name string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(nginxWords(t, block, name)[0])
	require.NoError(t, err)
	return d
}

// envoyFile is the part of the configuration of Envoy that a test reads.
type envoyFile struct {
	hcm          *manager.HttpConnectionManager
	body         int64
	upstreamIdle time.Duration
}

// perRoute returns what a route changes of the filter that buffers.
func (envoyFile) perRoute(t *testing.T, r *route.Route) *buffer.BufferPerRoute {
	t.Helper()
	changed := &buffer.BufferPerRoute{}
	require.NoError(t, r.GetTypedPerFilterConfig()["envoy.filters.http.buffer"].UnmarshalTo(changed))
	return changed
}

// envoy reads the configuration, and its routes by what they match.
func envoy(t *testing.T, text string) (file envoyFile, routes map[string]*route.Route) {
	t.Helper()
	all := &bootstrap.Bootstrap{}
	require.NoError(t, readEnvoy(text, all))
	chain := all.GetStaticResources().GetListeners()[0].GetFilterChains()[0]
	require.NoError(t, chain.GetTransportSocket().GetTypedConfig().UnmarshalTo(&tls.DownstreamTlsContext{}))
	file.hcm = &manager.HttpConnectionManager{}
	require.NoError(t, chain.GetFilters()[0].GetTypedConfig().UnmarshalTo(file.hcm))
	buffers := &buffer.Buffer{}
	require.NoError(t, file.hcm.GetHttpFilters()[0].GetTypedConfig().UnmarshalTo(buffers))
	file.body = int64(buffers.GetMaxRequestBytes().GetValue())
	options := &upstream.HttpProtocolOptions{}
	require.NoError(t, all.GetStaticResources().GetClusters()[0].
		GetTypedExtensionProtocolOptions()["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"].UnmarshalTo(options))
	file.upstreamIdle = options.GetCommonHttpProtocolOptions().GetIdleTimeout().AsDuration()
	routes = map[string]*route.Route{}
	for _, r := range file.hcm.GetRouteConfig().GetVirtualHosts()[0].GetRoutes() {
		routes[r.GetMatch().GetPath()+r.GetMatch().GetPrefix()+r.GetMatch().GetSafeRegex().GetRegex()] = r
	}
	require.Len(t, routes, 6)
	return file, routes
}

// readEnvoy reads as Envoy does: an unknown field is an error, and every message within is held to the rules of its definition.
func readEnvoy(text string, into *bootstrap.Bootstrap) error {
	encoded, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return err
	}
	if err := protojson.Unmarshal(encoded, into); err != nil {
		return err
	}
	return validateAll(into)
}

// validateAll goes into each typed_config, which the generated rules do not.
func validateAll(m proto.Message) (err error) {
	if v, ok := m.(interface{ ValidateAll() error }); ok {
		if err := v.ValidateAll(); err != nil {
			return err
		}
	}
	if packed, ok := m.(*anypb.Any); ok {
		inner, err := packed.UnmarshalNew()
		if err != nil {
			return err
		}
		return validateAll(inner)
	}
	inside := func(v protoreflect.Value) bool {
		err = validateAll(v.Message().Interface())
		return err == nil
	}
	m.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.IsMap() && field.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { return inside(v) })
		case field.IsMap() || field.Message() == nil:
		case field.IsList():
			for i := 0; i < v.List().Len() && err == nil; i++ {
				inside(v.List().Get(i))
			}
		default:
			inside(v)
		}
		return err == nil
	})
	return err
}
