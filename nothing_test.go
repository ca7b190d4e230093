package vkc_test

import (
	"context"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/check"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/internal/apitest"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/multi"
)

// api is this package.
var api apitest.Package

// TestNothing calls every function with zero arguments: on nil, on open and on closed receivers.
func TestNothing(t *testing.T) {
	api.Complete(t, (*vkc.Device)(nil), (*vkc.Executable)(nil), (*vkc.Program)(nil), (*check.Checker)(nil),
		(*check.Report)(nil), (*vkc.Pending)(nil), vkc.Devices(nil), (*vkc.Replicas)(nil),
		check.Value{}, vkc.WeightMap(nil), (*vkc.UnsupportedError)(nil), (*vkc.CustomOpError)(nil), multi.Price{})
	api.Calls(t, &vkc.Device{}, &vkc.Executable{}, &vkc.Program{}, &check.Checker{}, &check.Report{}, &vkc.Pending{},
		vkc.Devices{}, &vkc.Replicas{}, &vkc.UnsupportedError{}, &vkc.CustomOpError{},
		vkc.Compile, compiler.Lower, vkc.Run, check.New, vkc.WithPrecision, vkc.OpenWeights, vkc.OpenBundle,
		vkc.OpenBundleBytes, vkc.ReadGraph, multi.Prices, vkc.Lower, vkc.SplitPrices, vkc.NewChecker,
		vkc.Of[float32], vkc.OfType[float32], vkc.Values[float32])
	devtest.OnEach(t, func(t *testing.T, dev *vkc.Device) {
		api.Calls(t, openOnly{dev})
		exe, err := dev.LoadGraph(t.Context(), counter(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		api.Calls(t, runOnly{exe})
		if err := exe.Close(); err != nil {
			t.Fatal(err)
		}
		api.Calls(t, exe)
		_, err = exe.Run(t.Context(), nil)
		devtest.WantError(t, err, "closed")
	})
}

// openOnly hides the Close of a device.
type openOnly struct{ dev *vkc.Device }

func (o openOnly) Compile(ctx context.Context, g *ir.Graph, opt vkc.CompileOptions) error {
	_, err := o.dev.Compile(ctx, g, opt)
	return err
}

func (o openOnly) Load(ctx context.Context, p *vkc.Program, opt vkc.LoadOptions) error {
	_, err := o.dev.Load(ctx, p, opt)
	return err
}

func (o openOnly) LoadNothing(opt vkc.LoadOptions) error {
	_, err := o.dev.Load(context.Background(), &vkc.Program{}, opt)
	return err
}

func (o openOnly) LoadGraph(ctx context.Context, g *ir.Graph, w ir.WeightSource) error {
	_, err := o.dev.LoadGraph(ctx, g, w)
	return err
}

func (o openOnly) LoadNilGraph(w ir.WeightSource) error {
	_, err := o.dev.LoadGraph(context.Background(), nil, w)
	return err
}

// runOnly hides the Close of an executable.
type runOnly struct{ *vkc.Executable }

func (runOnly) Close() error       { return nil }
func (runOnly) ResetStates() error { return nil }

// NewStates closes the states that it makes, since the device will be closed.
func (r runOnly) NewStates() error {
	own, err := r.Executable.NewStates()
	if err != nil {
		return err
	}
	return own.Close()
}

// TestRunAfterDeviceClose: an executable of a closed device says so.
func TestRunAfterDeviceClose(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	dev, err := vkc.OpenDevice("vulkan")
	vktest.Need(t, err)
	exe, err := dev.LoadGraph(t.Context(), counter(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	in := vkc.Tensors{"x": devtest.TensorOf(t, []float32{1, 2}, 2)}
	if _, err := exe.Run(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := dev.Close(); err == nil {
		t.Error("closing a device under an executable is no error")
	}
	_, err = exe.Run(t.Context(), in)
	devtest.WantError(t, err, "closed")
	_, err = exe.Run(t.Context(), vkc.Tensors{"x": devtest.TensorOf(t, []float32{1}, 1)})
	devtest.WantError(t, err, "closed")
	api.Calls(t, exe, dev)
	_, err = dev.LoadGraph(t.Context(), counter(t), nil)
	devtest.WantError(t, err, "closed")
}
