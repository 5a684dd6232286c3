package letters

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
)

// The alphabet of GSM 03.38. A character of the extension table is sent as an escape and a second septet.
const (
	gsmBasic = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?" +
		"¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
	gsmExtension = "^{}\\[]~|€\f"
)

// Septets returns how much room a character takes in GSM-7: 1, 2 in the extension table, or 0 when GSM-7 does not have it.
func Septets(r rune) int {
	switch {
	case strings.ContainsRune(gsmBasic, r):
		return 1
	case strings.ContainsRune(gsmExtension, r):
		return 2
	}
	return 0
}

// Dearer lists the characters of a text that GSM-7 does not have, each once, in their order. One of them is enough to send the whole text
// in UCS-2, which holds less than half as much.
func Dearer(text string) []rune {
	var found []rune
	for _, r := range text {
		if Septets(r) == 0 && !slices.Contains(found, r) {
			found = append(found, r)
		}
	}
	return found
}

// Plain writes a text in GSM-7 where that says the same: straight quotes for curly ones, hyphens for dashes, nothing for what cannot be
// seen. A text that GSM-7 cannot hold even so stays as it is, since nothing would be won.
func Plain(text string) string {
	var plain strings.Builder
	for _, r := range text {
		if Septets(r) > 0 {
			plain.WriteRune(r)
			continue
		}
		same, found := Instead(r)
		if !found {
			return text
		}
		plain.WriteString(same)
	}
	return plain.String()
}

// Instead returns what says the same as a character in GSM-7, which is empty for one that cannot be seen, and whether anything does.
func Instead(r rune) (same string, found bool) {
	switch {
	case strings.ContainsRune("‘’‚‛′‵ʹʻʼʽˈ´`＇❛❜", r):
		return "'", true
	case strings.ContainsRune("“”„‟″‶«»ʺ˝＂❝❞〝〞", r):
		return `"`, true
	case strings.ContainsRune("‐‑‒–—―−⁃﹣－", r):
		return "-", true
	case strings.ContainsRune("⁄∕／", r):
		return "/", true
	case r == '‹':
		return "<", true
	case r == '›':
		return ">", true
	case r == '…':
		return "...", true
	case r == '\t' || r != ' ' && unicode.Is(unicode.Zs, r):
		return " ", true
	case r == '\v' || r == 0x85 || r == 0x2028 || r == 0x2029: // line breaks
		return "\n", true
	case unseen(r):
		return "", true
	}
	return "", false
}

// Straight writes every apostrophe of a text as the straight one: keyboards have many.
func Straight(text string) string {
	return strings.Map(func(r rune) rune {
		if same, _ := Instead(r); same == "'" {
			return '\''
		}
		return r
	}, text)
}

// Joined writes a text without its apostrophes: "don't" is "dont".
func Joined(text string) string { return strings.ReplaceAll(Straight(text), "'", "") }

// unseen reports whether a character shows nothing: the soft hyphen, zero width spaces and joiners, directions, and which form the
// character before it has. Among letters of other scripts and emoji they mean something; a text with these is not in GSM-7 anyway.
func unseen(r rune) bool {
	return r == 0xad || r >= 0x200b && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2060 && r <= 0x206f ||
		r == 0xfeff || r == 0xfe0e || r == 0xfe0f
}

// Units counts characters as Twilio does, in UTF-16 code units: an emoji is two or more. An invalid byte counts as one.
func Units(text string) (count int) {
	for _, r := range text {
		count += utf16.RuneLen(r)
	}
	return count
}

// Segments returns how many SMS segments a text takes: 160 characters of GSM-7 or 70 of UCS-2 in one, 153 or 67 in each of many. A
// character is never cut in two.
func Segments(text string) (count int) {
	single, multi, width := 160, 153, Septets
	if len(Dearer(text)) > 0 {
		single, multi, width = 70, 67, utf16.RuneLen
	}
	total, used := 0, multi // as if a full segment came before the first
	for _, r := range text {
		if used+width(r) > multi {
			count, used = count+1, 0
		}
		total, used = total+width(r), used+width(r)
	}
	if total > 0 && total <= single {
		return 1
	}
	return count
}
