package glsl

import (
	"github.com/vkc-go/vkc/codegen/schedule"
)

// selectWriter writes a kernel that stores the first elements of a row's order without sorting the rest. It finds the
// last of these elements by radix selection. It counts the elements by the highest bits of their keys, keeps the
// elements in the bin of the wanted rank, and continues with the next bits. The bits of coordinates break ties between
// equal keys, so that exactly the requested number of elements remain. Only these are sorted.
type selectWriter struct {
	sorter
	each       int // keys that an invocation holds
	own        text
	bins, sums text       // shared: elements by their bits, and by invocation
	found      text       // shared: the bin, the rank in it, and its elements; then the number of collected elements
	selected   sortPlaces // shared
}

// emitSelect writes a kernel of a row per workgroup.
func emitSelect(e *emitter) {
	r := sorter{newRowWriter(e, e.sched.Workgroup, true)}
	e.overSpace(r.place, func() {
		w := &selectWriter{sorter: r, each: e.sched.Cache}
		w.bins, w.sums = r.share("uint", "bins", schedule.SelectBins), r.share("uint", "sums", e.sched.Workgroup)
		w.found = r.share("uint", "found", schedule.SelectFound)
		w.selected = r.sharedPlaces(schedule.SelectPlaces(e.k))
		w.loadOwn()
		last, lastPlace := w.findLast()
		w.collect(last, lastPlace)
		r.network(w.selected)
		r.storePlaces(w.selected)
		r.leaveShared()
	})
}

// eachOwn opens a loop over an invocation's keys, and returns the loop's counter and the key's coordinate.
func (w *selectWriter) eachOwn() (n, j text) {
	hint := ""
	if w.each <= 64 {
		hint = unroll
	}
	at := w.openFor(hint, "n", primary("0u"), uintLit(w.each), uintLit(1))
	return at, w.variable("uint", "j", binary("+", times(at, w.sched.Workgroup), w.local))
}

// loadOwn loads the keys. Keys past the row sort after all others.
func (w *selectWriter) loadOwn() {
	w.comment("The keys of the row, neighbours in neighbouring invocations.")
	w.own = w.unset("uint", "own", w.each)
	n, j := w.eachOwn()
	key := w.keyOf(j, int64(w.each*w.sched.Workgroup))
	w.assign(elementAt(w.own, n), key)
	w.close()
}

// findLast returns the key and the coordinate of the last selected element.
func (w *selectWriter) findLast() (key, place text) {
	w.comment("Find the last element to take, %d bits of its key and then of its place at a time.", schedule.SelectBits)
	key, place = w.variable("uint", "last_key", primary("0u")), w.variable("uint", "last_place", primary("0u"))
	keyBits, placeBits := w.variable("uint", "known_key", primary("0u")), w.variable("uint", "known_place",
		primary("0u"))
	rank := w.variable("uint", "rank", w.dim(w.k.Take))
	keyRounds, rounds := 3, 3+(bitsOf(w.k.Fold.Max())+schedule.SelectBits-1)/schedule.SelectBits
	w.open("for (uint round = 0u; round < %du; ++round)", rounds)
	w.line("bool by_key = round < %du;", keyRounds)
	w.line("uint shift = by_key ? uint(max(21 - %d * int(round), 0)) : (%du - round) * %du;", schedule.SelectBits,
		rounds-1, schedule.SelectBits)
	bin := w.lanesOver("bin", uintLit(schedule.SelectBins))
	w.line("%s[%s] = 0u;", w.bins, bin)
	w.close()
	w.barrier()
	n, j := w.eachOwn()
	w.line("uint key = %s[%s];", w.own, n)
	w.line("if ((key & %s) == %s && (%s & %s) == %s) atomicAdd(%s[(by_key ? key : %s) >> shift & %du], 1u);",
		keyBits, key, j, placeBits, place, w.bins, j, schedule.SelectBins-1)
	w.close()
	w.barrier()
	w.findBin(rank)
	w.line("%s = %s[1];", rank, w.found)
	w.open("if (by_key)")
	w.line("%s |= %s[0] << shift;", key, w.found)
	w.line("%s |= %du << shift;", keyBits, schedule.SelectBins-1)
	w.line("// All of the bin are taken: places do not matter.")
	w.open("if (%s == %s[2])", rank, w.found)
	w.line("%s |= ~%s;", key, keyBits)
	w.line("%s = 0xffffffffu;", place)
	w.line("break;")
	w.close()
	w.close()
	w.openElse()
	w.line("%s |= %s[0] << shift;", place, w.found)
	w.line("%s |= %du << shift;", placeBits, schedule.SelectBins-1)
	w.close()
	w.close()
	return key, place
}

// findBin finds the bin that holds the element of a rank, counted from 1, and the element's rank in the bin.
func (w *selectWriter) findBin(rank text) {
	lanes := w.sched.Workgroup
	per := schedule.SelectBins / lanes
	w.line("uint first_bin = %s * %du, own_bins = 0u;", w.local, per)
	w.line("for (uint b = 0u; b < %du; ++b) own_bins += %s[first_bin + b];", per, w.bins)
	w.line("uint up_to = own_bins;")
	w.line("%s[%s] = up_to;", w.sums, w.local)
	w.barrier()
	w.open("for (uint distance = 1u; distance < %du; distance <<= 1u)", lanes)
	w.line("uint other = %s >= distance ? %s[%s - distance] : 0u;", w.local, w.sums, w.local)
	w.barrier()
	w.line("up_to += other;")
	w.line("%s[%s] = up_to;", w.sums, w.local)
	w.barrier()
	w.close()
	w.line("uint before = up_to - own_bins;")
	w.open("if (before < %s && %s <= up_to)", rank, rank)
	w.line("while (before + %s[first_bin] < %s) before += %s[first_bin++];", w.bins, rank, w.bins)
	w.line("%s[0] = first_bin;", w.found)
	w.line("%s[1] = %s - before;", w.found, rank)
	w.line("%s[2] = %s[first_bin];", w.found, w.bins)
	w.close()
	w.barrier()
}

// collect gathers the elements up to the last one, in any order.
func (w *selectWriter) collect(last, lastPlace text) {
	w.comment("Gather what is not behind it.")
	w.line("if (%s == 0u) %s[3] = 0u;", w.local, w.found)
	place := w.lanesOver("place", uintLit(w.selected.n))
	w.line("%s = 0xffffffffu;", w.selected.key(place))
	w.line("%s = 0xffffffffu;", w.selected.from(place))
	w.close()
	w.barrier()
	n, j := w.eachOwn()
	w.line("uint key = %s[%s];", w.own, n)
	w.open("if (key < %s || key == %s && %s <= %s)", last, last, j, lastPlace)
	w.line("uint at = min(atomicAdd(%s[3], 1u), %du);", w.found, w.selected.n-1)
	w.line("%s = key;", w.selected.key(primary("at")))
	w.assign(w.selected.from(primary("at")), j)
	w.close()
	w.close()
	w.barrier()
}

// bitsOf is the number of bits of the numbers below n.
func bitsOf(n int64) int {
	bits := 1
	for n > 1<<bits {
		bits++
	}
	return bits
}
