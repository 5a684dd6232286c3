package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// parseCurl reads the few options of curl that our own lines use, as curl would: the machine that runs the tests may
// not have curl.
func parseCurl(t *testing.T, line string) *http.Request {
	t.Helper()
	words := shellWords(t, line)
	require.Equal(t, "curl", words[0])
	method, target, body := http.MethodGet, "", ""
	header, form := http.Header{}, url.Values{}
	next := func(i *int) string { *i++; return words[*i] }
	for i := 1; i < len(words); i++ {
		switch words[i] {
		case "-s":
		case "-H", "-sH":
			name, value, _ := strings.Cut(next(&i), ": ")
			header.Set(name, value)
		case "-X":
			method = next(&i)
		case "-d":
			body = next(&i)
			if method == http.MethodGet {
				method = http.MethodPost
			}
		case "--data-urlencode":
			name, value, _ := strings.Cut(next(&i), "=")
			form.Set(name, value)
		default:
			require.False(t, strings.HasPrefix(words[i], "-"), "parseCurl does not know %s", words[i])
			target = words[i]
		}
	}
	if len(form) > 0 {
		method, body = http.MethodPost, form.Encode()
		header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	request, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	require.NoError(t, err)
	request.Header = header
	return request
}

// shellWords splits a line at spaces outside of quotes.
func shellWords(t *testing.T, line string) []string {
	t.Helper()
	var words []string
	var word strings.Builder
	quote, escaped := rune(0), false
	for _, r := range line + " " {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote == '"':
			escaped = true
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case r == quote:
			quote = 0
		case quote == 0 && r == ' ':
			if word.Len() > 0 {
				words = append(words, word.String())
				word.Reset()
			}
		default:
			word.WriteRune(r)
		}
	}
	require.Zero(t, quote, "an open quote in %s", line)
	return words
}
