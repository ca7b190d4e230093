package glsl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl/attention"
	"github.com/vkc-go/vkc/codegen/glsl/blocks"
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/maps"
	"github.com/vkc-go/vkc/codegen/glsl/matmul"
	"github.com/vkc-go/vkc/codegen/glsl/matvec"
	"github.com/vkc-go/vkc/codegen/glsl/order"
	"github.com/vkc-go/vkc/codegen/glsl/recurrence"
	"github.com/vkc-go/vkc/codegen/glsl/rows"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// Emit writes the GLSL of a kernel with a schedule. symbols lists the program's symbols in the order of their values in
// the params buffer. An error names the kernel and says why it cannot be written.
func Emit(k *kernel.Kernel, s kernel.Schedule, caps device.Caps, symbols []string) (*Shader, error) {
	e := emit.New(k, s, caps, symbols)
	e.Decode = blocks.Decoder
	check(e)
	if e.Err == nil && k.Family == kernel.FamilyCustom {
		sh := emitCustom(e)
		return sh, e.Err
	}
	write := writers[e.Launch.Variant]
	if write == nil {
		e.Fail("unknown variant %q", e.Launch.Variant)
	}
	if e.Err == nil {
		write(e)
	}
	if e.Err != nil {
		return nil, e.Err
	}
	keepIEEE(e)
	// Making the functions records what the shader needs, so it comes before all uses of Needs. main is the last one.
	all := e.AddressByRows(e.Functions())
	if device.UnrollsSlowly(e.Caps) { // change main only: shaders share the functions of the library
		keepLoops(all[len(all)-1], e.Needs[emit.NeedCoopMat])
	}
	buffers := e.Declarations(all)
	sh := &Shader{Grid: e.Grid, Needs: e.SortedNeeds(), SharedBytes: schedule.SharedBytes(k, e.Sched),
		SubgroupSize: e.SubgroupSize, Workgroup: e.Launch.Workgroup}
	sh.parts = parts{about: about(e), extensions: extensions(e, all), modes: modes(e), buffers: buffers,
		shared: e.Shared, functions: all[:len(all)-1], main: all[len(all)-1]}
	sh.Source = sh.parts.text(e.Launch.Workgroup)
	return sh, e.Err
}

// writers has, for each variant, the function that writes main. A custom op has its own shader instead.
var writers = map[kernel.Variant]func(*emit.Emitter){
	kernel.VarMap:          maps.Emit,
	kernel.VarMapTile:      maps.EmitTile,
	kernel.VarRowSerial:    rows.Emit,
	kernel.VarRowGroup:     rows.Emit,
	kernel.VarRowWindows:   rows.EmitWindows,
	kernel.VarScanSerial:   rows.EmitScan,
	kernel.VarScanGroup:    rows.EmitScan,
	kernel.VarSort:         order.EmitSort,
	kernel.VarSelect:       order.EmitSelect,
	kernel.VarGroup:        order.EmitGroup,
	kernel.VarQuantize:     blocks.EmitQuantize,
	kernel.VarMatTile:      matmul.EmitTile,
	kernel.VarMatDirect:    matmul.EmitDirect,
	kernel.VarMatVec:       matvec.Emit,
	kernel.VarSkinny:       matvec.EmitSkinny,
	kernel.VarCoopMat:      matmul.EmitCoopMat,
	kernel.VarCoopMat2:     matmul.EmitCoopMat2,
	kernel.VarRecurrence:   recurrence.Emit,
	kernel.VarFlashTile:    attention.EmitTile,
	kernel.VarFlashVec:     attention.EmitVec,
	kernel.VarFlashMatrix:  attention.EmitMatrix,
	kernel.VarFlashMatrix2: attention.EmitMatrix,
}

// check fails for kernels that no variant can write, and normalizes the schedule.
func check(e *emit.Emitter) {
	for _, name := range e.K.Symbols() {
		if !slices.Contains(e.Symbols, name) {
			e.Fail("symbol %s is not one of the program's: %s", name, strings.Join(e.Symbols, ", "))
		}
	}
	for _, st := range e.K.Stores {
		if st.Bind < 0 || st.Bind >= len(e.K.Bindings) {
			e.Fail("store into binding %d of %d", st.Bind, len(e.K.Bindings))
		}
	}
	kernel.Walk(e.K.Roots(), func(v *kernel.Expr) {
		if v.Kind == kernel.ExprLoad && (v.Bind < 0 || v.Bind >= len(e.K.Bindings)) {
			e.Fail("load from binding %d of %d", v.Bind, len(e.K.Bindings))
		}
	})
	if e.Err != nil {
		return // New would index the bindings
	}
	sched, err := schedule.New(e.K, e.Sched, e.Caps)
	if err != nil {
		e.Fail("%w", err)
	}
	e.Sched, e.Launch = sched, sched.Config()
}

// about returns the comment at the top of the shader that describes the kernel.
func about(e *emit.Emitter) string {
	var b strings.Builder
	fmt.Fprintf(&b, "// %s over %s", e.K.Name, ir.Shape(e.K.Parallel))
	switch e.K.Family {
	case kernel.FamilyMap:
	case kernel.FamilyScan, kernel.FamilySort, kernel.FamilyGroup, kernel.FamilyQuantize, kernel.FamilyRecurrence:
		fmt.Fprintf(&b, ", along %s", e.K.Fold)
	default:
		fmt.Fprintf(&b, ", folding %s", e.K.Fold)
	}
	fmt.Fprintf(&b, "\n%s// Schedule: %s.\n", wrapWords("// Fuses: ", e.K.Ops, 96), e.Sched)
	return b.String()
}

// modes returns the execution modes of the shader, in addition to the defaults: whether arithmetic preserves NaN.
func modes(e *emit.Emitter) (modes []string) {
	extension := floatControls // see preserveNaN
	if device.SlowBranches(e.Caps) && e.Caps.API.AtLeast(1, 2) {
		extension = ""
	}
	if e.Needs[emit.NeedPreserveNaN] {
		modes = append(modes, fmt.Sprintf(preserveNaN, extension, 32))
	}
	if e.Needs[emit.NeedPreserveNaN64] {
		modes = append(modes, fmt.Sprintf(preserveNaN, extension, 64))
	}
	return modes
}

// keepIEEE requires IEEE arithmetic for the float types that the kernel computes with, if the device has it.
// Cooperative matrices have their own arithmetic.
func keepIEEE(e *emit.Emitter) {
	if v := e.Launch.Variant; v == kernel.VarCoopMat || v == kernel.VarCoopMat2 {
		return
	}
	kernel.Walk(e.K.Roots(), func(v *kernel.Expr) {
		if v.DType.IsFloat() && e.Caps.Features.PreserveNaN32 {
			e.Need(emit.NeedPreserveNaN)
		}
		if v.DType == ir.F64 && e.Caps.Features.PreserveNaN64 {
			e.Need(emit.NeedPreserveNaN64)
		}
	})
}

// keepLoops asks the driver's compiler not to unroll the loops of a function that have no hint, because by itself it
// may unroll them. In a kernel on cooperative matrices (matrices is true) it also changes loops with a hint to unroll.
// In other kernels these loops stay unrolled, because they index arrays: from a loop that no invocation runs, lavapipe
// may read an array at any index.
func keepLoops(f *syntax.Definition, matrices bool) {
	syntax.Visit(f.Body, func(s syntax.Stmt) {
		if loop, ok := s.(*syntax.For); ok && (matrices || loop.Hint == "") {
			loop.Hint = emit.DontUnroll
		}
	})
}

// hinted reports whether a function has a loop with an unroll hint, which needs an extension.
func hinted(f *syntax.Definition) bool {
	found := false
	syntax.Visit(f.Body, func(s syntax.Stmt) {
		loop, ok := s.(*syntax.For)
		found = found || ok && loop.Hint != ""
	})
	return found
}

// wrapWords returns a comma-separated list of words as comment lines of about `width` characters. The first line begins
// with prefix.
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

// extensions returns the lines that enable the extensions that the shader uses.
func extensions(e *emit.Emitter, functions []*syntax.Definition) (lines []string) {
	add := func(name string) {
		line := fmt.Sprintf("#extension %s : require\n", name)
		if name != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for _, n := range e.SortedNeeds() {
		add(emit.Needs[n].Extension)
	}
	if slices.ContainsFunc(e.Buffers, func(b *emit.Buffer) bool { return len(b.RowArrays) > 0 }) {
		add("GL_EXT_buffer_reference_uvec2")
	}
	if slices.ContainsFunc(functions, hinted) {
		add("GL_EXT_control_flow_attributes")
	}
	return lines
}
