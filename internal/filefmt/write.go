package filefmt

import (
	"fmt"
	"io"

	"github.com/vkc-go/vkc/internal/atomicfile"
)

// WriteFile calls write and stores the output at the source's path atomically. Its errors name the format and the path.
func (s Source) WriteFile(write func(io.Writer) error) error {
	if err := atomicfile.Write(s.Path, 0o666, func(f *atomicfile.File) error { return write(f) }); err != nil {
		return fmt.Errorf("%s: write %s: %w", s.Format, s.Path, err)
	}
	return nil
}
