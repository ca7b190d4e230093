// Quantreport measures the loss of the block formats and writes docs/QUANT.md.
//
//	go run ./internal/quantreport -model gollama-f16.gguf    # measures, a few minutes
//	go run ./internal/quantreport -model F -only nvfp4       # measures one new format
//	go run ./internal/quantreport                            # only measures on random numbers
//
// The measurements are in docs/quant.json, because the f16 model is not in the repository. A test fails if the page
// does not match the measurements, or if the loss of a format has changed.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"go/build"
	"log"
	"os"
	"os/signal"
	"path/filepath"
)

// main runs the tool.
func main() {
	log.SetFlags(0)
	log.SetPrefix("quantreport: ")
	var f flags
	flag.StringVar(&f.docs, "docs", "docs", "the `folder` of the documentation")
	flag.StringVar(&f.model, "model", "", "measure with this f16 GGUF `file` of the gollama model")
	flag.StringVar(&f.device, "device", "vulkan", "where to run the model: vulkan (the best device), cpu (the "+
		"reference), an index of vkc devices, or part of a name")
	flag.StringVar(&f.calibration, "calibration", filepath.Join(build.Default.GOROOT, "src"),
		"`folder` of the Go sources that importance matrices are made from")
	flag.StringVar(&f.only, "only", "", "measure this `format` alone, and keep what is known of the others")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, f); err != nil {
		log.Fatal(err)
	}
}

// flags are the command line.
type flags struct{ docs, model, device, calibration, only string }

// The files in the folder of the documentation.
const (
	resultsFile = "quant.json"
	pageFile    = "QUANT.md"
	plotFile    = "quant-error.svg"
)

// run measures the model, or reads the stored measurements. It then measures the random numbers, and writes the
// results, the page and the drawing.
func run(ctx context.Context, f flags) error {
	r, err := measureOrRead(ctx, f)
	if err != nil {
		return err
	}
	for i := range r.Formats {
		m := &r.Formats[i]
		if m.RMSE, m.Matmul, err = normalLoss(m.Type); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	for name, text := range map[string]string{resultsFile: string(text) + "\n", pageFile: page(r), plotFile: plot(r)} {
		if err := os.WriteFile(filepath.Join(f.docs, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// measureOrRead measures the model, or reads the stored measurements.
func measureOrRead(ctx context.Context, f flags) (*results, error) {
	if f.model == "" {
		return readResults(f.docs)
	}
	return measure(ctx, f)
}
