package frontend_test

import (
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/apitest"
)

// TestNothing: a builder panics with its own error, which Build returns, and
// with nothing else.
func TestNothing(t *testing.T) {
	buildError := func(thrown any) bool { _, is := thrown.(*frontend.Error); return is }
	api := apitest.Package{Allowed: buildError}
	api.Complete(t, (*frontend.Builder)(nil), frontend.Tensor{}, (*frontend.Error)(nil), frontend.YaRN{},
		frontend.CSR{})
	api.Calls(t, &frontend.Builder{}, &frontend.Error{}, frontend.Build, frontend.RopeLinear, frontend.RopeNTK)
}
