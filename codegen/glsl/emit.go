package glsl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// Emit writes the GLSL of a kernel under a schedule. symbols lists the program's symbols in the order of their values
// in the params buffer. An error names the kernel and says why it cannot be written.
func Emit(k *kernel.Kernel, s kernel.Schedule, caps device.Caps, symbols []string) (*Shader, error) {
	e := newEmitter(k, s, caps, symbols)
	e.decode = blockDecoder
	check(e)
	if e.err == nil && k.Family == kernel.FamilyCustom {
		sh := emitCustom(e)
		return sh, e.err
	}
	if e.err == nil {
		writeMain(e)
	}
	if e.err != nil {
		return nil, e.err
	}
	keepIEEE(e)
	// The lines below find out the needs of the shader, so they come first.
	all := e.foldFar(e.functions())
	buffers := e.declarations(all)
	sh := &Shader{Grid: e.grid, Needs: e.sortedNeeds(), SharedBytes: schedule.SharedBytes(k, e.sched),
		SubgroupSize: e.subgroupSize, Workgroup: e.sched.Workgroup}
	sh.parts = parts{about: about(e), extensions: extensions(e, all), modes: modes(e), buffers: buffers,
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
	kernel.VarMap:          emitMap,
	kernel.VarMapTile:      emitMapTile,
	kernel.VarRowSerial:    emitRow,
	kernel.VarRowGroup:     emitRow,
	kernel.VarRowWindows:   emitWindows,
	kernel.VarScanSerial:   emitScan,
	kernel.VarScanGroup:    emitScan,
	kernel.VarSort:         emitSort,
	kernel.VarSelect:       emitSelect,
	kernel.VarGroup:        emitGroup,
	kernel.VarQuantize:     emitQuantize,
	kernel.VarMatTile:      emitMatTile,
	kernel.VarMatDirect:    emitMatDirect,
	kernel.VarMatVec:       emitMatVec,
	kernel.VarSkinny:       emitSkinny,
	kernel.VarCoopMat:      emitCoopMat,
	kernel.VarCoopMat2:     emitCoopMat2,
	kernel.VarFlashTile:    emitFlashTile,
	kernel.VarFlashVec:     emitFlashVec,
	kernel.VarFlashMatrix:  emitFlashMatrix,
	kernel.VarFlashMatrix2: emitFlashMatrix,
}

// body writes main for the schedule's variant.
func writeMain(e *emitter) {
	write := writers[e.sched.Variant]
	if write == nil {
		e.fail("unknown variant %q", e.sched.Variant)
		return
	}
	write(e)
}

// check rejects kernels that no variant can write, and normalizes the schedule.
func check(e *emitter) {
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
func about(e *emitter) string {
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
func modes(e *emitter) (modes []string) {
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
func keepIEEE(e *emitter) {
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
func extensions(e *emitter, functions []*syntax.Definition) (lines []string) {
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
