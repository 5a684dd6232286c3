package studio

import (
	"fmt"
	"strings"

	"paceline.internal/platform/letters"
)

// names gives every widget a name that a flow takes, once each.
type names map[string]bool

// take returns a name of a-z, 0-9 and _ of at most limit characters that begins with a letter.
func (n names) take(text string, limit int) string {
	name := strings.Join(letters.Words(text), "_")
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return -1
	}, name)
	if name == "" || name[0] < 'a' || name[0] > 'z' {
		name = "step_" + name
	}
	name = strings.TrimRight(name[:min(len(name), limit-3)], "_") // there is room for _99
	unique := name
	for i := 2; n[unique]; i++ {
		unique = fmt.Sprintf("%s_%d", name, i)
	}
	n[unique] = true
	return unique
}
