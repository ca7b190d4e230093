package llm

import (
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// PageSize is how many positions a page has.
const PageSize = 64

// Pages has the texts of Texts share room for keys and values (paged attention, Kwon et al. 2023, arXiv:2309.06180):
// so many pages of PageSize positions each, in states [KVHeads, n*PageSize, HeadDim]. Graphs have an input more,
// "pages" i32[B, PagesOf(maxContext)] or, of Steps and Decode, i32[PagesOf(maxContext)]: the pages of each text, those
// of its first positions first. What is beyond the text may be any page. Layers that keep a window only have a ring
// for each text, as without. No pages mean that each text has room of its own.
//
// A position's key is where the table says, which is an index like any other: attention reads it through the table, and
// nothing is copied together.
func Pages(n int) Option { return func(d *decoding) { d.pages = n } }

// PagesOf returns how many pages so many positions take.
func PagesOf(positions int) int { return (positions + PageSize - 1) / PageSize }

// paged returns where positions i32[T] lie of a text whose pages are given or, with pages of [T, …], of a text each.
func paged(pages, positions frontend.Tensor) frontend.Tensor {
	which := positions.Div(positions.Lit(PageSize))
	if pages.Rank() == 1 {
		which = pages.IndexSelect(0, which)
	} else {
		which = pages.Gather(1, which.Reshape(which.Dim(0), 1)).Reshape(which.Dim(0))
	}
	return which.MulScalar(PageSize).Add(positions.Mod(positions.Lit(PageSize)))
}

// inPages shows states [KVHeads, n*PageSize, HeadDim] in the order of pages i32[…]: [KVHeads, pages*PageSize, HeadDim].
func (d decoding) inPages(cache, pages frontend.Tensor) frontend.Tensor {
	heads, width, size := cache.Dim(0), cache.Dim(2), ir.D(PageSize)
	x := d.read(cache).Reshape(heads, ir.D(d.pages), size, width).IndexSelect(1, pages.Reshape(-1))
	return x.Reshape(heads, -1, width)
}
