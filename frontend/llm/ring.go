package llm

import (
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// KeepWindow makes layers with a window cache only their window, in a ring of Window + atOnce positions, if that is
// fewer than maxContext. Position p is stored at p modulo the ring's size. No run may process more than atOnce tokens,
// and all graphs that share states must have the same atOnce. A text can be rolled back by up to atOnce tokens. It can
// be rolled back further only if the ring has not wrapped: see Config.Reach.
func KeepWindow(atOnce int) Option { return func(d *decoding) { d.atOnce = atOnce } }

// Reach returns how many of a text's first `known` tokens need not be computed again when the text continues
// differently after them. The result is known, or 0 if layers of KeepWindow(atOnce) have overwritten keys that the next
// tokens need. written is the largest position written since the text began, plus 1, even if it was rolled back.
func (c Config) Reach(written, known, atOnce int) int {
	if c.Window > 0 && written > c.Window+atOnce && written-known > atOnce {
		return 0
	}
	return known
}

// ring reports whether a layer caches its positions in a ring buffer, and returns how many it caches per text: kept, at
// most maxContext.
func (d decoding) ring(c Config, layer, maxContext int) (ring bool, kept int) {
	if d.atOnce > 0 && c.windowed(layer) && c.Window < maxContext-d.atOnce {
		return true, c.Window + d.atOnce
	}
	return false, maxContext
}

// KeepsRing reports whether graphs of these options cache only a window of a layer, in a ring per text.
func (c Config) KeepsRing(layer, maxContext int, o ...Option) bool {
	var how decoding
	for _, set := range o {
		set(&how)
	}
	ring, _ := how.ring(c, layer, maxContext)
	return ring
}

// unroll repeats a ring [KVHeads, ring, HeadDim] to at least the given number of positions, so that position p is at
// index p. Only the latest positions, as many as the ring has, get their own values. The attention mask hides the
// others.
func unroll(x frontend.Tensor, positions int) frontend.Tensor {
	heads, ring, width := x.Dim(0), x.Dim(1), x.Dim(2)
	size := int(ring.Max())
	turns := (positions + size - 1) / size
	return x.Unsqueeze(1).Broadcast(heads, ir.D(turns), ring, width).Reshape(heads, ir.D(turns*size), width)
}
