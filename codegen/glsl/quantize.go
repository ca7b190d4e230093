package glsl

import (
	"fmt"
	"math"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// blockWriter writes a kernel that quantizes blocks. LanesPerRow invocations share a block. Each gathers a run of the
// elements and calls the format's function to compute their levels. Then they store the block, unit by unit.
type blockWriter struct {
	*rowWriter
	format ir.DType
	run    int // elements of an invocation
}

// emitQuantize writes a kernel that quantizes blocks.
func emitQuantize(e *emitter) {
	if err := e.k.CheckQuantize(); err != nil {
		e.fail("%v", err)
		return
	}
	t, lanes := e.k.Quantized(), e.sched.LanesPerRow
	w := &blockWriter{format: t, run: t.BlockElems() / lanes, rowWriter: newRowWriter(e, lanes, lanes > 1)}
	e.helper("quantize_"+t.String(), "float")
	if !w.group {
		e.overSpace(w.place, w.makeBlock)
		return
	}
	e.helper("pack_"+t.String(), "float")
	for _, a := range exchanged {
		e.shared = append(e.shared, sharedArray{a.typ, a.name, fmt.Sprintf("[%d][%d]", w.rows,
			a.each(lanes, t.BlockElems()))})
	}
	e.overSpace(w.place, w.shareBlock)
}

// makeBlock quantizes and stores a block of one invocation.
func (w *blockWriter) makeBlock() {
	if w.k.Guard != nil {
		w.openPoint()
		defer w.close()
	}
	x := w.gather()
	halves := w.unset("uint", "halves", (w.format.BlockBytes()+1)/2)
	w.line("quantize_%s(%s, %s);", w.format, x, halves)
	w.storeUnits(func(unit int, i text) text {
		switch unit {
		case 1:
			return primary(fmt.Sprintf("%s[%s / 2u] >> %[2]s %% 2u * 8u & 255u", halves, i))
		case 4:
			return primary(fmt.Sprintf("%s[2u * %s] | %[1]s[2u * %[2]s + 1u] << 16", halves, i))
		}
		return elementAt(halves, i)
	})
}

// shareBlock quantizes and stores a block together with other invocations. All of them reach every barrier. Invocations
// without a block quantize zeros, and store nothing.
func (w *blockWriter) shareBlock() {
	if g := w.k.Guard; g != nil {
		w.plan([]*kernel.Expr{g.Point}, nil)
		w.valid = w.variable("bool", "kept", and(w.valid, w.value(g.Point)))
	}
	x := w.gather()
	own := primary("0u")
	if w.rows > 1 {
		own = binary("/", w.local, uintLit(w.lanes))
	}
	pack := "pack_" + w.format.String()
	d := w.variable("uint", "d", call("quantize_"+w.format.String(), x, own, w.thread))
	w.openIf(w.valid)
	w.storeUnits(func(unit int, i text) text {
		if unit == 4 {
			return call(pack, i, own, d)
		}
		return primary(fmt.Sprintf("%s(%s / 2u, %s, %s) >> %[2]s %% 2u * 16u & 0xffffu", pack, i, own, d))
	})
	w.close()
	w.leaveShared()
}

// gather reads the invocation's elements into an array, and reports a fault among them.
func (w *blockWriter) gather() (x text) {
	store := w.k.Stores[0]
	x = w.unset("float", "x", 32)
	if w.valid != nil {
		i := w.loop("i", primary("0u"), uintLit(w.run), 1)
		w.line("%s[%s] = 0.0;", x, i)
		w.close()
	}
	w.openIf(w.valid)
	var worst text
	if w.k.Fault != nil { // as bits, NaN and infinities are above all numbers
		worst = w.variable("uint", "worst", primary("0u"))
	}
	j := w.loop("j", primary("0u"), uintLit(w.run), 1)
	w.bindAxis(w.k.FoldAxis(), plus(times(w.thread, w.run), j))
	w.plan([]*kernel.Expr{store.Value}, nil)
	v := w.value(store.Value)
	w.assign(elementAt(x, j), v)
	if worst != nil {
		w.line("%s = max(%[1]s, floatBitsToUint(%s) & 0x7fffffffu);", worst, v)
	}
	w.close()
	if f := w.k.Fault; f != nil {
		w.open("if (%s > %#xu)", worst, math.Float32bits(f.Most))
		w.plan(nil, []kernel.Index{f.Index})
		w.line("atomicMax(%s[0], ~(%s));", w.view(w.buffers[f.Bind], 1), w.coordinate(f.Index))
		w.close()
	}
	w.close()
	return x
}

// storeUnits stores the block. value prints unit i.
func (w *blockWriter) storeUnits(value func(unit int, i text) text) {
	store := w.k.Stores[0]
	out, unit := w.buffers[store.Bind], kernel.BlockUnit(w.format)
	units := w.format.BlockBytes() / unit
	w.plan(nil, []kernel.Index{store.Index})
	block := w.variable("uint", "block", w.coordinate(store.Index))
	i := w.loop("i", w.thread, uintLit(units), w.lanes)
	switch at, v := plus(times(block, units), i), value(unit, i); {
	case w.inWords(out) && unit < 4:
		w.scope.write(w.storeToWords(out, 1, at, v))
	case unit < 4:
		w.assign(elementAt(primary(w.view(out, 1)), at), call(blockUnits[unit].name, v))
	default:
		w.assign(elementAt(primary(w.view(out, 1)), at), v)
	}
	w.close()
}
