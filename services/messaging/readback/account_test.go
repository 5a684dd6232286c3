package readback

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMakeRoom forgets the accounts that nobody reads, once they are too much.
func TestMakeRoom(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	read, reading := s.use("read"), s.use("reading")
	s.makeRoom(read, keptTexts/2)
	s.done(read)
	s.makeRoom(reading, keptTexts/2)
	require.Len(t, s.accounts, 2)

	another := s.use("another")
	s.makeRoom(another, 1)
	require.Equal(t, map[string]*account{"reading": reading, "another": another}, s.accounts)
	s.done(reading)
	s.makeRoom(another, keptTexts/2)
	require.Len(t, s.accounts, 2, "no more than that")
	s.makeRoom(another, keptTexts/2+1)
	require.Equal(t, map[string]*account{"another": another}, s.accounts)
	require.Same(t, another, s.use("another"))
}
