// Package spv validates SPIR-V modules without external tools: that a module is complete, and that it is the compute
// shader that its metadata declares. It checks modules from elsewhere before a driver sees them; spirv-val validates
// their instructions.
package spv

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

const (
	magicWord   = 0x07230203
	headerWords = 5
	maxIDBound  = 0x3FFFFF // universal limit of the SPIR-V specification, section 2.17
)

// The opcodes that are looked at.
const (
	opExtension         = 10
	opExtInstImport     = 11
	opEntryPoint        = 15
	opExecutionMode     = 16
	opCapability        = 17
	opTypeStruct        = 30
	opTypePointer       = 32
	opTypeBool          = 20
	opTypeInt           = 21
	opTypeFloat         = 22
	opTypeVector        = 23
	opTypeMatrix        = 24
	opTypeArray         = 28
	opConstantTrue      = 41
	opConstantFalse     = 42
	opConstant          = 43
	opConstantComposite = 44
	opSpecConstantTrue  = 48
	opSpecConstantFalse = 49
	opSpecConstant      = 50
	opFunctionEnd       = 56
	opVariable          = 59
	opDecorate          = 71
	opMemberDecorate    = 72
	opExecutionModeID   = 331
)

// Check distinguishes a complete module from garbage and from a truncated file. It checks the header (magic number,
// little-endian as written by the usual tools, version 1.x, id bound) and walks the instructions, which must end
// exactly at the end with OpFunctionEnd and include an entry point.
func Check(module []byte) error {
	if len(module) < headerWords*4 || len(module)%4 != 0 {
		return fmt.Errorf("not SPIR-V: %d bytes, want a multiple of 4 and at least %d", len(module), headerWords*4)
	}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(module[4*i:]) }
	if m := word(0); m != magicWord {
		return fmt.Errorf("not SPIR-V: magic number %#08x, want %#08x", m, uint32(magicWord))
	}
	// The version word is 0x0001XX00 for version 1.XX.
	if v := word(1); v>>16 != 1 || v&0xff != 0 {
		return fmt.Errorf("not SPIR-V 1.x: version word %#08x", v)
	}
	if b := word(3); b == 0 || b > maxIDBound {
		return fmt.Errorf("damaged SPIR-V: id bound %d, want 1 to %d", b, maxIDBound)
	}
	if s := word(4); s != 0 {
		return fmt.Errorf("damaged SPIR-V: reserved header word is %#x, want 0", s)
	}
	entry, last := false, uint32(0)
	n := len(module) / 4
	for i := headerWords; i < n; {
		// The first word of an instruction has its length, counting itself, and its opcode.
		size := int(word(i) >> 16)
		if size == 0 || i+size > n {
			return fmt.Errorf("damaged SPIR-V: instruction at word %d has %d words, %d are left", i, size, n-i)
		}
		last = word(i) & 0xffff
		entry = entry || last == opEntryPoint
		i += size
	}
	switch {
	case !entry:
		return fmt.Errorf("damaged SPIR-V: no entry point in %d words", n)
	case last != opFunctionEnd:
		return fmt.Errorf("truncated SPIR-V: ends in opcode %d, want OpFunctionEnd", last)
	}
	return nil
}

// Instructions calls do with the opcode and operands of each instruction of a module that passed Check.
func Instructions(module []byte, do func(op uint32, operands []uint32)) {
	words := make([]uint32, len(module)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(module[4*i:])
	}
	for i := headerWords; i < len(words); {
		size := int(words[i] >> 16)
		do(words[i]&0xffff, words[i+1:i+size])
		i += size
	}
}

// Interface is the declared interface of a shader.
type Interface struct {
	Bindings  int      // storage buffers, bound from 0 on in set 0
	Workgroup int      // invocations of a workgroup
	Needs     []string // the device features that it uses
}

// capabilities maps the SPIR-V capabilities that vkc's modules may use to needs, the names of device features. A module
// that uses a capability must declare at least one of its needs. Every device has a capability without needs.
var capabilities = map[uint32][]string{
	1:    nil, // Shader
	9:    {"float16", "cooperativeMatrix", "cooperativeMatrix2"},
	10:   {"float64", "preserveNaN64"},
	11:   {"int64"},
	22:   {"int16"},
	39:   {"int8", "integerDotProduct", "cooperativeMatrix", "cooperativeMatrix2"},
	61:   subgroups, // GroupNonUniform
	62:   {"subgroup_vote"},
	63:   {"subgroup_arithmetic"},
	64:   {"subgroup_vote", "subgroup_shuffle", "subgroup_arithmetic"}, // ballots
	65:   {"subgroup_shuffle"},
	4433: {"storage16"},
	4448: {"storage8"},
	4464: denorms, // DenormPreserve
	4465: denorms, // DenormFlushToZero
	4466: {"preserveNaN16", "preserveNaN32", "preserveNaN64"},
	5116: {"bfloat16", "bfloat16Matrix"},
	5117: {"bfloat16"},
	5118: {"bfloat16Matrix"},
	5345: {"memoryModel"},
	5346: {"memoryModel"},
	5347: {"bufferDeviceAddress"},
	5430: {"cooperativeMatrix2"}, // and its parts
	5431: {"cooperativeMatrix2"},
	5432: {"cooperativeMatrix2"},
	5433: {"cooperativeMatrix2"},
	5434: {"cooperativeMatrix2"},
	5435: {"cooperativeMatrix2"},
	5439: {"cooperativeMatrix2"}, // TensorAddressing
	6016: {"integerDotProduct"},
	6017: {"integerDotProduct"},
	6018: {"integerDotProduct"},
	6019: {"integerDotProduct"},
	6022: {"cooperativeMatrix", "cooperativeMatrix2"},
	6024: nil, // ReplicatedComposites, a shorter way to write constants
	6033: {"atomicFloat32Add", "sharedAtomicFloat32Add"},
}

var (
	subgroups = []string{"subgroup_basic", "subgroup_vote", "subgroup_arithmetic", "subgroup_shuffle"}
	denorms   = []string{"preserveDenorm16", "preserveDenorm32"}
)

// storageClasses are the allowed storage classes of variables. Images, push constants and addresses are not allowed.
var storageClasses = map[uint32]string{1: "Input", 4: "Workgroup", 6: "Private", 7: "Function", 12: "StorageBuffer"}

// foreignClasses explains the storage classes that modules of other compilers are likely to use.
var foreignClasses = map[uint32]string{0: " (UniformConstant: an image or sampler)",
	2: " (Uniform: a buffer of SPIR-V 1.2 or a uniform block; compile for SPIR-V 1.3 or later)",
	9: " (PushConstant)", 5349: " (PhysicalStorageBuffer: an address)"}

const (
	classWorkgroup        = 4
	classStorageBuffer    = 12
	modelCompute          = 5
	modeLocalSize         = 17
	modeLocalSizeID       = 38
	decorationSpec        = 1
	decorationBuiltIn     = 11
	decorationNonWritable = 24
	decorationBinding     = 33
	decorationSet         = 34
	builtInWorkgroup      = 25
)

// CheckShader reports an error unless the module is the declared compute shader. It must have one entry point, main,
// the declared workgroup size, exactly the declared storage buffers in set 0 and no other resources. Its capabilities,
// instruction sets and extensions must follow from the declared needs. So a module cannot use a driver feature that the
// device was not checked for.
func CheckShader(module []byte, want Interface) error {
	m, err := read(module)
	if err != nil {
		return err
	}
	for _, c := range m.capabilities {
		needs, known := capabilities[c]
		switch {
		case !known:
			return fmt.Errorf("it uses capability %d, which no kernel of vkc does", c)
		case needs != nil && !slices.ContainsFunc(needs, func(n string) bool { return slices.Contains(want.Needs, n) }):
			return fmt.Errorf("it uses capability %d without declaring that it needs %s", c,
				strings.Join(needs, " or "))
		}
	}
	if err := m.checkVariables(want.Bindings); err != nil {
		return err
	}
	size, err := m.workgroup()
	if err != nil {
		return err
	}
	if n := int64(size[0]) * int64(size[1]) * int64(size[2]); n != int64(want.Workgroup) {
		return fmt.Errorf("its workgroups have %d x %d x %d invocations, declared are %d", size[0], size[1],
			size[2], want.Workgroup)
	}
	return nil
}

// Workgroup returns the size of a compute shader's workgroups in x, y and z.
func Workgroup(module []byte) ([3]uint32, error) {
	m, err := read(module)
	if err != nil {
		return [3]uint32{}, err
	}
	return m.workgroup()
}

// declarations are the declarations of a module, which precede its functions.
type declarations struct {
	capabilities []uint32
	sizes        [][3]uint32         // by execution modes
	sizeIDs      [][]uint32          // the same, as ids of three constants or of one with three parts
	constants    map[uint32]uint32   // of one word, by id
	composites   map[uint32][]uint32 // ids of the parts, by id
	pointers     map[uint32]pointer  // by id of the type
	structs      map[uint32]int      // number of members
	variables    []variable
	bindings     map[uint32]uint32
	sets         map[uint32]uint32
	specs        map[uint32]uint32 // number of a specialization constant, by id
	nonWritable  map[uint32]bool   // variables with the decoration NonWritable
	// nonWritableMembers are the members of structures with the decoration NonWritable.
	nonWritableMembers map[member]bool
	bytes              map[uint32]uint64 // size of a value, by id of its type; absent if unknown
}

// pointer is a pointer type.
type pointer struct {
	class   uint32 // storage class
	pointee uint32 // id of the type that it points to
}

// variable is a variable outside functions.
type variable struct {
	pointerType, id uint32
	class           uint32 // storage class
}

// member is a member of a structure type.
type member struct{ structure, index uint32 }

// read returns the declarations of a module. It refuses a module with extensions or instruction sets that are not
// registered, or with other entry points than one compute shader named main.
func read(module []byte) (*declarations, error) {
	if err := Check(module); err != nil {
		return nil, err
	}
	m := &declarations{constants: map[uint32]uint32{}, composites: map[uint32][]uint32{},
		pointers: map[uint32]pointer{}, structs: map[uint32]int{}, nonWritableMembers: map[member]bool{},
		bindings: map[uint32]uint32{}, sets: map[uint32]uint32{},
		specs: map[uint32]uint32{}, nonWritable: map[uint32]bool{}, bytes: map[uint32]uint64{}}
	var fault error
	entries := 0
	Instructions(module, func(op uint32, a []uint32) {
		if fault != nil {
			return
		}
		if len(a) < minOperands[op] {
			fault = fmt.Errorf("damaged SPIR-V: opcode %d with %d operands", op, len(a))
			return
		}
		switch op {
		case opCapability:
			m.capabilities = append(m.capabilities, a[0])
		case opExtension:
			if name := text(a); !strings.HasPrefix(name, "SPV_") {
				fault = fmt.Errorf("it uses extension %q", name)
			}
		case opExtInstImport:
			if name := text(a[1:]); name != "GLSL.std.450" {
				fault = fmt.Errorf("it uses the instruction set %q, want GLSL.std.450", name)
			}
		case opEntryPoint:
			entries++
			if entries > 1 || a[0] != modelCompute || text(a[2:]) != "main" {
				fault = fmt.Errorf("entry point %d is %q of model %d, want one compute shader, main", entries,
					text(a[2:]), a[0])
			}
		case opExecutionMode:
			if a[1] == modeLocalSize && len(a) == 5 { // the entry point, the mode and three extents
				m.sizes = append(m.sizes, [3]uint32(a[2:]))
			}
		case opExecutionModeID:
			if a[1] == modeLocalSizeID {
				m.sizeIDs = append(m.sizeIDs, a[2:])
			}
		case opConstant:
			m.constants[a[1]] = a[2]
		case opConstantComposite:
			m.composites[a[1]] = a[2:]
		case opTypeStruct:
			m.structs[a[0]] = len(a) - 1
		case opTypePointer:
			m.pointers[a[0]] = pointer{class: a[1], pointee: a[2]}
		case opVariable:
			m.variables = append(m.variables, variable{pointerType: a[0], id: a[1], class: a[2]})
		case opDecorate:
			m.decorate(a)
		case opMemberDecorate:
			if a[2] == decorationNonWritable {
				m.nonWritableMembers[member{a[0], a[1]}] = true
			}
		}
		m.measure(op, a)
	})
	return m, fault
}

// minOperands maps opcodes to the minimum number of operands.
var minOperands = map[uint32]int{
	opCapability: 1, opExtension: 1, opExtInstImport: 2, opEntryPoint: 3, opExecutionMode: 2, opExecutionModeID: 2,
	opConstant: 3, opConstantComposite: 2, opTypeStruct: 1, opTypePointer: 3, opVariable: 3, opDecorate: 2,
	opMemberDecorate: 3, opTypeBool: 1, opTypeInt: 2, opTypeFloat: 2, opTypeVector: 3, opTypeMatrix: 3, opTypeArray: 3,
	opSpecConstantTrue: 2, opSpecConstantFalse: 2, opSpecConstant: 3,
}

// decorate records a decoration that the checks need. a has the target's id, the decoration and its operands.
func (m *declarations) decorate(a []uint32) {
	if a[1] == decorationNonWritable {
		m.nonWritable[a[0]] = true
	}
	if len(a) < 3 {
		return
	}
	switch {
	case a[1] == decorationBinding:
		m.bindings[a[0]] = a[2]
	case a[1] == decorationSet:
		m.sets[a[0]] = a[2]
	case a[1] == decorationSpec:
		m.specs[a[0]] = a[2]
	// A constant with this decoration overrides the execution mode.
	case a[1] == decorationBuiltIn && a[2] == builtInWorkgroup:
		m.sizeIDs = append(m.sizeIDs, []uint32{a[0]})
	}
}

// checkVariables returns an error unless all storage buffers are at bindings 0 to bindings-1 of set 0, and all other
// variables need no binding.
func (m *declarations) checkVariables(bindings int) error {
	for _, v := range m.variables {
		pointer := m.pointers[v.pointerType]
		if _, ok := storageClasses[v.class]; !ok || pointer.class != v.class {
			return fmt.Errorf("variable %d is of storage class %d%s, which no kernel of vkc has", v.id, v.class,
				foreignClasses[v.class])
		}
		if v.class != classStorageBuffer {
			continue
		}
		binding, hasBinding := m.bindings[v.id]
		set, hasSet := m.sets[v.id]
		_, isStruct := m.structs[pointer.pointee]
		isDeclared := hasBinding && int64(binding) < int64(bindings) && hasSet && set == 0
		if !isDeclared || !isStruct {
			return fmt.Errorf("buffer %d is not a storage buffer at bindings 0 to %d of set 0 (binding %d, set %d)",
				v.id, bindings-1, binding, set)
		}
	}
	return nil
}

// workgroup returns the workgroup size. All declarations of the size must agree, and each extent must be 1 to 2^16.
func (m *declarations) workgroup() (size [3]uint32, err error) {
	all := slices.Clone(m.sizes)
	for _, ids := range m.sizeIDs {
		if len(ids) == 1 { // the built-in constant
			ids = m.composites[ids[0]]
		}
		var s [3]uint32
		if len(ids) != 3 {
			return size, fmt.Errorf("the size of its workgroups is not a constant")
		}
		for i, id := range ids {
			value, ok := m.constants[id]
			if !ok {
				return size, fmt.Errorf("the size of its workgroups is not a constant")
			}
			s[i] = value
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return size, fmt.Errorf("it does not say how large its workgroups are")
	}
	const most = 1 << 16
	for _, s := range all {
		isValid := func(extent uint32) bool { return extent >= 1 && extent <= most }
		if s != all[0] || !isValid(s[0]) || !isValid(s[1]) || !isValid(s[2]) {
			return size, fmt.Errorf("its workgroups are %v and %v", all[0], s)
		}
	}
	return all[0], nil
}

// text reads a string literal.
func text(words []uint32) string {
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	// A zero byte ends the string.
	if i := slices.Index(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
