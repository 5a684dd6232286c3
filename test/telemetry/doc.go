// Package telemetry checks Prometheus' alert rules and Grafana's dashboards of deploy/telemetry, and docs/operate.md, against what
// the services really export.
package telemetry
