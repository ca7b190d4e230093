package order

import (
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/rows"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// selectWriter writes a kernel that stores the first elements of a row's order without sorting the rest (top-k). It
// finds the last of these elements by radix selection. It counts the elements by the highest bits of their keys, keeps
// the elements in the bin with the wanted rank, and continues with the next bits. Among equal keys, the bits of
// coordinates decide, so that exactly the requested number of elements remains. Only these are sorted.
type selectWriter struct {
	sorter
	each       int // number of keys per invocation
	own        expr.Expr
	bins, sums expr.Expr  // shared: numbers of elements by their bits, and by invocation
	found      expr.Expr  // shared: the bin, the rank in it, its number of elements; then how many were collected
	selected   sortPlaces // shared
}

// EmitSelect writes a selection with one workgroup per row.
func EmitSelect(e *emit.Emitter) {
	r := sorter{rows.New(e, e.Launch.Workgroup, true)}
	e.OverSpace(r.Place, func() {
		w := &selectWriter{sorter: r, each: e.Sched.(kernel.Row).Cache}
		w.bins, w.sums = r.Share("uint", "bins", schedule.SelectBins), r.Share("uint", "sums", e.Launch.Workgroup)
		w.found = r.Share("uint", "found", schedule.SelectFound)
		w.selected = r.sharedPlaces(schedule.SelectPlaces(e.K))
		w.loadOwn()
		last, lastPlace := w.findLast()
		w.collect(last, lastPlace)
		r.network(w.selected)
		r.storePlaces(w.selected)
		r.LeaveShared()
	})
}

// eachOwn opens a loop over an invocation's keys. It returns the loop's counter and the key's coordinate.
func (w *selectWriter) eachOwn() (n, j expr.Expr) {
	hint := ""
	if w.each <= 64 {
		hint = emit.Unroll
	}
	at := w.OpenFor(hint, "n", expr.Of("0u"), expr.Uint(w.each), expr.Uint(1))
	return at, w.Variable("uint", "j", expr.Binary("+", expr.Times(at, w.Launch.Workgroup), w.Local))
}

// loadOwn loads the invocation's keys. Slots past the end of the row get the largest key.
func (w *selectWriter) loadOwn() {
	w.Comment("The keys of the row, neighbours in neighbouring invocations.")
	w.own = w.Unset("uint", "own", w.each)
	n, j := w.eachOwn()
	key := w.keyOf(j, int64(w.each*w.Launch.Workgroup))
	w.Assign(expr.At(w.own, n), key)
	w.Close()
}

// findLast returns the key and the coordinate of the last selected element.
func (w *selectWriter) findLast() (key, place expr.Expr) {
	w.Comment("Find the last element to take, %d bits of its key and then of its place at a time.", schedule.SelectBits)
	key, place = w.Variable("uint", "last_key", expr.Of("0u")), w.Variable("uint", "last_place", expr.Of("0u"))
	keyBits, placeBits := w.Variable("uint", "known_key", expr.Of("0u")), w.Variable("uint", "known_place",
		expr.Of("0u"))
	rank := w.Variable("uint", "rank", w.Dim(w.K.Take))
	keyRounds, rounds := 3, 3+(bitsOf(w.K.Fold.Max())+schedule.SelectBits-1)/schedule.SelectBits
	w.Open("for (uint round = 0u; round < %du; ++round)", rounds)
	w.Line("bool by_key = round < %du;", keyRounds)
	w.Line("uint shift = by_key ? uint(max(21 - %d * int(round), 0)) : (%du - round) * %du;", schedule.SelectBits,
		rounds-1, schedule.SelectBits)
	bin := w.lanesOver("bin", expr.Uint(schedule.SelectBins))
	w.Line("%s[%s] = 0u;", w.bins, bin)
	w.Close()
	w.Barrier()
	n, j := w.eachOwn()
	w.Line("uint key = %s[%s];", w.own, n)
	w.Line("if ((key & %s) == %s && (%s & %s) == %s) atomicAdd(%s[(by_key ? key : %s) >> shift & %du], 1u);",
		keyBits, key, j, placeBits, place, w.bins, j, schedule.SelectBins-1)
	w.Close()
	w.Barrier()
	w.findBin(rank)
	w.Line("%s = %s[1];", rank, w.found)
	w.Open("if (by_key)")
	w.Line("%s |= %s[0] << shift;", key, w.found)
	w.Line("%s |= %du << shift;", keyBits, schedule.SelectBins-1)
	w.Line("// All of the bin are taken: places do not matter.")
	w.Open("if (%s == %s[2])", rank, w.found)
	w.Line("%s |= ~%s;", key, keyBits)
	w.Line("%s = 0xffffffffu;", place)
	w.Line("break;")
	w.Close()
	w.Close()
	w.OpenElse()
	w.Line("%s |= %s[0] << shift;", place, w.found)
	w.Line("%s |= %du << shift;", placeBits, schedule.SelectBins-1)
	w.Close()
	w.Close()
	return key, place
}

// findBin finds the bin with the element of a rank, counted from 1, and the element's rank in the bin.
func (w *selectWriter) findBin(rank expr.Expr) {
	lanes := w.Launch.Workgroup
	per := schedule.SelectBins / lanes
	w.Line("uint first_bin = %s * %du, own_bins = 0u;", w.Local, per)
	w.Line("for (uint b = 0u; b < %du; ++b) own_bins += %s[first_bin + b];", per, w.bins)
	w.Line("uint up_to = own_bins;")
	w.Line("%s[%s] = up_to;", w.sums, w.Local)
	w.Barrier()
	w.Open("for (uint distance = 1u; distance < %du; distance <<= 1u)", lanes)
	w.Line("uint other = %s >= distance ? %s[%s - distance] : 0u;", w.Local, w.sums, w.Local)
	w.Barrier()
	w.Line("up_to += other;")
	w.Line("%s[%s] = up_to;", w.sums, w.Local)
	w.Barrier()
	w.Close()
	w.Line("uint before = up_to - own_bins;")
	w.Open("if (before < %s && %s <= up_to)", rank, rank)
	w.Line("while (before + %s[first_bin] < %s) before += %s[first_bin++];", w.bins, rank, w.bins)
	w.Line("%s[0] = first_bin;", w.found)
	w.Line("%s[1] = %s - before;", w.found, rank)
	w.Line("%s[2] = %s[first_bin];", w.found, w.bins)
	w.Close()
	w.Barrier()
}

// collect copies the elements up to the last selected one to shared memory, in any order.
func (w *selectWriter) collect(last, lastPlace expr.Expr) {
	w.Comment("Gather what is not behind it.")
	w.Line("if (%s == 0u) %s[3] = 0u;", w.Local, w.found)
	place := w.lanesOver("place", expr.Uint(w.selected.n))
	w.Line("%s = 0xffffffffu;", w.selected.key(place))
	w.Line("%s = 0xffffffffu;", w.selected.from(place))
	w.Close()
	w.Barrier()
	n, j := w.eachOwn()
	w.Line("uint key = %s[%s];", w.own, n)
	w.Open("if (key < %s || key == %s && %s <= %s)", last, last, j, lastPlace)
	w.Line("uint at = min(atomicAdd(%s[3], 1u), %du);", w.found, w.selected.n-1)
	w.Line("%s = key;", w.selected.key(expr.Of("at")))
	w.Assign(w.selected.from(expr.Of("at")), j)
	w.Close()
	w.Close()
	w.Barrier()
}

// bitsOf is the number of bits that numbers below n need.
func bitsOf(n int64) int {
	bits := 1
	for n > 1<<bits {
		bits++
	}
	return bits
}
