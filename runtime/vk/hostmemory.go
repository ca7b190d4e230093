package vk

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/vkc-go/vkc/internal/ceil"
)

// HostBuffer is host memory that several devices have imported (VK_EXT_external_memory_host), so that kernels on all of
// them access it by address.
type HostBuffer struct {
	words    []uint32       // the memory
	memory   unsafe.Pointer // the same memory
	imported []*imported    // by device
	closed   atomic.Bool
}

// imported is the buffer that one device has made of the memory.
type imported struct {
	object
	address uint64 // for kernels
}

// hostPage is the alignment and the unit of the size of a HostBuffer in bytes. Every device can import such memory.
const hostPage = 64 << 10

// NewHostBuffer allocates a zeroed array of 32-bit words. The devices need Features.ExternalMemoryHost and
// Features.BufferDeviceAddress.
func NewHostBuffer(devices []*Device, words int) (_ *HostBuffer, err error) {
	align, size := uint64(hostPage), ceil.Multiple(4*uint64(max(words, 1)), hostPage)
	for _, d := range devices {
		if err := d.checkImport(); err != nil {
			return nil, err
		}
	}
	h := &HostBuffer{memory: allocateHost(size, align)}
	if h.memory == nil {
		return nil, fmt.Errorf("vk: the host has no %s for memory that %d devices share", formatBytes(size),
			len(devices))
	}
	h.words = unsafe.Slice((*uint32)(h.memory), size/4)
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	for _, d := range devices {
		buffer, memory, r := d.native.importHost(h.memory, size)
		i := &imported{object: object{device: d, owned: [2]handle{{objectBuffer, buffer}, {objectMemory, memory}}}}
		// It is adopted before the check, so that Close destroys it after an error.
		d.adopt(i)
		h.imported = append(h.imported, i)
		if err := d.checkResult(r, "import %s of host memory", formatBytes(size)); err != nil {
			return nil, err
		}
		i.address = d.native.address(buffer)
	}
	return h, nil
}

// checkImport returns an error if the device cannot import a HostBuffer.
func (d *Device) checkImport() error {
	if err := d.checkUsable("import host memory"); err != nil {
		return err
	}
	caps := &d.info.Caps
	if !caps.Features.ExternalMemoryHost || !caps.Features.BufferDeviceAddress {
		return fmt.Errorf("vk: %s cannot share memory of the host with other devices: it lacks "+
			"VK_EXT_external_memory_host or bufferDeviceAddress", caps.Name)
	}
	if caps.HostPointerAlignment > hostPage {
		return fmt.Errorf("vk: %s imports host memory in units of %d bytes: want %d at most", caps.Name,
			caps.HostPointerAlignment, hostPage)
	}
	return nil
}

// HasInbox reports whether [Device.NewInbox] works: the host can map device-local memory.
func (d *Device) HasInbox() bool {
	return d != nil && d.info.Caps.Features.BufferDeviceAddress && d.hasMemory(InboxMemory)
}

// NewInbox makes a zeroed buffer of 32-bit words in device memory. Kernels find it by its device address, not
// by a binding. The host may write it during a run, while kernels poll it.
func (d *Device) NewInbox(words int) (*Buffer, error) {
	b, err := d.NewBuffer("inbox", 4*int64(words), InboxMemory)
	if err == nil {
		clear(b.Bytes())
	}
	return b, err
}

// Words returns the buffer's memory as 32-bit words, or nil if the host cannot map it.
func (b *Buffer) Words() []uint32 {
	bytes := b.Bytes()
	if len(bytes) < 4 {
		return nil
	}
	return unsafe.Slice((*uint32)(unsafe.Pointer(&bytes[0])), len(bytes)/4)
}

// Words returns the memory. Devices may write it at any time, so the host must access it with package sync/atomic.
func (h *HostBuffer) Words() []uint32 {
	if h == nil {
		return nil
	}
	return h.words
}

// Address returns the address of the memory for kernels on device i of NewHostBuffer's list.
func (h *HostBuffer) Address(i int) uint64 {
	if h == nil || i < 0 || i >= len(h.imported) {
		return 0
	}
	return h.imported[i].address
}

// Close frees the memory. No device may be using it. Closing twice is fine.
func (h *HostBuffer) Close() error {
	if h == nil || h.closed.Swap(true) {
		return nil
	}
	for _, i := range h.imported {
		i.device.discard(i)
	}
	freeHost(h.memory)
	h.words = nil
	return nil
}

func (i *imported) describe() string { return "host memory that several devices share" }
