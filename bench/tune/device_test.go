package tune

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/tunefile"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk"
)

func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }

// testLab is the device, or the test is skipped.
func testLab(t *testing.T) *lab {
	t.Helper()
	devtest.OwnCache(t)
	dev := vktest.Device(t, vk.DeviceOptions{})
	lab, err := newDevice(context.Background(), dev)
	if err != nil {
		if vktest.Required() {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return lab
}

// everyFamily has a kernel of each family, most with a symbol.
func everyFamily(t *testing.T, c device.Caps) []*Kernel {
	t.Helper()
	g, err := frontend.Build("families", func(b *frontend.Builder) {
		T := b.Sym("T", 24)
		x := b.Input("x", ir.F32, T, 32)
		b.Output("map", x.Exp().Add(b.Input("bias", ir.F32, 32)))
		b.Output("row", x.Softmax(1))
		b.Output("sum", x.CumSum(1))
		b.Output("order", b.Input("keys", ir.F32, 4, 64).Argsort(1))
		b.Output("product", x.MatMul(b.Weight("w", ir.F32, 32, 48)))
		b.Output("vector", b.Input("v", ir.F32, 1, 64).MatMul(b.Weight("q", ir.Q8_0, 40, 64).Dequantize(ir.F32).T()))
		q, k, v := b.Input("q1", ir.F32, 1, 2, T, 16), b.Input("k1", ir.F32, 1, 2, T, 16),
			b.Input("v1", ir.F32, 1, 2, T, 16)
		b.Output("attention", q.Attention(k, v))
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := Kernels(context.Background(), g, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestDevice tunes a kernel of each family on the device, a few schedules each.
func TestDevice(t *testing.T) {
	lab := testLab(t)
	kernels := everyFamily(t, lab.caps)
	families := map[kernel.Family]bool{}
	for _, k := range kernels {
		families[k.Family] = true
	}
	for _, f := range []kernel.Family{kernel.FamilyMap, kernel.FamilyRow, kernel.FamilyMatMul, kernel.FamilyScan,
		kernel.FamilySort, kernel.FamilyAttention} {
		if !families[f] {
			t.Errorf("no kernel of family %s among %d", f, len(kernels))
		}
	}
	file := tunefile.New(lab.caps)
	chunks := 0
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	rows, err := Tune(ctx, lab, kernels, file, Options{Caps: lab.caps, Chunk: 3, Save: func(*tunefile.File) error {
		if chunks++; chunks == len(kernels) {
			cancel()
		}
		return nil
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for _, r := range rows {
		t.Logf("%+v", r)
		if r.Best <= 0 || r.Tried < 1 || r.Wrong > 0 || r.Why != "" {
			t.Errorf("%+v", r)
		}
	}
	if _, err := file.Encode(); err != nil {
		t.Error(err)
	}
}

// TestDeviceRefusesWrong spoils the shaders of all schedules but the default.
// None may win, however fast.
func TestDeviceRefusesWrong(t *testing.T) {
	lab := testLab(t)
	g, err := frontend.Build("map", func(b *frontend.Builder) { b.Output("y", b.Input("x", ir.F32, 1024).Exp()) })
	if err != nil {
		t.Fatal(err)
	}
	kernels, err := Kernels(context.Background(), g, lab.caps, nil)
	if err != nil || len(kernels) != 1 {
		t.Fatal(kernels, err)
	}
	standard, _, err := schedule.Select(kernels[0].Kernel, lab.caps)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]struct{ from, to, why string }{
		"another function": {"exp(", "exp2(", "past the tolerance"},
		"does not compile": {"void main", "void mian", "does not compile"},
	} {
		spoiled := 0
		lab.change = func(s kernel.Schedule, source string) string {
			if s == standard {
				return source
			}
			spoiled++
			if !strings.Contains(source, change.from) {
				t.Errorf("%s: no %q in\n%s", name, change.from, source)
			}
			return strings.ReplaceAll(source, change.from, change.to)
		}
		file := tunefile.New(lab.caps)
		rows, err := Tune(context.Background(), lab, kernels, file,
			Options{Caps: lab.caps, Chunk: 3, Budget: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if r := rows[0]; r.Wrong+r.Failed != spoiled || spoiled == 0 || r.Changed || r.Schedule != standard {
			t.Errorf("%s: %d spoiled, %+v", name, spoiled, r)
		}
		for _, m := range file.Kernels[0].Measured {
			if m.Schedule != standard && !strings.Contains(m.Why, change.why) {
				t.Errorf("%s: %+v", name, m)
			}
		}
	}
}

// TestDeviceWrongDefault spoils every schedule: the host evaluator tells.
func TestDeviceWrongDefault(t *testing.T) {
	lab := testLab(t)
	lab.change = func(_ kernel.Schedule, source string) string { return strings.ReplaceAll(source, "exp(", "exp2(") }
	g, err := frontend.Build("map", func(b *frontend.Builder) { b.Output("y", b.Input("x", ir.F32, 1024).Exp()) })
	if err != nil {
		t.Fatal(err)
	}
	kernels, err := Kernels(context.Background(), g, lab.caps, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := tunefile.New(lab.caps)
	rows, err := Tune(context.Background(), lab, kernels, file,
		Options{Caps: lab.caps, Chunk: 3, Budget: time.Millisecond})
	if err != nil || !strings.Contains(rows[0].Why, "wrong results") || len(file.Tuning()) != 0 {
		t.Errorf("%+v, %v", rows, err)
	}
}

// TestUntouched: the guard detects writes after the end of a buffer.
func TestUntouched(t *testing.T) {
	b := kernel.Buffer{Name: "y", DType: ir.F32, Shape: ir.ShapeOf(4), Bytes: 16}
	o := operand{buffer: &b, dims: []int{4}, size: 16}
	all := o.initial()
	copy(all, make([]byte, 16))
	if err := o.untouched(all); err != nil {
		t.Error(err)
	}
	all[16]++
	if err := o.untouched(all); err == nil {
		t.Error("a byte behind the buffer was written, and nobody noticed")
	}
}

// TestOtherCode times a kernel as devices that are not processors do: after code of another.
func TestOtherCode(t *testing.T) {
	lab := testLab(t)
	lab.caps.Type = device.DeviceIntegrated
	g, err := frontend.Build("map", func(b *frontend.Builder) { b.Output("y", b.Input("x", ir.F32, 1024).Exp()) })
	if err != nil {
		t.Fatal(err)
	}
	kernels, err := Kernels(t.Context(), g, lab.caps, nil)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := lab.Open(t.Context(), kernels[0])
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	s := opened.(*harness)
	if s.filler == nil {
		t.Fatal("nothing runs before the kernel")
	}
	standard, _, err := schedule.Select(kernels[0].Kernel, lab.caps)
	if err != nil {
		t.Fatal(err)
	}
	if failed, err := s.Prepare(t.Context(), []kernel.Schedule{standard}); err != nil || failed[0] != nil {
		t.Fatal(failed, err)
	}
	if err := s.Check(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if times, err := s.Time(t.Context(), []int{0}, time.Millisecond, 1); err != nil || times[0] <= 0 {
		t.Error(times, err)
	}
	if err := s.Check(t.Context(), 0); err != nil {
		t.Errorf("after it was timed: %v", err)
	}
}
