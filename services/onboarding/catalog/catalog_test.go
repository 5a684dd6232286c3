package catalog_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/session"
)

var update = flag.Bool("update", false, "write the golden files anew")

const version = "2026-11"

// files is a catalog of one good version in English and Portuguese, changed as a test wants.
func files(change func(fstest.MapFS)) fstest.MapFS {
	texts := func(opening string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(`{
			"ONBOARDING_OPENING": "` + opening + `", "ONBOARDING_EXPLANATION": "b", "ONBOARDING_LATER": "c",
			"ONBOARDING_MESSAGE_1": "d", "ONBOARDING_MESSAGE_2": "e", "ONBOARDING_MESSAGE_3": "f", "ONBOARDING_MESSAGE_4": "g"}`)}
	}
	fsys := fstest.MapFS{"2026-11.en.json": texts("Hi {first_name}"), "2026-11.pt-BR.json": texts("Oi {first_name}")}
	if change != nil {
		change(fsys)
	}
	return fsys
}

// replace swaps a piece of one file.
func replace(name, from, to string) func(fstest.MapFS) {
	return func(fsys fstest.MapFS) {
		text := string(fsys[name].Data)
		if !strings.Contains(text, from) {
			panic("nothing to replace: " + from)
		}
		fsys[name] = &fstest.MapFile{Data: []byte(strings.Replace(text, from, to, 1))}
	}
}

func TestDefaultCopyIsWhatWasReviewed(t *testing.T) {
	t.Parallel()
	c := catalog.Default()
	var got strings.Builder
	for _, version := range c.Versions() {
		for _, locale := range c.Locales(version) {
			for _, key := range keysOfDefaultFlow() {
				text, err := c.Render(version, locale, key, "João")
				require.NoError(t, err)
				fmt.Fprintf(&got, "%s %s %s\n%s\n\n", version, locale, key, text)
			}
		}
	}
	golden := filepath.Join("testdata", "default.golden")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String(), "run with -update and have the texts reviewed; a sent text must keep its version")
}

// keysOfDefaultFlow is every text that the built-in flow sends, direct and scheduled.
func keysOfDefaultFlow() []string {
	keys := []string{string(session.TextOpening), string(session.TextExplanation), string(session.TextLater)}
	for _, step := range session.DefaultFlow().Steps() {
		keys = append(keys, string(step.Text))
	}
	return keys
}

func TestDefaultCopyTellsHowToStop(t *testing.T) {
	t.Parallel()
	c := catalog.Default()
	for locale, word := range map[string]string{"en": "STOP", "pt-BR": "PARAR"} {
		for _, key := range []string{"ONBOARDING_OPENING", "ONBOARDING_EXPLANATION"} {
			text, err := c.Render(c.Current(), locale, key, "Ana")
			require.NoError(t, err)
			require.Contains(t, text, word)
		}
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	c, err := catalog.Load(files(func(fsys fstest.MapFS) {
		fsys["2026-12.en.json"] = &fstest.MapFile{Data: []byte(strings.Replace(string(fsys["2026-11.en.json"].Data), "Hi", "Hello", 1))}
	}))
	require.NoError(t, err)
	require.Equal(t, "2026-12", c.Current())
	require.Equal(t, []string{"2026-11", "2026-12"}, c.Versions())
	require.Equal(t, []string{"en", "pt-BR"}, c.Locales(version))

	const opening = "ONBOARDING_OPENING"
	tests := []struct {
		name      string
		version   string
		locale    string
		key       string
		firstName string
		want      string
	}{
		{name: "S0_68_FirstNameInThePinnedVersion", version: version, locale: "en", key: opening, firstName: "Ana", want: "Hi Ana"},
		{name: "S0_68_NewVersionHasItsOwn", version: "2026-12", locale: "en", key: opening, firstName: "Ana", want: "Hello Ana"},
		{name: "SameLocale", version: version, locale: "pt-BR", key: opening, firstName: "Ana", want: "Oi Ana"},
		{name: "LocaleInAnySpelling", version: version, locale: "PT_br", key: opening, firstName: "Ana", want: "Oi Ana"},
		{name: "LocaleFallsBackToItsLanguage", version: version, locale: "pt-PT", key: opening, firstName: "Ana", want: "Oi Ana"},
		{name: "LanguageAlone", version: version, locale: "pt", key: opening, firstName: "Ana", want: "Oi Ana"},
		{name: "UnknownLocaleFallsBackToEnglish", version: version, locale: "fr-CA", key: opening, firstName: "Ana", want: "Hi Ana"},
		{name: "NoLocaleFallsBackToEnglish", version: version, locale: "", key: opening, firstName: "Ana", want: "Hi Ana"},
		{name: "LocaleThatTheVersionLacks", version: "2026-12", locale: "pt-BR", key: opening, firstName: "Ana", want: "Hello Ana"},
		{name: "TextWithoutNameNeedsNone", version: version, locale: "en", key: "ONBOARDING_LATER", firstName: "", want: "c"},
		{name: "NameIsTrimmed", version: version, locale: "en", key: opening, firstName: "  Ana \t Maria ", want: "Hi Ana Maria"},
		{name: "LineBreakAndControlBecomeSpace", version: version, locale: "en", key: opening, firstName: "Ana\r\nMaria\x00", want: "Hi Ana Maria"},
		{name: "BracesAreLeftOut", version: version, locale: "en", key: opening, firstName: "{first_name}", want: "Hi firstname"},
		{name: "EmojiAndInvisibleCharactersAreLeftOut", version: version, locale: "en", key: opening, firstName: "Ana\u200b 🎉\u202e", want: "Hi Ana"},
		{name: "NoLinkInAName", version: version, locale: "en", key: opening, firstName: "https://evil.example", want: "Hi httpsevilexample"},
		{name: "InvalidUTF8IsLeftOut", version: version, locale: "en", key: opening, firstName: "Ana\xff", want: "Hi Ana"},
		{name: "HyphenAndApostropheStay", version: version, locale: "en", key: opening, firstName: "Anne-Marie D’Arc", want: "Hi Anne-Marie D'Arc"},
		{name: "CombiningMarksAreComposed", version: version, locale: "en", key: opening, firstName: "Joa\u0303o", want: "Hi João"},
		{name: "LongNameLosesItsLastWords", version: version, locale: "en", key: opening, firstName: "Maria Eduarda Fernandes", want: "Hi Maria Eduarda"},
		{name: "LongWordIsCut", version: version, locale: "en", key: opening, firstName: strings.Repeat("a", 30), want: "Hi " + strings.Repeat("a", 20)},
		{name: "WideLettersCountTwice", version: version, locale: "en", key: opening, firstName: strings.Repeat("𐐀", 30), want: "Hi " + strings.Repeat("𐐀", 10)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := c.Render(tt.version, tt.locale, tt.key, tt.firstName)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}

	t.Run("S0_68_BlankNameIsRefused", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"", " ", "\n\t", "\u00a0", "{}", "🎉", "-", "7", "\u0303"} {
			_, err := c.Render(version, "en", opening, name)
			require.ErrorIs(t, err, catalog.ErrBlankName, "%q", name)
		}
	})

	t.Run("UnknownVersionIsRefused", func(t *testing.T) {
		t.Parallel()
		_, err := c.Render("2025-01", "en", opening, "Ana")
		require.ErrorIs(t, err, catalog.ErrUnknownVersion)
		require.ErrorContains(t, err, "2026-11, 2026-12")
	})

	t.Run("UnknownTextIsRefused", func(t *testing.T) {
		t.Parallel()
		_, err := c.Render(version, "en", "ONBOARDING_MESSAGE_9", "Ana")
		require.ErrorIs(t, err, catalog.ErrUnknownText)
		require.False(t, c.Has(version, "ONBOARDING_MESSAGE_9"))
		require.True(t, c.Has(version, opening))
	})
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	const en, pt = "2026-11.en.json", "2026-11.pt-BR.json"
	later := func(text string) func(fstest.MapFS) {
		return replace(en, `"ONBOARDING_LATER": "c"`, `"ONBOARDING_LATER": "`+text+`"`)
	}
	tests := []struct {
		name   string
		change func(fstest.MapFS)
		want   string
	}{
		{name: "NoFiles", change: func(f fstest.MapFS) { clear(f) }, want: "there are no files"},
		{name: "FileName", change: func(f fstest.MapFS) { f["copy.json"] = f[en] }, want: "copy.json: a file is named <version>.<locale>.json"},
		{name: "VersionThatIsNoDate", change: func(f fstest.MapFS) { f["2026-13.en.json"] = f[en] }, want: "2026-13.en.json: a file is named"},
		{name: "LocaleWithOtherCharacters", change: func(f fstest.MapFS) { f["2026-11.e.n.json"] = f[en] }, want: "2026-11.e.n.json: a file is named"},
		{name: "Unreadable", change: func(f fstest.MapFS) { f["2026-12.en.json"] = &fstest.MapFile{Mode: fs.ModeDir} }, want: "2026-12.en.json"},
		{name: "NotJSON", change: replace(en, "{", "["), want: "2026-11.en.json: invalid character"},
		{name: "EnglishMissing", change: func(f fstest.MapFS) { delete(f, en) }, want: "language en is missing"},
		{name: "TextMissing", change: replace(pt, `, "ONBOARDING_LATER": "c"`, ""), want: "ONBOARDING_LATER in pt-BR is missing or empty"},
		{name: "S0_68_TextBlank", change: later(`  `), want: "ONBOARDING_LATER in en is missing or empty"},
		{name: "TextInOneLanguageOnly", change: replace(en, `"ONBOARDING_LATER"`, `"ONBOARDING_MESSAGE_5": "x", "ONBOARDING_LATER"`), want: "ONBOARDING_MESSAGE_5 in pt-BR is missing"},
		{name: "UnknownKey", change: replace(en, `"ONBOARDING_LATER"`, `"GREETING": "x", "ONBOARDING_LATER"`), want: "GREETING is not a key"},
		{name: "OpeningWithoutName", change: replace(pt, " {first_name}", ""), want: "ONBOARDING_OPENING in pt-BR does not have {first_name}"},
		{name: "UnknownPlaceholder", change: later("see {link}"), want: "has a brace outside"},
		{name: "LineBreak", change: later(`a\nb`), want: "has a line break"},
		{name: "SpaceAround", change: later("a "), want: "space around it"},
		{name: "TooLongInGSM7", change: later(strings.Repeat("a", 301)), want: "is 301 characters; two segments hold 300 in GSM-7"},
		{name: "TooLongInUCS2", change: later("ã" + strings.Repeat("a", 134)), want: "is 135 characters; two segments hold 134 because 'ã' is not in GSM-7"},
		{name: "TooLongWithAName", change: later("{first_name}" + strings.Repeat("a", 115)), want: "is 135 characters; two segments hold 134 because a name"},
		{name: "S0_68_Praise", change: later("Great job, see you"), want: `says "great job"`},
		{name: "PortuguesePraise", change: later("Parabéns"), want: `says "parabéns"`},
		{name: "S0_68_Pressure", change: later("This is your LAST chance."), want: `says "last chance"`},
		{name: "Guilt", change: later("We miss you"), want: `says "we miss you"`},
		{name: "S0_68_Guarantee", change: later("Results guaranteed."), want: `says "guaranteed"`},
		{name: "S0_68_ProgressCounter", change: later("This is 1/4"), want: "counts progress"},
		{name: "ProgressInWords", change: later("Passo 2: perguntas"), want: "counts progress"},
		{name: "ProgressInPercent", change: later("50 % ready"), want: "counts progress"},
		{name: "Shouting", change: later("READ this"), want: `shouts "READ"`},
		{name: "ExclamationMarks", change: later("Hello!!"), want: "more than one !"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := catalog.Load(files(tt.change))
			require.ErrorIs(t, err, catalog.ErrCopy)
			require.ErrorContains(t, err, tt.want)
		})
	}

	t.Run("ReportsEverythingAtOnce", func(t *testing.T) {
		t.Parallel()
		_, err := catalog.Load(files(func(f fstest.MapFS) {
			later("Hurry!!")(f)
			f["copy.json"] = f[pt]
		}))
		for _, want := range []string{"hurry", "more than one !", "copy.json"} {
			require.ErrorContains(t, err, want)
		}
	})

	t.Run("WordsToReplyMayBeInCapitals", func(t *testing.T) {
		t.Parallel()
		_, err := catalog.Load(files(later("Text STOP, HELP or START. Oi, SMS.")))
		require.NoError(t, err)
	})

	t.Run("LongestTexts", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{strings.Repeat("a", 300), strings.Repeat("ã", 134), "{first_name}" + strings.Repeat("a", 114)} {
			_, err := catalog.Load(files(later(text)))
			require.NoError(t, err)
		}
	})
}

// TestCopyIsComposed writes a copy file, a name and a person's words with the accents apart: what is sent has them together, and costs as
// little as they do.
func TestCopyIsComposed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		words := norm.NFC.String(strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"não", "José", "é", "Müller", "한국", "ação", "ok"}), 1, 4).Draw(t, "words"), " "))
		apart := norm.NFD.String(words)
		c, err := catalog.Load(files(replace("2026-11.en.json", `"ONBOARDING_LATER": "c"`, `"ONBOARDING_LATER": "`+apart+`"`)))
		require.NoError(t, err)
		text, err := c.Render(version, "en", "ONBOARDING_LATER", "Ana")
		require.NoError(t, err)
		require.Equal(t, words, text)
		text, err = c.Render(version, "en", string(session.TextOpening), norm.NFD.String("José"))
		require.NoError(t, err)
		require.Contains(t, text, "José")
		e, err := catalog.LoadEngagement(fstest.MapFS{"2026-11.en.json": {Data: fmt.Appendf(nil, `{%q: %q}`, catalog.Apology, apart)}})
		require.NoError(t, err)
		text, err = e.Render("en", catalog.Apology, "", catalog.Params{})
		require.NoError(t, err)
		require.Equal(t, words, text)
		text, err = e.Render("en", catalog.GoalScheduled, "", catalog.Params{Goal: "say “" + norm.NFD.String("é") + "”", When: "now"})
		require.NoError(t, err)
		require.Contains(t, text, `say "é"`)
	})
}
