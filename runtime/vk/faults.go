package vk

import (
	"encoding/binary"
	"errors"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// takeFaults returns and clears the faults recorded by the steps since the last call. The device must be done with
// those steps. Host and device share the words, so checking costs no copy.
func (m *programMemory) takeFaults() error {
	var errs []error
	for _, f := range m.program.Faults {
		at := m.buffers[f.Buffer].at
		word := at.Buffer.Bytes()[at.Offset:]
		if err := f.Check(binary.NativeEndian.Uint32(word)); err != nil {
			errs = append(errs, err)
			binary.NativeEndian.PutUint32(word, 0)
		}
	}
	return errors.Join(errs...)
}

// timedOut returns an error if a persistent kernel has timed out since the program was loaded. All results since then
// are unreliable.
func (rec *recorder) timedOut() error {
	for _, word := range rec.late {
		if binary.NativeEndian.Uint32(word) != 0 {
			return &kernel.LateError{Program: rec.program.Name}
		}
	}
	return nil
}
