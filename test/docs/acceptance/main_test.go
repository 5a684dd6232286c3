package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const mapOfTwo = "S0-01\t%s\nS0-02\t%s\n"

// stream returns what `go test -json` writes of lines such as "pass gateway TestStep/S0_01_Works"; "output" lines go on with a text.
func stream(t *testing.T, lines ...string) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	for _, line := range lines {
		words := append(strings.SplitN(line, " ", 4), "", "")
		require.NoError(t, json.NewEncoder(&out).Encode(event{
			Action: words[0], Package: "paceline.internal/" + words[1], Test: words[2], Output: words[3],
		}))
	}
	return &out
}

// checkout makes a folder with a map and one test file.
func checkout(t *testing.T, tests, source string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range map[string]string{held: tests, "gateway/step_test.go": source, "platform/rpc/a_test.go": ""} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	return root
}

func TestRun(t *testing.T) {
	t.Parallel()
	const one, two = "gateway TestStep/S0_01_Works", "platform/qstash TestVerify/S0_02_Cut"
	ran := []string{
		"pass gateway TestStep/S0_01_Works", "pass gateway TestStep", "pass gateway",
		"pass platform/qstash TestVerify/S0_02_Cut", "pass platform/qstash TestVerify/S0_02_Cut/inside", "pass platform/qstash TestVerify",
		"pass platform/qstash",
	}
	for _, tt := range []struct {
		name, source string
		first, rest  string // the map's cells before
		run          []string
		want         string // of the error; "" for none
	}{
		{name: "MapThatSaysWhatRan", first: one, rest: two, run: ran},
		{name: "TestThatIsNew", first: "", rest: two, run: ran, want: held + " is not what ran"},
		{name: "TestThatIsGone", first: one, rest: two, run: ran[:3], want: "S0-02 is met by no test that ran and passed"},
		{
			name: "TestThatWasSkippedStaysInTheMap", first: one, rest: two + between + "platform/rpc TestOther/S0_02_Sometimes",
			run: append([]string{"skip platform/rpc TestOther/S0_02_Sometimes"}, ran...),
		},
		{
			name: "TestBelowASkippedOneStaysInTheMap", first: one, rest: two + between + "platform/rpc TestOther ×4",
			run: append([]string{"skip platform/rpc TestOther"}, ran...),
		},
		{
			name: "CriterionOfSkippedTestsOnly", first: one, rest: "platform/rpc TestOther/S0_02_Sometimes",
			run:  append([]string{"skip platform/rpc TestOther/S0_02_Sometimes"}, ran[:3]...),
			want: "S0-02 is met by no test that ran and passed",
		},
		{name: "TestThatFailed", first: one, rest: two, run: append([]string{"fail gateway TestOther"}, ran...), want: "the run failed"},
		{name: "NoTestAtAll", first: one, rest: two, want: "the run failed"},
		{
			name: "IDThatIsUnknown", first: one, rest: two, run: append([]string{"pass gateway TestOther/S0_03_Works"}, ran...),
			want: "gateway TestOther/S0_03_Works carries S0-03, which is no criterion",
		},
		{
			name: "MoreThanTwoSubtestsAreCounted", first: "gateway TestStep ×3", rest: two,
			run: append([]string{"pass gateway TestStep/S0_01_Again", "pass gateway TestStep/S0_01_Late"}, ran...),
		},
		{
			name: "MatrixWithOneMore", first: "gateway TestStep ×4", rest: two,
			run: append([]string{"pass gateway TestStep/S0_01_Again", "pass gateway TestStep/S0_01_Late"}, ran...),
		},
		{
			name: "AlsoNamesMore", first: one, rest: one, run: ran[:3],
			source: "// Also: S0-02\nt.Run(\"S0_01_Works\", nil)\n",
		},
		{
			name: "AlsoInATable", first: one, rest: one, run: ran[:3],
			source: "\t\t// Also: S0-02\n\t\t{\n\t\t\tname: \"S0_01_Works\",\n",
		},
		{
			name: "AlsoOfNothing", first: one, rest: two, run: ran, source: "// Also: S0-02\nfunc TestGone() {}\n",
			want: "gateway: an Also names TestGone, which did not run",
		},
		{name: "AlsoAboveNoTest", first: one, rest: two, run: ran, source: "// Also: S0-02\nx := 1\n", want: "an Also stands above no test"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := checkout(t, fmt.Sprintf(mapOfTwo, tt.first, tt.rest), tt.source)
			err := run(stream(t, tt.run...), &bytes.Buffer{}, root, false)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	const gone, stays = "gateway TestOld/S0_01_Works" + between + "services/gone TestOld/S0_01_Works", between + "platform/rpc TestCall/S0_01_Calls"
	root := checkout(t, fmt.Sprintf(mapOfTwo, gone+stays, "gateway TestOld/S0_02_Works"), "")
	err := run(stream(t, "pass gateway TestStep/S0_01_Works", "pass gateway"), &bytes.Buffer{}, root, true)
	require.ErrorContains(t, err, "S0-02 is met by no test")
	written, err := os.ReadFile(filepath.Join(root, held))
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf(mapOfTwo, "gateway TestStep/S0_01_Works"+stays, ""), string(written))
}

func TestOutput(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	_, err := read(stream(t,
		"output gateway TestGood chatter\n", "pass gateway TestGood",
		"output gateway TestBad why\n", "fail gateway TestBad",
		"output gateway TestHung panic\n",
		"output gateway  FAIL\n", "fail gateway",
		"output platform  ok platform 1s\n", "pass platform",
	), &out)
	require.Error(t, err)
	require.Equal(t, "why\nFAIL\npanic\nok platform 1s\n", out.String())
}

func TestCarries(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, element string
		want          []string
	}{
		{name: "One", element: "S0_07_Works", want: []string{"S0-07"}},
		{name: "Two", element: "S0_02_S1_18_Works", want: []string{"S0-02", "S1-18"}},
		{name: "OneSectionOnce", element: "S2_07_08_R_09_Works", want: []string{"S2-07", "S2-08", "R-09"}},
		{name: "Item", element: "TestItem17Deduplication", want: []string{"Item17"}},
		{name: "WholeMarksOnly", element: "TestLineItem17_S0_071_GS0_07"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, carries(tt.element))
		})
	}
}
