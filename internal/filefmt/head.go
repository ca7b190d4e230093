package filefmt

import (
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/vkc-go/vkc/internal/inputfile"
)

// BundleMagic is how bundles begin; what follows it in their magic number is line
// ends, which shows where those were changed.
const BundleMagic = "\x89VKB"

// IsBundle reports whether a file is a bundle rather than a graph: by its
// content, or by the extension .vkb, so that a bundle whose first bytes are
// damaged is still reported as a damaged bundle.
func IsBundle(path string) (bool, error) {
	head, err := Head(path, len(BundleMagic))
	if err != nil {
		return false, err
	}
	return string(head) == BundleMagic || strings.EqualFold(filepath.Ext(path), ".vkb"), nil
}

// Head returns the first n bytes of a file, or all of a shorter one.
func Head(path string, n int) ([]byte, error) {
	f, err := inputfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, n)
	n, err = io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return head[:n], nil
}
