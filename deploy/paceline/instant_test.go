package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInstant(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"ARestoreToTheFuture": {
			args: []string{"restore", "--from", t.TempDir(), "--to", t.TempDir(), "--at", "2999-01-01T00:00:00Z"},
			want: "--at 2999-01-01T00:00:00Z is in the future: name an instant that has passed, such as 2026-11-30T21:00:00Z",
		},
		"ARestoreToYesterday": {
			args: []string{"restore", "--from", t.TempDir(), "--to", t.TempDir(), "--at", "yesterday"},
			want: `"yesterday" is no instant: write it such as 2026-11-30T21:00:00Z`,
		},
		"ASettlingOfTheFuture": {
			args: []string{"settle", "--since", "2999-01-01T00:00:00Z"}, want: "--since 2999-01-01T00:00:00Z is in the future",
		},
		"ASignatureWithoutAZone": {
			args: []string{"doctor", "signature", "--url", "/", "--at", "2026-11-20T12:00:00"}, want: "is no instant: write it such as",
		},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			t.Parallel()
			err := run(t.Context(), tt.args, terminal{out: io.Discard})
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "2006-01-02")
		})
	}
}
