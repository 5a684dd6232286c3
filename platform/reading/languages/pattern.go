package languages

import (
	"regexp"
	"sync"
)

// Pattern is a regular expression that is compiled when it is first used. A program holds those of all services, with the words of all
// languages, and each service reads few of them.
type Pattern struct{ compiled func() *regexp.Regexp }

// Regexp returns a pattern in which {key} stands for any line of that key.
func (l Language) Regexp(pattern string) Pattern {
	return Pattern{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(l.filled(pattern, 0)) })}
}

// MatchString is regexp.Regexp's, as are the others.
func (p Pattern) MatchString(text string) bool { return p.compiled().MatchString(text) }

// FindString returns the first match.
func (p Pattern) FindString(text string) string { return p.compiled().FindString(text) }

// FindAllString returns all matches, which do not overlap.
func (p Pattern) FindAllString(text string) []string { return p.compiled().FindAllString(text, -1) }

// FindStringIndex returns the place of the first match.
func (p Pattern) FindStringIndex(text string) []int { return p.compiled().FindStringIndex(text) }

// FindStringSubmatch returns the first match and its groups.
func (p Pattern) FindStringSubmatch(text string) []string {
	return p.compiled().FindStringSubmatch(text)
}

// ReplaceAllString replaces all matches.
func (p Pattern) ReplaceAllString(text, by string) string {
	return p.compiled().ReplaceAllString(text, by)
}

// ReplaceAllStringFunc replaces each match by what a function makes of it.
func (p Pattern) ReplaceAllStringFunc(text string, by func(string) string) string {
	return p.compiled().ReplaceAllStringFunc(text, by)
}
