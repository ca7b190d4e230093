package spv

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Kernel is the declared interface of a shader that a user supplies as a SPIR-V module.
type Kernel struct {
	Args      int       // buffers that it reads, bound from 0 on in set 0
	Results   int       // buffers that it writes, bound after the arguments
	Workgroup [3]uint32 // invocations of a workgroup by dimension
	Shared    int       // bytes of workgroup memory at most
	Constants int       // specialization constants, numbered from 0 on
}

// CheckKernel returns an error unless a module is the declared compute shader. [CheckShader] checks the capabilities,
// which depend on the dtypes that it runs with.
func CheckKernel(module []byte, want Kernel) error {
	m, err := read(module)
	if err != nil {
		return err
	}
	if v := Version(module); v > maxVersion {
		return fmt.Errorf("it is of SPIR-V 1.%d, which takes Vulkan 1.3: compile it for 1.%d (glslc "+
			"--target-env=vulkan1.2)", v, maxVersion)
	}
	for _, c := range m.capabilities {
		if _, known := capabilities[c]; !known || c == capabilityAddresses {
			return fmt.Errorf("it uses capability %d, which no kernel of a user's own can", c)
		}
	}
	if err := m.checkVariables(want.Args + want.Results); err != nil {
		return err
	}
	size, err := m.workgroup()
	if err != nil {
		return err
	}
	if size != want.Workgroup {
		return fmt.Errorf("its workgroups are %v, declared are %v", size, want.Workgroup)
	}
	if err := m.checkAccess(want); err != nil {
		return err
	}
	if n := m.shared(); n > uint64(want.Shared) {
		return fmt.Errorf("it has %s bytes of workgroup memory, declared are %d", bytesText(n), want.Shared)
	}
	for _, id := range slices.Sorted(maps.Keys(m.specs)) {
		if n := m.specs[id]; int64(n) >= int64(want.Constants) {
			return fmt.Errorf("constant %d has SpecId %d, declared are values of %d specialization constants", id, n,
				want.Constants)
		}
	}
	return nil
}

// checkAccess rejects arguments that could be written, because other kernels read them, and missing results.
func (m *declarations) checkAccess(want Kernel) error {
	written := make([]bool, want.Results)
	for _, v := range m.variables {
		if v.class != classStorageBuffer {
			continue
		}
		n := int(m.bindings[v.id])
		// A compiler may decorate the buffer itself or all members of its structure.
		isReadOnly := m.nonWritable[v.id] || m.hasReadOnlyMembers(m.pointers[v.pointerType].pointee)
		switch {
		case n < want.Args && !isReadOnly:
			return fmt.Errorf("the buffer at binding %d is an argument and may be written: decorate it NonWritable "+
				"(readonly in GLSL)", n)
		case n >= want.Args && !isReadOnly:
			written[n-want.Args] = true
		}
	}
	if i := slices.Index(written, false); i >= 0 {
		return fmt.Errorf("it has no buffer that it writes at binding %d, which is result %d", want.Args+i, i)
	}
	return nil
}

// hasReadOnlyMembers reports whether a structure has members, and all of them are decorated NonWritable.
func (m *declarations) hasReadOnlyMembers(structure uint32) bool {
	for i := range m.structs[structure] {
		if !m.nonWritableMembers[member{structure, uint32(i)}] {
			return false
		}
	}
	return m.structs[structure] > 0
}

// maxBytes means that a size is unknown or too large.
const maxBytes = math.MaxUint64

// bytesText formats a number of bytes, which may be unknown.
func bytesText(n uint64) string {
	if n == maxBytes {
		return "an unknown number of"
	}
	return fmt.Sprint(n)
}

// measure records the size of the type that an instruction declares, in bytes. It leaves out types of unknown or huge
// size. SPIR-V declares a type after its component types.
func (m *declarations) measure(op uint32, a []uint32) {
	// times returns element*n, or maxBytes if that is unknown or huge.
	times := func(element, n uint64) uint64 {
		if element == maxBytes || n > 1<<32 || element > 1<<32 {
			return maxBytes
		}
		return min(element*n, maxBytes-1)
	}
	// size returns the size of a type, or maxBytes if it is unknown.
	size := func(id uint32) uint64 {
		if n, ok := m.bytes[id]; ok {
			return n
		}
		return maxBytes
	}
	switch op {
	case opTypeBool:
		m.bytes[a[0]] = 4
	case opTypeInt, opTypeFloat:
		m.bytes[a[0]] = uint64(a[1]) / 8
	case opTypeVector, opTypeMatrix:
		m.bytes[a[0]] = times(size(a[1]), uint64(a[2]))
	case opTypeArray:
		if n, ok := m.constants[a[2]]; ok {
			m.bytes[a[0]] = times(size(a[1]), uint64(n))
		}
	case opTypeStruct:
		sum := uint64(0)
		for _, member := range a[1:] {
			n := size(member)
			sum += n
			if n > 1<<40 || sum > 1<<40 { // n may be maxBytes, with which the sum wraps around
				return
			}
		}
		m.bytes[a[0]] = sum
	}
}

// shared returns the bytes of all variables in workgroup memory, or maxBytes if a size is unknown.
func (m *declarations) shared() uint64 {
	sum := uint64(0)
	for _, v := range m.variables {
		if v.class != classWorkgroup {
			continue
		}
		n, ok := m.bytes[m.pointers[v.pointerType].pointee]
		sum += n
		if !ok || n > 1<<40 || sum > 1<<40 {
			return maxBytes
		}
	}
	return sum
}

// Specialize returns a module, checked by CheckKernel, with values in place of its specialization constants: values[i],
// an int64, float64 or bool, for SpecId i.
func Specialize(module []byte, values []any) ([]byte, error) {
	m, err := read(module)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(module[:4*headerWords])
	kinds := map[uint32][2]uint32{} // opcode and width, by id of a type
	var fault error
	Instructions(module, func(op uint32, a []uint32) {
		switch op {
		// a has the type's id and its width.
		case opTypeInt, opTypeFloat:
			kinds[a[0]] = [2]uint32{op, a[1]}
		case opDecorate:
			// Leave the decoration out: the constant is an ordinary one now.
			if a[1] == decorationSpec {
				return
			}
		case opSpecConstantTrue, opSpecConstantFalse, opSpecConstant:
			// a has the type, the constant's id and its default value.
			n, ok := m.specs[a[1]]
			switch {
			case ok && int64(n) >= int64(len(values)):
				fault = cmp.Or(fault, fmt.Errorf("specialization constant %d: there are %d values", n, len(values)))
			case ok:
				var value []uint32
				op, value, err = constant(op, kinds[a[0]], values[n])
				if err != nil {
					fault = cmp.Or(fault, fmt.Errorf("specialization constant %d: %w", n, err))
				}
				a = append([]uint32{a[0], a[1]}, value...)
			}
		}
		// The first word of an instruction has its length, counting itself, and its opcode.
		out = binary.LittleEndian.AppendUint32(out, uint32(len(a)+1)<<16|op)
		for _, w := range a {
			out = binary.LittleEndian.AppendUint32(out, w)
		}
	})
	if fault != nil {
		return nil, fault
	}
	return out, nil
}

// constant returns the opcode and the words of a value that replaces a specialization constant.
func constant(op uint32, kind [2]uint32, value any) (opcode uint32, words []uint32, err error) {
	var want string
	switch v := value.(type) {
	case bool:
		want = "bool"
		isBool := op == opSpecConstantTrue || op == opSpecConstantFalse
		switch {
		case isBool && v:
			return opConstantTrue, nil, nil
		case isBool:
			return opConstantFalse, nil, nil
		}
	case int64:
		want = "number of 32 bits"
		if op == opSpecConstant && kind == [2]uint32{opTypeInt, 32} {
			if v < math.MinInt32 || v > math.MaxUint32 {
				return 0, nil, fmt.Errorf("%d does not fit into its 32 bits", v)
			}
			return opConstant, []uint32{uint32(v)}, nil
		}
	case float64:
		want = "float of 32 bits"
		if op == opSpecConstant && kind == [2]uint32{opTypeFloat, 32} {
			return opConstant, []uint32{math.Float32bits(float32(v))}, nil
		}
	}
	return 0, nil, fmt.Errorf("its type is not that of a %s", want)
}

// capabilityAddresses lets a shader follow addresses that it reads from a buffer.
const capabilityAddresses = 5347

// maxVersion is the last version of SPIR-V that Vulkan 1.2 has.
const maxVersion = 5

// Version returns the minor version of a SPIR-V 1.x module, or 0 if the module is too short.
func Version(module []byte) int {
	if len(module) < 8 {
		return 0
	}
	return int(binary.LittleEndian.Uint32(module[4:]) >> 8 & 0xff)
}
