package vk

import (
	"encoding/binary"
	"errors"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// takeFaults returns an error for the faults that kernels have reported since the last call, or nil. A fault is an
// element for which an op has no result, such as an index out of range. Kernels report it in a word of memory that the
// host can read without a copy. The device must have finished the runs.
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

// checkTimeouts returns an error if workgroups of a persistent kernel have timed out at a barrier since the program was
// loaded. All results after that are unreliable.
func (rec *recorder) checkTimeouts() error {
	for _, word := range rec.timeouts {
		if binary.NativeEndian.Uint32(word) != 0 {
			return &kernel.LateError{Program: rec.program.Name}
		}
	}
	return nil
}
