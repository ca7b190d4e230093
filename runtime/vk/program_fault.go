package vk

import (
	"encoding/binary"
	"errors"
)

// takeFaults returns and clears the faults recorded by the steps since the last call. The device must be done with
// those steps. Host and device share the words, so checking costs no copy.
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
