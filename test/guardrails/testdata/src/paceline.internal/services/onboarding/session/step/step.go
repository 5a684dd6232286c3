// Package step is below a pure package, and so it is pure as well.
package step

import "os" // want `it imports os`

type ID string

var _ = os.Getenv
