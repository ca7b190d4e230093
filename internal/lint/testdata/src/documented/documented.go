package documented

// A has a comment.
type A int

type B struct { // want `B has no comment: say what it is, with shapes and units, or unexport it`
	x int
}

// C and D have one for both.
func C() {}
func D() {}

func E() {} // want `E has no comment`

type b int

func (b) F() {}

func (A) G() {} // want `G has no comment`

func (A) Error() string { return "" }

// These are a group.
const (
	H = 1

	I = 2
)

var (
	J = 1 // has a comment of its own

	// L and M have one.
	L = 3
	M = 4
)

var (
	K = func() int { // want `K has no comment`
		return 2
	}
)
