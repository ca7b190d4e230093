package llm

import (
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// PageSize is the number of positions of a page.
const PageSize = 64

// Pages makes the texts of Texts share a KV cache (paged attention, Kwon et al. 2023, arXiv:2309.06180). The cache has
// n pages of PageSize positions, in states [KVHeads, n*PageSize, HeadDim]. Graphs have one more input, "pages", the
// page table. It lists the pages of each text in order of positions: i32[B, PagesOf(maxContext)] or, for Steps and
// Decode, i32[PagesOf(maxContext)]. Entries beyond the text's length may be any page. Layers that cache only a window
// have a ring per text, as without paging. n = 0 means no paging.
//
// Attention reads keys through the page table, without first copying the pages together.
func Pages(n int) Option { return func(d *decoding) { d.pages = n } }

// PagesOf returns the number of pages that hold that many positions.
func PagesOf(positions int) int { return (positions + PageSize - 1) / PageSize }

// paged returns the positions in the cache of positions i32[T] of texts. pages is the page table of one text or, with
// shape [T, …], for each position the page table of its text.
func paged(pages, positions frontend.Tensor) frontend.Tensor {
	which := positions.Div(positions.Lit(PageSize))
	if pages.Rank() == 1 {
		which = pages.IndexSelect(0, which)
	} else {
		which = pages.Gather(1, which.Reshape(which.Dim(0), 1)).Reshape(which.Dim(0))
	}
	return which.MulScalar(PageSize).Add(positions.Mod(positions.Lit(PageSize)))
}

// pageValues returns the cached values of the given pages, in f32: [KVHeads, pages*PageSize, HeadDim] for pages
// i32[…].
func (d decoding) pageValues(cache, pages frontend.Tensor) frontend.Tensor {
	heads, width, size := cache.Dim(0), cache.Dim(2), ir.D(PageSize)
	x := d.fromCacheType(cache).Reshape(heads, ir.D(d.pages), size, width).IndexSelect(1, pages.Reshape(-1))
	return x.Reshape(heads, -1, width)
}
