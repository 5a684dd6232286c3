package docs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/test/docs"
)

func TestIndex(t *testing.T) {
	t.Parallel()
	tests, err := docs.Index("testdata/index")
	require.NoError(t, err)
	require.Equal(t, []docs.Test{
		{Dir: ".", Name: "FuzzSeeds"},
		{Dir: ".", Name: "TestFramed"},
		{Dir: ".", Name: "TestFramed/S9_05_BodyIsRefused"},
		{Dir: ".", Name: "TestHelper"},
		{Dir: ".", Name: "TestHelper/Inside"},
		{Dir: ".", Name: "TestMapAndVariable"},
		{Dir: ".", Name: "TestMapAndVariable/FromAVariable"},
		{Dir: ".", Name: "TestMapAndVariable/MapKey"},
		{Dir: ".", Name: "TestMapAndVariable/Ranged"},
		{Dir: ".", Name: "TestPlain"},
		{Dir: ".", Name: "TestPlain/ByName"},
		{Dir: ".", Name: "TestPlain/ByName/Inside"},
		{Dir: ".", Name: "TestPlain/S9_01_Literal"},
		{Dir: ".", Name: "TestPlain/S9_01_Literal/with_spaces"},
		{Dir: ".", Name: "TestPlain/Skipping", Skips: true},
		{Dir: ".", Name: "TestSkipped", Skips: true},
		{Dir: ".", Name: "TestSkipped/Child", Skips: true},
		{Dir: ".", Name: "TestTable"},
		{Dir: ".", Name: "TestTable/Positional"},
		{Dir: ".", Name: "TestTable/S9_02_S9_03_Keyed"},
		{Dir: "inner", Name: "TestInner"},
	}, tests)
}

func TestTestsFor(t *testing.T) {
	t.Parallel()
	tests := []docs.Test{
		{Name: "TestPlain/S9_01_Literal"},
		{Name: "TestPlain/S9_01_Literal/S9_01_Again"},
		{Name: "TestTable/S9_02_S9_03_Keyed"},
		{Name: "TestItem99Binary"},
		{Name: "TestLineItem99"},
		{Name: "TestConformance/Item991"},
	}
	for _, tt := range []struct {
		name, criterion string
		want            []string
	}{
		{name: "OutermostOnly", criterion: "S9-01", want: []string{"TestPlain/S9_01_Literal"}},
		{name: "FirstOfTwo", criterion: "S9-02", want: []string{"TestTable/S9_02_S9_03_Keyed"}},
		{name: "SecondOfTwo", criterion: "S9-03", want: []string{"TestTable/S9_02_S9_03_Keyed"}},
		{name: "None", criterion: "S9-04"},
		{name: "WholeMarksOnly", criterion: "Item99", want: []string{"TestItem99Binary"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var names []string
			for _, test := range docs.TestsFor(tt.criterion, tests) {
				names = append(names, test.Name)
			}
			require.Equal(t, tt.want, names)
		})
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	tests := []docs.Test{{Dir: "platform/qstash", Name: "TestVerify/S9_02_Tampered"}}
	for _, tt := range []struct {
		name, row, want string
	}{
		{
			name: "OpenRowFindsItsTest",
			row:  "| S9-02 | tampered | – | open |",
			want: "| S9-02 | tampered | `platform/qstash TestVerify/S9_02_Tampered` | met |",
		},
		{
			name: "MetRowLosesItsTest",
			row:  "| S9-03 | missing | `platform/qstash TestVerify/S9_03_Missing` | met |",
			want: "| S9-03 | missing | – | open |",
		},
		{
			name: "LaterIssueKeepsItsRow",
			row:  "| S0-65 | crash | – | issue 3 |",
			want: "| S0-65 | crash | – | issue 3 |",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			row, ok := docs.ParseRow(tt.row)
			require.True(t, ok)
			require.Equal(t, tt.want, docs.Update(row, tests).String())
		})
	}
}
