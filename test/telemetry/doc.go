// Package telemetry holds Prometheus' alert rules and Grafana's dashboards of deploy/telemetry, and docs/slo.md, to what the
// services really export.
package telemetry
