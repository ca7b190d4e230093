package doctest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/golden"
	"github.com/vkc-go/vkc/ir"
)

var updateGolden = flag.Bool("update-golden", false, "rewrite docs/FROM-NUMPY.md")

// fromNumPyPage is the page that TestFromNumPy keeps equal to numpyRows.
const fromNumPyPage = "docs/FROM-NUMPY.md"

// tensor shortens the rows below.
type tensor = frontend.Tensor

// operands are the tensors that the rows of the page compute with.
type operands struct {
	b       *frontend.Builder
	x, y, v tensor // x and y are f32[2,3], v is f32[3]
	i       tensor // i32[2]
}

// numpyRow is a row of docs/FROM-NUMPY.md. The page prints the expression that call returns, and the test runs it.
type numpyRow struct {
	numpy, torch string
	call         func(o operands) tensor
	want         []float64 // in row-major order, worked out by hand from NumPy's definition
}

// numpySection is a heading of the page and its table.
type numpySection struct {
	title string
	rows  []numpyRow
}

// numpyRows compute with x = [[1,2,3],[4,5,6]], y = [[6,5,4],[3,2,1]], v = [3,1,2] and i = [2,0].
var numpyRows = []numpySection{
	{"Make tensors", []numpyRow{
		{"np.array([1, 2])", "torch.tensor([1., 2.])", func(o operands) tensor { return o.b.Const([]float32{1, 2}, 2) },
			[]float64{1, 2}},
		{"np.full((2, 2), 7)", "torch.full((2, 2), 7.)", func(o operands) tensor { return o.b.Full(ir.F32, 7, 2, 2) },
			[]float64{7, 7, 7, 7}},
		{"np.zeros(3)", "torch.zeros(3)", func(o operands) tensor { return o.b.Full(ir.F32, 0, 3) },
			[]float64{0, 0, 0}},
		{"np.zeros_like(x)", "torch.zeros_like(x)", func(o operands) tensor { return o.x.Lit(0).Broadcast(2, 3) },
			[]float64{0, 0, 0, 0, 0, 0}},
		{"np.arange(0, 8, 2)", "torch.arange(0, 8, 2)", func(o operands) tensor { return o.b.Arange(ir.I32, 0, 2, 4) },
			[]float64{0, 2, 4, 6}},
		{"np.linspace(0, 1, 5)", "torch.linspace(0, 1, 5)",
			func(o operands) tensor { return o.b.Arange(ir.F32, 0, 0.25, 5) },
			[]float64{0, 0.25, 0.5, 0.75, 1}},
		{"np.eye(2)", "torch.eye(2)", func(o operands) tensor { return o.b.Eye(ir.F32, 2, 2) },
			[]float64{1, 0, 0, 1}},
		{"x.astype(np.int32)", "x.to(torch.int32)", func(o operands) tensor { return o.x.Cast(ir.I32) },
			[]float64{1, 2, 3, 4, 5, 6}},
		{"v.view(np.uint32)", "v.view(torch.uint32)", func(o operands) tensor { return o.v.Bitcast(ir.U32) },
			[]float64{0x40400000, 0x3f800000, 0x40000000}},
	}},
	{"Arithmetic", []numpyRow{
		{"x + y", "x + y", func(o operands) tensor { return o.x.Add(o.y) }, []float64{7, 7, 7, 7, 7, 7}},
		{"x - 1", "x - 1", func(o operands) tensor { return o.x.SubScalar(1) }, []float64{0, 1, 2, 3, 4, 5}},
		{"x * v", "x * v", func(o operands) tensor { return o.x.Mul(o.v) }, []float64{3, 2, 6, 12, 5, 12}},
		{"x / 2", "x / 2", func(o operands) tensor { return o.x.DivScalar(2) }, []float64{0.5, 1, 1.5, 2, 2.5, 3}},
		{"2 * x + 1", "2 * x + 1", func(o operands) tensor { return o.x.Affine(2, 1) },
			[]float64{3, 5, 7, 9, 11, 13}},
		{"-x", "-x", func(o operands) tensor { return o.x.Neg() }, []float64{-1, -2, -3, -4, -5, -6}},
		{"x ** 2", "x ** 2", func(o operands) tensor { return o.x.Sqr() }, []float64{1, 4, 9, 16, 25, 36}},
		{"x ** y", "x ** y", func(o operands) tensor { return o.x.Pow(o.y) }, []float64{1, 32, 81, 64, 25, 6}},
		{"np.mod(x, 3)", "torch.remainder(x, 3)", func(o operands) tensor { return o.x.Mod(o.x.Lit(3)) },
			[]float64{1, 2, 0, 1, 2, 0}},
		{"np.fmod(-x, 3)", "torch.fmod(-x, 3)", func(o operands) tensor { return o.x.Neg().Rem(o.x.Lit(3)) },
			[]float64{-1, -2, 0, -1, -2, 0}},
		{"np.sqrt(v)", "v.sqrt()", func(o operands) tensor { return o.v.Sqrt() }, []float64{1.7320508, 1, 1.4142135}},
		{"np.exp(v)", "v.exp()", func(o operands) tensor { return o.v.Exp() },
			[]float64{20.085537, 2.7182817, 7.389056}},
		{"np.log1p(v)", "v.log1p()", func(o operands) tensor { return o.v.Log1p() },
			[]float64{1.3862944, 0.6931472, 1.0986123}},
		{"np.tanh(v)", "v.tanh()", func(o operands) tensor { return o.v.Tanh() },
			[]float64{0.9950548, 0.7615942, 0.9640276}},
		{"np.maximum(x, y)", "torch.maximum(x, y)", func(o operands) tensor { return o.x.Max(o.y) },
			[]float64{6, 5, 4, 4, 5, 6}},
		{"np.clip(x, 2, 4)", "x.clamp(2, 4)", func(o operands) tensor { return o.x.Clamp(2, 4) },
			[]float64{2, 2, 3, 4, 4, 4}},
		{"np.round(x / 2)", "(x / 2).round()", func(o operands) tensor { return o.x.DivScalar(2).Round() },
			[]float64{0, 1, 2, 2, 2, 3}},
		{"np.sign(x - 3)", "(x - 3).sign()", func(o operands) tensor { return o.x.SubScalar(3).Sign() },
			[]float64{-1, -1, 0, 1, 1, 1}},
	}},
	{"Compare and choose", []numpyRow{
		{"x > y", "x > y", func(o operands) tensor { return o.x.Gt(o.y) }, []float64{0, 0, 0, 1, 1, 1}},
		{"x == v", "x == v", func(o operands) tensor { return o.x.Eq(o.v) }, []float64{0, 0, 0, 0, 0, 0}},
		{"(x > 1) & (x < 5)", "(x > 1) & (x < 5)",
			func(o operands) tensor { return o.x.Gt(o.x.Lit(1)).And(o.x.Lt(o.x.Lit(5))) },
			[]float64{0, 1, 1, 1, 0, 0}},
		{"np.where(x > y, x, 0)", "torch.where(x > y, x, 0)",
			func(o operands) tensor { return o.x.Gt(o.y).Where(o.x, o.x.Lit(0)) },
			[]float64{0, 0, 0, 4, 5, 6}},
		{"np.isnan(x - np.inf)", "torch.isnan(x - torch.inf)",
			func(o operands) tensor { return o.x.SubScalar(math.Inf(1)).IsNaN() },
			[]float64{0, 0, 0, 0, 0, 0}},
		{"np.any(x > 5, axis=1)", "(x > 5).any(1)", func(o operands) tensor { return o.x.Gt(o.x.Lit(5)).Any(1) },
			[]float64{0, 1}},
		{"np.all(x > 3, axis=1)", "(x > 3).all(1)", func(o operands) tensor { return o.x.Gt(o.x.Lit(3)).All(1) },
			[]float64{0, 1}},
	}},
	{"Reduce", []numpyRow{
		{"x.sum()", "x.sum()", func(o operands) tensor { return o.x.Sum() }, []float64{21}},
		{"x.sum(axis=-1)", "x.sum(-1)", func(o operands) tensor { return o.x.Sum(-1) }, []float64{6, 15}},
		{"x.sum(axis=0, keepdims=True)", "x.sum(0, keepdim=True)", func(o operands) tensor { return o.x.SumKeep(0) },
			[]float64{5, 7, 9}},
		{"x.mean(axis=1)", "x.mean(1)", func(o operands) tensor { return o.x.Mean(1) }, []float64{2, 5}},
		{"x.var(axis=1)", "x.var(1, correction=0)", func(o operands) tensor { return o.x.Variance(0, 1) },
			[]float64{2.0 / 3, 2.0 / 3}},
		{"x.std(axis=1, ddof=1)", "x.std(1)", func(o operands) tensor { return o.x.Variance(1, 1).Sqrt() },
			[]float64{1, 1}},
		{"x.max(axis=0)", "x.amax(0)", func(o operands) tensor { return o.x.ReduceMax(0) }, []float64{4, 5, 6}},
		{"x.prod(axis=1)", "x.prod(1)", func(o operands) tensor { return o.x.Prod(1) }, []float64{6, 120}},
		{"v.argmax()", "v.argmax()", func(o operands) tensor { return o.v.Argmax(0) }, []float64{0}},
		{"np.linalg.norm(x, axis=1)", "x.norm(dim=1)", func(o operands) tensor { return o.x.Norm2(1) },
			[]float64{3.7416575, 8.774964}},
		{"scipy.special.logsumexp(x, 1)", "x.logsumexp(1)", func(o operands) tensor { return o.x.LogSumExp(1) },
			[]float64{3.4076059, 6.407606}},
		{"np.cumsum(x, axis=1)", "x.cumsum(1)", func(o operands) tensor { return o.x.CumSum(1) },
			[]float64{1, 3, 6, 4, 9, 15}},
	}},
	{"Shape", []numpyRow{
		{"x.reshape(3, 2)", "x.reshape(3, 2)", func(o operands) tensor { return o.x.Reshape(3, 2) },
			[]float64{1, 2, 3, 4, 5, 6}},
		{"x.T", "x.T", func(o operands) tensor { return o.x.T() }, []float64{1, 4, 2, 5, 3, 6}},
		{"np.transpose(x, (1, 0))", "x.permute(1, 0)", func(o operands) tensor { return o.x.Transpose(1, 0) },
			[]float64{1, 4, 2, 5, 3, 6}},
		{"np.expand_dims(v, 0)", "v.unsqueeze(0)", func(o operands) tensor { return o.v.Unsqueeze(0) },
			[]float64{3, 1, 2}},
		{"np.broadcast_to(v, (2, 3))", "v.expand(2, 3)", func(o operands) tensor { return o.v.Broadcast(2, 3) },
			[]float64{3, 1, 2, 3, 1, 2}},
		{"x[:, 1:3]", "x[:, 1:3]", func(o operands) tensor { return o.x.Slice(1, 1, 3) }, []float64{2, 3, 5, 6}},
		{"x[:, ::2]", "x[:, ::2]", func(o operands) tensor { return o.x.SliceStep(1, 0, 3, 2) },
			[]float64{1, 3, 4, 6}},
		{"x[1]", "x[1]", func(o operands) tensor { return o.x.Index(0, 1) }, []float64{4, 5, 6}},
		{"np.flip(v)", "v.flip(0)", func(o operands) tensor { return o.v.Flip(0) }, []float64{2, 1, 3}},
		{"np.roll(v, 1)", "v.roll(1)", func(o operands) tensor { return o.v.Roll(0, 1) }, []float64{2, 3, 1}},
		{"np.concatenate([x, y], 0)[2]", "torch.cat([x, y])[2]",
			func(o operands) tensor { return o.x.Concat(0, o.y).Index(0, 2) },
			[]float64{6, 5, 4}},
		{"np.stack([v, v])", "torch.stack([v, v])", func(o operands) tensor { return o.v.Stack(0, o.v) },
			[]float64{3, 1, 2, 3, 1, 2}},
		{"np.pad(v, (1, 2))", "F.pad(v, (1, 2))", func(o operands) tensor { return o.v.Pad([]int{1}, []int{2}, 0) },
			[]float64{0, 3, 1, 2, 0, 0}},
		{"np.pad(v, 1, mode='reflect')", "F.pad(v, (1, 1), 'reflect')",
			func(o operands) tensor { return o.v.PadReflect([]int{1}, []int{1}) },
			[]float64{1, 3, 1, 2, 1}},
		{"np.tril(x)", "x.tril()", func(o operands) tensor { return o.x.Tril(0) }, []float64{1, 0, 0, 4, 5, 0}},
	}},
	{"Matrices", []numpyRow{
		{"x @ v", "x @ v", func(o operands) tensor { return o.x.MatMul(o.v.Unsqueeze(1)).Squeeze(1) },
			[]float64{11, 29}},
		{"x @ y.T", "x @ y.T", func(o operands) tensor { return o.x.MatMulT(o.y) }, []float64{28, 10, 73, 28}},
		{"np.outer(v, v)", "torch.outer(v, v)", func(o operands) tensor { return o.v.Unsqueeze(1).Mul(o.v) },
			[]float64{9, 3, 6, 3, 1, 2, 6, 2, 4}},
		{"np.einsum('ij,ij->i', x, y)", "torch.einsum('ij,ij->i', x, y)",
			func(o operands) tensor { return o.x.Mul(o.y).Sum(1) },
			[]float64{28, 28}},
		{"np.linalg.cholesky(x @ x.T)", "torch.linalg.cholesky(x @ x.T)",
			func(o operands) tensor { return o.x.MatMulT(o.x).Cholesky() },
			[]float64{3.7416575, 0, 8.552360, 1.963961}},
		{"np.linalg.solve(x[:, :2], x)", "torch.linalg.solve(x[:, :2], x)",
			func(o operands) tensor { return o.x.Slice(1, 0, ir.D(2)).Solve(o.x) },
			[]float64{1, 0, -1, 0, 1, 2}},
		{"scipy.linalg.solve_triangular(x[:, :2], x, lower=True)",
			"torch.linalg.solve_triangular(x[:, :2], x, upper=False)",
			func(o operands) tensor { return o.x.Slice(1, 0, ir.D(2)).TriangularSolve(o.x) },
			[]float64{1, 2, 3, 0, -0.6, -1.2}},
		{"np.linalg.qr(x)[1]", "torch.linalg.qr(x).R", func(o operands) tensor { return second(o.x.QR()) },
			[]float64{4.1231056, 5.335784, 6.548462, 0, 0.7276069, 1.4552138}},
		{"np.linalg.eigh(x @ x.T)[0]", "torch.linalg.eigh(x @ x.T).eigenvalues",
			func(o operands) tensor { return first(o.x.MatMulT(o.x).EigH()) },
			[]float64{0.5973279, 90.402672}},
	}},
	{"Fourier transforms", []numpyRow{
		{"np.fft.rfft(v)", "torch.fft.rfft(v)", func(o operands) tensor { return o.v.RFFT(0) },
			[]float64{6, 0, 1.5, 0.8660254}},
		{"np.fft.irfft(np.fft.rfft(v), 3)", "torch.fft.irfft(torch.fft.rfft(v), 3)",
			func(o operands) tensor { return o.v.RFFT(0).IRFFT(0, 3) },
			[]float64{3, 1, 2}},
		{"np.fft.fft(v)", "torch.fft.fft(v)",
			func(o operands) tensor { return o.v.Stack(-1, o.v.MulScalar(0)).FFT(0) },
			[]float64{6, 0, 1.5, 0.8660254, 1.5, -0.8660254}},
	}},
	{"Index, sort, scatter", []numpyRow{
		{"np.take(x, i, axis=1)", "x.index_select(1, i)", func(o operands) tensor { return o.x.IndexSelect(1, o.i) },
			[]float64{3, 1, 6, 4}},
		{"np.take_along_axis(v, i, 0)", "v.gather(0, i)", func(o operands) tensor { return o.v.Gather(0, o.i) },
			[]float64{2, 3}},
		{"np.sort(v)", "v.sort().values", func(o operands) tensor { return o.v.Sort(0) }, []float64{1, 2, 3}},
		{"np.argsort(v)", "v.argsort()", func(o operands) tensor { return o.v.Argsort(0) }, []float64{1, 2, 0}},
		{"np.sort(v)[::-1][:2]", "v.topk(2).values", func(o operands) tensor { return first(o.v.TopK(0, 2)) },
			[]float64{3, 2}},
		{"np.add.at(v, i, 1)", "v.scatter_add(0, i, ones)",
			func(o operands) tensor { return o.v.ScatterAdd(0, o.i, o.b.Full(ir.F32, 1, 2)) },
			[]float64{4, 1, 3}},
		{"v[i] = 0", "v.scatter(0, i, 0)",
			func(o operands) tensor { return o.v.Scatter(0, o.i, o.b.Full(ir.F32, 0, 2)) },
			[]float64{0, 1, 0}},
		{"np.histogram(x, 2, (0, 6))[0]", "torch.histc(x, 2, 0, 6)",
			func(o operands) tensor { return o.x.Histogram(2, 0, 6) }, []float64{2, 4}},
		{"np.bincount(i, minlength=3)", "torch.bincount(i, minlength=3)",
			func(o operands) tensor { return o.i.Bincount(3) }, []float64{1, 0, 1}},
		{"np.eye(3)[i]", "F.one_hot(i, 3)", func(o operands) tensor { return o.i.OneHot(3, ir.F32) },
			[]float64{0, 0, 1, 1, 0, 0}},
	}},
	{"Networks", []numpyRow{
		{"np.maximum(x - 3, 0)", "F.relu(x - 3)", func(o operands) tensor { return o.x.SubScalar(3).Relu() },
			[]float64{0, 0, 0, 1, 2, 3}},
		{"1 / (1 + np.exp(-v))", "v.sigmoid()", func(o operands) tensor { return o.v.Sigmoid() },
			[]float64{0.95257413, 0.7310586, 0.880797}},
		{"scipy.special.softmax(x, 1)", "x.softmax(1)", func(o operands) tensor { return o.x.Softmax(1) },
			[]float64{0.09003057, 0.24472848, 0.66524094, 0.09003057, 0.24472848, 0.66524094}},
		{"-", "F.silu(v)", func(o operands) tensor { return o.v.Silu() }, []float64{2.8577223, 0.7310586, 1.7615942}},
		{"-", "F.layer_norm(x, (3,), v, v)", func(o operands) tensor { return o.x.LayerNorm(o.v, o.v, 0) },
			[]float64{-0.6742346, 1, 4.4494898, -0.6742346, 1, 4.4494898}},
		{"-", "F.linear(x, y, bias=b)",
			func(o operands) tensor { return o.x.MatMulT(o.y).Add(o.b.Const([]float32{1, 2}, 2)) },
			[]float64{29, 12, 74, 30}},
		{"-", "torch.autograd.grad(v.square().sum(), v)",
			func(o operands) tensor { return frontend.Grad(o.v.Sqr().Sum(), o.v)[0] },
			[]float64{6, 2, 4}},
	}},
}

// first takes the first of two results.
func first(t, _ tensor) tensor { return t }

// second takes the second of two results.
func second(_, t tensor) tensor { return t }

// TestFromNumPy runs every row of docs/FROM-NUMPY.md on the processor, and compares the page with the rows.
func TestFromNumPy(t *testing.T) {
	calls := callTexts(t)
	out := runNumPyRows(t)
	var page strings.Builder
	page.WriteString(numpyHead)
	n := 0
	for _, section := range numpyRows {
		fmt.Fprintf(&page, "\n## %s\n\n| NumPy | PyTorch | vkc |\n|---|---|---|\n", section.title)
		for _, row := range section.rows {
			fmt.Fprintf(&page, "| %s | `%s` | `%s` |\n", codeCell(row.numpy), row.torch, calls[n])
			got, err := vkc.Values[float64](out[fmt.Sprint(n)])
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, row.want, near) {
				t.Errorf("%s: %v, not %v", calls[n], got, row.want)
			}
			n++
		}
	}
	golden.Check(t, filepath.Join(root, fromNumPyPage), page.String(), *updateGolden,
		"go test ./internal/doctest -run FromNumPy -update-golden")
}

// near allows a difference in the last digit of the expected values.
func near(got, want float64) bool { return math.Abs(got-want) <= 2e-6*(1+math.Abs(want)) }

// codeCell sets a name as code; "-" says that there is none.
func codeCell(text string) string {
	if text == "-" {
		return ""
	}
	return "`" + text + "`"
}

// runNumPyRows computes all rows in one graph. The outputs are named after the rows.
func runNumPyRows(t *testing.T) vkc.Tensors {
	t.Helper()
	g, err := frontend.Build("rows", func(b *frontend.Builder) {
		o := operands{b: b, x: b.Input("x", ir.F32, 2, 3), y: b.Input("y", ir.F32, 2, 3)}
		o.v, o.i = b.Input("v", ir.F32, 3), b.Input("i", ir.I32, 2)
		n := 0
		for _, section := range numpyRows {
			for _, row := range section.rows {
				b.Output(fmt.Sprint(n), row.call(o).Cast(ir.F64))
				n++
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	x, errX := vkc.Of([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	y, errY := vkc.Of([]float32{6, 5, 4, 3, 2, 1}, 2, 3)
	v, errV := vkc.Of([]float32{3, 1, 2}, 3)
	i, errI := vkc.Of([]int32{2, 0}, 2)
	dev, errDev := vkc.OpenDevice("cpu")
	if err := errors.Join(errX, errY, errV, errI, errDev); err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	exe, err := dev.LoadGraph(t.Context(), g, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	res, err := exe.Run(t.Context(), vkc.Tensors{"x": x, "y": y, "v": v, "i": i})
	if err != nil {
		t.Fatal(err)
	}
	return res.Outputs
}

// callTexts returns the expressions that the rows of numpyRows return, in their order, as this file has them, without
// the name of the operands.
func callTexts(t *testing.T) (list []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "fromnumpy_test.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != "numpyRows" {
			return true
		}
		ast.Inspect(spec, func(n ast.Node) bool {
			f, ok := n.(*ast.FuncLit)
			if !ok {
				return true
			}
			var text bytes.Buffer
			if err := printer.Fprint(&text, files, f.Body.List[0].(*ast.ReturnStmt).Results[0]); err != nil {
				t.Fatal(err)
			}
			names := strings.NewReplacer("(o.", "(", " o.", " ", "o.b.", "b.")
			list = append(list, names.Replace(strings.TrimPrefix(text.String(), "o.")))
			return false
		})
		return false
	})
	return list
}

const numpyHead = `# From NumPy and PyTorch

This page lists functions of NumPy and PyTorch, and what to write in vkc instead. A test runs every row.

The rows compute with these operands. ` + "`b`" + ` is the *frontend.Builder of the graph.

| name | value | type |
|---|---|---|
| ` + "`x`" + ` | ` + "`[[1,2,3],[4,5,6]]`" + ` | f32[2,3] |
| ` + "`y`" + ` | ` + "`[[6,5,4],[3,2,1]]`" + ` | f32[2,3] |
| ` + "`v`" + ` | ` + "`[3,1,2]`" + ` | f32[3] |
| ` + "`i`" + ` | ` + "`[2,0]`" + ` | i32[2] |

What differs from NumPy:

- A graph computes nothing while you build it. A Tensor is a handle to a value of a later run.
- Dtypes never convert by themselves. ` + "`x.Add(n)`" + ` of f32 and i32 is an error; write ` + "`n.Cast(ir.F32)`" + `.
- Elementwise ops broadcast as in NumPy. Axes may be negative.
- Nothing is changed in place. ` + "`v[i] = 0`" + ` is an op with a new result. A state keeps a value from run to run.
- There are no complex numbers: a last axis of 2 has the real and the imaginary parts.
- Round goes to the nearest even number, as in NumPy.

Corner cases (NaN, division by zero, integer overflow) are in [SEMANTICS.md](SEMANTICS.md); all ops in [OPS.md](OPS.md).
`
