package rebuilt

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
)

func copies(k *kernel.Kernel, list []kernel.Kernel) {
	c := *k // want `this copies a kernel: make another of it by kernel.Map, which knows all fields`
	d := c  // want `copies a kernel`
	d.Family = kernel.FamilyRow
	*k = list[0]              // want `copies a kernel`
	byValue(*k)               // want `copies a kernel`
	_ = []kernel.Kernel{(*k)} // want `copies a kernel`
	p := &c
	p.Inner = k
	_ = (*p).Family
	_ = list[0].Inner
	*k = kernel.Kernel{Family: kernel.FamilyMap}
}

func byValue(k kernel.Kernel) kernel.Family { return k.Family }

func literals(k *kernel.Kernel) {
	_ = kernel.Kernel{Inner: k.Inner}                              // want `this literal takes over Inner of another kernel`
	_ = &kernel.Kernel{Family: k.Family}                           // want `takes over Family`
	_ = []*kernel.Kernel{{Inner: k, Family: "not " + k.Family}}    // want `takes over Family`
	_ = []kernel.Kernel{{Ops: append(slices.Clone(k.Ops), "mul")}} // want `takes over Ops`
	_ = &kernel.Kernel{Family: kernel.FamilyMap, Inner: k, Ops: []string{string(k.Family)}}
	_ = kernel.Map(k)
}
