package kernel

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

const (
	// preparedGrowth bounds the size of a prepared result, as a multiple of the bytes that its kernel reads. Operands
	// that are split into two or three bf16 parts take up to 1.5, and a little more with padding, and are allowed.
	// Decoded blocks take 1.88 or more. They are allowed if the device has room for them (Binding.KeepsDecoded);
	// otherwise they are materialized in every run.
	preparedGrowth = 1.75
	// preparedSmall is a size in bytes that a prepared result may always have, even if its kernel reads nothing.
	preparedSmall = 64 << 10
)

// CanPrepare reports whether a kernel should run once, at load. It must compute the same values in every run: it has no
// symbols, and every buffer that it reads is fixed, or ready returns true for it. Its result must not be much larger
// than its inputs. A broadcast, for example, is not prepared.
func (k *Kernel) CanPrepare(ready func(buffer int) bool) bool {
	return k.Loop == nil && !isSymbolic(k.Fold) && !slices.ContainsFunc(k.Parallel, isSymbolic) &&
		!slices.ContainsFunc(k.After, func(buffer int) bool { return !ready(buffer) }) &&
		!slices.ContainsFunc(k.Bindings, func(b Binding) bool {
			return b.Read && (b.Write || !b.Fixed && !ready(b.Buffer))
		}) && k.hasSmallResults()
}

// hasSmallResults reports whether the kernel's results are small, in total and compared with its inputs.
func (k *Kernel) hasSmallResults() bool {
	read, kept := int64(0), int64(0)
	for _, b := range k.Bindings {
		stored := b.DType
		if b.KeepsDecoded { // its blocks are decoded to f16 at load
			stored = ir.F16
		}
		bytes, err := stored.BytesFor(b.Elems)
		switch {
		case b.Fault: // one word
		case err != nil:
			return false
		case b.Write:
			kept += bytes
		default:
			read += bytes
		}
	}
	return float64(kept) <= max(preparedGrowth*float64(read), preparedSmall)
}

func isSymbolic(d ir.Dim) bool { return !d.IsStatic() }

// Begins reports whether step i is the first step at load or the first step of a run. It needs no barrier before it.
func (p *Program) Begins(i int) bool { return i == 0 || i == p.Prepared }

// ContentKey identifies the contents of a buffer. Equal keys mean equal contents.
type ContentKey [sha256.Size]byte

// PreparedContents returns the keys of the prepared steps' results, by index of Buffers. A key is a hash of the
// step's code and of the keys of its inputs. spirv has the code of each shader. The key of a weight is a hash of the
// text that weight returns for its buffer, which must be equal for equal weights only. If weight returns "", results
// that depend on the weight have no key.
func (p *Program) PreparedContents(spirv [][]byte, weight func(buffer int) string) map[int]ContentKey {
	keys := map[int]ContentKey{}
	for i := range p.Buffers {
		if p.Buffers[i].Kind != BufWeight {
			continue
		}
		if text := weight(i); text != "" {
			keys[i] = sha256.Sum256([]byte("weight " + text))
		}
	}
	unknown := map[int]bool{} // results without a key
	for _, step := range p.Steps[:p.Prepared] {
		key, known := p.stepKey(step, spirv[step.Shader], keys)
		for n, bind := range step.Binds {
			if !bind.Write {
				continue
			}
			b := bind.Buffer
			unknown[b] = unknown[b] || !known
			if unknown[b] {
				delete(keys, b)
				continue
			}
			old := keys[b] // a step may overwrite only a part
			keys[b] = sha256.Sum256(fmt.Appendf(nil, "%x %x %d", key, old, n))
		}
	}
	maps.DeleteFunc(keys, func(b int, _ ContentKey) bool { return p.Buffers[b].Kind != BufPrepared })
	return keys
}

// stepKey returns a hash of a step's code, and of the keys of the buffers that it reads. It returns false if one of
// them has no key.
func (p *Program) stepKey(step Step, code []byte, keys map[int]ContentKey) (key ContentKey, known bool) {
	h := sha256.New()
	fmt.Fprintf(h, "%x %d %v", sha256.Sum256(code), p.Shaders[step.Shader].SubgroupSize, step.Grid)
	for _, bind := range step.Binds {
		var read ContentKey
		if bind.Read {
			read, known = keys[bind.Buffer]
			if !known {
				return key, false
			}
		}
		fmt.Fprintf(h, " %x %v %v %v %d", read, bind.Read, bind.Write, bind.Address, p.Buffers[bind.Buffer].Bytes)
	}
	return ContentKey(h.Sum(nil)), true
}

// checkPrepared requires that prepared steps read nothing that a run changes, and that no run changes their results.
func (c *checker) checkPrepared() {
	c.require(c.Prepared >= 0 && c.Prepared <= len(c.Steps), "%d prepared steps of %d", c.Prepared, len(c.Steps))
	for i, s := range c.Dispatches() {
		c.begin("step %d (%s)", i, s.Name)
		prepared := i < c.Prepared
		c.require(!prepared || s.IsStatic(), "it is prepared, but its grid depends on symbols")
		for _, b := range s.Binds {
			kind := c.Buffers[b.Buffer].Kind
			// A temporary or fault word may be overwritten by runs, but a prepared step uses it only at load.
			lasting := kind == BufWeight || kind == BufPrepared || kind == BufTemp || kind == BufFault
			c.require(!prepared || lasting, "it is prepared, but uses buffer %d, of kind %s", b.Buffer, kind)
			c.require(prepared || kind != BufPrepared || !b.Write, "it writes buffer %d, which is prepared", b.Buffer)
		}
	}
}
