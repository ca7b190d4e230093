package glsl

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/lib"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/spv"
	"github.com/vkc-go/vkc/ir"
)

// customParams is the array with the values of symbols. The names of users' tensors do not have this prefix.
const customParams = "custom_params"

// emitCustom returns the shader of a custom kernel: the user's GLSL, after the declarations that it needs, or the
// user's SPIR-V. After an error, which the emitter records, the caller does not use the result.
func emitCustom(e *emit.Emitter) *Shader {
	c := e.K.Custom
	k := c.Kernel()
	for _, n := range k.Needs {
		if !emit.Needs[n].Custom {
			e.Fail("custom op %s needs feature %q, which is none that a custom kernel can use: %s", c.Op, n,
				strings.Join(emit.CustomNeeds(), ", "))
			return nil
		}
		e.Need(n)
	}
	buffers := customBuffers(e, c)
	grid, err := c.Grid()
	if err != nil {
		e.Fail("%v", err)
		return nil
	}
	if k.SPIRV != nil {
		return customModule(e, c, grid)
	}
	var main, global strings.Builder
	for i, t := range c.Types {
		declareExtents(e, &main, &global, c, c.Name(i), t.Shape)
	}
	for i, a := range c.Op.Info().Custom.Attrs {
		if k.Mentions(a.Name) {
			checkCustomName(e, c, a.Name)
			fmt.Fprintf(&global, "const %s %s = %s;\n", emit.AttrType(a.Kind), a.Name, e.AttrLit(c.Attrs[i].Value))
		}
	}
	for _, helper := range []string{"INF", "NAN"} { // the values of attributes use no other helpers
		if e.Helpers[helper+" float"] {
			h, _ := lib.Find(helper, "float")
			buffers += h.Definition("float").String()
		}
	}
	return &Shader{Source: customSource(e, c, buffers, global.String(), main.String()), Grid: grid,
		Needs: e.SortedNeeds(), SharedBytes: k.SharedBytes, Workgroup: e.Launch.Workgroup}
}

// customSource returns the GLSL of a custom kernel, with the given declarations of buffers, of other globals, and at
// the beginning of main.
func customSource(e *emit.Emitter, c *kernel.Custom, buffers, global, main string) string {
	k := c.Kernel()
	var b strings.Builder
	b.WriteString(customHeader(e, c))
	fmt.Fprintf(&b, "\nlayout(local_size_x = %d, local_size_y = %d, local_size_z = %d) in;\n\n%s", k.Workgroup[0],
		k.Workgroup[1], k.Workgroup[2], buffers)
	if global != "" {
		b.WriteString("\n" + global)
	}
	if k.Shared != "" {
		b.WriteString("\n" + emit.Bracketed(c.Op.Info().Custom, "Shared", k.Shared, ""))
	}
	fmt.Fprintf(&b, "\nvoid main() {\n%s    {\n%s    }\n}\n", main,
		emit.Bracketed(c.Op.Info().Custom, "Body", k.Body, "        "))
	return b.String()
}

// customModule returns the shader of a custom kernel that is a SPIR-V module, or nil after an error, which it records.
// The shader's source is a comment that names the module.
func customModule(e *emit.Emitter, c *kernel.Custom, grid kernel.Grid) *Shader {
	k := c.Kernel()
	want := spv.Kernel{Args: c.Args, Results: len(k.Outputs), Shared: k.SharedBytes, Constants: len(k.Constants)}
	for i, n := range k.Workgroup {
		want.Workgroup[i] = uint32(n)
	}
	if err := spv.CheckKernel(k.SPIRV, want); err != nil {
		e.Fail("SPIR-V of custom op %s: %v", c.Op, err)
		return nil
	}
	if v, most := spv.Version(k.SPIRV), e.Caps.API.SPIRV(); v > most {
		e.Fail("SPIR-V of custom op %s: it is of version 1.%d, and Vulkan %v takes 1.%d at most", c.Op, v, e.Caps.API,
			most)
		return nil
	}
	values, err := c.Constants()
	if err != nil {
		e.Fail("%v", err)
		return nil
	}
	module, err := spv.Specialize(k.SPIRV, values)
	if err == nil {
		err = spv.CheckShader(module, spv.Interface{Bindings: len(e.K.Bindings), Workgroup: e.Launch.Workgroup,
			Needs: e.SortedNeeds()})
	}
	if err != nil {
		e.Fail("SPIR-V of custom op %s: %v", c.Op, err)
		return nil
	}
	text := fmt.Sprintf("%s// SPIR-V of %d bytes, SHA-256 %x", customHeader(e, c), len(module), sha256.Sum256(module))
	for i, v := range values {
		text += fmt.Sprintf("\n// %s = %s", k.Constants[i], ir.FormatAttr(v))
	}
	return &Shader{Source: text + "\n", SPIRV: module, Grid: grid, Needs: e.SortedNeeds(), SharedBytes: k.SharedBytes,
		Workgroup: e.Launch.Workgroup}
}

// customHeader returns the comment that describes the custom op, and the declarations before the user's GLSL.
func customHeader(e *emit.Emitter, c *kernel.Custom) string {
	var b strings.Builder
	var types []string
	for i, t := range c.Types {
		types = append(types, fmt.Sprintf("%s %s", c.Name(i), t))
	}
	fmt.Fprintf(&b, "// custom op %s over %s\n", c.Op, strings.Join(types, ", "))
	if doc := c.Op.Info().Doc; doc != "" {
		fmt.Fprintf(&b, "// %s\n", strings.Join(strings.Fields(doc), " "))
	}
	fmt.Fprintf(&b, "// Schedule: %s.\n", e.Sched)
	if c.Kernel().SPIRV != nil {
		return b.String()
	}
	b.WriteString("#version 450\n" + strings.Join(extensions(e, nil), ""))
	if k := c.Kernel(); strings.Contains(k.Body+k.Shared, "[[unroll]]") {
		b.WriteString("#extension GL_EXT_control_flow_attributes : require\n")
	}
	return b.String()
}

// customBuffers declares the arguments and results, under the user's names for them.
func customBuffers(e *emit.Emitter, c *kernel.Custom) string {
	var b strings.Builder
	for i, bind := range e.K.Bindings {
		name, typ, access := customParams, "uint", "readonly "
		if i < len(c.Types) {
			name = c.Name(i)
			checkCustomName(e, c, name)
			typ = emit.Scalars[bind.DType].Storage
			if bind.DType.IsBlock() {
				typ = emit.BlockUnits[kernel.BlockUnit(bind.DType)].Name
			}
			switch { // arguments are readonly
			case c.Zeroed(i) && c.Kernel().Exchanges(): // invocations read what others have written
				access = "coherent "
			case c.Zeroed(i):
				access = ""
			case i >= c.Args: // a result
				access = "writeonly "
			}
			e.NeedStorage(&emit.Buffer{Binding: bind})
		}
		note := ""
		if typ != emit.Scalars[bind.DType].Compute {
			note = " // " + bind.DType.String()
		}
		fmt.Fprintf(&b, "layout(set = 0, binding = %d, std430) %sbuffer Custom_buffer_%d { %s %s[]; };%s\n", i, access,
			i, typ, name, note)
	}
	return b.String()
}

// checkCustomName fails if the user's name for a tensor or attribute is a word of GLSL.
func checkCustomName(e *emit.Emitter, c *kernel.Custom, name string) {
	if emit.Reserved[name] {
		e.Fail("custom op %s: %q cannot name an argument, output or attribute, as it means something in GLSL: "+
			"choose another name", c.Op, name)
	}
}

// declareExtents declares the extents and the size (number of elements) of a tensor, if the user's GLSL mentions them.
// Extents and sizes that depend on a symbol are declared in main, and others are constants in global.
func declareExtents(e *emit.Emitter, main, global *strings.Builder, c *kernel.Custom, tensor string, s ir.Shape) {
	define := func(name, value string, static bool) {
		to, indent := main, "    "
		if static {
			to, indent = global, ""
		}
		fmt.Fprintf(to, "%sconst uint %s = %s;\n", indent, name, value)
	}
	k := c.Kernel()
	var size []string
	static := true
	for axis, d := range s {
		value := customDim(e, d)
		size = append(size, "("+value+")")
		static = static && d.IsStatic()
		if name := kernel.DimName(tensor, axis); k.Mentions(name) {
			define(name, value, d.IsStatic())
		}
	}
	name := kernel.SizeName(tensor)
	if !k.Mentions(name) {
		return
	}
	if static {
		define(name, fmt.Sprintf("%du", s.MaxElems()), true)
		return
	}
	define(name, strings.Join(size, " * "), false)
}

// customDim returns an extent. It reads the extent's symbols from customParams.
func customDim(e *emit.Emitter, d ir.Dim) string {
	if d.IsStatic() {
		return fmt.Sprintf("%du", d.Add)
	}
	var factors []string
	for _, f := range kernel.SymbolFactors(d.Sym) {
		text := fmt.Sprintf("%s[%d]", customParams, slices.Index(e.Symbols, f.Sym))
		if f.Sym != d.Sym { // d.Sym stands for a product, which has no value in customParams
			text = "(" + customDim(e, f) + ")"
		}
		factors = append(factors, text)
	}
	text := strings.Join(factors, " * ")
	if d.Mul != 1 {
		text = fmt.Sprintf("%du * %s", d.Mul, text)
	}
	switch {
	case d.Add > 0:
		text += fmt.Sprintf(" + %du", d.Add)
	case d.Add < 0:
		text += fmt.Sprintf(" - %du", -d.Add)
	}
	return text
}

// CustomPlace is a line of a user's GLSL for a custom op.
type CustomPlace struct {
	Op   string // the op's name
	Part string // "Expr", "Body" or "Shared", the field of CustomOp or CustomKernel
	Line int    // from 1
	Text string // the line
}

// LocateCustom maps a line of an emitted shader (counted from 1) to the line of a custom op's GLSL that it comes from.
// It returns false for lines that vkc wrote.
func LocateCustom(source string, line int) (CustomPlace, bool) {
	lines := strings.Split(source, "\n")
	if line < 1 || line > len(lines) {
		return CustomPlace{}, false
	}
	// Search upwards for the mark that begins the user's text.
	for i := line - 2; i >= 0; i-- {
		mark := strings.TrimSpace(lines[i])
		if strings.HasPrefix(mark, emit.CustomEnd) {
			break
		}
		if rest, ok := strings.CutPrefix(mark, emit.CustomBegin); ok {
			op, part, _ := strings.Cut(rest, " ")
			return CustomPlace{Op: op, Part: part, Line: line - 1 - i, Text: strings.TrimSpace(lines[line-1])}, true
		}
	}
	return CustomPlace{}, false
}

// CustomOpsIn lists the names of custom ops that have GLSL in an emitted shader.
func CustomOpsIn(source string) []string {
	var names []string
	for _, line := range strings.Split(source, "\n") {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), emit.CustomBegin); ok {
			if name, _, _ := strings.Cut(rest, " "); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
