package bundle_test

import (
	"os"
	"testing"

	"github.com/vkc-go/vkc/codegen/bundle"
	"github.com/vkc-go/vkc/internal/apitest"
)

// api is this package.
var api = apitest.Package{Dir: os.DirFS(".")}

func TestNothing(t *testing.T) {
	types := []any{(*bundle.File)(nil), bundle.Kind(0), bundle.Section{}}
	api.Complete(t, types...)
	api.Calls(t, types...)
	api.Calls(t, &bundle.File{}, bundle.Open, bundle.Read, bundle.Encode, bundle.Write, bundle.CheckWeights, bundle.WeightBytes)
}
