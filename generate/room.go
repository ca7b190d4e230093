package generate

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk"
)

// A RoomError says that a model does not fit in the device's memory or, if vkc chose the device, in this machine's
// memory either. Sizes are in bytes.
type RoomError struct {
	Where   string // the memory that is too small
	Have    uint64 // its size
	Weights uint64
	Caches  uint64 // KV caches of all slots
}

// Error gives the sizes and what the user can do.
func (e *RoomError) Error() string {
	return fmt.Sprintf("generate: the model needs %s: weights take %s and the KV cache %s, without temporaries: %s "+
		"has %s; want fewer tokens (--ctx) or answers at once, a smaller KV cache (--kv q8_0 or q4_0), or a smaller "+
		"quantization of the model", sizeText(e.Weights+e.Caches), sizeText(e.Weights),
		sizeText(e.Caches), e.Where, sizeText(e.Have))
}

// sizeText formats a number of bytes.
func sizeText(n uint64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
}

// checkMemory returns a *RoomError if a model's graph cannot fit in memory, before vkc compiles it or reads weights.
// It counts weights and KV caches, which every program needs. Loading a program counts the rest, before it uploads.
func (m *Model) checkMemory(g *ir.Graph) error {
	var weights, caches uint64
	for op, bytes := range map[ir.Op]*uint64{ir.OpWeight: &weights, ir.OpState: &caches} {
		for _, n := range g.Leaves(op) {
			b, err := n.Type().MaxBytes()
			if err != nil {
				return err
			}
			*bytes += uint64(b)
		}
	}
	host := &RoomError{"this machine", hostMemory(), weights, caches}
	if m.device.IsCPU() {
		return host.check()
	}
	here := &RoomError{m.device.Name(), 0, weights, caches}
	for _, d := range m.device.Parts() {
		if d.IsCPU() {
			here.Have += host.Have
			continue
		}
		for _, h := range vk.Of(d).Info().Heaps {
			if h.DeviceLocal {
				here.Have += h.Size
			}
		}
	}
	if m.gpuMemory > 0 { // weights may stay in host memory
		here.Have += host.Have
	}
	if err := here.check(); err == nil || !m.auto {
		return err
	}
	return host.check() // the reference runs graphs that are too large for the device
}

// setWeightRoom computes m.weightRoom: the part of Options.GPUMemory that is left for weights after the other needs of
// all programs.
func (m *Model) setWeightRoom(programs []*vkc.Program) error {
	var states, copies, others uint64
	prepared := map[kernel.ContentKey]bool{}
	for i, p := range programs {
		if p == nil {
			continue
		}
		k := p.Contents.Program
		if k == nil {
			return fmt.Errorf("generate: %s of GPU memory, but the model does not run on a GPU: leave out the "+
				"limit", sizeText(m.gpuMemory))
		}
		contents := k.PreparedContents(p.Contents.SPIRV, func(b int) string { return weightsOf(&k.Buffers[b]) })
		own := uint64(0) // bytes of states: programs share them, so the largest sum counts
		others += uint64(k.ArenaBytes)
		for j, b := range k.Buffers {
			switch b.Kind {
			case kernel.BufWeight: // takes the room that is left
			case kernel.BufTemp: // is in the arena
			case kernel.BufPrepared: // the first program prepares from the weights before the others are loaded
				key, ok := contents[j]
				if i > 0 && !(ok && prepared[key]) {
					others += uint64(b.Bytes)
				}
				prepared[key] = ok
			case kernel.BufState:
				own += uint64(b.Bytes)
			default:
				others += uint64(b.Bytes)
			}
		}
		states = max(states, own)
		if i > 0 { // loading a later program keeps copies of states that its first dispatches overwrite
			copies = max(copies, k.CopiedStates(func(int) bool { return true }))
		}
	}
	others += copies
	if states+others >= m.gpuMemory {
		return fmt.Errorf("generate: %s of GPU memory is not enough: the KV cache takes %s of it and temporaries %s; "+
			"want more, fewer tokens (--ctx) or answers at once, or a smaller KV cache (--kv q8_0 or q4_0)",
			sizeText(m.gpuMemory), sizeText(states), sizeText(others))
	}
	m.weightRoom = m.gpuMemory - states - others
	return nil
}

// weightsOf returns a text for the contents of a buffer with weights. Equal contents of one model have equal texts.
func weightsOf(b *kernel.Buffer) string {
	text := fmt.Sprint(b.DType, b.Layout, b.Bytes)
	for _, s := range b.Segments {
		text += fmt.Sprintf(" %q %v %v %x", s.Weight, s.DType, s.Dims, sha256.Sum256(s.Data))
	}
	return text
}

// check returns e if the memory is too small, or nil. A size of 0 is unknown and passes.
func (e *RoomError) check() error {
	if e.Have > 0 && e.Weights+e.Caches > e.Have {
		return e
	}
	return nil
}

// hostMemory returns the memory size of this machine, or 0 if unknown.
func hostMemory() (bytes uint64) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "MemTotal:"); ok {
			if _, err := fmt.Sscanf(rest, "%d kB", &bytes); err == nil {
				return bytes << 10 // the file's kB are 1024 bytes
			}
		}
	}
	return 0
}
