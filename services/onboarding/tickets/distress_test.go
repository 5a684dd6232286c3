package tickets_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/tickets"
)

func TestDistressed(t *testing.T) {
	t.Parallel()
	words := []string{"want to die", "não aguento mais"}
	require.True(t, tickets.Distressed("I WANT TO DIE.", words))
	require.True(t, tickets.Distressed("eu nao aguento mais", words))
	require.True(t, tickets.Distressed("I don't want to die", words), "nothing negates it")
	require.False(t, tickets.Distressed("the battery died", words))
	require.False(t, tickets.Distressed("I want to die", nil))
}
