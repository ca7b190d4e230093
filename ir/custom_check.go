package ir

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// check returns an error if the op could never run, or if its source could change the shader around it.
func (c *CustomOp) check() error {
	if err := checkCustomName(c.Name); err != nil {
		return err
	}
	forms := 0
	for _, set := range []bool{c.Expr != "", c.Body != "", c.Kernel != nil} {
		if set {
			forms++
		}
	}
	switch {
	case forms != 1:
		return fmt.Errorf("%d of the fields Expr, Body and Kernel are set: set one", forms)
	case len(c.Args) == 0 || len(c.Args) > maxCustomArgs:
		return fmt.Errorf("field Args has %d arguments, want 1 to %d", len(c.Args), maxCustomArgs)
	case c.Kernel != nil && c.Infer == nil:
		return errors.New("field Infer is not set: a kernel needs it for the types of its results")
	case c.Kernel == nil && c.Reference != nil:
		return errors.New("field Reference is for kernels: for Expr or Body set Float or Int instead")
	case c.Kernel != nil && (c.Float != nil || c.Int != nil):
		return errors.New("fields Float and Int are for Expr and Body: for a kernel set Reference instead")
	}
	if err := c.checkNames(); err != nil {
		return err
	}
	if c.Kernel != nil {
		return c.Kernel.check(c)
	}
	if strings.Contains(c.Expr, ";") {
		return errors.New("field Expr has a semicolon, but must be one expression: put statements into Body")
	}
	return errors.Join(checkCustomText("Expr", c.Expr), checkCustomText("Body", c.Body))
}

// checkCustomName returns an error unless a name has the form "package.op" that CustomOp documents.
func checkCustomName(name string) error {
	pkg, op, ok := strings.Cut(name, ".")
	if !ok || !isLowerWord(pkg) || strings.Contains(pkg, "_") || !isLowerWord(op) || len(name) > 60 {
		return errors.New(`the name must be "package.op", such as "acme.snake": lower-case letters and digits, at most ` +
			`60 bytes; the second word may have single underscores inside`)
	}
	return nil
}

// isLowerWord reports whether s is lower-case letters, digits and single
// underscores between them.
func isLowerWord(s string) bool {
	if s == "" || s[0] < 'a' || s[0] > 'z' || strings.Contains(s, "__") || strings.HasSuffix(s, "_") {
		return false
	}
	for _, b := range []byte(s) {
		if !(b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b == '_') {
			return false
		}
	}
	return true
}

// checkNames rejects names that are invalid in GLSL, or used twice.
func (c *CustomOp) checkNames() error {
	seen := map[string]bool{}
	claim := func(what, s string) error {
		// GLSL reserves gl_ and double underscores; the generator uses custom_.
		reserved := strings.HasPrefix(s, "gl_") || strings.HasPrefix(s, "custom_") || strings.Contains(s, "__")
		switch {
		case !IsIdent(s) || len(s) > 40 || reserved:
			return fmt.Errorf("%s %q is not a valid name in GLSL: want letters, digits and single underscores, at "+
				"most 40 bytes, without gl_ or custom_ at the beginning", what, clip(s))
		case seen[s]:
			return fmt.Errorf("%s %q: the name is taken: choose another", what, s)
		case c.Kernel != nil && (strings.HasSuffix(s, "_size") || strings.Contains(s, "_dim")):
			return fmt.Errorf("%s %q: names with _size and _dim are for extents: choose another", what, s)
		}
		seen[s] = true
		return nil
	}
	for _, a := range c.Args {
		if err := claim("argument", a.Name); err != nil {
			return err
		}
		if a.Variadic || a.Optional {
			return fmt.Errorf("argument %q: arguments of custom ops are neither optional nor variadic", a.Name)
		}
	}
	for _, a := range c.Attrs {
		if err := claim("attribute", a.Name); err != nil {
			return err
		}
		switch {
		case a.Name == outputAttr:
			return fmt.Errorf("attribute %q: vkc itself uses this name, for the number of a kernel's result: choose "+
				"another", a.Name)
		case a.Kind != AttrInt && a.Kind != AttrFloat && a.Kind != AttrBool:
			return fmt.Errorf("attribute %q: want kind int, float or bool", a.Name)
		case a.Default != nil && checkAttr(a, a.Default) != nil:
			return fmt.Errorf("attribute %q: default %v: %w", a.Name, a.Default, checkAttr(a, a.Default))
		}
	}
	if c.Kernel != nil {
		for _, o := range c.Kernel.Outputs {
			if err := claim("output", o); err != nil {
				return err
			}
		}
	}
	return nil
}

// check returns an error for a kernel with invalid sizes, names, grid rules or source.
func (k *CustomKernel) check(c *CustomOp) error {
	n := len(c.Args) + len(k.Outputs)
	switch {
	case len(k.Outputs) == 0 || n > maxCustomArgs:
		return fmt.Errorf("field Outputs has %d names: want at least 1, and at most %d arguments and outputs together",
			len(k.Outputs), maxCustomArgs)
	case k.SharedBytes < 0 || k.SharedBytes > maxSharedBytes:
		return fmt.Errorf("field SharedBytes is %d: want 0 to %d", k.SharedBytes, maxSharedBytes)
	case k.SharedBytes == 0 && slices.Contains(identifiers(k.Shared), "shared"):
		return errors.New("field Shared declares shared memory: set its size in SharedBytes, so that vkc can refuse " +
			"devices with less")
	}
	for i, name := range k.Zeroed {
		if !slices.Contains(k.Outputs, name) || slices.Contains(k.Zeroed[:i], name) {
			return fmt.Errorf("field Zeroed has %q: want names of outputs, each only once", clip(name))
		}
	}
	total := 1
	for _, w := range k.Workgroup {
		if w < 1 || w > 1024 || total*w > 1024 {
			return fmt.Errorf("field Workgroup is %v: want 1 to 1024 in each dimension, and at most 1024 invocations "+
				"in all", k.Workgroup)
		}
		total *= w
	}
	for i, rules := range k.Grid {
		for _, r := range rules {
			known := slices.Contains(k.Outputs, r.Of) ||
				slices.ContainsFunc(c.Args, func(a ArgInfo) bool { return a.Name == r.Of })
			if !known || r.Tile < 1 || r.Tile > 1<<30 || len(rules) > 8 {
				return fmt.Errorf("field Grid, dimension %d, has rule %+v: want at most 8 rules, each with the name "+
					"of an argument or output and a tile of at least 1", i, r)
			}
		}
	}
	switch {
	case k.SPIRV != nil && (k.Body != "" || k.Shared != ""):
		return errors.New("field SPIRV is set, and so is Body or Shared: set SPIRV alone, or leave it out")
	case k.SPIRV != nil:
		return k.checkModule(c)
	case len(k.Constants) > 0:
		return errors.New("field Constants is for SPIRV: in a Body use extents and attributes by their names")
	case k.Body == "":
		return errors.New("neither field Body nor SPIRV of the kernel is set: set one of them")
	}
	return errors.Join(checkCustomText("Body", k.Body), checkCustomText("Shared", k.Shared))
}

// checkModule checks the size of the SPIR-V module and its specialization constants. The compiler validates the code
// itself: package ir does not parse SPIR-V.
func (k *CustomKernel) checkModule(c *CustomOp) error {
	if n := len(k.SPIRV); n == 0 || n > maxCustomSPV {
		return fmt.Errorf("field SPIRV has %d bytes, want 1 to %d", n, maxCustomSPV)
	}
	if most := maxCustomArgs * (MaxRank + 2); len(k.Constants) > most {
		return fmt.Errorf("field Constants has %d names, want at most %d", len(k.Constants), most)
	}
	for i, name := range k.Constants {
		isAttr := slices.ContainsFunc(c.Attrs, func(a AttrInfo) bool { return a.Name == name })
		if !isAttr && !k.hasExtent(c, name) {
			return fmt.Errorf("field Constants has %q at index %d: want NAME_size or NAME_dim0, NAME_dim1, … of an "+
				"argument or output, or an attribute", clip(name), i)
		}
	}
	return nil
}

// hasExtent reports whether a name is NAME_size, NAME_dim0, NAME_dim1, … of an argument or output.
func (k *CustomKernel) hasExtent(c *CustomOp, name string) bool {
	tensor, axis, ok := strings.Cut(name, "_dim")
	if ok {
		n, err := strconv.ParseUint(axis, 10, 8)
		ok = err == nil && n < MaxRank
	} else {
		tensor, ok = strings.CutSuffix(name, "_size")
	}
	return ok && (slices.Contains(k.Outputs, tensor) ||
		slices.ContainsFunc(c.Args, func(a ArgInfo) bool { return a.Name == tensor }))
}

// maxSharedBytes bounds the shared memory of a kernel. Devices have less.
const maxSharedBytes = 1 << 20

// checkCustomText reports source that could break the code around it: unbalanced brackets and comments, and
// preprocessor lines.
func checkCustomText(what, text string) error {
	if len(text) > maxCustomText {
		return fmt.Errorf("field %s has %d bytes, want at most %d", what, len(text), maxCustomText)
	}
	forbidden := func(r rune) bool { return r == '\\' || r < ' ' && r != '\n' && r != '\t' }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, forbidden) {
		return fmt.Errorf("field %s: want UTF-8 without backslashes, and without control characters other than line "+
			"ends and tabs", what)
	}
	if err := checkCustomBrackets(what, text); err != nil {
		return err
	}
	if what == "Expr" && strings.Contains(text, "//") {
		return fmt.Errorf("%s line %d: a comment to the end of the line would hide code after the expression: write "+
			"/* … */", what, 1+strings.Count(text, "\n"))
	}
	return nil
}

// closers maps an opening bracket to its closing bracket.
var closers = map[byte]byte{'(': ')', '[': ']', '{': '}'}

// checkCustomBrackets reports brackets and comments that are not balanced, and preprocessor lines.
func checkCustomBrackets(what, text string) error {
	var open []byte // brackets that are not closed yet
	line := 1
	at := func(format string, args ...any) error {
		return fmt.Errorf("%s line %d: %s", what, line, fmt.Sprintf(format, args...))
	}
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case b == '\n':
			line++
		case strings.HasPrefix(text[i:], "//"):
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case strings.HasPrefix(text[i:], "/*"):
			end := strings.Index(text[i+2:], "*/")
			if end < 0 {
				return at("the comment has no end: close it with */")
			}
			line += strings.Count(text[i:i+2+end], "\n")
			i += end + 3 // to the last byte of the comment
		case b == '#':
			return at("preprocessor lines are not allowed: vkc writes #version, and the #extension lines for Needs")
		case closers[b] != 0:
			open = append(open, b)
		case b == ')' || b == ']' || b == '}':
			if len(open) == 0 || closers[open[len(open)-1]] != b {
				return at("%q closes nothing: remove it, or open the bracket before", b)
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		return at("%q is not closed: close it", open[len(open)-1])
	}
	return nil
}

// identifiers lists the identifiers and numbers in GLSL source.
func identifiers(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool {
		return !(r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	})
}

// Mentions reports whether the kernel's source or list of constants has that identifier.
func (k *CustomKernel) Mentions(word string) bool {
	return slices.Contains(identifiers(k.Body), word) || slices.Contains(identifiers(k.Shared), word) ||
		slices.Contains(k.Constants, word)
}
