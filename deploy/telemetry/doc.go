// Package telemetry checks the dashboards and alerts that come with the product.
package telemetry
