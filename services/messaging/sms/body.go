package sms

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"unicode/utf8"

	"paceline.internal/platform/letters"
)

// MaxBody is the longest text that Twilio takes, in UTF-16 code units (error 21617 beyond it).
const MaxBody = 1600

// ErrBody is wrapped by every refused text. The texts of the errors never repeat it.
var ErrBody = errors.New("message text refused")

// Body is the text of a message. The zero value is no text; NewBody makes one.
type Body string

// NewBody accepts a text that Twilio will send as it is: valid UTF-8 without NUL (which Postgres cannot store), not
// blank, at most MaxBody code units.
func NewBody(text string) (Body, error) {
	switch {
	case !letters.Visible(text):
		return "", fmt.Errorf("%w: it is blank", ErrBody)
	case !utf8.ValidString(text):
		return "", fmt.Errorf("%w: it is not valid UTF-8 text", ErrBody)
	case strings.ContainsRune(text, 0):
		return "", fmt.Errorf("%w: it has a NUL character (U+0000)", ErrBody)
	}
	if units := letters.Units(text); units > MaxBody {
		return "", fmt.Errorf("%w: %d characters, at most %d fit (an emoji counts as two or more)", ErrBody, units, MaxBody)
	}
	return Body(text), nil
}

// LogValue tells the length and nothing of the content.
func (b Body) LogValue() slog.Value {
	return slog.StringValue(fmt.Sprintf("[%d characters]", utf8.RuneCountInString(string(b))))
}
