package ir

import (
	"fmt"
	"strings"
)

//go:generate go run ../internal/gendocs -o ../docs/OPS.md

// classDocs say what an op's class means for how it runs, in table order.
var classDocs = []struct {
	class Class
	title string
	doc   string
}{
	{ClassLeaf, "Leaves", "Values that come from outside the computation. They take no arguments."},
	{ClassElementwise, "Elementwise", "One result element from the argument elements at the same coordinates. Arguments broadcast as in NumPy: aligned at the innermost axis, extents equal or 1. All arguments have one dtype unless the row says otherwise. Fuses with anything. Floats narrower than f32 are computed in f32 and rounded once."},
	{ClassView, "Views", "The same elements under other coordinates. A view is an index map that its consumers apply; it is never a kernel of its own."},
	{ClassReduce, "Reductions", "Fold axes away. Floats accumulate in f32 (f64 in f64)."},
	{ClassScan, "Scans and sorts", "Along one axis, where the order of the elements counts. Sorts are stable, take -0 and 0 as equal, and NaN as larger than any number."},
	{ClassRow, "Row ops", "Normalize or turn along one axis, reading each row once."},
	{ClassContraction, "Contractions", "Sums of products, accumulated in f32."},
	{ClassWindow, "Windows", "Each result element comes from a window of the argument around its place: convolutions, pooling and resizing. Batch and channels come first, the axes that windows go over last."},
	{ClassIndexing, "Indexing", "Move elements by computed or stored indices, which count from 0. What reads takes the nearest element for an index out of range, a negative one the first; what writes leaves it out. No run fails for an index."},
	{ClassAttention, "Attention", "Fused attention."},
	{ClassRandom, "Random numbers", "From the counter-based generator Philox-4x32 with 10 rounds (Salmon et al. 2011): the same on every device, a function of seed, offset and the element's number alone. seed and offset are scalars of u32 or i64, read as 64-bit words, or tensors of them whose axes are the first ones of the result: then each has a stream for the elements along the other axes. Element i of a stream, counted in row-major order, has word i mod 4 of the block with counter (lo(b), hi(b), 0, 0), b = offset + floor(i/4) modulo 2^64, and key (lo(seed), hi(seed)), where lo and hi are halves of 32 bits. A stream of n elements takes ceil(n/4) blocks: the next one with that seed starts at offset + ceil(n/4)."},
	{ClassComposite, "Composites", "Defined by their decomposition into the ops above."},
	{ClassControl, "Control flow", "Runs graphs of its own, called bodies, a branch or as often as a loop says. All of it stays on the device. A body is a graph like any other, but has no weights: it is given what it needs as values."},
}

// valuesDoc is what every op owes, whatever its class.
const valuesDoc = `
## Values

The value of an op is one of its dtype, range included, also to the ops that run in one kernel with it: twice
the f16 number 65504 is infinite. Devices compute floats narrower than f32 in f32, and sums of them, and
round the result once, before any other op reads it. Fewer digits than the dtype has are used only where an
attribute ` + "`precision`" + ` allows it.

Each op rounds by itself. Two ops in one kernel give what they give in two: no compiler, vkc's or the driver's, makes
(a+b)-b of a, a*(b+c) of a*b+a*c, or one rounding of a product and a sum. add, sub, mul, sqr and cast of floats give
the nearest number of the dtype, ties to even. What an op rounds inside is its own: affine and lerp round a product,
then a sum. A reduction, a scan or a contraction adds up in an order of its own, in 32 bits or more, and may round a
product and the sum that takes it in at once.

NaN and infinities come out as the reference says, on every device. Left open are the sign of a zero, whether
numbers below the smallest normal one are taken for zero, and how near a result is to the reference within the
op's tolerance. ` + "`vkc verify --ops`" + ` checks all of this on a device.
`

// gradientsDoc says what column gradient means.
const gradientsDoc = `
## Gradients

` + "`frontend.Grad`" + ` goes back through an op whose column gradient says yes, to those of its arguments that are
floats. Where equal elements compete, as in max, they share the gradient; at other corners it is that of one side, or 0.
An op that says no ends the way, as a value that is no float does.
`

// OpsMarkdown returns docs/OPS.md: every op by class, with its arguments,
// attributes and their defaults, the dtypes that it takes and whether it has a gradient.
func OpsMarkdown() string {
	var b strings.Builder
	b.WriteString("# Operations\n\n" +
		"<!-- Generated from the op table by `go generate ./ir`; edit the table, not this file. -->\n\n" +
		"An argument marked `?` may be left out, together with all after it; one marked `…` may be repeated.\n" +
		"An attribute shown with `=` has that default and may be left out; the others are required.\n" +
		"Axes count from 0; negative ones count from the end. How a graph file is written is in\n" +
		"[GRAPH-JSON.md](GRAPH-JSON.md).\n" + valuesDoc + gradientsDoc)
	for _, c := range classDocs {
		if ops := opsOf(c.class); len(ops) > 0 {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", c.title, c.doc)
			writeOpTable(&b, ops)
			writeAttrTable(&b, ops)
		}
	}
	writeDTypes(&b)
	return b.String()
}

func opsOf(class Class) []*OpInfo {
	var list []*OpInfo
	for _, op := range Ops() {
		if op.Class() == class {
			list = append(list, op.Info())
		}
	}
	return list
}

func writeOpTable(b *strings.Builder, ops []*OpInfo) {
	leaf := ops[0].Class == ClassLeaf
	if leaf {
		b.WriteString("| op | meaning |\n|---|---|\n")
	} else {
		b.WriteString("| op | arguments | dtypes | gradient | meaning |\n|---|---|---|---|---|\n")
	}
	for _, in := range ops {
		if leaf {
			fmt.Fprintf(b, "| `%s` | %s |\n", in.Name, cell(in.Doc))
			continue
		}
		gradient := "yes"
		if in.NoGrad != "" {
			gradient = "no: " + in.NoGrad
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", in.Name, argsDoc(in), dtypesDoc(in), gradient, cell(in.Doc))
	}
}

func argsDoc(in *OpInfo) string {
	names := make([]string, len(in.Args))
	for i, a := range in.Args {
		names[i] = a.Name
		switch {
		case a.Optional && a.Variadic:
			names[i] += "?…"
		case a.Optional:
			names[i] += "?"
		case a.Variadic:
			names[i] += "…"
		}
	}
	return "`" + strings.Join(names, ", ") + "`"
}

// dtypesDoc lists the dtypes that an op takes as its arguments, found by
// asking its shape rule.
func dtypesDoc(in *OpInfo) string {
	var sets, names []string // neighbours with one set share an entry
	for i, a := range in.Args {
		set := dtypeNames(acceptedDTypes(in, i))
		if last := len(sets) - 1; last >= 0 && sets[last] == set {
			names[last] += ", " + a.Name
			continue
		}
		sets, names = append(sets, set), append(names, a.Name)
	}
	if len(sets) == 1 {
		return sets[0]
	}
	for i := range sets {
		sets[i] = names[i] + ": " + sets[i]
	}
	return strings.Join(sets, "; ")
}

func writeAttrTable(b *strings.Builder, ops []*OpInfo) {
	head := "\n| op | attribute | type | meaning |\n|---|---|---|---|\n"
	for _, in := range ops {
		for _, a := range in.Attrs {
			b.WriteString(head)
			head = ""
			name := a.Name
			if a.Default != nil {
				name += "=" + FormatAttr(a.Default)
			}
			kind := a.Kind.String()
			if a.Enum != nil {
				kind = "`" + strings.Join(a.Enum, "`, `") + "`"
			}
			fmt.Fprintf(b, "| `%s` | `%s` | %s | %s |\n", in.Name, name, kind, cell(a.Doc))
		}
	}
}

func writeDTypes(b *strings.Builder) {
	b.WriteString("\n## Data types\n\nBlock types store weights and states; the rows above that take `block` " +
		"compute with them.\n\n" +
		"| dtype | kind | elements per block | bytes per block | GGUF number |\n|---|---|---|---|---|\n")
	for _, t := range DTypes() {
		number := "—"
		if n, ok := t.GGML(); ok {
			number = fmt.Sprint(n)
		}
		fmt.Fprintf(b, "| `%s` | %s | %d | %d | %s |\n", t, t.Kind(), t.BlockElems(), t.BlockBytes(), number)
	}
}

// cell makes text safe for a table cell.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;").Replace(s)
}
