// Command embed makes a vector of each file of a folder, by a model of embeddings, and writes them into a file: a line
// of JSON for each, in the order of names.
//
//	go run ./examples/embed -model MODEL.gguf -folder TEXTS -out vectors.jsonl
//
// The folder goes through in parts. A part is written when all of it is there, as a whole. Started again after its end,
// whatever ended it, the program goes on with the parts that are not there, so that no file is lost or there twice. It
// runs on Prism in this process, or where Beam's flags say (--runner=flink --endpoint=...).
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"
	"github.com/vkc-go/vkc/beam"
	"github.com/vkc-go/vkc/internal/atomicfile"
)

var (
	model  = flag.String("model", "", "the GGUF `FILE` of a model of embeddings")
	folder = flag.String("folder", "", "the `FOLDER` with the texts")
	out    = flag.String("out", "", "the `FILE` for the vectors")
	device = flag.String("device", "auto", "as for vkc run")
	parts  = flag.Int("parts", 16, "the folder goes through in `N` parts; the same each time that it is started")
)

func init() {
	register.Function2x0(readText)
	register.Emitter1[vkcbeam.Text]()
	register.Function1x2(byOne)
	register.DoFn2x1[int64, func(*vkcbeam.Vector) bool, error](&writePart{})
	register.Iter1[vkcbeam.Vector]()
}

func main() {
	flag.Parse()
	beam.Init()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

// run embeds the texts of a folder, part by part, and joins the results. It computes no part that is there already.
func run(ctx context.Context) error {
	if *model == "" || *folder == "" || *out == "" || *parts < 1 {
		return errors.New("want -model FILE -folder FOLDER -out FILE, and -parts of 1 or more")
	}
	names, err := list(*folder)
	if err != nil {
		return err
	}
	dir := *out + ".parts"
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	known := 0
	for part := range *parts {
		path := partPath(dir, part)
		if _, err := os.Stat(path); err == nil {
			known++
			continue
		}
		if err := embed(ctx, names[part], path); err != nil {
			return fmt.Errorf("part %d of %d: %w", part, *parts, err)
		}
	}
	fmt.Fprintf(os.Stderr, "embed: %d of %d parts were there\n", known, *parts)
	return merge(dir)
}

// list returns the paths of the files in a folder by part. The part of a file depends only on its name.
func list(folder string) ([][]string, error) {
	names := make([][]string, *parts)
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		h := fnv.New32a()
		h.Write([]byte(path))
		part := int(h.Sum32()) % *parts
		names[part] = append(names[part], path)
		return nil
	})
	return names, err
}

func partPath(dir string, part int) string {
	return filepath.Join(dir, fmt.Sprintf("%05d-of-%05d.jsonl", part, *parts))
}

// embed runs the pipeline of one part.
func embed(ctx context.Context, names []string, path string) error {
	if len(names) == 0 {
		return atomicfile.WriteFile(path, nil, 0o666)
	}
	p, s := beam.NewPipelineWithRoot()
	texts := beam.ParDo(s, readText, beam.CreateList(s, names))
	vectors := vkcbeam.Embed(s, *model, texts, vkcbeam.Options{Device: *device})
	beam.ParDo0(s, &writePart{Path: path, Want: int64(len(names))}, beam.GroupByKey(s, beam.ParDo(s, byOne, vectors)))
	return beamx.Run(ctx, p)
}

// readText reads a file.
func readText(path string, emit func(vkcbeam.Text)) {
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err) // which fails the bundle
	}
	emit(vkcbeam.Text{Key: path, Text: string(text)})
}

// byOne gives all vectors of a part the same key, so that one worker writes them.
func byOne(v vkcbeam.Vector) (int64, vkcbeam.Vector) { return 0, v }

// writePart writes the vectors of a part in the order of file names, so that writing it again gives the same bytes.
type writePart struct {
	Path string
	Want int64
}

// ProcessElement is called once for all vectors of a part.
func (f *writePart) ProcessElement(_ int64, next func(*vkcbeam.Vector) bool) error {
	var all []vkcbeam.Vector
	for v := (vkcbeam.Vector{}); next(&v); v = (vkcbeam.Vector{}) {
		all = append(all, v)
	}
	if int64(len(all)) != f.Want {
		return fmt.Errorf("%s: %d vectors of %d files", f.Path, len(all), f.Want)
	}
	slices.SortFunc(all, func(a, b vkcbeam.Vector) int { return strings.Compare(a.Key, b.Key) })
	var text bytes.Buffer
	for _, v := range all {
		line, err := json.Marshal(struct {
			File      string    `json:"file"`
			Tokens    int64     `json:"tokens"`
			Embedding []float32 `json:"embedding"`
		}{v.Key, v.Tokens, v.Values})
		if err != nil {
			return err
		}
		text.Write(append(line, '\n'))
	}
	return atomicfile.WriteFile(f.Path, text.Bytes(), 0o666)
}

// merge writes the parts into one file and removes them.
func merge(dir string) error {
	var lines [][]byte
	for part := range *parts {
		text, err := os.ReadFile(partPath(dir, part))
		if err != nil {
			return err
		}
		for line := range bytes.Lines(text) {
			lines = append(lines, line)
		}
	}
	slices.SortFunc(lines, bytes.Compare) // each begins with its name
	if err := atomicfile.WriteFile(*out, bytes.Join(lines, nil), 0o666); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}
