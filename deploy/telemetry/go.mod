module paceline.internal/deploy/telemetry

go 1.26.0
