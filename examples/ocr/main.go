// Ocr reads the text in pictures with the three models of PP-OCRv4. make models downloads them:
//
//	make models
//	go run ./examples/ocr -svg page.svg page.png
//
// The detector finds lines of text, the classifier finds the lines that are upside down, and the recogniser reads them.
// All extents of the models are symbols, so each model is compiled once for pictures of all sizes and any number of
// lines.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"log"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

const (
	largest = 960  // pixels of a picture's longer side as the detector sees it
	height  = 48   // of a line as the other models see it
	widest  = 1280 // of a line as the recogniser sees it
	batch   = 16   // lines at a time
)

func main() {
	models := flag.String("models", ".tools/models/ocr/assets", "the folder of the models")
	device := flag.String("device", "auto", "the device to run on")
	svg := flag.String("svg", "", "write the picture with what was read over it to this file")
	flag.Parse()
	if err := run(context.Background(), *device, *models, *svg, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

// run reads the text in each picture, and prints it.
func run(ctx context.Context, device, models, svg string, paths []string) error {
	dev, err := vkc.OpenDevice(device)
	if err != nil {
		return err
	}
	defer dev.Close()
	r, err := open(ctx, dev, models)
	if err != nil {
		return err
	}
	defer r.close()
	for _, path := range paths {
		lines, content, bounds, err := r.readFile(ctx, path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, l := range lines {
			fmt.Printf("%s  (%.0f%%)\n", l.text, 100*l.sure)
		}
		if svg != "" {
			if err := writeSVG(svg, content, bounds, lines); err != nil {
				return err
			}
		}
	}
	return nil
}

// reader has the three models, loaded on a device.
type reader struct {
	detector, classifier, recogniser *vkc.Executable
	characters                       []string // by class; the first is the blank between equal characters
}

// line is a line of text.
type line struct {
	box  box
	text string
	sure float64 // the mean probability of the characters
}

// open compiles the models. The extents of the detector's input must be multiples of 32, those of the recogniser's
// input multiples of 8.
func open(ctx context.Context, dev *vkc.Device, folder string) (r *reader, err error) {
	const n, h, w = "p2o.DynamicDimension.0", "p2o.DynamicDimension.1", "p2o.DynamicDimension.2"
	lines := ir.Symbol("N", batch)
	r = &reader{}
	for _, m := range []struct {
		exe  **vkc.Executable
		file string
		dims map[string]ir.Dim
	}{
		{&r.detector, "ch_PP-OCRv4_det_infer.onnx", map[string]ir.Dim{n: ir.D(1),
			h: ir.Symbol("H", largest/32).Times(32), w: ir.Symbol("W", largest/32).Times(32)}},
		{&r.classifier, "ch_ppocr_mobile_v2.0_cls_infer.onnx", map[string]ir.Dim{n: lines, h: ir.D(height),
			w: ir.D(4 * height)}},
		{&r.recogniser, "ch_PP-OCRv4_rec_infer.onnx", map[string]ir.Dim{n: lines,
			h: ir.Symbol("W", widest/8).Times(8)}}, // its height is a number, so h names the width
	} {
		if *m.exe, err = load(ctx, dev, filepath.Join(folder, m.file), m.dims); err != nil {
			return nil, errors.Join(err, r.close())
		}
	}
	characters, err := os.ReadFile(filepath.Join(folder, "ppocr_keys_v1.txt"))
	r.characters = append(append([]string{""}, strings.Split(string(characters), "\n")...), " ")
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// load loads an ONNX model with these extents of its input.
func load(ctx context.Context, dev *vkc.Device, path string, dims map[string]ir.Dim) (*vkc.Executable, error) {
	m, err := onnx.Open(path, onnx.Options{Dims: dims})
	if err != nil {
		return nil, fmt.Errorf("%w: make models fetches the models", err)
	}
	defer m.Close()
	return dev.LoadGraph(ctx, m.Graph, m)
}

func (r *reader) close() (err error) {
	for _, exe := range []*vkc.Executable{r.detector, r.classifier, r.recogniser} {
		if exe != nil {
			err = errors.Join(err, exe.Close())
		}
	}
	return err
}

// readFile reads a picture. It also returns the file's content and the size of the picture.
func (r *reader) readFile(ctx context.Context, path string) (
	lines []line, content []byte, size image.Rectangle, err error) {
	content, err = os.ReadFile(path)
	if err != nil {
		return nil, nil, image.Rectangle{}, err
	}
	picture, _, err := image.Decode(bytes.NewReader(content))
	if err != nil {
		return nil, nil, image.Rectangle{}, err
	}
	lines, err = r.read(ctx, opaque(picture))
	return lines, content, picture.Bounds(), err
}

// read returns the lines of a picture from top to bottom.
func (r *reader) read(ctx context.Context, picture *image.RGBA) ([]line, error) {
	boxes, err := r.detect(ctx, picture)
	if err != nil {
		return nil, err
	}
	lines := make([]line, len(boxes))
	for i, b := range boxes {
		lines[i].box = b
	}
	// Lines of similar widths form a batch, because every line of a batch takes the width of the widest.
	byWidth := make([]*line, len(lines))
	for i := range lines {
		byWidth[i] = &lines[i]
	}
	slices.SortFunc(byWidth, func(a, b *line) int { return a.box.width() - b.box.width() })
	for group := range slices.Chunk(byWidth, batch) {
		if err := r.upright(ctx, picture, group); err != nil {
			return nil, err
		}
		if err := r.recognise(ctx, picture, group); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(lines, func(l line) bool { return l.text == "" || l.sure < 0.5 }), nil
}

// evaluate runs a model that has one input and one output.
func evaluate(ctx context.Context, exe *vkc.Executable, x []float32, dims ...int) (
	y []float32, yDims []int, err error) {
	in, err := vkc.Of(x, dims...)
	if err != nil {
		return nil, nil, err
	}
	res, err := exe.Run(ctx, vkc.Tensors{"x": in})
	if err != nil {
		return nil, nil, err
	}
	for _, out := range res.Outputs {
		values, err := vkc.Values[float32](out)
		return values, out.Dims, err
	}
	return nil, nil, errors.New("the model has no output")
}

// detect finds the lines of text.
func (r *reader) detect(ctx context.Context, picture *image.RGBA) ([]box, error) {
	size := picture.Rect.Size()
	scale := min(1, largest/float64(max(size.X, size.Y)))
	fit := func(n int) int { return 32 * max(1, int(math.Round(float64(n)*scale/32))) }
	w, h := fit(size.X), fit(size.Y)
	x := make([]float32, 3*h*w)
	whole := box{along: point{float64(size.X), 0}, down: point{0, float64(size.Y)}}
	// The mean and deviation of ImageNet's pixels, blue, green and red.
	sample(x, w, picture, whole, w, h, [3]float32{0.485, 0.456, 0.406}, [3]float32{0.229, 0.224, 0.225})
	likely, _, err := evaluate(ctx, r.detector, x, 1, 3, h, w)
	if err != nil {
		return nil, err
	}
	boxes := findBoxes(likely, w, h)
	for i := range boxes {
		boxes[i] = boxes[i].scaled(float64(size.X)/float64(w), float64(size.Y)/float64(h))
	}
	return boxes, nil
}

// cut makes a batch of lines. Each line keeps its width and is padded to a common width; 0 means the width of the
// widest line.
func cut(picture *image.RGBA, lines []*line, width int) (batch []float32, common int) {
	padded := width
	if padded == 0 {
		for _, l := range lines {
			padded = max(padded, min(widest, l.box.width()))
		}
		padded = (padded + 7) / 8 * 8
	}
	x := make([]float32, len(lines)*3*height*padded)
	for i, l := range lines {
		sample(x[i*3*height*padded:], padded, picture, l.box, min(padded, l.box.width()), height,
			[3]float32{0.5, 0.5, 0.5}, [3]float32{0.5, 0.5, 0.5})
	}
	return x, padded
}

// upright turns lines that are upside down.
func (r *reader) upright(ctx context.Context, picture *image.RGBA, lines []*line) error {
	x, width := cut(picture, lines, 4*height)
	p, _, err := evaluate(ctx, r.classifier, x, len(lines), 3, height, width)
	if err != nil {
		return err
	}
	for i, l := range lines {
		if p[2*i+1] > 0.9 {
			l.box = l.box.turned().turned()
		}
	}
	return nil
}

// recognise reads the lines.
func (r *reader) recognise(ctx context.Context, picture *image.RGBA, lines []*line) error {
	x, width := cut(picture, lines, 0)
	p, dims, err := evaluate(ctx, r.recogniser, x, len(lines), 3, height, width)
	if err != nil {
		return err
	}
	steps, classes := dims[1], dims[2]
	if classes != len(r.characters) {
		return fmt.Errorf("the recogniser has %d classes, and the list of characters %d", classes, len(r.characters))
	}
	for i, l := range lines {
		l.text, l.sure = decode(p[i*steps*classes:(i+1)*steps*classes], r.characters)
	}
	return nil
}

// decode takes the likeliest character of each step. A character that repeats in successive steps counts once (CTC,
// Graves et al., 2006).
func decode(p []float32, characters []string) (text string, sure float64) {
	last, n := 0, 0
	for step := range slices.Chunk(p, len(characters)) {
		best := 0
		for class, v := range step {
			if v > step[best] {
				best = class
			}
		}
		if best != 0 && best != last {
			text += characters[best]
			sure += float64(step[best])
			n++
		}
		last = best
	}
	return text, sure / float64(max(n, 1))
}
