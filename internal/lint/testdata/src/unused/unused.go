// Package unused is test data for the rule about objects that nothing uses.
package unused

const limit = 3 // want `const limit is unused`

var count int // want `var count is unused`

// Shown is exported.
type Shown struct {
	used   int
	hidden int // want `field hidden is unused`
}

// Sum uses a field.
func (s Shown) Sum() int { return s.used }

func helper() {} // want `func helper is unused`

type local struct{} // want `type local is unused`
