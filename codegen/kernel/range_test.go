package kernel

import (
	"errors"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestCheckRangeLimits: a kernel may count up to the limit of its integers, and not one more.
func TestCheckRangeLimits(t *testing.T) {
	for _, tt := range []struct {
		what string
		k    func(extra int64) *Kernel
		most int64
	}{
		{"an axis", func(extra int64) *Kernel { return &Kernel{Parallel: []ir.Dim{{Add: maxSigned + extra}}} }, maxSigned},
		{"a row", func(extra int64) *Kernel { return &Kernel{Fold: ir.Dim{Add: maxSigned + extra}} }, maxSigned},
		{"elements", func(extra int64) *Kernel {
			return &Kernel{Bindings: []Binding{{Name: "x", DType: ir.F32, Elems: maxWide + extra}}}
		}, maxWide},
		{"elements that a custom kernel counts", func(extra int64) *Kernel {
			return &Kernel{Family: FamilyCustom,
				Bindings: []Binding{{Name: "x", DType: ir.F32, Elems: maxPosition + extra}}}
		}, maxPosition},
		{"a coordinate that is a number", func(extra int64) *Kernel {
			return &Kernel{Bindings: []Binding{{Name: "y", DType: ir.I32, Elems: 2}},
				Stores: []Store{{Value: NewBuilder().FromIndex(Axis(0, ir.D(2)).Times(maxSigned + extra))}}}
		}, maxSigned},
	} {
		if err := tt.k(0).CheckRange(); err != nil {
			t.Errorf("%s of %d: %v", tt.what, tt.most, err)
		}
		var wrong *RangeError
		if err := tt.k(1).CheckRange(); !errors.As(err, &wrong) || wrong.Limit != tt.most {
			t.Errorf("%s of one more than %d: %v", tt.what, tt.most, err)
		}
	}
}
