package vk

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// signedExtents lists the extents that can be negative, such as T-2 with T=1. Kernels would read a negative extent as a
// very large one.
func signedExtents(p *kernel.Program) []ir.Dim {
	list := slices.Clone(p.Extents)
	for _, b := range p.Buffers {
		for _, d := range b.Shape {
			if d.MayBeNegative() && !slices.Contains(list, d) {
				list = append(list, d)
			}
		}
	}
	return list
}

// checkExtents refuses symbol values that make one of the extents negative.
func checkExtents(signed []ir.Dim, symbols map[string]int64) error {
	for _, d := range signed {
		if v, err := d.Eval(symbols); err != nil || v < 0 {
			return fmt.Errorf("the extent %s of a tensor in the program is negative in this run: want larger values "+
				"of %s", d, strings.Join(d.Symbols(), ", "))
		}
	}
	return nil
}
