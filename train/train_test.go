package train_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/optim"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/train"
)

func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }

// devices runs f on the CPU fast path and on a Vulkan device if there is one.
func devices(t *testing.T, f func(t *testing.T, dev *vkc.Device)) {
	devtest.OwnCache(t)
	for _, name := range []string{"cpu", "vulkan"} {
		t.Run(name, func(t *testing.T) {
			dev, err := vkc.OpenDevice(name)
			vktest.Need(t, err)
			vktest.CloseAfter(t, dev)
			f(t, dev)
		})
	}
}

// line fits y = w*x + c to points, by a rate.
func line(t *testing.T, dev *vkc.Device, rate float64) *vkc.Executable {
	t.Helper()
	g, err := frontend.Build("line", func(b *frontend.Builder) {
		x, y := b.Input("x", ir.F32, 8), b.Input("y", ir.F32, 8)
		params := []frontend.Tensor{b.StateFrom(ir.InitialNormal(0, 1, 5), "w", ir.F32), b.State("c", ir.F32)}
		loss := x.Mul(params[0]).Add(params[1]).Sub(y).Sqr().Mean()
		b.Output("loss", loss)
		optim.Minimize(loss, optim.NewAdamW(rate), params...)
	})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := dev.LoadGraph(t.Context(), g, nil)
	if missing := (*spirv.MissingToolError)(nil); errors.As(err, &missing) && !vktest.Required() {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	vktest.CloseAfter(t, exe)
	return exe
}

// points yields points of y = 2x - 1, different ones in each step.
func points(t *testing.T) train.Batches {
	return func(after int) iter.Seq2[vkc.Tensors, error] {
		return func(yield func(vkc.Tensors, error) bool) {
			for step := after; ; step++ {
				var x, y []float32
				for i := range 8 {
					v := float32(math.Sin(float64(8*step + i)))
					x, y = append(x, v), append(y, 2*v-1)
				}
				xs, err := vkc.Of(x, 8)
				if err != nil {
					t.Error(err)
				}
				ys, err := vkc.Of(y, 8)
				if !yield(vkc.Tensors{"x": xs, "y": ys}, err) {
					return
				}
			}
		}
	}
}

// TestResume: a training that ends in the middle and goes on in another program has the bits of one that never ended.
func TestResume(t *testing.T) {
	devices(t, func(t *testing.T, dev *vkc.Device) {
		dir := t.TempDir()
		whole, parts := filepath.Join(dir, "whole.safetensors"), filepath.Join(dir, "parts.safetensors")
		report, err := train.Run(t.Context(), line(t, dev, 0.1), points(t), train.Options{Steps: 60, Checkpoint: whole})
		if err != nil {
			t.Fatal(err)
		}
		if first, last := report.Losses[0], report.Losses[59]; len(report.Losses) != 60 || !(last < first/10) {
			t.Errorf("%d steps, loss %v to %v", len(report.Losses), first, last)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var told []int
		_, err = train.Run(ctx, line(t, dev, 0.1), points(t), train.Options{Steps: 60, Checkpoint: parts, Every: 7,
			Progress: func(p train.Progress) {
				if told = append(told, p.Step); p.Step == 23 {
					cancel()
				}
			}})
		if !errors.Is(err, context.Canceled) || len(told) < 23 || told[22] != 23 {
			t.Errorf("after %v steps: %v", told, err)
		}
		report2, err := train.Run(t.Context(), line(t, dev, 0.1), points(t),
			train.Options{Steps: 60, Checkpoint: parts})
		if err != nil || report2.Resumed != len(told) || len(report2.Losses) != 60 {
			t.Errorf("resumed %d of %d: %v", report2.Resumed, len(told), err)
		}
		a, errA := os.ReadFile(whole)
		b, errB := os.ReadFile(parts)
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("the two checkpoints differ: %v, %v", errA, errB)
		}
		// Another training does not go on from there.
		seed := func(seed string) train.Options {
			return train.Options{Steps: 61, Checkpoint: parts, Settings: map[string]string{"seed": seed}}
		}
		if _, err := train.Run(t.Context(), line(t, dev, 0.1), points(t), seed("1")); err != nil {
			t.Errorf("a file without settings is taken as it is: %v", err)
		}
		_, err = train.Run(t.Context(), line(t, dev, 0.1), points(t), seed("2"))
		if want := `with seed "1", and this one has "2": use the same value`; err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
		// Nothing is left to do.
		again, err := train.Run(t.Context(), line(t, dev, 0.1), points(t), train.Options{Steps: 60, Checkpoint: parts})
		if err != nil || again.Resumed != 61 {
			t.Errorf("resumed %d: %v", again.Resumed, err)
		}
	})
}

// TestRefuses: an error that ends or prevents a training has the reason.
func TestRefuses(t *testing.T) {
	dev, err := vkc.OpenDevice("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	exe, dir := line(t, dev, 0.1), t.TempDir()
	some := func(n int, fail error) train.Batches {
		return func(after int) iter.Seq2[vkc.Tensors, error] {
			return func(yield func(vkc.Tensors, error) bool) {
				for in := range points(t)(after) {
					if n--; n < 0 {
						break
					}
					if !yield(in, nil) {
						return
					}
				}
				if fail != nil {
					yield(nil, fail)
				}
			}
		}
	}
	file := func(name string, tensors ...safetensors.Named) string {
		path := filepath.Join(dir, name)
		if err := safetensors.WriteFile(path, map[string]string{"vkc.steps": "0"}, tensors); err != nil {
			t.Fatal(err)
		}
		return path
	}
	scalar, err := vkc.Of([]float32{1})
	if err != nil {
		t.Fatal(err)
	}
	torn := errors.New("a torn page")
	nan := func(after int) iter.Seq2[vkc.Tensors, error] {
		return func(yield func(vkc.Tensors, error) bool) {
			for in := range points(t)(after) {
				d, _ := ir.FromFloats(ir.F32, []float64{math.NaN(), 0, 0, 0, 0, 0, 0, 0}, 8)
				in["x"] = d
				if !yield(in, nil) {
					return
				}
			}
		}
	}
	unwritable := filepath.Join(dir, "none", "c") + ": no s"
	for want, c := range map[string]struct {
		batches train.Batches
		opt     train.Options
	}{
		"there are only 3 batches":            {some(3, nil), train.Options{Steps: 5}},
		"batch 2: a torn page":                {some(2, torn), train.Options{Steps: 5}},
		`the step has no output "cost"`:       {points(t), train.Options{Steps: 5, Loss: "cost"}},
		"the loss is NaN":                     {nan, train.Options{Steps: 5}},
		`no tensor "c" among 1`:               {points(t), train.Options{Steps: 5, Checkpoint: file("a", safetensors.Named{Name: "w", Data: scalar})}},
		"is of another program":               {points(t), train.Options{Steps: 5, Checkpoint: file("b")}},
		unwritable:                            {points(t), train.Options{Steps: 1, Checkpoint: filepath.Join(dir, "none", "c")}},
		"Options.Steps is 0: want at least 1": {points(t), train.Options{}},
	} {
		if err := exe.ResetStates(); err != nil {
			t.Fatal(err)
		}
		report, err := train.Run(t.Context(), exe, c.batches, c.opt)
		if err == nil || report == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
		if want == unwritable && len(report.Losses) > 0 {
			t.Error("steps were taken whose checkpoint cannot be written")
		}
	}
}

// TestRestoreChangesAll: a checkpoint sets every state, or none if one of its tensors does not fit.
func TestRestoreChangesAll(t *testing.T) {
	dev, err := vkc.OpenDevice("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	path := filepath.Join(t.TempDir(), "c")
	trained := line(t, dev, 0.1)
	if _, err := train.Run(t.Context(), trained, points(t), train.Options{Steps: 3, Checkpoint: path}); err != nil {
		t.Fatal(err)
	}
	values := func(exe *vkc.Executable) map[string]*ir.Data {
		list := map[string]*ir.Data{}
		for _, port := range exe.States() {
			d, err := exe.ReadState(port.Name)
			if err != nil {
				t.Fatal(err)
			}
			list[port.Name] = d
		}
		return list
	}
	exe := line(t, dev, 0.1)
	initial := values(exe)
	reshaped := func(d *ir.Data) *ir.Data { return &ir.Data{DType: d.DType, Dims: append(d.Dims, 1), Bytes: d.Bytes} }
	longer := func(d *ir.Data) *ir.Data {
		return &ir.Data{DType: d.DType, Dims: append(d.Dims, 2), Bytes: append(slices.Clone(d.Bytes), d.Bytes...)}
	}
	retyped := func(d *ir.Data) *ir.Data { return &ir.Data{DType: ir.U32, Dims: d.Dims, Bytes: d.Bytes} }
	missing := func(*ir.Data) *ir.Data { return nil }
	for name := range initial {
		for i, change := range []func(*ir.Data) *ir.Data{reshaped, longer, retyped, missing} {
			list := values(trained)
			list[name] = change(list[name])
			var tensors []safetensors.Named
			for name, d := range list {
				if d != nil {
					tensors = append(tensors, safetensors.Named{Name: name, Data: d})
				}
			}
			losses, err := ir.FromFloats(ir.F64, []float64{1, 2, 3}, 3)
			if err != nil {
				t.Fatal(err)
			}
			tensors = append(tensors, safetensors.Named{Name: "vkc.losses", Data: losses})
			if err := safetensors.WriteFile(path, map[string]string{"vkc.steps": "3"}, tensors); err != nil {
				t.Fatal(err)
			}
			_, err = train.Restore(exe, path, nil)
			if err == nil || !strings.Contains(err.Error(), "is of another program") ||
				!strings.Contains(err.Error(), fmt.Sprintf("%q", name)) {
				t.Errorf("state %q with change %d: %v", name, i, err)
			}
			for other, d := range values(exe) {
				if !bytes.Equal(d.Bytes, initial[other].Bytes) {
					t.Errorf("state %q with change %d is refused, and state %q is changed", name, i, other)
				}
			}
		}
	}
	if err := train.Save(trained, path, []float64{1, 2, 3}, nil); err != nil {
		t.Fatal(err)
	}
	if losses, err := train.Restore(exe, path, nil); err != nil || !slices.Equal(losses, []float64{1, 2, 3}) {
		t.Errorf("losses %v, %v", losses, err)
	}
	for name, want := range values(trained) {
		if have := values(exe)[name]; !bytes.Equal(have.Bytes, want.Bytes) {
			t.Errorf("state %q is not restored", name)
		}
	}
}

// TestCurve draws more steps than are joined one by one.
func TestCurve(t *testing.T) {
	var b strings.Builder
	if err := train.WriteSVG(&b, "gollama", train.Curve{Name: "f32", Losses: make([]float64, 200)}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"gollama", "f32, running mean", "<polyline"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %q in the drawing", want)
		}
	}
}
