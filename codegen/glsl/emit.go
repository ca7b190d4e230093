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

// preserveNaN requests the execution mode SignedZeroInfNanPreserve (SPIR-V 1.6, 3.6) for floats of the given width.
// Without the mode, drivers fold x - x to 0 and a comparison into a maximum, which is wrong for infinities and NaN.
// SPIR-V 1.4 includes the mode; earlier versions need an extension, floatControls. In a shader that names the
// extension, spirv-opt 2026.4 keeps dead stores. Lavapipe's compiler needs these stores: without them it takes seconds
// for a far unrolled matvec, and minutes for the largest. SwiftShader needs them removed; see [device.DearBranches].
const preserveNaN = `// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(%scapabilities = [4466], 4461, %d);
`

const floatControls = `extensions = ["SPV_KHR_float_controls"], `

// Shader is the GLSL of a kernel, with the facts that a program needs to run it.
type Shader struct {
	Source string
	// SPIRV is the shader itself if a custom op supplies it compiled. Source then only describes it.
	SPIRV []byte
	// Grid is the number of workgroups of a dispatch.
	Grid kernel.Grid
	// Needs lists device features, sorted: the Need constants.
	Needs []string
	// SharedBytes of workgroup memory.
	SharedBytes int
	// SubgroupSize is the size of full subgroups that the shader relies on, or 0.
	SubgroupSize int
	// Workgroup is the number of invocations per workgroup.
	Workgroup int

	parts parts // of Source, if vkc wrote it
}

// parts are the parts of a shader.
type parts struct {
	about      string   // comments
	extensions []string // lines that enable them
	modes      []string // execution modes
	macros     string
	buffers    []view
	shared     []sharedArray
	functions  []*syntax.Definition // and macros and constants; each uses only earlier ones
	main       *syntax.Definition
}

// text is the shader source.
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

// Emit writes the GLSL of a kernel under a schedule. symbols lists the program's symbols in the order of their values
// in the params buffer. An error names the kernel and says why it cannot be written.
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
	// The lines below find out the needs of the shader, so they come first.
	all := e.foldFar(e.functions())
	buffers := e.declarations(all)
	sh := &Shader{Grid: e.grid, Needs: e.sortedNeeds(), SharedBytes: schedule.SharedBytes(k, e.sched),
		SubgroupSize: e.subgroupSize, Workgroup: e.sched.Workgroup}
	sh.parts = parts{about: e.about(), extensions: e.extensions(all), modes: e.modes(), buffers: buffers,
		shared: e.shared, functions: all[:len(all)-1], main: all[len(all)-1]}
	if device.LosesNaN(caps) {
		sh.parts.macros = keepNaN(all)
	}
	sh.Source = sh.parts.text(e.sched.Workgroup)
	return sh, e.err
}

// nanLosers are the built-in functions that return a number for NaN on some drivers.
var nanLosers = wordSet("exp exp2 log log2")

// keepNaN redefines the nanLosers that functions call, so that they keep NaN. A macro is not expanded inside itself, so
// its body calls the built-in function.
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

// writers has the function that writes main for each variant. A custom op supplies its own shader.
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

// body writes main for the schedule's variant.
func (e *emitter) body() {
	write := writers[e.sched.Variant]
	if write == nil {
		e.fail("unknown variant %q", e.sched.Variant)
		return
	}
	write(e)
}

// check rejects kernels that no variant can write, and normalizes the schedule.
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
	sched, err := schedule.New(e.k, e.sched, e.caps)
	if err != nil {
		e.fail("%w", err)
	}
	e.sched = sched
}

// about is the comment that describes the kernel.
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

// modes are the execution modes of the shader besides the defaults.
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

// preserveNaN requires IEEE arithmetic for the floats that the kernel computes, if the device has it. Cooperative
// matrices have an arithmetic of their own.
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
	unroll     = "unroll"
	dontUnroll = "dont_unroll"
)

// hinted reports whether a function has a loop with an unroll hint.
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

// extensions enables the extensions that the shader uses.
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

// symbolLines declares the symbols that the shader uses.
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
