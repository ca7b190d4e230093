package glsl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// preserveNaN asks for execution mode SignedZeroInfNanPreserve (SPIR-V 1.6, 3.6)
// for floats of that many bits. Drivers otherwise fold x - x to 0 and a
// comparison into a maximum, which is wrong for infinities and NaN. It is part of
// SPIR-V 1.4, and of an extension before; where it names floatControls, spirv-opt 2026.4 removes no dead
// stores. Without them lavapipe's compiler takes seconds for a matvec that is
// unrolled far, and minutes for the farthest; see [device.DearBranches].
const preserveNaN = `// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(%scapabilities = [4466], 4461, %d);
`

const floatControls = `extensions = ["SPV_KHR_float_controls"], `

// Shader is the text of a kernel and what running it takes.
type Shader struct {
	Source string
	// SPIRV is the shader itself where a custom op brings it compiled; Source then only tells of it.
	SPIRV []byte
	// Grid is the number of workgroups of a dispatch.
	Grid kernel.Grid
	// Needs lists device features, sorted: the Need constants.
	Needs []string
	// SharedBytes of workgroup memory.
	SharedBytes int
	// SubgroupSize that the text relies on, in full subgroups; 0 if it does not.
	SubgroupSize int
	// Workgroup is the number of invocations per workgroup.
	Workgroup int

	parts parts // of Source, if vkc has written it
}

// parts are what the text of a shader consists of.
type parts struct {
	about      string   // comments
	extensions []string // lines that switch them on
	modes      []string // that the shader is executed in
	macros     string
	buffers    []view
	shared     []sharedArray
	functions  []*syntax.Definition // and macros and constants: each uses those before it
	main       *syntax.Definition
}

// text is the shader.
func (p parts) text(workgroup int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s#version 450\n%s", p.about, strings.Join(p.extensions, ""))
	for _, m := range p.modes {
		b.WriteString("\n" + m)
	}
	fmt.Fprintf(&b, "%s\nlayout(local_size_x = %d) in;\n\n", p.macros, workgroup)
	for _, v := range p.buffers {
		b.WriteString(v.String())
	}
	for i, s := range p.shared {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString(s.String() + "\n")
	}
	for _, f := range p.functions {
		b.WriteString("\n" + f.String())
	}
	b.WriteString("\n" + p.main.String())
	return b.String()
}

// Emit writes the GLSL of a kernel under a schedule. symbols lists the
// program's symbols in the order of their values in the params buffer. An
// error says which kernel cannot be written and why.
func Emit(k *kernel.Kernel, s kernel.Schedule, caps device.Caps, symbols []string) (*Shader, error) {
	e := newEmitter(k, s, caps, symbols)
	e.check()
	if e.err == nil && k.Family == kernel.FamilyCustom {
		sh := e.emitCustom()
		return sh, e.err
	}
	if e.err == nil {
		e.body()
	}
	if e.err != nil {
		return nil, e.err
	}
	e.preserveNaN()
	// The parts below find out what the text needs, so they come first.
	all := e.foldFar(e.functions())
	buffers := e.declarations(all)
	sh := &Shader{Grid: e.grid, Needs: e.sortedNeeds(), SharedBytes: schedule.SharedBytes(k, s),
		SubgroupSize: e.subgroupSize, Workgroup: s.Workgroup}
	sh.parts = parts{about: e.about(), extensions: e.extensions(all), modes: e.modes(), buffers: buffers,
		shared: e.shared, functions: all[:len(all)-1], main: all[len(all)-1]}
	if device.LosesNaN(caps) {
		sh.parts.macros = keepNaN(all)
	}
	sh.Source = sh.parts.text(s.Workgroup)
	return sh, e.err
}

// nanLosers are the built-in functions that some drivers give a number for NaN.
var nanLosers = wordSet("exp exp2 log log2")

// keepNaN has the functions that lose NaN, as far as others call them, keep it.
// A macro is not expanded inside itself, so the call in it is the built-in.
func keepNaN(functions []*syntax.Definition) string {
	var b strings.Builder
	guarded := map[string]bool{}
	for _, f := range functions {
		f.Names(func(name string) {
			if nanLosers[name] && !guarded[name] {
				guarded[name] = true
				fmt.Fprintf(&b, "#define %s(x) mix(%[1]s(x), x, isnan(x))\n", name)
			}
		})
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n// The device may give a number for NaN.\n" + b.String()
}

// writers has one for every variant, which writes main. A custom op has its text already.
var writers = map[kernel.Variant]func(*emitter){
	kernel.VarMap:          (*emitter).emitMap,
	kernel.VarMapTile:      (*emitter).emitMapTile,
	kernel.VarRowSerial:    (*emitter).emitRow,
	kernel.VarRowGroup:     (*emitter).emitRow,
	kernel.VarRowWindows:   (*emitter).emitWindows,
	kernel.VarScanSerial:   (*emitter).emitScan,
	kernel.VarScanGroup:    (*emitter).emitScan,
	kernel.VarSort:         (*emitter).emitSort,
	kernel.VarSelect:       (*emitter).emitSelect,
	kernel.VarGroup:        (*emitter).emitGroup,
	kernel.VarQuantize:     (*emitter).emitQuantize,
	kernel.VarMatTile:      (*emitter).emitMatTile,
	kernel.VarMatDirect:    (*emitter).emitMatDirect,
	kernel.VarMatVec:       (*emitter).emitMatVec,
	kernel.VarSkinny:       (*emitter).emitSkinny,
	kernel.VarCoopMat:      (*emitter).emitCoopMat,
	kernel.VarCoopMat2:     (*emitter).emitCoopMat2,
	kernel.VarFlashTile:    (*emitter).emitFlashTile,
	kernel.VarFlashVec:     (*emitter).emitFlashVec,
	kernel.VarFlashMatrix:  (*emitter).emitFlashMatrix,
	kernel.VarFlashMatrix2: (*emitter).emitFlashMatrix,
}

// body writes main by the schedule's variant.
func (e *emitter) body() {
	write := writers[e.sched.Variant]
	if write == nil {
		e.fail("unknown variant %q", e.sched.Variant)
		return
	}
	write(e)
}

// check refuses what no variant can write.
func (e *emitter) check() {
	for _, name := range e.k.Symbols() {
		if !slices.Contains(e.symbols, name) {
			e.fail("symbol %s is not one of the program's: %s", name, strings.Join(e.symbols, ", "))
		}
	}
	for _, st := range e.k.Stores {
		if st.Bind < 0 || st.Bind >= len(e.k.Bindings) {
			e.fail("store into binding %d of %d", st.Bind, len(e.k.Bindings))
		}
	}
	kernel.Walk(e.k.Roots(), func(v *kernel.Expr) {
		if v.Kind == kernel.ExprLoad && (v.Bind < 0 || v.Bind >= len(e.k.Bindings)) {
			e.fail("load from binding %d of %d", v.Bind, len(e.k.Bindings))
		}
	})
	if e.err != nil {
		return
	}
	if err := schedule.Check(e.k, e.sched, e.caps); err != nil {
		e.fail("%w", err)
	}
}

// about says what the kernel is.
func (e *emitter) about() string {
	var b strings.Builder
	fmt.Fprintf(&b, "// %s over %s", e.k.Name, ir.Shape(e.k.Parallel))
	switch e.k.Family {
	case kernel.FamilyMap:
	case kernel.FamilyScan, kernel.FamilySort, kernel.FamilyGroup, kernel.FamilyQuantize:
		fmt.Fprintf(&b, ", along %s", e.k.Fold)
	default:
		fmt.Fprintf(&b, ", folding %s", e.k.Fold)
	}
	fmt.Fprintf(&b, "\n%s// Schedule: %s.\n", wrapWords("// Fuses: ", e.k.Ops, 96), e.sched)
	return b.String()
}

// modes are how the shader is executed, beyond what is usual.
func (e *emitter) modes() (modes []string) {
	extension := floatControls
	if device.DearBranches(e.caps) && e.caps.API.AtLeast(1, 2) {
		extension = ""
	}
	if e.needs[NeedPreserveNaN] {
		modes = append(modes, fmt.Sprintf(preserveNaN, extension, 32))
	}
	if e.needs[NeedPreserveNaN64] {
		modes = append(modes, fmt.Sprintf(preserveNaN, extension, 64))
	}
	return modes
}

// preserveNaN needs IEEE arithmetic for the floats that the kernel computes,
// where the device has it. Matrix units have arithmetic of their own.
func (e *emitter) preserveNaN() {
	if v := e.sched.Variant; v == kernel.VarCoopMat || v == kernel.VarCoopMat2 {
		return
	}
	kernel.Walk(e.k.Roots(), func(v *kernel.Expr) {
		if v.DType.IsFloat() && e.caps.Features.PreserveNaN32 {
			e.need(NeedPreserveNaN)
		}
		if v.DType == ir.F64 && e.caps.Features.PreserveNaN64 {
			e.need(NeedPreserveNaN64)
		}
	})
}

const (
	unroll     = "[[unroll]] "
	dontUnroll = "[[dont_unroll]] "
)

// hinted reports whether a function has a loop with a hint for compilers.
func hinted(f *syntax.Definition) bool {
	found := false
	syntax.Visit(f.Body, func(s syntax.Stmt) {
		loop, ok := s.(*syntax.For)
		found = found || ok && loop.Hint != ""
	})
	return found
}

// wrapWords prints a comma-separated list as comment lines.
func wrapWords(prefix string, words []string, width int) string {
	var b strings.Builder
	line := prefix
	for i, w := range words {
		if i < len(words)-1 {
			w += ","
		} else {
			w += "."
		}
		if len(line)+len(w) > width && line != prefix {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = "//        "
		}
		line += w + " "
	}
	return b.String() + strings.TrimRight(line, " ") + "\n"
}

// extensions switches on what the text uses.
func (e *emitter) extensions(functions []*syntax.Definition) (lines []string) {
	add := func(name string) {
		line := fmt.Sprintf("#extension %s : require\n", name)
		if name != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for _, n := range e.sortedNeeds() {
		add(needs[n].extension)
	}
	if slices.ContainsFunc(e.buffers, func(b *buffer) bool { return len(b.folded) > 0 }) {
		add("GL_EXT_buffer_reference_uvec2")
	}
	if slices.ContainsFunc(functions, hinted) {
		add("GL_EXT_control_flow_attributes")
	}
	return lines
}

func (e *emitter) sortedNeeds() []string { return slices.Sorted(maps.Keys(e.needs)) }

// symbolLines reads the symbols that the text uses.
func (e *emitter) symbolLines() []syntax.Stmt {
	s := newScope(nil, nil)
	for i, name := range e.symbols {
		if !e.usedSyms[name] {
			continue
		}
		p := slices.IndexFunc(e.buffers, func(b *buffer) bool { return b.Params })
		if p < 0 {
			e.fail("it needs symbol %s but binds no params", name)
			return nil
		}
		e.lineIn(s, "const uint %s = %s[%d];", e.symbolNames[name], e.view(e.buffers[p], 1), i)
	}
	return s.body
}
