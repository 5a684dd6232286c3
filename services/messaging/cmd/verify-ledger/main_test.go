package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
)

func TestVerify(t *testing.T) {
	t.Parallel()
	const empty = `{"consent":{"phone":"+14155550123"},"events":[],"chain":{"org_id":"o","length":0,"head":""}}`
	var out strings.Builder
	require.NoError(t, verify(strings.NewReader(empty), &out))
	require.Contains(t, out.String(), "ok: 0 lines")
	require.ErrorContains(t, verify(strings.NewReader(strings.Replace(empty, `"length":0,"head":""`, `"length":1,"head":"ab"`, 1)), &out), "line 1")
	require.ErrorIs(t, verify(strings.NewReader("no"), &out), consent.ErrExport)
}
