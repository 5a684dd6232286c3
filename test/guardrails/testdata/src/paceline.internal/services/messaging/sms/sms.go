package sms

import "log/slog"

type Phone struct{ e164 string }

func (p Phone) String() string { return p.e164 }

func (p Phone) LogValue() slog.Value { return slog.StringValue("***") }

type Body string

func (b Body) LogValue() slog.Value { return slog.StringValue("***") }
