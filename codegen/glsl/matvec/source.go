package matvec

import (
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/matmul"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// rowArrays names the arrays that hold an invocation's rows of an A along one part of a run (see [bReader]).
// scales and sums are empty if the format does not need them.
type rowArrays struct{ elements, scales, sums expr.Array }

// activations holds the rowArrays of every A.
type activations map[*matmul.Operand]rowArrays

// ofRows calls read for every A and collects the results.
func (v *matVec) ofRows(read func(o *matmul.Operand) rowArrays) activations {
	all := activations{}
	for _, o := range v.A {
		all[o] = read(o)
	}
	return all
}

// aSource is a way to read the rows of A: from memory, or from shared memory after the workgroup prepared them.
type aSource interface {
	// startLoads loads rows into registers before the workgroup prepares its tables, so that the loads overlap with
	// that.
	startLoads()
	// prepareRows prepares the rows, in shared memory if needed, so that strip can read them.
	prepareRows()
	// strip reads all rows of an A along the strip that begins at k on the contraction axis.
	strip(o *matmul.Operand, k expr.Expr) rowArrays
}

// floatSource is an aSource of floats that also reads single quads.
type floatSource interface {
	aSource
	// quadsAt returns the function that reads the quads of the strip at k.
	quadsAt(k expr.Expr) stripQuad
}

// stripQuad returns the GLSL expression of quad t of a strip, for row i of an A.
type stripQuad func(o *matmul.Operand, i, t expr.Expr) expr.Expr

// source returns the aSource that the schedule selects.
func (v *matVec) source() aSource {
	switch {
	case v.S.RoundRows:
		return &roundedRows{v: v, arrays: map[*matmul.Operand]rowArrays{}, own: map[*matmul.Operand]expr.Array{}}
	case v.S.IntDot:
		return byteRows{memoryRows{v}}
	case v.S.StageRows:
		return &stagedRows{memoryRows: memoryRows{v}, arrays: map[*matmul.Operand]expr.Expr{}}
	}
	return memoryRows{v}
}

// memoryRows reads float rows from memory, or computes them from values in memory.
type memoryRows struct{ v *matVec }

func (memoryRows) startLoads()  {}
func (memoryRows) prepareRows() {}

// quadsAt implements floatSource: it reads from memory.
func (r memoryRows) quadsAt(k expr.Expr) stripQuad {
	return func(o *matmul.Operand, i, t expr.Expr) expr.Expr {
		r.v.BindRow(i)
		return r.v.Quad(o, expr.Plus(k, expr.Times(t, 4)), emit.Inside)
	}
}

func (r memoryRows) strip(o *matmul.Operand, k expr.Expr) rowArrays {
	return r.v.floatStrip(o, k, r)
}

// floatStrip reads every row of an A along the strip at k. It sums up each row if the format needs the sum.
func (v *matVec) floatStrip(o *matmul.Operand, k expr.Expr, from floatSource) rowArrays {
	row := v.declareFloats(o)
	read := from.quadsAt(k)
	v.Repeat("i", v.S.ThreadM, func(i expr.Expr) {
		v.fillStrip(row, i, func(t expr.Expr) expr.Expr { return read(o, i, t) })
	})
	return row
}

// declareFloats declares the vec4 array of a strip, and the array of row sums, set to 0.
func (v *matVec) declareFloats(o *matmul.Operand) rowArrays {
	row := rowArrays{elements: v.Array("vec4", o.Name+"_strip", v.S.ThreadM*v.run.Quads)}
	if v.run.Form.NeedsSums() {
		row.sums = v.Filled("float", o.Name+"_sum", v.S.ThreadM, "i", func(i expr.Expr) expr.Expr {
			return expr.Of("0.0")
		})
	}
	return row
}

// fillStrip sets row i of a strip to the quads that read returns, and adds up the row's elements if the format needs
// their sum. With smallSums, it multiplies this sum by a factor that all columns share: -bias * 2^-24, or 2^-24 if the
// format is affine.
func (v *matVec) fillStrip(row rowArrays, i expr.Expr, read func(t expr.Expr) expr.Expr) {
	v.Repeat("t", v.run.Quads, func(t expr.Expr) {
		x := v.quadOfStrip(row.elements, i, t)
		v.Assign(x, read(t))
		if row.sums.Len > 0 {
			v.Update(row.sums.At(i), "+=", expr.Call("dot", x, expr.Call("vec4", expr.Of("1.0"))))
		}
	})
	if row.sums.Len == 0 || !v.smallSums() {
		return
	}
	weight := 1.0
	if !v.run.Form.Affine {
		// The sum of a row is subtracted bias times, see addScaled.
		weight = -float64(v.run.Form.Bias)
	}
	v.Update(row.sums.At(i), "*=", expr.Float(weight/(1<<24), 32, ""))
}

// byteRows reads int8 rows from memory. Every group of elements has a scale, so whole strips are multiplied in
// integers.
type byteRows struct{ memoryRows }

// strip implements aSource: it reads words of four elements, and the strip's scale.
func (r byteRows) strip(o *matmul.Operand, k expr.Expr) rowArrays {
	bytes, scale, _ := r.v.K.ByteRows(o.Value)
	b := r.v.Buffers[bytes.Bind]
	r.v.NeedStorage(b)
	// load reads the buffer in units of a number of bytes.
	load := func(unitBytes int, i expr.Expr) expr.Expr {
		b.Units[unitBytes] = true
		return expr.At(expr.Of(b.Name+"_"+emit.PlaneUnits[unitBytes].View), b.Subscript(i))
	}
	scaleOf := func(i expr.Expr) expr.Expr {
		r.v.BindRow(i)
		r.v.BindAxis(r.v.Fold, k)
		r.v.Plan([]*kernel.Expr{scale}, []kernel.Index{bytes.Index})
		return r.v.Value(scale)
	}
	// words is called after scaleOf, with the coordinates that scaleOf has bound.
	words := func(_, _ expr.Expr, use func(t, word expr.Expr)) {
		first := r.v.Named("word", expr.Binary("/", r.v.IndexExpr(bytes.Index), expr.Uint(4)))
		firstFour := expr.Binary("/", first, expr.Uint(4))
		r.v.eachWord(func(t expr.Expr) expr.Expr { return load(4, expr.Plus(first, t)) },
			func(w expr.Expr) expr.Expr { return load(16, expr.Plus(firstFour, w)) }, use)
	}
	return r.v.byteStrip(o, scaleOf, words)
}

// rowWords is the number of words that an invocation holds for one row of a strip: one per quad and base-256 digit.
func (v *matVec) rowWords() int { return v.run.Quads * v.S.RowBytes() }

// byteStrip reads all rows of an A along a strip: the int8 elements (four per int), a scale, and the sum of the
// elements if the format needs it. scale returns the scale of row i. An element has one or several base-256 digits.
// words calls use for each word with digits number `digit` of row i: word t has this digit of elements 4t to 4t+3.
func (v *matVec) byteStrip(o *matmul.Operand, scale func(i expr.Expr) expr.Expr,
	words func(i, digit expr.Expr, use func(t, word expr.Expr))) rowArrays {
	row := rowArrays{elements: v.Array("int", o.Name+"_strip", v.S.ThreadM*v.rowWords()),
		scales: v.Array("float", o.Name+"_scale", v.S.ThreadM)}
	if v.run.Form.NeedsSums() {
		row.sums = v.Array("int", o.Name+"_sum", v.S.ThreadM)
	}
	v.Repeat("i", v.S.ThreadM, func(i expr.Expr) {
		v.Assign(row.scales.At(i), scale(i))
		sum := row.sums.At(i)
		if row.sums.Len > 0 {
			v.Assign(sum, expr.Int(0))
		}
		v.Repeat("digit", v.S.RowBytes(), func(digit expr.Expr) {
			words(i, digit, func(t, word expr.Expr) {
				x := v.quadOfStrip(row.elements, i, expr.Flat(digit, v.run.Quads, t))
				v.Assign(x, expr.Call("int", word))
				if row.sums.Len > 0 {
					v.Update(sum, "+=", v.atDigit(expr.Call("dotPacked4x8EXT", x, expr.Of("ones")), digit))
				}
			})
		})
		v.pairStrip(row.elements, i)
	})
	return row
}

// atDigit multiplies x by the weight of a base-256 digit: 1, 256 or 65536.
func (v *matVec) atDigit(x, digit expr.Expr) expr.Expr {
	if v.S.RowBytes() == 1 {
		return x
	}
	return expr.Binary("<<", x, expr.Times(digit, 8))
}

// eachWord calls use for each word t of a strip. word(t) returns one word, and four(w) returns words 4w to 4w+3 as a
// uvec4. If the number of words is a multiple of four, only four is called.
func (v *matVec) eachWord(word, four func(n expr.Expr) expr.Expr, use func(t, word expr.Expr)) {
	if v.run.Quads%4 != 0 {
		v.Repeat("t", v.run.Quads, func(t expr.Expr) { use(t, word(t)) })
		return
	}
	v.Repeat("w", v.run.Quads/4, func(w expr.Expr) {
		name := v.Variable("uvec4", "four", four(w))
		v.Repeat("n", 4, func(n expr.Expr) { use(expr.Flat(w, 4, n), expr.At(name, n)) })
	})
}

// declareOnes declares int8 ones: a dot product with them is a sum. They are not a constant, because drivers turn a dot
// product with a constant into a sum byte by byte, which is slow (M-matvec-blocks).
func (v *matVec) declareOnes() {
	v.Exactly("int", "ones", expr.Of("0x01010101 + int(gl_NumWorkGroups.x >> 31)"))
	v.Note("+ 0")
}

// stagedRows is a source of float rows that the workgroup copies to shared memory, a tile at a time. A tile covers the
// steps that the lanes of a sum take together. Without it, lanes with long runs of blocks would read rows far apart in
// memory, which is slow (M-matvec-blocks).
type stagedRows struct {
	memoryRows
	arrays map[*matmul.Operand]expr.Expr // vec4 arrays, row after row
	first  expr.Expr                     // the tile's first element along the contraction axis
	each   int                           // quads per row of a tile
}

// throughTiles calls body for this invocation's steps: of n = LanesPerRow invocations, invocation i takes steps i, i+n,
// i+2n, ... Before each step the workgroup copies the rows that the step reads to shared memory.
func (v *matVec) throughTiles(r *stagedRows, steps int64, body func(step expr.Expr)) {
	lanes := v.S.LanesPerRow
	r.each = lanes * v.run.Elems / 4
	for _, o := range v.A {
		r.arrays[o] = v.Share("vec4", o.Name+"_tile", v.S.ThreadM*lanes*v.S.TileK/4)
	}
	partial := steps%int64(lanes) != 0 // the last tile is not full
	first := v.OpenLoop("first", expr.Of("0u"), expr.Uint(steps), lanes)
	r.first = v.Named("k0", expr.Times(first, v.run.Elems))
	r.fill(partial, expr.Uint(steps*int64(v.run.Elems)))
	v.Barrier()
	step := v.Variable("uint", "step", expr.Plus(first, v.part))
	v.OpenBelow(partial, step, expr.Uint(steps))
	body(step)
	v.Close()
	v.Barrier()
	v.Close()
}

// fill copies a tile of all rows to shared memory: r.each quads along the contraction axis, from element r.first on. If
// partial is true, the tile may reach beyond the end of the axis. fill then copies only elements before end.
func (r *stagedRows) fill(partial bool, end expr.Expr) {
	n := r.v.OpenLoop("n", r.v.self, expr.Uint(r.each), r.v.S.Workgroup)
	k := r.v.Variable("uint", "k", expr.Plus(r.first, expr.Times(n, 4)))
	r.v.OpenBelow(partial, k, end)
	place := r.v.Variable("uint", "place", swizzled(n))
	r.v.Repeat("i", r.v.S.ThreadM, func(i expr.Expr) {
		r.v.BindRow(i)
		for _, o := range r.v.A {
			r.v.Assign(expr.At(r.arrays[o], expr.Flat(i, r.each, place)), r.v.Quad(o, k, emit.Inside))
		}
	})
	r.v.Close()
	r.v.Close()
}

// swizzled returns the shared-memory slot of quad n of a row: n with its low three bits XORed by higher bits. If eight
// lanes read the same quad of their own runs of 8 or 16 quads, they then use different banks.
func swizzled(n expr.Expr) expr.Expr {
	return expr.Binary("^", n,
		expr.Binary("&", expr.Binary("^", expr.Binary(">>", n, expr.Of("3")), expr.Binary(">>", n, expr.Of("6"))),
			expr.Of("7u")))
}

// quadsAt implements floatSource: it reads from shared memory.
func (r *stagedRows) quadsAt(k expr.Expr) stripQuad {
	first := r.v.Variable("uint", "first_quad", expr.Binary("/", expr.Binary("-", k, r.first), expr.Uint(4)))
	place := func(t expr.Expr) expr.Expr { return swizzled(plusOffset(first, t)) }
	if r.v.run.Quads <= 8 { // t is in the low three bits, so it may be XORed after swizzled
		at := r.v.Variable("uint", "place", swizzled(first))
		place = func(t expr.Expr) expr.Expr {
			if t.Is("0u") {
				return at
			}
			return expr.Binary("^", at, t)
		}
	}
	return func(o *matmul.Operand, i, t expr.Expr) expr.Expr {
		return expr.At(r.arrays[o], expr.Flat(i, r.each, place(t)))
	}
}

func (r *stagedRows) strip(o *matmul.Operand, k expr.Expr) rowArrays {
	return r.v.floatStrip(o, k, r)
}
