package vk_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime/vk"
)

// TestCapsAreProbed: every field of the caps must be probed. Otherwise it would be set only in profiles, and the
// schedules chosen with it would differ from those that run.
func TestCapsAreProbed(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "caps.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	filled := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok {
				filled[key.Name] = true
			}
		case *ast.UnaryExpr: // the address of a feature, in a row of featureFlags
			if field, ok := n.X.(*ast.SelectorExpr); ok && n.Op == token.AND {
				filled[field.Sel.Name] = true
			}
		case *ast.AssignStmt:
			for _, to := range n.Lhs {
				if field, ok := to.(*ast.SelectorExpr); ok {
					filled[field.Sel.Name] = true
				}
			}
		}
		return true
	})
	for _, of := range []reflect.Type{reflect.TypeFor[device.Caps](), reflect.TypeFor[device.Features](),
		reflect.TypeFor[device.Matrix2](), reflect.TypeFor[device.MatrixShape]()} {
		for i := range of.NumField() {
			// vkc tune measures Machine, and only tests set MaxPosition.
			name := of.Field(i).Name
			if !filled[name] && name != "Machine" && name != "MaxPosition" {
				t.Errorf("nothing fills %v.%s", of, name)
			}
		}
	}
}

// TestProfileIsTheDevice: if there is a profile of this device with this driver, its caps must equal the probed ones.
func TestProfileIsTheDevice(t *testing.T) {
	caps := vktest.Device(t, vk.DeviceOptions{}).Caps()
	for _, name := range device.Profiles() {
		p, err := device.Profile(name)
		if err != nil {
			t.Fatal(err)
		}
		same := p.VendorID == caps.VendorID && p.DeviceID == caps.DeviceID && p.DriverInfo == caps.DriverInfo
		p.Machine = caps.Machine
		if same && p.Fingerprint() != caps.Fingerprint() {
			t.Errorf("the device is not what profile %s says:\n%+v\n%+v", name, caps, p)
		}
	}
}
