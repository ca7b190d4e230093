// Command fit fits the rates of tiles, by which vkc estimates the times of matmuls and attentions on NVIDIA GPUs, to
// measurements of `vkc tune`.
//
//	go run ./internal/fit                                # fit to the data in this directory
//	go run ./internal/fit -add nvidia-h200=tuning.json   # first replace the data of a device
//
// It writes the rates to codegen/schedule/nvidia_rates.go and the table of residuals to docs/measurements/tables.md. A
// test checks that both files are what it writes. For the data, run `vkc tune --rated --output FILE` on graphs or
// suites, and then the same without --rated, which measures other tiles too.
package main

import (
	"bytes"
	"embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/internal/tunefile"
)

// The files that the command writes, relative to the root of the repository.
const (
	ratesFile = "codegen/schedule/nvidia_rates.go"
	tableFile = "docs/measurements/tables.md"
	dataDir   = "internal/fit/data"
)

//go:embed data/*.txt
var dataFiles embed.FS

func main() {
	add := flag.String("add", "", "`PROFILE=FILE`: replace the data of this profile's device by a file of vkc tune")
	root := flag.String("root", ".", "root of the repository")
	flag.Parse()
	if err := run(*root, *add); err != nil {
		fmt.Fprintln(os.Stderr, "fit:", err)
		os.Exit(1)
	}
}

// run fits the rates to the data of all devices under root, and writes their source and the table of the documentation.
// If add is not "", it first replaces the data of one device as function replace does.
func run(root, add string) error {
	if add != "" {
		if err := replace(root, add); err != nil {
			return err
		}
	}
	sets, err := read(os.DirFS(filepath.Join(root, dataDir)))
	if err != nil {
		return err
	}
	measured, _ := schedule.NVIDIARates()
	f := newFit(sets, measured)
	f.run()
	source, err := f.source()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, ratesFile), source, 0o644); err != nil {
		return err
	}
	page, err := os.ReadFile(filepath.Join(root, tableFile))
	if err != nil {
		return err
	}
	if page, err = insert(page, f.table()); err != nil {
		return err
	}
	fmt.Print(f.table())
	return os.WriteFile(filepath.Join(root, tableFile), page, 0o644)
}

// replace writes the data of a device from a file of vkc tune. add is "PROFILE=FILE": the device's profile and that
// file.
func replace(root, add string) error {
	profile, path, ok := strings.Cut(add, "=")
	if !ok {
		return fmt.Errorf("-add %s: want PROFILE=FILE", add)
	}
	caps, err := device.Profile(profile)
	if err != nil {
		return err
	}
	file, err := tunefile.Read(path)
	if err != nil {
		return err
	}
	d := fromTuning(file, device.CoresOf(caps))
	if len(d.kernels) == 0 {
		return errors.New("the file has no measured kernels")
	}
	return os.WriteFile(filepath.Join(root, dataDir, profile+".txt"), d.text(), 0o644)
}

// The table of residuals stands between these lines.
const tableBegin, tableEnd = "<!-- fit -->\n", "<!-- end of fit -->\n"

// insert replaces the table of residuals in a page.
func insert(page []byte, table string) ([]byte, error) {
	before, rest, ok := bytes.Cut(page, []byte(tableBegin))
	_, after, ends := bytes.Cut(rest, []byte(tableEnd))
	if !ok || !ends {
		return nil, fmt.Errorf("%s has no lines %q and %q", tableFile, tableBegin, tableEnd)
	}
	return bytes.Join([][]byte{before, []byte(tableBegin), []byte(table), []byte(tableEnd), after}, nil), nil
}
