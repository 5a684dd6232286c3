package handsets

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInternationalNumbers(t *testing.T) {
	t.Parallel()
	for spelling, want := range map[string]string{
		"+12025550177": "+12025550177", " +1 (202) 555-0177 ": "+12025550177", "+1.202.555.0177": "+12025550177", "0055 11 95555-0143": "+5511955550143",
		"": "", "+": "", "Ana": "", "202 555 0177": "", "+44 (0)20 7946 0018": "", "+1202": "", "+1202555017712345": "", "+0 202 555 0177": "", "+1 202 555 0177x": "",
	} {
		got, ok := international(spelling)
		require.Equal(t, want != "", ok, spelling)
		if ok {
			require.Equal(t, want, got)
		}
	}
}
