package vkcbeam

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

func TestMain(m *testing.M) { os.Exit(ptest.MainRetWithDefault(m, "prism")) }

func init() {
	register.Function1x1(show)
	register.Function1x1(numbered)
}

// numbered is an example of one number.
func numbered(i int) Example {
	d, err := vkc.Of([]float32{float32(i)}, 1)
	if err != nil {
		panic(err)
	}
	return Example{fmt.Sprint(i), []Tensor{{"x", "f32", []int64{1}, d.Bytes}}}
}

// show formats an example with one number.
func show(x Example) string {
	d, err := tensorsOf(x)
	if err != nil {
		panic(err)
	}
	v, err := vkc.Values[float32](d["y"])
	if err != nil {
		panic(err)
	}
	return fmt.Sprint(x.Key, " ", v)
}

// bundleOf saves a graph that gives y, compiled.
func bundleOf(t *testing.T, build func(b *frontend.Builder)) string {
	t.Helper()
	g, err := frontend.Build("test", build)
	if err != nil {
		t.Fatal(err)
	}
	generic, err := device.Profile("generic")
	if err != nil {
		t.Fatal(err)
	}
	p, err := vkc.Compile(t.Context(), g, vkc.CompileOptions{Target: generic})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "test.vkb")
	if err := p.Save(path, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRunInference: every example has its own outputs under its own key, by one program of the process.
func TestRunInference(t *testing.T) {
	path := bundleOf(t, func(b *frontend.Builder) { b.Output("y", b.Input("x", ir.F32, 1).MulScalar(2).AddScalar(1)) })
	p, s := beam.NewPipelineWithRoot()
	var in []int
	var want []string
	for i := range 50 {
		in = append(in, i)
		want = append(want, fmt.Sprintf("%d [%d]", i, 2*i+1))
	}
	examples := beam.ParDo(s, numbered, beam.CreateList(s, in))
	out := RunInference(s, path, examples, Options{Device: "cpu", Batch: 4, Shards: 3})
	passert.EqualsList(s, beam.ParDo(s, show, out), want)
	result, err := ptest.RunWithMetrics(p)
	if err != nil {
		t.Fatal(err)
	}
	if len(pool.entries) > 1 {
		t.Errorf("%d programs are loaded, want one", len(pool.entries))
	}
	for _, c := range result.Metrics().AllMetrics().Counters() {
		if c.Name() == "elements" && c.Committed != 50 {
			t.Errorf("%d elements are counted, want 50", c.Committed)
		}
	}
}

// TestRunInferenceRefuses: a program whose results depend on earlier inputs is rejected.
func TestRunInferenceRefuses(t *testing.T) {
	path := bundleOf(t, func(b *frontend.Builder) {
		x, sum := b.Input("x", ir.F32, 1), b.State("sum", ir.F32, 1)
		b.Update(sum, sum.Add(x))
		b.Output("y", sum)
	})
	p, s := beam.NewPipelineWithRoot()
	RunInference(s, path, beam.ParDo(s, numbered, beam.CreateList(s, []int{1})), Options{Device: "cpu"})
	if err := ptest.Run(p); err == nil {
		t.Error("a program with states runs")
	}
}
