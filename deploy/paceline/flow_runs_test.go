package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadList reads the files that people have of a list of people.
func TestReadList(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, file string
		want       []string
	}{
		{name: "OneOnEachLine", file: "+14155550142\n\n 01900000-0000-7000-8000-000000000001 \r\n", want: []string{"+14155550142", "01900000-0000-7000-8000-000000000001"}},
		{name: "ColumnPhone", file: "\ufefffirst_name,Phone\nAna,\"+1 (415) 555-0142\"\nBo\n", want: []string{"+1 (415) 555-0142"}},
		{name: "ColumnProfileID", file: "phone,profile_id\n+14155550142,x\n", want: []string{"x"}},
		{name: "Semicolons", file: "Nome;phone\nAna, a mais velha;+5511987654321\n", want: []string{"+5511987654321"}},
		{name: "Nobody", file: "phone\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			list, err := readList(strings.NewReader(tt.file))
			require.NoError(t, err)
			require.Equal(t, tt.want, list)
		})
	}
	_, err := readList(strings.NewReader("Nome;Celular\nAna;+5511987654321\n"))
	require.ErrorContains(t, err, `"Nome;Celular" names no column profile_id or phone`)
}
