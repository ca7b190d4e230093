package passtest

import (
	"sync"

	"github.com/vkc-go/vkc/ir"
)

// Pair registers custom op passtest.pair, a kernel of two results that copies its arguments.
var Pair = sync.OnceValue(func() ir.Op {
	return ir.MustRegisterCustom(ir.CustomOp{
		Name: "passtest.pair", Args: []ir.ArgInfo{{Name: "a"}, {Name: "b"}},
		Infer: func(c *ir.Call) ([]ir.Type, error) { return []ir.Type{c.Args[0].Type(), c.Args[1].Type()}, nil },
		Kernel: &ir.CustomKernel{Outputs: []string{"p", "q"}, Workgroup: [3]int{64},
			Grid: [3][]ir.GridRule{{{Of: "p", Axis: ir.AllAxes, Tile: 64}}},
			Body: "uint i = gl_GlobalInvocationID.x; if (i < p_size) { p[i] = a[i]; q[i] = b[i]; }"},
		Reference: func(args []*ir.Data, _ ir.Attrs) ([]*ir.Data, error) { return args, nil },
	})
})
