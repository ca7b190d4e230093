package llm

import (
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// KeepWindow has layers with a window keep only what a token of theirs may still see: a
// ring of Window + atOnce positions, in which position p is at p modulo that, where that is
// fewer than all. No run takes more tokens than atOnce, which all graphs that share states
// have in common. A text can be gone back in by as many tokens, and no further unless all
// of it was kept so far: see Config.Reach.
func KeepWindow(atOnce int) Option { return func(d *decoding) { d.atOnce = atOnce } }

// Reach returns how many of a text's first tokens can stay known when it is to go on
// otherwise from token known on: known itself or, where layers of KeepWindow(atOnce) have
// lost what tokens there would see, 0. Written is the most positions that were written
// since the text began, also if it went back since: those overwrote others.
func (c Config) Reach(written, known, atOnce int) int {
	if c.Window > 0 && written > c.Window+atOnce && written-known > atOnce {
		return 0
	}
	return known
}

// ring says how many positions a layer keeps, and whether they are a ring.
func (d decoding) ring(c Config, layer, maxContext int) (ring bool, kept int) {
	if d.atOnce > 0 && c.windowed(layer) && c.Window < maxContext-d.atOnce {
		return true, c.Window + d.atOnce
	}
	return false, maxContext
}

// unroll shows a ring [KVHeads, ring, HeadDim] as if it had all positions: the ring again
// and again, of which only the last turn is what it says.
func unroll(x frontend.Tensor, positions int) frontend.Tensor {
	heads, ring, width := x.Dim(0), x.Dim(1), x.Dim(2)
	size := int(ring.Max())
	turns := (positions + size - 1) / size
	return x.Unsqueeze(1).Broadcast(heads, ir.D(turns), ring, width).Reshape(heads, ir.D(turns*size), width)
}
