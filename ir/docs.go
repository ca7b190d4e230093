package ir

import (
	"fmt"
	"regexp"
	"strings"
)

//go:generate go run ../internal/gendocs -o ../docs/OPS.md

// classDocs describe how the ops of each class run, in table order.
var classDocs = []struct {
	class Class
	title string
	doc   string
}{
	{ClassLeaf, "Leaves", "Values that come from outside the computation. They take no arguments."},
	{ClassElementwise, "Elementwise", "Each element of the result depends on the argument elements at the same coordinates. Arguments broadcast as in NumPy: aligned at the innermost axis, extents equal or 1. All arguments have one dtype unless the row says otherwise. Elementwise ops fuse with any op. Floats narrower than f32 are computed in f32 and rounded once."},
	{ClassView, "Views", "The same elements under other coordinates. A view is an index map that its consumers apply; it is never a kernel of its own."},
	{ClassReduce, "Reductions", "Fold axes away. Floats accumulate in f32 (f64 in f64)."},
	{ClassScan, "Scans and sorts", "Along one axis, in the order of its elements. Sorts are stable. They treat -0 and 0 as equal, and NaN as larger than any number."},
	{ClassRow, "Row ops", "Normalize or rotate along one axis, reading each row once."},
	{ClassContraction, "Contractions", "Matmuls, accumulated in f32."},
	{ClassWindow, "Windows", "Each result element comes from a window of the argument: convolutions, pooling and resizing. Batch and channels are the outermost axes. Windows move over the innermost axes."},
	{ClassIndexing, "Indexing", "These ops move elements by computed or stored indices, which count from 0. For an index out of range, ops that read take the nearest element (the first one for a negative index), and ops that write skip the update. No run fails because of an index."},
	{ClassAttention, "Attention", "Fused attention."},
	{ClassRecurrent, "Recurrences", "These ops compute a sequence in the order of its time steps, with a state of constant size. Attribute `of` selects the result: y has a row for each time step, and state is the state after the last time step. That state is an argument of the next call, so a sequence may be computed in parts of any lengths. Sums are accumulated in f32 (f64 in f64). An infinity or a NaN may make all later results of its head NaN, and up to 127 earlier ones, because devices may compute 128 time steps together."},
	{ClassRandom, "Random numbers", "The generator is the counter-based Philox-4x32 with 10 rounds (Salmon et al. 2011). Its numbers are the same on every device, and depend only on seed, offset and the element's number. seed and offset are u32 or i64 scalars, read as 64-bit words. They may also be tensors with the result's first axes: then each of their elements has a stream for the elements along the other axes. Element i of a stream, in row-major order, is word i mod 4 of a block. The block's counter is (lo(b), hi(b), 0, 0) with b = offset + floor(i/4) modulo 2^64, and its key is (lo(seed), hi(seed)). lo and hi are the halves of 32 bits. A stream of n elements takes ceil(n/4) blocks, so the next one with that seed starts at offset + ceil(n/4)."},
	{ClassLinear, "Fourier transforms and linear algebra", "These ops transform whole rows, or matrices in the two innermost axes. They do so for each element of the outer axes. There is no complex dtype. A complex number is an innermost axis of 2, with the real and the imaginary part. Sums are accumulated in f32 (f64 in f64). A NaN or an infinity may make all results of its row or matrix NaN or infinite."},
	{ClassComposite, "Composites", "Defined by their decomposition into the ops above."},
	{ClassControl, "Control flow", "An argument of these ops decides, on the device, which of two graphs runs, or how often a graph runs. Such a graph is called a body. It is an ordinary graph without weights: the op passes values to its inputs."},
}

// valuesDoc holds the guarantees of every op, of any class.
const valuesDoc = `
## Values

The result of an op always is a value of its dtype, even if another op in the same kernel reads it: in f16, 2 x 65504
is infinite. Devices compute floats narrower than f32 in f32, accumulate their sums in f32, and round the result once,
before another op reads it. A device may compute with less precision than the dtype only if an attribute
` + "`precision`" + ` allows it.

Each op rounds once. Two ops in one kernel give the same results as in two kernels. Neither vkc's compiler nor the
driver's turns (a+b)-b into a, turns a*b+a*c into a*(b+c), or contracts a*b+c into one rounding. add, sub, mul, sqr and
cast of floats give the nearest number of the dtype, ties to even. Some ops round inside: affine and lerp round the
result of a multiplication, and then a sum. Reductions, scans and contractions add in an order of their own, in 32 bits
or more, and may use fused multiply-adds.

Quotients (div and recip) of f32 have the op's tolerance, with one exception: a quotient is the nearest number if a
later op rounds it. Such ops are floor, ceil, round, trunc, mod, rem, and elementwise ops with a result that is an
integer, a bool, or a float of 8 bits. Elementwise ops, views, moves of elements, reduce_max and reduce_min may stand
between the two. So round(x/y) is the same integer on every device.

NaN and infinities are the same as in the reference, on every device, unless an op's line says otherwise. Three things
are not guaranteed: the sign of a zero, the treatment of denormals (a device may flush them to zero), and bits within
the op's tolerance. ` + "`vkc verify --ops`" + ` checks all of this on a device.
`

// gradientsDoc explains column gradient.
const gradientsDoc = `
## Gradients

` + "`frontend.Grad`" + ` computes gradients with respect to the float arguments of the ops with "yes" in column gradient. A
gradient does not pass through an op with "no", or through a value that is not a float. If equal elements compete, as in
max, they share the gradient. At other corners the gradient is a one-sided derivative, or 0.
`

// OpsMarkdown returns docs/OPS.md: every op by class, with its arguments, attributes and their defaults, supported
// dtypes, and whether it has a gradient.
func OpsMarkdown() string {
	var b strings.Builder
	b.WriteString("# Operations\n\n" +
		"<!-- Generated from the op table by `go generate ./ir`; edit the table, not this file. -->\n\n" +
		"An argument marked `?` may be omitted, together with all later ones. An argument marked `…` may be\n" +
		"repeated.\n" +
		"An attribute shown with `=` has that default and may be omitted. The others are required.\n" +
		"Axes count from 0; negative ones count from the end. [GRAPH-JSON.md](GRAPH-JSON.md) describes graph files.\n" +
		valuesDoc + gradientsDoc)
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

// opsOf returns the rows of a class, in table order.
func opsOf(class Class) []*OpInfo {
	var list []*OpInfo
	for _, op := range Ops() {
		if op.Class() == class {
			list = append(list, op.Info())
		}
	}
	return list
}

// writeOpTable writes the table of the ops of one class, and then the notes for cells that are too long.
func writeOpTable(b *strings.Builder, ops []*OpInfo) {
	leaf := ops[0].Class == ClassLeaf
	if leaf {
		b.WriteString("| op | meaning |\n|---|---|\n")
	} else {
		b.WriteString("| op | arguments | dtypes | gradient | meaning |\n|---|---|---|---|---|\n")
	}
	var more notes
	for _, in := range ops {
		meaning := more.cell("", in.Name, in.Doc)
		if leaf {
			fmt.Fprintf(b, "| `%s` | %s |\n", in.Name, meaning)
			continue
		}
		gradient := "yes"
		if in.NoGrad != "" {
			gradient = "no: " + in.NoGrad
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", in.Name, argsDoc(in), dtypesDoc(in), gradient, meaning)
	}
	more.write(b)
}

// argsDoc lists an op's arguments, marked as optional (?) or repeatable (…).
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

// dtypesDoc lists the dtypes that an op supports for its arguments, by calling its shape rule.
func dtypesDoc(in *OpInfo) string {
	var sets, names []string // consecutive arguments with the same set share an entry
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

// writeAttrTable writes the table of these ops' attributes, if there are any.
func writeAttrTable(b *strings.Builder, ops []*OpInfo) {
	var more notes
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
			meaning := more.cell("`"+a.Name+"` of ", in.Name, a.Doc)
			fmt.Fprintf(b, "| `%s` | `%s` | %s | %s |\n", in.Name, name, kind, meaning)
		}
	}
	more.write(b)
}

// writeDTypes writes the table of dtypes.
func writeDTypes(b *strings.Builder) {
	b.WriteString("\n## Data types\n\nBlock types store weights and states; the rows above that take `block` " +
		"compute with them.\n\nElements of a storage-only type are stored, moved and cast. Packed elements, of 2 " +
		"or 4 bits, follow one another in\nrow-major order, from the lowest bits of a byte up. A byte is a block " +
		"of them.\n\n" +
		"| dtype | kind | elements per block | bytes per block | GGUF number |\n|---|---|---|---|---|\n")
	for _, t := range DTypes() {
		number := "—"
		if n, ok := t.GGML(); ok {
			number = fmt.Sprint(n)
		}
		kind := t.Kind().String()
		if t.StorageOnly() {
			kind += ", storage-only"
		}
		fmt.Fprintf(b, "| `%s` | %s | %d | %d | %s |\n", t, kind, t.BlockElems(), t.BlockBytes(), number)
	}
}

// cellWords is the largest number of words in a table cell of a page.
const cellWords = 25

// notes collects the sentences that have no room in the cells of a table.
type notes []struct{ of, ops, text string }

// cell returns the words for a cell. If the documentation is too long for one, it returns the first sentence, and the
// others become a note below the table. Neighbouring ops with the same note share it. of names an attribute of the op,
// if any.
func (n *notes) cell(of, op, doc string) string {
	end := sentenceEnd.FindStringIndex(doc)
	if len(strings.Fields(doc)) <= cellWords || end == nil {
		return cell(doc)
	}
	// The match is the period, a space and the first letter of the next sentence.
	first, rest := doc[:end[0]+1], doc[end[1]-1:]
	if last := len(*n) - 1; last >= 0 && (*n)[last].of == of && (*n)[last].text == rest {
		(*n)[last].ops += ", `" + op + "`"
	} else {
		*n = append(*n, struct{ of, ops, text string }{of, "`" + op + "`", rest})
	}
	return cell(first)
}

// write writes the notes as a list.
func (n notes) write(b *strings.Builder) {
	for i, note := range n {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "- %s%s: %s\n", note.of, note.ops, cell(note.text))
	}
}

// sentenceEnd finds the end of a sentence and the beginning of the next one.
var sentenceEnd = regexp.MustCompile(`[.] [A-Za-z]`)

// cell makes text safe for a table cell.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;").Replace(s)
}
