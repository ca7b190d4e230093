package order

import (
	"math/bits"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/rows"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/internal/ceil"
)

// selectWriter writes a kernel that stores the first k elements of a row's order without sorting the rest (top-k). It
// finds the element of rank k by radix selection: it counts the elements by the highest bits of their keys, keeps the
// elements in the bin with rank k, and continues with the next bits. Among equal keys, the bits of the elements'
// coordinates (places) decide, so that exactly k elements come up to this one. Only these elements are sorted.
type selectWriter struct {
	sorter
	each       int       // number of keys per invocation
	own        expr.Expr // the invocation's keys, in registers
	bins, sums expr.Expr // shared: numbers of elements by their bits, and by invocation
	found      expr.Expr // shared: schedule.SelectState numbers, see foundBin
	selected   sortSlots // shared
}

// Indices in selectWriter.found.
const (
	foundBin   = 0 // the bin with the element of the wanted rank
	foundRank  = 1 // the element's rank in the bin
	foundCount = 2 // the bin's number of elements
	collected  = 3 // the number of elements collected so far
)

// EmitSelect writes a selection with one workgroup per row.
func EmitSelect(e *emit.Emitter) {
	r := sorter{rows.New(e, e.Launch.Workgroup, true)}
	e.OverSpace(r.Place, func() {
		w := &selectWriter{sorter: r, each: e.Sched.(kernel.Row).Cache}
		w.bins, w.sums = r.Share("uint", "bins", schedule.SelectBins), r.Share("uint", "sums", e.Launch.Workgroup)
		w.found = r.Share("uint", "found", schedule.SelectState)
		w.selected = r.shareSlots(schedule.SelectSlots(e.K))
		w.loadOwn()
		last, lastPlace := w.findLast()
		w.collect(last, lastPlace)
		r.sortByNetwork(w.selected)
		r.storeSlots(w.selected)
		r.LeaveShared()
	})
}

// eachOwn opens a loop over an invocation's keys. It returns the loop's counter and the key's coordinate.
func (w *selectWriter) eachOwn() (n, j expr.Expr) {
	hint := ""
	// Unrolling keeps the array of keys in registers.
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

// findLast returns the key and the coordinate of the last selected element. Each round of the loop finds SelectBits of
// their bits: known_key and known_place have ones at the bits that are known.
func (w *selectWriter) findLast() (key, place expr.Expr) {
	w.Comment("Find the last element to take, %d bits of its key and then of its place at a time.", schedule.SelectBits)
	key, place = w.Variable("uint", "last_key", expr.Of("0u")), w.Variable("uint", "last_place", expr.Of("0u"))
	keyBits, placeBits := w.Variable("uint", "known_key", expr.Of("0u")), w.Variable("uint", "known_place",
		expr.Of("0u"))
	rank := w.Variable("uint", "rank", w.Dim(w.K.Take))
	// Three rounds look at bits 31 to 21, 20 to 10, and 10 to 0 of the key. Further rounds look at the bits of the
	// place.
	bitsOfPlace := max(bits.Len64(uint64(max(w.K.Fold.Max()-1, 0))), 1)
	keyRounds, placeRounds := 3, ceil.Div(bitsOfPlace, schedule.SelectBits)
	rounds := keyRounds + placeRounds
	w.Open(&syntax.For{Init: &syntax.Declare{Type: "uint", Vars: []syntax.Var{{Name: "round", Init: expr.Uint(0)}}},
		Cond: expr.Format("round < %du", rounds), Post: &syntax.Assign{To: expr.Of("round"), Op: "++"}})
	w.Exactly("bool", "by_key", expr.Binary("<", expr.Of("round"), expr.Uint(keyRounds)))
	// The third round of the key begins at bit 0, so it repeats bit 10.
	w.Exactly("uint", "shift", expr.Format("by_key ? uint(max(21 - %d * int(round), 0)) : (%du - round) * %du",
		schedule.SelectBits, rounds-1, schedule.SelectBits))
	w.countBins(key, keyBits, place, placeBits)
	w.findBin(rank)
	w.takeBin(rank, key, keyBits, place, placeBits)
	w.Close()
	return key, place
}

// takeBin adds the number of the found bin to the known bits of the key or the place, and sets rank to the rank in the
// bin. It ends the loop over rounds if all elements of the bin are selected.
func (w *selectWriter) takeBin(rank, key, keyBits, place, placeBits expr.Expr) {
	w.Assign(rank, expr.At(w.found, expr.Int(foundRank)))
	w.OpenIf(expr.Of("by_key"))
	w.Update(key, "|=", expr.Binary("<<", expr.At(w.found, expr.Int(foundBin)), expr.Of("shift")))
	w.Update(keyBits, "|=", expr.Binary("<<", expr.Uint(schedule.SelectBins-1), expr.Of("shift")))
	w.Scope.Write(&syntax.Comment{Text: "// All of the bin are taken: places do not matter."})
	w.OpenIf(expr.Binary("==", rank, expr.At(w.found, expr.Int(foundCount))))
	// The largest key of the bin has ones in the unknown bits.
	w.Update(key, "|=", expr.Format("~%s", keyBits))
	w.Assign(place, expr.Of("0xffffffffu"))
	w.Scope.Write(&syntax.Jump{Word: "break"})
	w.Close()
	w.Close()
	w.OpenElse()
	w.Update(place, "|=", expr.Binary("<<", expr.At(w.found, expr.Int(foundBin)), expr.Of("shift")))
	w.Update(placeBits, "|=", expr.Binary("<<", expr.Uint(schedule.SelectBins-1), expr.Of("shift")))
	w.Close()
}

// countBins counts the elements in each bin. An element's bin is the number in the SelectBits bits from bit `shift` on,
// of its key or place. countBins counts only elements with the same known bits as the last selected element.
func (w *selectWriter) countBins(key, keyBits, place, placeBits expr.Expr) {
	bin := w.lanesOver("bin", expr.Uint(schedule.SelectBins))
	w.Assign(expr.At(w.bins, bin), expr.Of("0u"))
	w.Close()
	w.Barrier()
	n, j := w.eachOwn()
	w.Exactly("uint", "key", expr.At(w.own, n))
	w.When(expr.Format("(key & %s) == %s && (%s & %s) == %s", keyBits, key, j, placeBits, place), &syntax.Do{
		X: expr.Format("atomicAdd(%s[(by_key ? key : %s) >> shift & %du], 1u)", w.bins, j, schedule.SelectBins-1)})
	w.Close()
	w.Barrier()
}

// findBin finds the bin with the element of a rank, counted from 1. It sets found to the bin, the element's rank in the
// bin, and the bin's number of elements. Each invocation owns some adjacent bins. After a prefix sum over all bins, the
// owner of the bin with the rank sets found.
func (w *selectWriter) findBin(rank expr.Expr) {
	lanes := w.Launch.Workgroup
	perLane := schedule.SelectBins / lanes // bins of an invocation
	w.Variables("uint", syntax.Var{Name: "first_bin", Init: expr.Times(w.Local, perLane)},
		syntax.Var{Name: "own_bins", Init: expr.Uint(0)})
	w.Scope.Write(&syntax.For{Init: &syntax.Declare{Type: "uint", Vars: []syntax.Var{{Name: "b", Init: expr.Uint(0)}}},
		Cond: expr.Format("b < %du", perLane), Post: &syntax.Assign{To: expr.Of("b"), Op: "++"}, Inline: true,
		Body: []syntax.Stmt{&syntax.Assign{To: expr.Of("own_bins"), Op: "+=", Value: expr.Format("%s[first_bin + b]",
			w.bins)}}})
	// up_to becomes the number of elements in the bins of this invocation and of all earlier ones. In each round of
	// this prefix sum, an invocation adds the sum of the one `distance` before it.
	w.Exactly("uint", "up_to", expr.Of("own_bins"))
	w.Assign(expr.At(w.sums, w.Local), expr.Of("up_to"))
	w.Barrier()
	w.OpenShifts("", "distance", expr.Uint(1), "<", expr.Uint(lanes))
	w.Exactly("uint", "other", expr.Format("%s >= distance ? %s[%s - distance] : 0u", w.Local, w.sums, w.Local))
	w.Barrier()
	w.Update(expr.Of("up_to"), "+=", expr.Of("other"))
	w.Assign(expr.At(w.sums, w.Local), expr.Of("up_to"))
	w.Barrier()
	w.Close()
	w.Exactly("uint", "before", expr.Binary("-", expr.Of("up_to"), expr.Of("own_bins")))
	// Exactly one invocation has the wanted rank among its bins.
	w.OpenIf(expr.Format("before < %s && %s <= up_to", rank, rank))
	w.Scope.Write(&syntax.For{While: true, Cond: expr.Format("before + %s[first_bin] < %s", w.bins, rank), Inline: true,
		Body: []syntax.Stmt{&syntax.Assign{To: expr.Of("before"), Op: "+=", Value: expr.Format("%s[first_bin++]",
			w.bins)}}})
	w.Assign(expr.At(w.found, expr.Int(foundBin)), expr.Of("first_bin"))
	w.Assign(expr.At(w.found, expr.Int(foundRank)), expr.Binary("-", rank, expr.Of("before")))
	w.Assign(expr.At(w.found, expr.Int(foundCount)), expr.At(w.bins, expr.Of("first_bin")))
	w.Close()
	w.Barrier()
}

// collect copies the elements up to the last selected one to shared memory, in any order.
func (w *selectWriter) collect(last, lastPlace expr.Expr) {
	w.Comment("Gather what is not behind it.")
	w.When(expr.Binary("==", w.Local, expr.Uint(0)), emit.Set(expr.At(w.found, expr.Int(collected)), expr.Uint(0)))
	place := w.lanesOver("place", expr.Uint(w.selected.n))
	// Slots that stay empty sort last.
	w.Assign(w.selected.key(place), expr.Of("0xffffffffu"))
	w.Assign(w.selected.from(place), expr.Of("0xffffffffu"))
	w.Close()
	w.Barrier()
	n, j := w.eachOwn()
	w.Exactly("uint", "key", expr.At(w.own, n))
	w.OpenIf(expr.Format("key < %s || key == %s && %s <= %s", last, last, j, lastPlace))
	// The minimum keeps the index inside the array even if keys are not as expected.
	w.Exactly("uint", "at", expr.Format("min(atomicAdd(%s[%d], 1u), %du)", w.found, collected, w.selected.n-1))
	w.Assign(w.selected.key(expr.Of("at")), expr.Of("key"))
	w.Assign(w.selected.from(expr.Of("at")), j)
	w.Close()
	w.Close()
	w.Barrier()
}
