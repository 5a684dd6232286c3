package rush

import (
	"context"
	"log/slog"

	"paceline.internal/platform/config"
	"paceline.internal/platform/telemetry"
	"paceline.internal/services/messaging/sms"
)

const keyPhone = "phone"

func logs(ctx context.Context, log *slog.Logger, to sms.Phone, body sms.Body, key config.Secret, text string, raw []byte) {
	log.InfoContext(ctx, "sent", "to", to.String())                          // want `what a masking type hides reaches a log - log the value of the masking type`
	log.InfoContext(ctx, "sent", "id", 7, "said", string(body))              // want `what a masking type hides`
	log.LogAttrs(ctx, slog.LevelInfo, "x", slog.String("key", key.Reveal())) // want `what a masking type hides`
	log.LogAttrs(ctx, slog.LevelInfo, "x", slog.String(keyPhone, text))      // want `the plain string phone reaches a log`
	slog.Info("x", slog.Int("n", 1), "message_body", raw)                    // want `the plain string message_body`
	log.With("qstash_token", text).Info("x")                                 // want `the plain string qstash_token`
	slog.Group("x", "password", text)                                        // want `the plain string password`

	log.InfoContext(ctx, "sent", "to", to, "body", body, slog.Any("phone", telemetry.Masked(text)), "secret", key)
	log.LogAttrs(ctx, slog.LevelInfo, "x", slog.String("state_token", text), slog.String("phone_number_id", text), slog.Int("body", len(raw)))
}
