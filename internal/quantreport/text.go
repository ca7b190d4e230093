package main

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
)

// heldOut is Go source written for this measurement, so it is in no training set.
//
//go:embed testdata/heldout
var heldOut embed.FS

// calibrationFiles are sources of the standard library, on which the model was trained, as is usual for importance
// matrices.
var calibrationFiles = []string{"bufio/bufio.go", "encoding/csv/reader.go", "net/textproto/reader.go",
	"text/tabwriter/tabwriter.go"}

// heldOutText returns the texts to measure with.
func heldOutText() (texts []string, info textInfo, err error) {
	names, err := fs.Glob(heldOut, "testdata/heldout/*.go")
	if err != nil {
		return nil, textInfo{}, err
	}
	return readTexts(heldOut, names)
}

func calibrationText(folder string) (texts []string, info textInfo, err error) {
	return readTexts(os.DirFS(folder), calibrationFiles)
}

// readTexts returns the content of the named files, and their number, size and checksum, by which results record what
// they were measured on.
func readTexts(from fs.FS, names []string) (texts []string, info textInfo, err error) {
	sum := sha256.New()
	info = textInfo{Files: len(names)}
	for _, name := range names {
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return nil, info, fmt.Errorf("text: %w", err)
		}
		info.Bytes += len(text)
		sum.Write(text)
		texts = append(texts, string(text))
	}
	info.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return texts, info, nil
}
