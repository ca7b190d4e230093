package compiler

import (
	"context"
	"errors"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

// Estimate returns the expected nanoseconds of a graph's kernels on a device, with all symbols at their maximum. It
// leaves out kernels that exchange values with other devices, because package multi estimates these.
func Estimate(ctx context.Context, g *ir.Graph, caps device.Caps) (float64, error) {
	pricer := schedule.NewPricer(caps)
	s, err := passes.Run(g, passes.Options{Context: ctx, Limits: limits(caps), Pricer: pricer})
	if err != nil {
		return 0, err
	}
	own := slices.DeleteFunc(slices.Clone(s.Kernels), func(k *kernel.Kernel) bool { return mailbox.Follows(k.Ops) })
	e := pricer.Price(kernel.Rewrite{After: own, LastSplit: true})
	if e.Note != "" {
		return 0, errors.New(e.Note)
	}
	return e.After, nil
}
