package vk

import (
	"encoding/binary"
	"errors"
)

// takeFaults returns the faults that the steps since the last call have noted, and forgets them. The device must be
// done with those. The words lie where host and device both reach them: looking costs no copy.
func (e *Executable) takeFaults() error {
	var errs []error
	for _, f := range e.program.Faults {
		word := e.ranges[f.Buffer].Buffer.Bytes()[e.ranges[f.Buffer].Offset:]
		if err := f.Check(binary.NativeEndian.Uint32(word)); err != nil {
			errs = append(errs, err)
			binary.NativeEndian.PutUint32(word, 0)
		}
	}
	return errors.Join(errs...)
}
