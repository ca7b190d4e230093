package vk

import (
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// Peers are cards of NVIDIA that copy to one another's memory by CUDA, whose driver is loaded for it: over NVLink where
// there is one, by engines that work while kernels do.
type Peers struct {
	devices []*Device
	native  nativePeers
	closed  atomic.Bool
}

// OpenPeers has CUDA find devices, which are to reach one another's memory. Its context takes some hundred MiB of each.
func OpenPeers(devices []*Device) (*Peers, error) {
	p := &Peers{devices: devices}
	var uuids [][16]byte
	for _, d := range devices {
		if err := d.usable("copy to other devices"); err != nil {
			return nil, err
		}
		uuid, err := hex.DecodeString(d.info.Caps.DeviceUUID)
		if err != nil || len(uuid) != 16 {
			return nil, fmt.Errorf("vk: %s has UUID %q: want 32 hex digits", d.info.Caps.Name, d.info.Caps.DeviceUUID)
		}
		uuids = append(uuids, [16]byte(uuid))
	}
	var err error
	if p.native, err = openPeers(uuids); err != nil {
		return nil, fmt.Errorf("vk: peer copies between %d devices, the first of which is %s: %w", len(devices),
			devices[0].info.Caps.Name, err)
	}
	return p, nil
}

// Close ends the use of CUDA. All places are closed by then. Closing twice is fine.
func (p *Peers) Close() error {
	if p != nil && !p.closed.Swap(true) {
		p.native.close()
	}
	return nil
}

// Places are as much memory of each of the peers.
type Places struct {
	peers *Peers
	list  []*peerMemory
}

// exported is a buffer whose memory others import by a file descriptor.
type exported struct {
	buffer, memory, size uint64
	fd                   int
}

// peerMemory is the memory of one device.
type peerMemory struct {
	exported
	device   *Device
	address  uint64 // for kernels
	imported unsafe.Pointer
	cuda     uint64 // the address for CUDA
}

// NewPlaces allocates so many words of 32 bits of each device's memory, which hold anything.
func (p *Peers) NewPlaces(words int) (_ *Places, err error) {
	all, size := &Places{peers: p}, 4*uint64(max(words, 1))
	defer func() {
		if err != nil {
			err = errors.Join(err, all.Close())
		}
	}()
	for rank, d := range p.devices {
		if err := d.checkSize("that peers copy to", int64(size)); err != nil {
			return nil, err
		}
		one := &peerMemory{device: d}
		var r Result
		one.exported, r = d.native.exportBuffer(size)
		d.adopt(one)
		all.list = append(all.list, one)
		if err := d.checkResult(r, "allocate %s that CUDA is to import", formatBytes(size)); err != nil {
			return nil, err
		}
		one.address = d.native.address(one.buffer)
		if one.imported, one.cuda, err = p.native.importMemory(rank, one.fd, one.size); err != nil {
			return nil, fmt.Errorf("vk: %s of %s for peer copies: %w", formatBytes(size), d.info.Caps.Name, err)
		}
	}
	return all, nil
}

// Address is where kernels of a device find its memory.
func (p *Places) Address(rank int) uint64 { return p.list[rank].address }

// Copy begins to copy words of one device's memory to the same place of another's, after those that it was asked to
// copy between them before.
func (p *Places) Copy(from, to, at, words int) error {
	source, target, first := p.list[from], p.list[to], 4*uint64(at)
	if err := p.peers.native.copy(from, to, source.cuda+first, target.cuda+first, 4*uint64(words)); err != nil {
		return fmt.Errorf("vk: copy from %s to %s: %w", source.device.info.Caps.Name, target.device.info.Caps.Name, err)
	}
	return nil
}

// Done reports whether all is copied that was to be from one device to another.
func (p *Places) Done(from, to int) (bool, error) {
	done, err := p.peers.native.done(from, to)
	if err != nil {
		err = fmt.Errorf("vk: copy from %s to %s: %w", p.list[from].device.info.Caps.Name,
			p.list[to].device.info.Caps.Name, err)
	}
	return done, err
}

// Close frees the memory. No device may be using it any more. Closing twice is fine.
func (p *Places) Close() error {
	if p == nil {
		return nil
	}
	var errs []error
	for rank, one := range p.list {
		if one.imported != nil {
			errs = append(errs, p.peers.native.forget(rank, one.imported, one.cuda))
		}
		one.device.discard(one)
	}
	p.list = nil
	return errors.Join(errs...)
}

func (p *peerMemory) describe() string { return "memory that peers copy to" }

func (p *peerMemory) release() {
	p.device.native.destroy(objectBuffer, p.buffer)
	p.device.native.destroy(objectMemory, p.memory)
}
