package layout

import (
	"fmt"
	"io"
	"strings"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Print writes a program's buffers and steps for people.
func Print(w io.Writer, p *kernel.Program) {
	once := ""
	if p.Prepared > 0 {
		once = fmt.Sprintf(", %d of them once when it is loaded", p.Prepared)
	}
	fmt.Fprintf(w, "%s: %d kernels%s, %d barriers, arena %d bytes (%d without sharing)\n",
		ir.Titled("program", p.Name), len(p.Steps), once, countBarriers(p), p.ArenaBytes, p.TempBytes)
	for i, b := range p.Buffers {
		printBuffer(w, i, b)
	}
	for i := range p.Steps {
		printStep(w, p, i)
	}
}

// printBuffer writes a line for a buffer: its kind, name, type, size, and offset in the arena.
func printBuffer(w io.Writer, number int, b kernel.Buffer) {
	fmt.Fprintf(w, "  buffer %d %s %s : %s, %d bytes", number, b.Kind, ir.Printable(b.Name),
		ir.Type{DType: b.DType, Shape: b.Shape}, b.Bytes)
	if b.Kind == kernel.BufTemp {
		fmt.Fprintf(w, " at %d", b.Offset)
	}
	if b.Layout != kernel.LayoutBlocks {
		fmt.Fprintf(w, " in %s", b.Layout)
	}
	fmt.Fprintln(w)
}

// printStep writes a step. Before it come the barrier, and the headings of regions and persistent kernels that begin
// with this step.
func printStep(w io.Writer, p *kernel.Program, number int) {
	st := p.Steps[number]
	switch {
	case p.Prepared > 0 && number == 0:
		fmt.Fprintln(w, "  once, when loaded")
	case p.Prepared > 0 && number == p.Prepared:
		fmt.Fprintln(w, "  every run")
	case st.Barrier:
		fmt.Fprintln(w, "  barrier")
	}
	for _, r := range p.Regions {
		if r.First != number {
			continue
		}
		gate := ""
		if r.Gated {
			gate = ", as long as its first step says so"
		}
		fmt.Fprintf(w, "  %s times%s: steps %d to %d\n", r.Trips, gate, r.First, r.First+r.Count-1)
	}
	for _, k := range p.Persistent {
		if k.First == number {
			fmt.Fprintf(w, "  %s: steps %d to %d [%s] ; %s\n", k.Dispatch.Name, number, number+k.Count-1,
				binds(k.Dispatch), k.Dispatch.Schedule)
		}
	}
	fmt.Fprintf(w, "  step %d %s [%s] ; %s", number, st.Name, binds(st), strings.Join(st.Ops, ", "))
	if st.Schedule != "" {
		fmt.Fprintf(w, " ; %s", st.Schedule)
	}
	fmt.Fprintln(w)
	for _, a := range st.Alternatives {
		fmt.Fprintf(w, "    for %s <= %d ; %s\n", a.Symbol.Name, a.Symbol.Bound, a.Schedule)
	}
}

// binds formats the buffers that a step reads and writes, such as "r0 r3 w5 rw7".
func binds(st kernel.Step) string {
	var list []string
	for _, b := range st.Binds {
		mode := "r"
		if b.Write {
			mode = "w"
			if b.Read {
				mode = "rw"
			}
		}
		list = append(list, fmt.Sprintf("%s%d", mode, b.Buffer))
	}
	return strings.Join(list, " ")
}

// countBarriers returns the number of steps with a barrier before them.
func countBarriers(p *kernel.Program) int {
	n := 0
	for _, st := range p.Steps {
		if st.Barrier {
			n++
		}
	}
	return n
}
