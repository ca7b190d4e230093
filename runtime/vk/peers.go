package vk

import (
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
)

// Peers is a set of NVIDIA cards that copy to one another's memory with CUDA. It loads CUDA's driver library at run
// time. Copies use NVLink if there is one, and copy engines, so that they overlap with kernels.
type Peers struct {
	devices []*Device
	native  nativePeers
	closed  atomic.Bool
}

var errNoPeers = errors.New("vk: copies between no devices, or after Close: call OpenPeers and Peers.NewBuffers first")

// OpenPeers opens a CUDA context on each device. The devices must be able to access one another's memory. A context
// takes some hundred MiB of a device's memory.
func OpenPeers(devices []*Device) (*Peers, error) {
	if len(devices) == 0 {
		return nil, errNoPeers
	}
	p := &Peers{devices: devices}
	var uuids [][16]byte
	for _, d := range devices {
		if err := d.checkUsable("copy to other devices"); err != nil {
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

// Close closes the CUDA contexts. Close all [PeerBuffers] before. Closing twice is fine.
func (p *Peers) Close() error {
	if p != nil && !p.closed.Swap(true) {
		p.native.close()
	}
	return nil
}

// PeerBuffers is a set of buffers of the same size, one on each peer, between which the peers copy.
type PeerBuffers struct {
	peers *Peers
	list  []*exported
	cuda  []peerMemory // by rank
	most  int          // limit of one copy, in words
}

// exported is a buffer with memory that CUDA imports through a file descriptor.
type exported struct {
	object
	size    uint64 // in bytes
	fd      int
	address uint64 // of the buffer, for kernels
}

// NewBuffers allocates a buffer on each device, with undefined contents. words is its size, and most the largest size
// of one Copy, in 32-bit words; CUDA allocates a staging buffer of that size.
func (p *Peers) NewBuffers(words, most int) (_ *PeerBuffers, err error) {
	if p == nil || p.closed.Load() {
		return nil, errNoPeers
	}
	all, size := &PeerBuffers{peers: p, cuda: make([]peerMemory, len(p.devices)), most: most}, 4*uint64(max(words, 1))
	defer func() {
		if err != nil {
			err = errors.Join(err, all.Close())
		}
	}()
	for rank, d := range p.devices {
		if err := d.checkSize("that peers copy to", int64(size)); err != nil {
			return nil, err
		}
		one, r := d.native.exportBuffer(size)
		one.device = d
		d.adopt(one)
		all.list = append(all.list, one)
		if err := d.checkResult(r, "allocate %s that CUDA is to import", formatBytes(size)); err != nil {
			return nil, err
		}
		one.address = d.native.address(one.owned[0].id)
		if err := p.native.importMemory(rank, one.fd, one.size, 4*uint64(max(most, 1)), &all.cuda[rank]); err != nil {
			return nil, fmt.Errorf("vk: %s of %s for peer copies: %w", formatBytes(size), d.info.Caps.Name, err)
		}
	}
	return all, nil
}

// Address returns the address of a rank's buffer, for kernels on that device.
func (p *PeerBuffers) Address(rank int) uint64 {
	if !p.has(rank) {
		return 0
	}
	return p.list[rank].address
}

// has reports whether rank has a buffer.
func (p *PeerBuffers) has(rank int) bool { return p != nil && rank >= 0 && rank < len(p.list) }

// Copy starts to copy the given number of words, at offset `at` (in words), from the buffer of rank `from` to the same
// offset of all other buffers. The previous copy of these words must be done.
func (p *PeerBuffers) Copy(from, at, words int) error {
	if !p.has(from) {
		return errNoPeers
	}
	if end := 4 * (uint64(at) + uint64(words)); at < 0 || words < 0 || words > p.most || end > p.list[from].size {
		return fmt.Errorf("vk: copy of %d words at %d: want at most %d, of %s", words, at, p.most,
			formatBytes(p.list[from].size))
	}
	if err := p.peers.native.copy(from, p.cuda, 4*uint64(at), 4*uint64(words)); err != nil {
		return fmt.Errorf("vk: copy from %s to other devices: %w", p.list[from].device.info.Caps.Name, err)
	}
	return nil
}

// Done reports whether all copies started so far are done.
func (p *PeerBuffers) Done() (bool, error) {
	if !p.has(0) {
		return false, errNoPeers
	}
	done, err := p.peers.native.done()
	if err != nil {
		err = fmt.Errorf("vk: copies between %d devices, the first of which is %s: %w", len(p.list),
			p.list[0].device.info.Caps.Name, err)
	}
	return done, err
}

// Close frees the buffers. No device may be using them. Closing twice is fine.
func (p *PeerBuffers) Close() error {
	if p == nil {
		return nil
	}
	var errs []error
	for rank, one := range p.list {
		errs = append(errs, p.peers.native.forget(rank, &p.cuda[rank]))
		one.device.discard(one)
	}
	p.list = nil
	return errors.Join(errs...)
}

func (e *exported) describe() string { return "memory that peers copy to" }
