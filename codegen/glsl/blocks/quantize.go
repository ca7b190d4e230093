package blocks

import (
	"fmt"
	"math"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/lib"
	"github.com/vkc-go/vkc/codegen/glsl/rows"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// blockWriter writes a kernel that quantizes blocks. LanesPerRow invocations share a block. Each loads `run`
// consecutive elements and calls the format's function to quantize them. Together they store the block, unit by unit.
type blockWriter struct {
	*rows.Writer
	format ir.DType
	run    int // number of elements per invocation
}

// EmitQuantize writes a kernel that quantizes blocks.
func EmitQuantize(e *emit.Emitter) {
	if err := e.K.CheckQuantize(); err != nil {
		e.Fail("%v", err)
		return
	}
	t, lanes := e.K.Quantized(), e.Sched.(kernel.Lanes).LanesPerRow
	w := &blockWriter{format: t, run: t.BlockElems() / lanes, Writer: rows.New(e, lanes, lanes > 1)}
	e.Helper("quantize_"+t.String(), "float")
	// One invocation makes the whole block.
	if !w.Group {
		e.OverSpace(w.Place, w.makeBlock)
		return
	}
	e.Helper("pack_"+t.String(), "float")
	for _, a := range lib.Exchanged {
		e.ShareAs(a.Typ, a.Name, w.Rows, a.Each(lanes, t.BlockElems()))
	}
	w.shareCodebook()
	e.OverSpace(w.Place, w.shareBlock)
}

// shareCodebook copies the codebook that the format's function searches to shared memory.
func (w *blockWriter) shareCodebook() {
	book := w.K.SearchedCodebook()
	if book == nil {
		return
	}
	count := expr.Uint(int(book.Elems))
	table := w.ShareAs("uint", lib.Codebook, int(book.Elems))
	from := expr.Of(Codebook(w.Emitter, w.Buffers[w.K.Stores[0].Bind]))
	n := w.OpenLoop("n", expr.Of("gl_LocalInvocationID.x"), count, w.Launch.Workgroup)
	w.Assign(expr.At(table, n), expr.At(from, n))
	w.Close()
	w.Barrier()
}

// makeBlock writes the code of one invocation that quantizes and stores a block.
func (w *blockWriter) makeBlock() {
	if w.K.Guard != nil {
		w.OpenPoint()
		defer w.Close()
	}
	x := w.gather()
	// The function returns the block as 16-bit numbers.
	halves := w.Unset("uint", "halves", (w.format.BlockBytes()+1)/2)
	w.Do("quantize_"+w.format.String(), x, halves)
	w.storeUnits(func(unit int, i expr.Expr) expr.Expr {
		switch unit {
		case 1:
			return expr.Of(fmt.Sprintf("%s[%s / 2u] >> %[2]s %% 2u * 8u & 255u", halves, i))
		case 4:
			return expr.Of(fmt.Sprintf("%s[2u * %s] | %[1]s[2u * %[2]s + 1u] << 16", halves, i))
		}
		return expr.At(halves, i)
	})
}

// shareBlock writes the code of several invocations that quantize and store a block together. All of them reach every
// barrier. Invocations without a block quantize zeros and store nothing.
func (w *blockWriter) shareBlock() {
	if g := w.K.Guard; g != nil {
		w.Valid = w.Variable("bool", "kept", expr.And(w.Valid, w.Eval(g.Point)))
	}
	x := w.gather()
	own := expr.Of("0u")
	if w.Rows > 1 {
		own = expr.Binary("/", w.Local, expr.Uint(w.Lanes))
	}
	pack := "pack_" + w.format.String()
	d := w.Variable("uint", "d", expr.Call("quantize_"+w.format.String(), x, own, w.Thread))
	w.OpenIf(w.Valid)
	w.storeUnits(func(unit int, i expr.Expr) expr.Expr {
		if unit == 4 {
			return expr.Call(pack, i, own, d)
		}
		// The function returns words of 4 bytes. A unit of 2 bytes is half of one.
		return expr.Of(fmt.Sprintf("%s(%s / 2u, %s, %s) >> %[2]s %% 2u * 16u & 0xffffu", pack, i, own, d))
	})
	w.Close()
	w.LeaveShared()
}

// gather loads the invocation's elements into an array. If one is above the format's largest number, infinite or NaN,
// it records a fault.
func (w *blockWriter) gather() (x expr.Expr) {
	store := w.K.Stores[0]
	// The functions take arrays of 32.
	x = w.Unset("float", "x", 32)
	// Zeros for invocations without a block.
	if w.Valid != nil {
		i := w.OpenLoop("i", expr.Of("0u"), expr.Uint(w.run), 1)
		w.Assign(expr.At(x, i), expr.Of("0.0"))
		w.Close()
	}
	w.OpenIf(w.Valid)
	var worst expr.Expr // the bits of the largest magnitude; as integers, the bits of NaN and infinities are larger
	if w.K.Fault != nil {
		worst = w.Variable("uint", "worst", expr.Of("0u"))
	}
	j := w.OpenLoop("j", expr.Of("0u"), expr.Uint(w.run), 1)
	w.BindAxis(w.K.FoldAxis(), expr.Flat(w.Thread, w.run, j))
	v := w.Eval(store.Value)
	w.Assign(expr.At(x, j), v)
	if worst != nil {
		w.Assign(worst, expr.Format("max(%s, floatBitsToUint(%s) & 0x7fffffffu)", worst, v))
	}
	w.Close()
	if f := w.K.Fault; f != nil {
		w.Open(&syntax.If{Cond: expr.Format("%s > %#xu", worst, math.Float32bits(f.Most))})
		// The fault word keeps the smallest index: the complement of the largest.
		w.Do("atomicMax", expr.At(expr.Of(w.View(w.Buffers[f.Bind], 1)), expr.Int(0)),
			expr.Unary("~", w.EvalCoordinate(f.Index)))
		w.Close()
	}
	w.Close()
	return x
}

// storeUnits stores the block in units of kernel.BlockUnit bytes. value returns unit i.
func (w *blockWriter) storeUnits(value func(unit int, i expr.Expr) expr.Expr) {
	store := w.K.Stores[0]
	out, unit := w.Buffers[store.Bind], kernel.BlockUnit(w.format)
	units := w.format.BlockBytes() / unit
	block := w.Variable("uint", "block", w.EvalCoordinate(store.Index))
	i := w.OpenLoop("i", w.Thread, expr.Uint(units), w.Lanes)
	switch at, v := expr.Flat(block, units, i), value(unit, i); {
	case w.InWords(out) && unit < 4:
		w.Scope.Write(w.StoreToWords(out, 1, at, v))
	case unit < 4:
		w.Assign(expr.At(expr.Of(w.View(out, 1)), at), expr.Call(emit.BlockUnits[unit].Name, v))
	default:
		w.Assign(expr.At(expr.Of(w.View(out, 1)), at), v)
	}
	w.Close()
}
