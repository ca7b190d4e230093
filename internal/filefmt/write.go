package filefmt

import (
	"fmt"
	"io"

	"github.com/vkc-go/vkc/internal/atomicfile"
)

// WriteFile calls write and stores the output at the source's path atomically. Its errors name the format and the path.
func (s Source) WriteFile(write func(io.Writer) error) error {
	if err := writeAtomic(s.Path, write); err != nil {
		return fmt.Errorf("%s: write %s: %w", s.Format, s.Path, err)
	}
	return nil
}

// writeAtomic calls write and stores the output at path.
func writeAtomic(path string, write func(io.Writer) error) error {
	f, err := atomicfile.Create(path, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := write(f); err != nil {
		return err
	}
	return f.Commit()
}
