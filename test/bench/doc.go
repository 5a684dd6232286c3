// Package bench holds the benchmarks of docs/performance.md: gateway, onboarding and messaging run as processes on a durable
// Postgres, and each figure stands next to a baseline of the same run.
package bench
