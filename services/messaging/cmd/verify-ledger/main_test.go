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
	_, err := verify(strings.NewReader(empty), &out)
	require.NoError(t, err)
	require.Contains(t, out.String(), "ok: 0 lines")
	_, err = verify(strings.NewReader(strings.Replace(empty, `"length":0,"head":""`, `"length":1,"head":"ab"`, 1)), &out)
	require.ErrorContains(t, err, "line 1")
	_, err = verify(strings.NewReader("no"), &out)
	require.ErrorIs(t, err, consent.ErrExport)
}
