package runtime_test

import (
	"testing"

	"github.com/vkc-go/vkc/internal/apitest"
	"github.com/vkc-go/vkc/runtime"
)

// api is this package.
var api apitest.Package

func TestNothing(t *testing.T) {
	api.Complete(t, (*runtime.Signature)(nil), (*runtime.Profile)(nil), (*runtime.DeviceTensor)(nil),
		(*runtime.Error)(nil), runtime.KernelTime{}, runtime.Port{}, runtime.Trace{}, runtime.KernelCost{},
		runtime.CostItem(""), runtime.MemoryUse(nil), (*runtime.Result)(nil), runtime.Traffic{})
	api.Calls(t, &runtime.Error{}, runtime.Explain, runtime.Reason, &runtime.Signature{}, &runtime.Profile{},
		&runtime.DeviceTensor{}, runtime.CheckRun, runtime.CheckContext, runtime.NewDeviceTensor, runtime.Hold,
		runtime.ErrElsewhere)
}
