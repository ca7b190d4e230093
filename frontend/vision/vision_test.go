package vision_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/vision"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// goldenDir has tiny towers with random weights, and the results of a separate program: see the README there.
const goldenDir = "../../golden/vision"

// golden is one of them.
type golden struct {
	Meta    map[string]any
	Grid    [2]int
	Weights map[string]struct {
		Dims          []int
		Offset, Scale float64
	}
	Rows [][]float64
}

func readGolden(t *testing.T, name string) (m golden) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(goldenDir, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

// random returns the bits of n random numbers of a name: splitmix64 (Steele et al. 2014) from the name's hash.
func random(name string, n int) []uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	list, seed := make([]uint64, n), h.Sum64()
	for i := range list {
		z := seed + uint64(i+1)*0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		list[i] = z ^ z>>31
	}
	return list
}

// floats returns n numbers in [-1, 1) of a name.
func floats(name string, n int) []float64 {
	list := make([]float64, n)
	for i, bits := range random(name, n) {
		list[i] = float64(bits>>40)/(1<<23) - 1
	}
	return list
}

// writer makes the tower's file.
func (m golden) writer(t *testing.T) *gguf.Writer {
	t.Helper()
	w := new(gguf.Writer)
	for _, key := range slices.Sorted(maps.Keys(m.Meta)) {
		if err := w.Set(key, metaValue(t, m.Meta[key])); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Weights)) {
		made := m.Weights[name]
		d, err := ir.NewData(ir.F32, made.Dims...)
		if err != nil {
			t.Fatal(err)
		}
		values := floats(name, d.Elems())
		for i := range values {
			values[i] = made.Offset + made.Scale*values[i]
		}
		ir.EncodeFloats(d.Bytes, ir.F32, values)
		if err := w.Add(name, d); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func open(t *testing.T, w *gguf.Writer) *gguf.File {
	t.Helper()
	var buf bytes.Buffer
	if _, err := w.WriteTo(&buf); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.NewReader(buf.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func metaValue(t *testing.T, v any) any {
	t.Helper()
	switch v := v.(type) {
	case []any:
		switch metaValue(t, v[0]).(type) {
		case bool:
			return list[bool](t, v)
		case uint32:
			return list[uint32](t, v)
		}
		return list[float32](t, v)
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return uint32(n)
		}
		f, err := v.Float64()
		if err != nil {
			t.Fatal(err)
		}
		return float32(f)
	}
	return v
}

func list[T any](t *testing.T, values []any) (all []T) {
	for _, v := range values {
		all = append(all, metaValue(t, v).(T))
	}
	return all
}

func data(t *testing.T, dtype ir.DType, values []float64, dims ...int) *ir.Data {
	t.Helper()
	d, err := ir.NewData(dtype, dims...)
	if err != nil {
		t.Fatal(err)
	}
	if dtype == ir.F32 {
		ir.EncodeFloats(d.Bytes, dtype, values)
		return d
	}
	for i, v := range values {
		d.Bytes[i] = byte(v)
	}
	return d
}

func integers(t *testing.T, values ...int32) *ir.Data {
	t.Helper()
	wide := make([]int64, len(values))
	for i, v := range values {
		wide[i] = int64(v)
	}
	d, err := ir.FromInts(ir.I32, wide, len(wide))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// run runs a graph on the reference.
func run(t *testing.T, g *ir.Graph, weights ir.WeightSource, inputs map[string]*ir.Data, output string) []float64 {
	t.Helper()
	p, err := interp.New(g, interp.Options{Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(t.Context(), inputs, nil)
	if err != nil {
		t.Fatal(err)
	}
	values, err := out[output].Floats()
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// TestGolden compares the rows of each kind of projector with those of a program that shares no code with this one.
func TestGolden(t *testing.T) {
	tested := map[string]bool{}
	for _, name := range []string{"gemma3", "idefics3", "llava", "llava-feature", "qwen2vl", "qwen2.5vl", "qwen3vl"} {
		t.Run(name, func(t *testing.T) {
			m := readGolden(t, name)
			tested[m.compare(t, name, open(t, m.writer(t)))] = true
		})
	}
	for _, name := range vision.Projectors() {
		if !tested[name] {
			t.Errorf("projector %q has no golden tower: add it to %s/make.py", name, goldenDir)
		}
	}
}

// compare compares the rows of a tower's file with the golden's, and returns the projector.
func (m golden) compare(t *testing.T, name string, f *gguf.File) string {
	t.Helper()
	return m.compareBy(t, name, f, run)
}

// compareBy is compare with another function that runs a graph.
func (m golden) compareBy(t *testing.T, name string, f *gguf.File,
	run func(*testing.T, *ir.Graph, ir.WeightSource, map[string]*ir.Data, string) []float64) string {
	t.Helper()
	c, err := vision.FromGGUF(f)
	if err != nil {
		t.Fatal(name, err)
	}
	g, err := c.Tower(64)
	if err != nil {
		t.Fatal(err)
	}
	grid := vision.Grid{Rows: m.Grid[0], Columns: m.Grid[1]}
	n, size := grid.Rows*grid.Columns, 3*c.PatchSize*c.PatchSize
	rows, columns := c.Places(grid)
	in := map[string]*ir.Data{"patches": data(t, ir.F32, floats("patches", n*size), n, size),
		"rows": integers(t, rows...), "columns": integers(t, columns...)}
	if c.ManySizes() {
		in["grid"] = integers(t, int32(grid.Rows), int32(grid.Columns))
	}
	got := run(t, g, f, in, "embeddings")
	merged := c.Merged(grid)
	if len(m.Rows) != merged.Rows*merged.Columns || len(m.Rows[0]) != c.RowWidth() {
		t.Fatalf("%s: %d rows of %d, and the tower makes %v of %d", name, len(m.Rows), len(m.Rows[0]), merged,
			c.RowWidth())
	}
	for i, want := range slices.Concat(m.Rows...) {
		if !(math.Abs(got[i]-want) <= 1e-4*max(1, math.Abs(want))) {
			t.Fatalf("%s: element %d is %v, want %v", name, i, got[i], want)
		}
	}
	return c.Projector
}

// TestResize compares levels with those of a program that resizes as Pillow does.
func TestResize(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(goldenDir, "resize.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		From, To   [2]int
		Cubic, Pad bool
		Levels     []float64
		Tile       *struct {
			Projector               string
			Side, Edge, View, Views int
			Pinpoints               [][2]int
		}
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for _, tt := range cases {
		t.Run(fmt.Sprint(tt.From, tt.To, tt.Tile), func(t *testing.T) {
			c := vision.Config{Projector: "qwen2vl_merger", PatchSize: 2, Merge: 2, Mean: [3]float64{0.5, 0.25, 0.125},
				Deviation: [3]float64{0.5, 0.25, 0.5}}
			switch {
			case tt.Pad:
				c.Projector = "mlp"
			case !tt.Cubic:
				c.Projector = "gemma3"
			}
			width, height := tt.From[0], tt.From[1]
			grid := vision.Grid{Rows: tt.To[1] / 2, Columns: tt.To[0] / 2}
			view := vision.View{Width: tt.To[0], Height: tt.To[1]}
			if tt.Tile != nil {
				c.ImageSize, c.Projector = tt.Tile.Side, tt.Tile.Projector
				c.LongestEdge, c.Pinpoints = tt.Tile.Edge, tt.Tile.Pinpoints
				tiling, err := c.Tile(width, height, grid, 1000)
				if err != nil || len(tiling.Views) != tt.Tile.Views {
					t.Fatalf("%+v, %v: want %d views", tiling, err, tt.Tile.Views)
				}
				view = tiling.Views[tt.Tile.View]
			}
			g, err := c.Resize(width, height, grid)
			if err != nil {
				t.Fatal(err)
			}
			levels := make([]float64, 3*width*height)
			for i, bits := range random("image", len(levels)) {
				levels[i] = float64(bits & 255)
			}
			down, across := c.Filters(width, height, grid, view)
			in := map[string]*ir.Data{"image": data(t, ir.U8, levels, height, width, 3),
				"down":   data(t, ir.F32, widened(down), tt.To[1], height),
				"across": data(t, ir.F32, widened(across), tt.To[0], width)}
			got := run(t, g, nil, in, "patches")
			rows, columns := c.Places(grid)
			rounded := 0
			for patch := range rows {
				for i := range 12 {
					channel, y, x := i/4, 2*int(rows[patch])+i/2%2, 2*int(columns[patch])+i%2
					want := (tt.Levels[3*(y*tt.To[0]+x)+channel]/255 - c.Mean[channel]) / c.Deviation[channel]
					switch off := math.Abs(got[12*patch+i]-want) * 255 * c.Deviation[channel]; {
					case off > 1.001:
						t.Fatalf("patch %d, element %d is %v, want %v", patch, i, got[12*patch+i], want)
					case off > 0.001: // between two levels, f32 and f64 may round to either
						rounded++
					}
				}
			}
			if rounded > len(got)/50 {
				t.Errorf("%d of %d levels differ by one", rounded, len(got))
			}
		})
	}
}

func widened(list []float32) (all []float64) {
	for _, v := range list {
		all = append(all, float64(v))
	}
	return all
}

// TestTiles compares the views of pictures, and the order of their rows, with those of a separate program.
func TestTiles(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(goldenDir, "tiles.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Projector         string
		From              [2]int
		Edge, Side, Patch int
		Pinpoints         [][2]int
		Size              [2]int // of the resized picture
		Views             int
		Rows              []int
		Texts             string
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for _, tt := range cases {
		c := vision.Config{Projector: tt.Projector, ImageSize: tt.Side, PatchSize: tt.Patch, Merge: 1,
			LongestEdge: tt.Edge, Pinpoints: tt.Pinpoints}
		grid, err := c.Fit(tt.From[0], tt.From[1], 1000)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Tile(tt.From[0], tt.From[1], grid, 1<<20)
		if err != nil || len(got.Views) != tt.Views || strings.Join(got.Texts, "*") != tt.Texts ||
			!slices.Equal(got.Rows, tt.Rows) {
			t.Errorf("%+v: %+v, %v", tt, got, err)
		}
		for _, v := range got.Views {
			size := [2]int{v.Width, v.Height}
			if isWhole := size == [2]int{tt.Side, tt.Side}; size != tt.Size && !isWhole {
				t.Errorf("%+v: a view of a picture of %v", tt, size)
			}
		}
		rows := tt.Views * c.Rows()
		if tt.Rows != nil {
			rows = len(tt.Rows)
		}
		if rows > c.Rows() {
			_, err := c.Tile(tt.From[0], tt.From[1], grid, rows-1)
			if bad := (*vision.PictureError)(nil); !errors.As(err, &bad) {
				t.Errorf("%+v with room for %d: %v", tt, rows-1, err)
			}
		}
	}
}
