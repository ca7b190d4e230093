package vision

import (
	"fmt"
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Fit returns the grid of patches for a picture of width and height in pixels, if the tower may compute at most maxRows
// rows. It returns a *PictureError if no grid fits. A projector with one size ignores the picture's size. Otherwise the
// picture keeps its proportions as well as whole squares of patches allow, within MinPixels and MaxPixels.
func (c Config) Fit(width, height, maxRows int) (Grid, error) {
	p, err := findProjector(c.Projector)
	switch side := c.side(); {
	case err != nil:
		return Grid{}, fmt.Errorf("vision: %w", err)
	case width < 1 || height < 1 || width > maxSide || height > maxSide:
		return Grid{}, wrongPicture("has %d*%d pixels: want 1 to %d each way", width, height, maxSide)
	// The tower makes one row of Merge*Merge patches.
	case maxRows < 1 || !p.manySizes && maxRows < side*side/c.Merge/c.Merge:
		return Grid{}, wrongPicture("takes %d tokens, and there is room for %d: enlarge the model's context",
			max(side*side/c.Merge/c.Merge, 1), maxRows)
	case !p.manySizes:
		return Grid{side, side}, nil
	case max(width, height) > maxProportion*min(width, height):
		return Grid{}, wrongPicture("has %d*%d pixels: want one side at most %d times the other", width, height,
			maxProportion)
	}
	return c.proportional(width, height, maxRows), nil
}

// proportional returns the grid of Fit for a projector with many sizes.
func (c Config) proportional(width, height, maxRows int) Grid {
	block := float64(c.PatchSize * c.Merge) // pixels of each side of a square that makes one row
	most := min(float64(c.MaxPixels), float64(maxRows)*block*block)
	w, h := float64(width), float64(height)
	rows, columns := max(math.RoundToEven(h/block), 1), max(math.RoundToEven(w/block), 1)
	switch pixels := rows * columns * block * block; {
	case pixels > most:
		shrink := math.Sqrt(w * h / most) // of each side, so that the area becomes most
		rows, columns = max(math.Floor(h/shrink/block), 1), max(math.Floor(w/shrink/block), 1)
	case pixels < float64(c.MinPixels):
		grow := math.Sqrt(min(float64(c.MinPixels), most) / (w * h))
		rows, columns = math.Ceil(h*grow/block), math.Ceil(w*grow/block)
	}
	for rows*columns > float64(maxRows) { // a narrow picture that was rounded up
		if rows > columns {
			rows--
		} else {
			columns--
		}
	}
	return Grid{int(rows) * c.Merge, int(columns) * c.Merge}
}

// maxProportion bounds how many times longer one side of a picture may be than the other, if it keeps its proportions.
const maxProportion = 200

// Resize returns the graph that makes the patches of a picture of that size: it resizes the picture to the grid,
// normalizes its levels, and divides it. The inputs are "image" u8[height, width, 3], and the tables that Filters
// returns: "down" f32[H, height] and "across" f32[W, width], where H and W are the pixels of the grid. The output is
// "patches", for the graph of Tower.
//
// As in Pillow, levels are rounded to whole numbers of 0 to 255 after each of the two directions.
func (c Config) Resize(width, height int, g Grid) (*ir.Graph, error) {
	p, err := findProjector(c.Projector)
	if err != nil {
		return nil, fmt.Errorf("vision: %w", err)
	}
	return frontend.Build(fmt.Sprintf("%s picture of %d*%d", c.Projector, width, height), func(b *frontend.Builder) {
		h, w := g.Rows*c.PatchSize, g.Columns*c.PatchSize
		x := b.Input("image", ir.U8, height, width, 3).Cast(ir.F32)
		down, across := b.Input("down", ir.F32, h, height), b.Input("across", ir.F32, w, width)
		// Beyond a padded picture is the mean color. It is subtracted first and added last, and counts as 0 between.
		color := b.Const(c.padding(p)).Reshape(3, 1)
		x = x.Transpose(2, 0, 1).Sub(color.Unsqueeze(2))
		// Now x is [3, height, width], then [3, height, w], [3, w, height] and [3, h, w].
		x = x.MatMulT(across).Add(color.Unsqueeze(2)).AddScalar(0.5).Floor().Clamp(0, 255)
		x = x.Sub(color.Unsqueeze(2)).Transpose(0, 2, 1)
		x = x.MatMulT(down).Add(color.Unsqueeze(2)).AddScalar(0.5).Floor().Clamp(0, 255).Transpose(0, 2, 1)
		scale, shift := make([]float32, 3), make([]float32, 3)
		for i := range scale {
			scale[i] = float32(1 / (255 * c.Deviation[i]))
			shift[i] = float32(-c.Mean[i] / c.Deviation[i])
		}
		x = x.Mul(b.Const(scale).Reshape(3, 1, 1)).Add(b.Const(shift).Reshape(3, 1, 1)) // [3, h, w]
		// Order the patches by squares of m*m patches, and the elements of a patch by color, row and column.
		m := c.Merge
		x = x.Reshape(3, g.Rows/m, m, c.PatchSize, g.Columns/m, m, c.PatchSize).Transpose(1, 4, 2, 5, 0, 3, 6)
		b.Output("patches", x.Reshape(g.Rows*g.Columns, 3*c.PatchSize*c.PatchSize))
	})
}

// padding returns the color beyond a padded picture, in levels of 0 to 255.
func (c Config) padding(p projector) []float32 {
	color := make([]float32, 3)
	for i := range color {
		if c.padsSquare(p) {
			color[i] = float32(math.RoundToEven(float64(255*c.Mean[i]) - 0.5))
		}
	}
	return color
}

// Filters returns the tables that resize a picture to a view, for the grid of Fit. down has a row for each row of the
// view's pixels, with the weights of the picture's rows; across has the same for columns.
func (c Config) Filters(width, height int, g Grid, v View) (down, across []float32) {
	p, err := findProjector(c.Projector)
	if err != nil {
		return nil, nil
	}
	w, h := width, height
	if c.padsSquare(p) {
		w, h = max(w, h), max(w, h) // the picture is centred in a square of padding
	}
	return part(filter(height, h, v.Height, p.cubic), height, v.Top, g.Rows*c.PatchSize),
		part(filter(width, w, v.Width, p.cubic), width, v.Left, g.Columns*c.PatchSize)
}

// padsSquare reports whether a picture is padded before it is resized.
func (c Config) padsSquare(p projector) bool {
	return p.square == Padded && !p.manySizes && len(c.Pinpoints) == 0
}

// part returns n rows of a table of rows of that width, from row first on. Rows that the table lacks are zeros.
func part(table []float32, width, first, n int) []float32 {
	out := make([]float32, n*width)
	rows := len(table) / width
	if from, end := max(first, 0), min(first+n, rows); from < end {
		copy(out[(from-first)*width:], table[from*width:end*width])
	}
	return out
}

// filter returns the weights [to, n] that resize a line of pixels to `to` pixels. The line has `padded` pixels: n
// pixels of the picture, in the middle of padding. If the line shrinks, the filter is wider, so that every pixel
// contributes. The filter is linear or, with cubic, Keys' cubic (1981) with a = -0.5.
func filter(n, padded, to int, cubic bool) []float32 {
	scale, before := float64(padded)/float64(to), (padded-n)/2 // before: pixels of padding at the beginning
	wide := max(scale, 1)                                      // how many times wider the filter is
	reach := float64(wide)
	if cubic {
		reach = float64(2 * wide)
	}
	table := make([]float32, to*n)
	for i := range to {
		// The pixel's centre in the input, and the inputs that the filter reaches from there.
		middle := float64((float64(i) + 0.5) * scale)
		first, end := max(int(middle-reach+0.5), 0), min(int(middle+reach+0.5), padded)
		weights, sum := make([]float64, end-first), 0.0
		for j := range weights {
			weights[j] = kernel(math.Abs(float64(first+j)-middle+0.5)/wide, cubic)
			sum += weights[j] // pixels of padding count too
		}
		for j, w := range weights {
			if at := first + j - before; at >= 0 && at < n {
				table[i*n+at] = float32(w / sum)
			}
		}
	}
	return table
}

// kernel returns the weight of the cubic filter (Keys 1981, a = -0.5) or of the linear one at distance x. The
// conversions keep products from being fused with sums, so all machines get the same weights.
func kernel(x float64, cubic bool) float64 {
	switch {
	case !cubic:
		return max(1-x, 0)
	case x < 1:
		return float64((float64(1.5*x)-2.5)*x*x) + 1
	case x < 2:
		return float64((float64((float64(-0.5*x)+2.5)*x)-4)*x) + 2
	}
	return 0
}
