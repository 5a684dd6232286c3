module paceline.internal/guardrails

go 1.26.0
