package main

import (
	"image"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
)

// TestFindBoxes finds a turned rectangle, and neither a spot nor a region that is hardly likely.
func TestFindBoxes(t *testing.T) {
	const w, h = 200, 100
	likely := make([]float32, w*h)
	turned := math.Pi / 8
	along, down := point{math.Cos(turned), math.Sin(turned)}, point{-math.Sin(turned), math.Cos(turned)}
	centre := point{70, 50}
	for i := range likely {
		p := point{float64(i%w) + 0.5, float64(i/w) + 0.5}
		off := p.plus(centre.times(-1))
		switch {
		case math.Abs(off.dot(along)) < 50 && math.Abs(off.dot(down)) < 8:
			likely[i] = 0.9
		case i%w == 10 && i/w == 90:
			likely[i] = 1
		case i%w > 170 && i/w > 50:
			likely[i] = 0.4
		}
	}
	boxes := findBoxes(likely, w, h)
	if len(boxes) != 1 {
		t.Fatalf("%d boxes: %v", len(boxes), boxes)
	}
	b := boxes[0]
	// 100 by 16 with 1.5 times the area by the circumference on every side.
	more := 1.5 * 100 * 16 / 232
	middle := b.at.plus(b.along.times(0.5)).plus(b.down.times(0.5))
	if math.Abs(b.along.length()-100-2*more) > 4 || math.Abs(b.down.length()-16-2*more) > 4 ||
		math.Abs(b.along.dot(down)) > 6 || b.along.dot(along) < 0 || middle.plus(centre.times(-1)).length() > 2 {
		t.Errorf("%v, %v by %v", b, b.along.length(), b.down.length())
	}
}

func TestInOrder(t *testing.T) {
	at := func(x, y float64) box { return box{point{x, y}, point{30, 0}, point{0, 10}} }
	got := inOrder([]box{at(50, 31), at(0, 60), at(50, 0), at(0, 33), at(0, 2)})
	want := []box{at(0, 2), at(50, 0), at(0, 33), at(50, 31), at(0, 60)}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestDecode(t *testing.T) {
	characters := []string{"", "l", "o"}
	text, sure := decode([]float32{1, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0.5, 0, 0, 0, 0.9}, characters)
	if text != "llo" || math.Abs(sure-0.8) > 1e-6 {
		t.Errorf("%q, %v", text, sure)
	}
}

// TestSample turns a picture of two colours upside down.
func TestSample(t *testing.T) {
	picture := image.NewRGBA(image.Rect(0, 0, 4, 2))
	for x := range 4 {
		picture.Set(x, 0, color.White)
		picture.Set(x, 1, color.RGBA{R: 255, A: 255})
	}
	b := box{along: point{4, 0}, down: point{0, 2}}.turned().turned()
	x := make([]float32, 3*2*3)
	sample(x, 3, picture, b, 2, 2, [3]float32{}, [3]float32{1, 1, 1})
	// Blue, green and red; a row has two pixels and one of padding.
	want := []float32{0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0}
	if !slices.Equal(x, want) {
		t.Errorf("%v, want %v", x, want)
	}
}

// TestModels reads three fonts, one of them upside down, if make models was run.
func TestModels(t *testing.T) {
	const models = "../../.tools/models/ocr/assets"
	if _, err := os.Stat(models); err != nil {
		t.Skip("make models fetches the models")
	}
	dev, err := vkc.OpenDevice("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	r, err := open(t.Context(), dev, models)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	lines, content, bounds, err := r.readFile(t.Context(), "testdata/fonts.png")
	if err != nil {
		t.Fatal(err)
	}
	var read []string
	for _, l := range lines {
		read = append(read, strings.ReplaceAll(l.text, " ", "")) // the model is least certain about spaces
	}
	want := []string{"Serif:13lazydogs", "Mono=$96.50(x)", "Sansstandsonitshead"}
	if !slices.Equal(read, want) {
		t.Errorf("%q, want %q", read, want)
	}
	svg := filepath.Join(t.TempDir(), "page.svg")
	if err := writeSVG(svg, content, bounds, lines); err != nil {
		t.Fatal(err)
	}
	if s, err := os.ReadFile(svg); err != nil || strings.Count(string(s), "<polygon ") != len(want) ||
		!strings.Contains(string(s), "data:image/png;base64,") {
		t.Errorf("%v: %.200s", err, s)
	}
}
