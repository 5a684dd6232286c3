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
	require.False(t, tickets.Distressed("I want to die", []string{}), "the organisation wants none")
	for _, text := range []string{
		"please stop, I want to die", "I'm going to kill myself", "quero morrer", "vou me matar", "quiero morir", "Suicide", "j'ai envie de mourir",
		"im done. theres no point living anymore", "quero sumir, nao quero mais viver", "queria acabar com a minha vida",
	} {
		require.True(t, tickets.Distressed(text, nil), text)
	}
	for _, text := range []string{"I hurt my knee at work", "tenho muita vontade de viver", "no point in waiting"} {
		require.False(t, tickets.Distressed(text, nil), text)
	}
}
