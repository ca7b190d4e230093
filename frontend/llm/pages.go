package llm

import (
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// PageSize is how many positions a page has.
const PageSize = 64

// Pages makes the texts of Texts share a KV cache (paged attention, Kwon et al. 2023, arXiv:2309.06180). It has n pages
// of PageSize positions, in states [KVHeads, n*PageSize, HeadDim]. Graphs have one more input, "pages" i32[B,
// PagesOf(maxContext)] or, for Steps and Decode, i32[PagesOf(maxContext)]: the pages of each text in order of
// positions. Entries beyond the text may be any page. Layers that cache only a window have a ring per text, as without
// paging. n = 0 means no paging.
//
// The page table is part of the index of a key: attention reads keys through the table without copying them together.
func Pages(n int) Option { return func(d *decoding) { d.pages = n } }

// PagesOf returns the number of pages for that many positions.
func PagesOf(positions int) int { return (positions + PageSize - 1) / PageSize }

// paged returns the cache positions of positions i32[T]. pages are the pages of one text or, with shape [T, …], of one
// text each.
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
