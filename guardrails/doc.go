// Package guardrails holds analyzers that keep the rules of the house.
package guardrails
