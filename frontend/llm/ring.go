package llm

import (
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// KeepWindow makes layers with a window cache only their window, in a ring of Window + atOnce positions if that is
// fewer than all. Position p is stored at p modulo the ring's size. No run may process more than atOnce tokens; all
// graphs that share states must have the same atOnce. A text can be rolled back by up to atOnce tokens, and further
// only if the ring has not wrapped: see Config.Reach.
func KeepWindow(atOnce int) Option { return func(d *decoding) { d.atOnce = atOnce } }

// Reach returns how many of a text's first known tokens can be reused when the text continues differently after them:
// known, or 0 if layers of KeepWindow(atOnce) have lost keys that the next tokens need. written is the end of the
// positions written since the text began, including positions rolled back since, because those overwrote others.
func (c Config) Reach(written, known, atOnce int) int {
	if c.Window > 0 && written > c.Window+atOnce && written-known > atOnce {
		return 0
	}
	return known
}

// ring returns the number of positions that a layer keeps, and whether they form a ring buffer.
func (d decoding) ring(c Config, layer, maxContext int) (ring bool, kept int) {
	if d.atOnce > 0 && c.windowed(layer) && c.Window < maxContext-d.atOnce {
		return true, c.Window + d.atOnce
	}
	return false, maxContext
}

// unroll repeats a ring [KVHeads, ring, HeadDim] up to the given number of positions. Only the last repetition has the
// right values; a mask hides the others.
func unroll(x frontend.Tensor, positions int) frontend.Tensor {
	heads, ring, width := x.Dim(0), x.Dim(1), x.Dim(2)
	size := int(ring.Max())
	turns := (positions + size - 1) / size
	return x.Unsqueeze(1).Broadcast(heads, ir.D(turns), ring, width).Reshape(heads, ir.D(turns*size), width)
}
