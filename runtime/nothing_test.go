package runtime_test

import (
	"os"
	"testing"

	"github.com/vkc-go/vkc/internal/apitest"
	"github.com/vkc-go/vkc/runtime"
)

// api is this package.
var api = apitest.Package{Dir: os.DirFS(".")}

func TestNothing(t *testing.T) {
	types := []any{(*runtime.Signature)(nil), (*runtime.Profile)(nil), runtime.KernelTime{}, runtime.Port{}, runtime.Trace{}}
	api.Complete(t, types...)
	api.Calls(t, types...)
	api.Calls(t, &runtime.Signature{}, &runtime.Profile{}, runtime.CheckRun, runtime.CheckContext)
}
