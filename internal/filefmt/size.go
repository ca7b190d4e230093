package filefmt

import (
	"fmt"
	"math"

	"github.com/vkc-go/vkc/ir"
)

// ByteSize returns the size in bytes of a tensor of type t and shape dims. It returns an error if the shape is invalid
// for t or the size is too large.
func ByteSize(t ir.DType, dims []int) (int64, error) {
	if len(dims) > ir.MaxRank {
		return 0, fmt.Errorf("%d axes are over the limit of %d", len(dims), ir.MaxRank)
	}
	elems := int64(1)
	for i, d := range dims {
		if d < 0 {
			return 0, fmt.Errorf("dim %d of %v is negative", i, dims)
		}
		if d > 0 && elems > math.MaxInt64/int64(d) {
			return 0, fmt.Errorf("shape %v has more elements than can be counted", dims)
		}
		elems *= int64(d)
	}
	if e := t.BlockElems(); t.IsBlock() && (len(dims) == 0 || dims[len(dims)-1]%e != 0) {
		return 0, fmt.Errorf("the innermost dim of %v is not a whole number of %s blocks of %d elements", dims, t, e)
	}
	return t.BytesFor(elems)
}
