package gomlx

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
	"github.com/vkc-go/vkc/ir"
)

// RNGBitGenerator implements compute.Function with Philox-4x32 with 10 rounds (Salmon et al. 2011), vkc's generator.
// The seed is the first number of the state XOR the third. The second number is the offset, in blocks of four words: it
// advances by the blocks that the values take.
func (f *Function) RNGBitGenerator(state compute.Value, shape shapes.Shape) (newState, values compute.Value,
	err error) {
	kind := compute.OpTypeRNGBitGenerator
	args, err := f.values(kind, state)
	if err != nil {
		return nil, nil, err
	}
	if s := args[0].shape; !s.Equal(compute.RNGStateShape) {
		return nil, nil, errors.Errorf("%s: the state is %s, want %s", kind, s, compute.RNGStateShape)
	}
	t, err := elementType(shape.DType)
	if err != nil {
		return nil, nil, err
	}
	if !shape.DType.IsInt() {
		return nil, nil, errors.Wrapf(compute.ErrNotImplemented, "%s of %s", kind, shape.DType)
	}
	results, err := f.add(kind, args, func(l *lowering, in []tensor) []tensor {
		words := cast(in[0], ir.I64)
		seed := words.Index(0, 0).Xor(words.Index(0, 2))
		offset := words.Index(0, 1)
		dims := l.numbers(shape)
		// A float of the generator has the top 24 bits of a word; this uses 16 of them.
		pieces := (t.BlockBytes() + 1) / 2
		random := l.b.RandomUniform(seed, offset, ir.F32, dims, pieces).MulScalar(1 << 16).Cast(ir.U32)
		bits := cast(random.Index(-1, 0), t)
		for i := 1; i < pieces; i++ {
			bits = bits.Mul(bits.Lit(1 << 16)).Add(cast(random.Index(-1, i), t))
		}
		n := pieces
		for _, d := range dims {
			n *= d
		}
		taken := l.b.Const([]int64{0, int64((n + 3) / 4), 0})
		return []tensor{cast(words.Add(taken), in[0].DType()), bits}
	}, args[0].shape, shape)
	if err != nil {
		return nil, nil, err
	}
	return results[0], results[1], nil
}
