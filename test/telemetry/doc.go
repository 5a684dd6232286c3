// Package telemetry checks Prometheus' alert rules and Grafana's dashboards of deploy/telemetry, and docs/slo.md, against what
// the services really export.
package telemetry
