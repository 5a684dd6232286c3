// Package telemetry is what watches the product: Prometheus' alert rules in alerts.yaml and Grafana's dashboards in dashboards,
// with tests that hold each of them, and docs/slo.md, to what the services really export.
package telemetry
