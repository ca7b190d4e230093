package vision

import (
	"fmt"
	"math"
)

// View is a square of ImageSize pixels that the tower reads: a part of the resized picture, or all of it.
type View struct {
	Width, Height int // pixels of the resized picture
	Left, Top     int // the square's first pixel in it; below 0, or beyond it, is the color of padding
}

// Tiling lists the squares of a picture that the tower reads, and says how their rows form a part of the prompt.
type Tiling struct {
	Views []View

	// Texts has the text before the rows of each view, and last the text after them. nil means that the rows of all
	// views are one part of the prompt, with the marks of Config.Marks around it.
	Texts []string

	// Rows lists the picture's rows, as numbers of the rows of all views one after another, or -1 for Newline. nil
	// means all of them in their order.
	Rows []int
}

// Newline is the name of the weight that stands for -1 in Tiling.Rows: a row that the language model reads at the end
// of each line of a picture's map.
const Newline = "model.image_newline"

// Bounds of the views of a picture, and of Config.LongestEdge.
const (
	maxTiles = 256
	maxEdge  = 4096
)

// Tile returns the views of a picture, given the picture's size in pixels and the grid of Fit, and their place in a
// prompt. A row of a view takes the place of one token. It returns a *PictureError if the views need more than maxRows
// rows, or if there are more than 256 views.
func (c Config) Tile(width, height int, g Grid, maxRows int) (Tiling, error) {
	p, err := findProjector(c.Projector)
	if err != nil {
		return Tiling{}, fmt.Errorf("vision: %w", err)
	}
	whole := View{Width: g.Columns * c.PatchSize, Height: g.Rows * c.PatchSize}
	if p.tile == nil || p.manySizes { // manySizes: the tower reads the picture as one view
		return Tiling{Views: []View{whole}}, nil
	}
	t := p.tile(c, width, height, whole)
	rows := len(t.Rows)
	if t.Rows == nil { // all rows of all views are used
		rows = len(t.Views) * c.Rows()
	}
	if len(t.Views) > maxTiles {
		return t, wrongPicture("has %d*%d pixels, which are %d tiles: want at most %d", width, height, len(t.Views),
			maxTiles)
	}
	if rows > maxRows {
		return t, wrongPicture("takes %d tokens, and there is room for %d: give the model more context", rows, maxRows)
	}
	return t, nil
}

// splitIdefics3 resizes a picture so that its longer side is LongestEdge and both sides are multiples of the tower's
// square. The views are the squares of this picture, row by row, and then the whole picture (Laurençon et al. 2024,
// section 2.2.3). Texts between them give a square's row and column, as the model was trained with.
func splitIdefics3(c Config, width, height int, whole View) Tiling {
	side := c.ImageSize
	if c.LongestEdge <= side {
		return Tiling{Views: []View{whole}}
	}
	long, other := tilesOf(max(width, height), min(width, height), c.LongestEdge, side)
	columns, rows := long, other
	if width < height {
		columns, rows = other, long
	}
	var t Tiling
	for row := range rows {
		for column := range columns {
			text := fmt.Sprintf("<fake_token_around_image><row_%d_col_%d>", row+1, column+1)
			if row > 0 && column == 0 {
				text = "\n" + text
			}
			t.Texts = append(t.Texts, text)
			t.Views = append(t.Views, View{columns * side, rows * side, column * side, row * side})
		}
	}
	t.Views = append(t.Views, whole)
	t.Texts = append(t.Texts, "\n\n<fake_token_around_image><global-img>", "<fake_token_around_image>")
	return t
}

// tilesOf returns how many squares of side pixels cover the sides of a picture. The longer side is scaled to edge
// pixels, and the other side in proportion. Both results are rounded up.
func tilesOf(long, other, edge, side int) (alongLong, alongOther int) {
	scaled := int(float64(edge) * float64(other) / float64(long))
	scaled = max(scaled+scaled%2, 1) // even, as the model's own preprocessor has it
	up := func(n int) int { return max((n+side-1)/side, 1) }
	alongLong = up(edge)
	return alongLong, up(int(float64(alongLong*side) * float64(scaled) / float64(edge)))
}

// splitLLaVA returns as views the whole picture first, and then the tiles that cover the picture in the best of the
// resolutions of Pinpoints (Liu et al. 2024, "LLaVA-NeXT"). The patches of all tiles form one map. Its rows and columns
// with only padding are left out, and Newline ends each row.
func splitLLaVA(c Config, width, height int, whole View) Tiling {
	if len(c.Pinpoints) == 0 {
		return Tiling{Views: []View{whole}}
	}
	to := bestResolution(c.Pinpoints, width, height)
	// The picture keeps its aspect ratio, so it is padded along one axis.
	across, down := float64(to[0])/float64(width), float64(to[1])/float64(height)
	v := View{Width: to[0], Height: to[1]}
	if across < down {
		v.Height = min(int(math.Ceil(float64(height)*across)), to[1])
	} else {
		v.Width = min(int(math.Ceil(float64(width)*down)), to[0])
	}
	// Tiles begin at the padding, so they have coordinates below 0 in the picture.
	left, top := (to[0]-v.Width)/2, (to[1]-v.Height)/2
	t := Tiling{Views: []View{whole}}
	for y := 0; y < to[1]; y += c.ImageSize {
		for x := 0; x < to[0]; x += c.ImageSize {
			t.Views = append(t.Views, View{v.Width, v.Height, x - left, y - top})
		}
	}
	side := c.side()       // patches along a side of a view
	perView := side * side // patches of a view; those of the whole picture come first
	for i := range perView {
		t.Rows = append(t.Rows, i)
	}
	columns, rows := to[0]/c.PatchSize, to[1]/c.PatchSize // patches of the map of all tiles
	padX, padY := padding(columns, rows, width, height)
	for y := padY; y < rows-padY; y++ {
		for x := padX; x < columns-padX; x++ {
			view := 1 + y/side*(columns/side) + x/side // view 0 is the whole picture
			patch := y%side*side + x%side              // in the view
			t.Rows = append(t.Rows, view*perView+patch)
		}
		t.Rows = append(t.Rows, -1) // Newline
	}
	return t
}

// bestResolution returns the resolution [width, height] that keeps the most pixels of a picture that is scaled to fit
// into it. Among equal ones it returns the one with the least padding.
func bestResolution(list [][2]int, width, height int) (best [2]int) {
	most, least := -1, 0
	for _, to := range list {
		scale := min(float64(to[0])/float64(width), float64(to[1])/float64(height))
		kept := min(int(float64(width)*scale)*int(float64(height)*scale), width*height)
		wasted := to[0]*to[1] - kept
		if kept > most || kept == most && wasted < least {
			best, most, least = to, kept, wasted
		}
	}
	return best
}

// padding returns the padding of a picture in a map: padX columns on the left and on the right, and padY rows at the
// top and at the bottom. One of them is 0.
func padding(columns, rows, width, height int) (padX, padY int) {
	w, h := float64(width), float64(height)
	if w/h > float64(columns)/float64(rows) {
		return 0, (rows - rounded(h*(float64(columns)/w))) / 2
	}
	return (columns - rounded(w*(float64(rows)/h))) / 2, 0
}

// rounded rounds down, after rounding to 7 digits.
func rounded(v float64) int { return int(math.Round(v*1e7) / 1e7) }
