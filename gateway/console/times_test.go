package console

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/message"
)

func TestTimesAreSaidAsPeopleSayThem(t *testing.T) {
	t.Parallel()
	said := func(lang int) frame {
		return frame{reader: reader{place: time.UTC, printer: message.NewPrinter(languages[lang], message.Catalog(words))}, Now: noon}
	}
	for _, tt := range []struct {
		ago          time.Duration
		en, pt, span string
	}{
		{ago: 10 * time.Second, en: "just now", pt: "agora", span: "10 s"},
		{ago: 150 * time.Second, en: "2 min ago", pt: "há 2 min", span: "2 min 30 s"},
		{ago: -5 * time.Hour, en: "in 5 h", pt: "em 5 h", span: "0 s"},
		{ago: 26 * time.Hour, en: "1 day ago", pt: "há 1 dia", span: "1 day 2 h"},
		{ago: 8 * day, en: "Nov 16", pt: "16 de nov.", span: "8 days"},
		{ago: 400*day + 5*time.Hour, en: "Oct 20, 2025", pt: "20 de out. de 2025", span: "400 days"},
	} {
		require.Equal(t, tt.en, said(0).relative(noon.Add(-tt.ago)))
		require.Equal(t, tt.pt, said(1).relative(noon.Add(-tt.ago)))
		require.Equal(t, tt.span, said(0).Span(tt.ago))
	}
	require.Equal(t, "Yesterday", said(0).Day(noon.Add(-13*time.Hour)))
	require.Contains(t, said(0).Time(noon), `title="2026-11-24 12:00:00 UTC">just now</time>`)
}
