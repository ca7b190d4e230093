package filefmt

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/vkc-go/vkc/internal/inputfile"
)

// BundleMagic begins every bundle. The rest of the magic number consists of line ends, to detect a transfer that
// changed them.
const BundleMagic = "\x89VKB"

// IsBundle reports whether a file is a bundle rather than a graph, by its content or by the extension .vkb. Because of
// the extension, a bundle with damaged first bytes is reported as damaged.
func IsBundle(path string) (bool, error) {
	head, err := Head(path, len(BundleMagic))
	if err != nil {
		return false, err
	}
	return string(head) == BundleMagic || strings.EqualFold(filepath.Ext(path), ".vkb"), nil
}

// Head returns the first n bytes of a file, or all of a shorter one. A folder has none.
func Head(path string, n int) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, nil
	}
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
