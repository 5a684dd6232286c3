package gen

import "testing"

func TestGenerated(t *testing.T) {}
