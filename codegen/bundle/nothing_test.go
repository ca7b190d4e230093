package bundle_test

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/bundle"
	"github.com/vkc-go/vkc/internal/apitest"
)

// api is this package.
var api apitest.Package

func TestNothing(t *testing.T) {
	api.Complete(t, (*bundle.File)(nil), bundle.Kind(0), bundle.Section{})
	api.Calls(t, &bundle.File{}, bundle.Open, bundle.Read, bundle.Encode, bundle.Write, bundle.CheckWeights,
		bundle.WeightBytes)
}
