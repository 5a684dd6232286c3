package config

import "log/slog"

type Secret struct{ value string }

func (s Secret) Reveal() string { return s.value }

func (s Secret) String() string { return "***" }

func (s Secret) LogValue() slog.Value { return slog.StringValue("***") }
