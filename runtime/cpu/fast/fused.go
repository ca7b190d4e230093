package fast

import (
	"slices"
	"unsafe"
)

// Assembly computes consecutive simple primitives together: a few vectors of elements go through all of them in
// registers. Only results that other instructions read go through memory. An operand that is the same for all elements
// of a block, such as a constant or the bias of a channel, needs only a few vectors of memory.

// fusedOps has the names of these primitives. Their indices are the numbers of the ops in the assembly.
var fusedOps = [...]string{fusedLoad: "load", fusedStore: "store", "+", "*", "nan_max", "nan_min", "-", "/",
	"backwards -", "backwards /", "rounded to u8", "rounded to i8", floatOfWords}

// The ops that are no primitives: they move an operand to the registers, and the registers to an operand.
const fusedLoad, fusedStore = 0, 1

// fusedElems is the most elements that the assembly computes at a time.
const fusedElems = 64

// fusedStep is a step of the assembly: an op on the registers and an operand. For elements from number i on, the
// assembly reads the operand from element i&mask of the list on. The mask is -1, or 0 for one number that is repeated.
type fusedStep struct {
	op   int
	list unsafe.Pointer
	mask int
}

// fused is some consecutive instructions of a chain as steps of the assembly.
type fused struct {
	length int // the number of instructions
	steps  []struct{ op, operand int }
}

// add adds a step.
func (f *fused) add(op, operand int) {
	f.steps = append(f.steps, struct{ op, operand int }{op, operand})
}

// fusedResult is the operand to which the last step stores.
const fusedResult = -1

// findFused finds the instructions that the assembly computes together, by the number of the first one. Operands of
// instructions are still numbers of values. uses has, by value, how many instructions read it, and the chain's result.
func (b *compilerOf[T]) findFused(uses []int) map[int]*fused {
	found := map[int]*fused{}
	if b.wide() || len(b.row) > 0 { // there is no such assembly
		return found
	}
	for i := 0; i < len(b.code); i++ {
		f, before := &fused{}, -1 // before is the value in the registers, or -1
		for _, c := range b.code[i:] {
			op, x, y := slices.Index(fusedOps[:], c.name), c.in[0], c.in[1]
			if op <= fusedStore {
				break
			}
			// The value in the registers must be the first operand.
			if exchanged := exchangedOp(op); y == before && x != before && exchanged > 0 {
				op, x, y = exchanged, y, x
			}
			// If the value leaves the registers, or is the second operand, or others read it too: store it.
			isSecond := y == before && c.name != floatOfWords // which has one operand
			if before >= 0 && (x != before || isSecond || uses[before] > 1) {
				f.add(fusedStore, before)
			}
			if x != before {
				f.add(fusedLoad, x)
			}
			f.add(op, y)
			f.length++
			before = c.out
		}
		if f.length > 0 {
			f.add(fusedStore, fusedResult)
			found[i] = f
			i += f.length - 1
		}
	}
	return found
}

// exchangedOp returns the op that computes the same with exchanged operands, or 0 if there is none.
func exchangedOp(op int) int {
	switch name := fusedOps[op]; name {
	case "+", "*", "nan_max", "nan_min":
		return op
	default:
		return max(0, slices.Index(fusedOps[:], "backwards "+name))
	}
}

// readers counts, by value, the instructions that read it. The chain's result counts too.
func (b *compilerOf[T]) readers(result int) []int {
	uses := make([]int, len(b.values))
	uses[result]++
	for _, c := range b.code {
		for _, v := range slices.Compact(slices.Sorted(slices.Values(c.in[:]))) {
			uses[v]++
		}
	}
	return uses
}

// setFused sets field fused of the first instruction of each fused sequence. found has the sequences, by their first
// instruction, with numbers of values; `at` has the operands of values. setFused also sets onlyFused.
func (p *chainOf[T]) setFused(found map[int]*fused, at []int) {
	p.onlyFused = slices.Repeat([]bool{true}, len(p.args))
	read := func(operand int) {
		if operand < len(p.args) {
			p.onlyFused[operand] = false
		}
	}
	read(p.result)
	for i := 0; i < len(p.code); i++ {
		f := found[i]
		if f == nil {
			for _, v := range p.code[i].in {
				read(v)
			}
			continue
		}
		for k := range f.steps {
			if v := &f.steps[k].operand; *v != fusedResult {
				*v = at[*v]
			}
		}
		p.code[i].fused = f
		i += f.length - 1 // skip the other instructions of the sequence
	}
}

// canFuse reports whether there is assembly for fused instructions.
func canFuse() bool { return vector != nil && vector.fused != nil }

// repeatsFor reports whether the argument is the same for n elements of the result, from element lo on.
func (p *strides) repeatsFor(lo, n int) bool {
	last := len(p.dims) - 1
	return last >= 0 && p.steps[last] == 0 && lo%p.dims[last]+n <= p.dims[last]
}

// runFused applies the instructions of f to the operands in s, and stores the results in out. T is float32.
func (p *chainOf[T]) runFused(f *fused, out []T, s *scratch[T]) {
	firstConstant := len(p.args) + len(p.kept) + len(p.row)
	s.steps = s.steps[:0]
	for _, step := range f.steps {
		list, mask := out, -1
		if v := step.operand; v != fusedResult {
			list = s.operands[v]
			isRepeated := v < len(p.args) && s.repeated[v]
			isConstant := v >= firstConstant && v < firstConstant+len(p.constants)
			if isRepeated || isConstant {
				mask = 0
				_ = list[fusedElems-1] // the assembly checks no bounds
			} else {
				_ = list[len(out)-1]
			}
		}
		s.steps = append(s.steps, fusedStep{step.op, unsafe.Pointer(unsafe.SliceData(list)), mask})
	}
	vector.fused(&s.steps[0].op, len(s.steps), len(out))
}
