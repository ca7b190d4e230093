package vk

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// HostBuffer is memory of the host that several devices reach at once, kernels by its address on each
// (VK_EXT_external_memory_host).
type HostBuffer struct {
	words    []uint32
	imported []*imported
	memory   unsafe.Pointer
	closed   atomic.Bool
}

// imported is the memory as one device has it.
type imported struct {
	device         *Device
	buffer, memory uint64
	address        uint64
}

// hostPage is what the size of such memory is a multiple of, on any device.
const hostPage = 64 << 10

// NewHostBuffer allocates words of 32 bits, all zero, for devices that have what it takes:
// Features.ExternalMemoryHost and Features.BufferDeviceAddress.
func NewHostBuffer(devices []*Device, words int) (_ *HostBuffer, err error) {
	align, size := uint64(hostPage), (4*uint64(max(words, 1))+hostPage-1)/hostPage*hostPage
	for _, d := range devices {
		if err := d.usable("import host memory"); err != nil {
			return nil, err
		}
		caps := &d.info.Caps
		if !caps.Features.ExternalMemoryHost || !caps.Features.BufferDeviceAddress {
			return nil, fmt.Errorf("vk: %s cannot share memory of the host with other devices: it lacks "+
				"VK_EXT_external_memory_host or bufferDeviceAddress", caps.Name)
		}
		if caps.HostPointerAlignment > hostPage {
			return nil, fmt.Errorf("vk: %s imports host memory in units of %d bytes: want %d at most", caps.Name,
				caps.HostPointerAlignment, hostPage)
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
		i := &imported{device: d}
		var r Result
		i.buffer, i.memory, r = d.native.importHost(h.memory, size)
		d.adopt(i)
		h.imported = append(h.imported, i)
		if err := d.checkResult(r, "import %s of host memory", formatBytes(size)); err != nil {
			return nil, err
		}
		i.address = d.native.address(i.buffer)
	}
	return h, nil
}

// HasInbox reports whether the host reaches memory of the device's own, as [Device.NewInbox] takes it.
func (d *Device) HasInbox() bool {
	return d != nil && d.info.Caps.Features.BufferDeviceAddress && len(d.typesOf(InboxMemory, ^uint32(0))) > 0
}

// NewInbox makes a buffer of words of 32 bits, all zero, in memory of the device that the host writes while kernels
// that read it, by its address, are under way.
func (d *Device) NewInbox(words int) (*Buffer, error) {
	b, err := d.NewBuffer("inbox", 4*int64(words), InboxMemory)
	if err == nil {
		clear(b.Bytes())
	}
	return b, err
}

// Words is the memory of a buffer that the host reaches, as words of 32 bits.
func (b *Buffer) Words() []uint32 {
	bytes := b.Bytes()
	if len(bytes) < 4 {
		return nil
	}
	return unsafe.Slice((*uint32)(unsafe.Pointer(&bytes[0])), len(bytes)/4)
}

// Words is the memory. Devices may write it at any time: it is read and written by package sync/atomic.
func (h *HostBuffer) Words() []uint32 {
	if h == nil {
		return nil
	}
	return h.words
}

// Address is where device i of those that it was made for finds the memory.
func (h *HostBuffer) Address(i int) uint64 {
	if h == nil || i < 0 || i >= len(h.imported) {
		return 0
	}
	return h.imported[i].address
}

// Close frees the memory. No device may be using it any more. Closing twice is fine.
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

func (i *imported) release() {
	i.device.native.destroy(objectBuffer, i.buffer)
	i.device.native.destroy(objectMemory, i.memory)
}
