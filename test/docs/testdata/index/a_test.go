package a

import "testing"

var table = []struct{ name, want string }{{name: "FromAVariable"}}

func TestPlain(t *testing.T) {
	t.Run("S9_01_Literal", func(t *testing.T) {
		t.Run("with spaces", func(t *testing.T) {})
	})
	t.Run("Skipping", func(t *testing.T) {
		t.Skip("later")
	})
	t.Run("ByName", testHelper)
}

type mode string

const (
	fast mode = "Fast"
	slow mode = "Slow"
)

func TestTable(t *testing.T) {
	for _, tt := range []struct{ name string }{{name: "S9_02_S9_03_Keyed"}, {"Positional"}} {
		t.Run(tt.name, func(t *testing.T) {
			for _, m := range []mode{fast, slow} { // names that cannot be read are not those of the table around
				t.Run(string(m), func(t *testing.T) {})
			}
		})
	}
}

func TestMapAndVariable(t *testing.T) {
	for name := range map[string]int{"MapKey": 1} {
		t.Run(name, func(t *testing.T) {})
	}
	for _, name := range []string{"Ranged"} {
		t.Run(name, func(t *testing.T) {})
	}
	for _, tt := range table {
		t.Run(tt.name, func(t *testing.T) {})
	}
}

func TestFramed(t *testing.T) {
	for _, tt := range []struct{ name string }{{name: "Body"}} {
		t.Run("S9_05_"+tt.name+"IsRefused", func(t *testing.T) {})
	}
}

func TestHelper(t *testing.T) { testHelper(t) }

func testHelper(t *testing.T) {
	t.Run("Inside", func(t *testing.T) {})
	testHelper(t)
}

func TestSkipped(t *testing.T) {
	t.Skipf("not on %s", "this machine")
	t.Run("Child", func(t *testing.T) {})
}

func FuzzSeeds(f *testing.F) {}

func TestMain(m *testing.M) {}

func BenchmarkNothing(b *testing.B) {}
