package telemetry

import "log/slog"

type Masked string

func (m Masked) LogValue() slog.Value { return slog.StringValue("***") }
