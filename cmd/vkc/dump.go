package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/passes/layout"
	"github.com/vkc-go/vkc/passes/lower"
	"github.com/vkc-go/vkc/runtime/multi"
)

// The stages of vkc dump, in the order of compilation.
const (
	stageGraph   = "graph"
	stagePasses  = "passes"
	stageKernels = "kernels"
	stagePlan    = "plan"
	stageGLSL    = "glsl"
	stageSPIRV   = "spirv"
)

var stages = []string{stageGraph, stagePasses, stageKernels, stagePlan, stageGLSL, stageSPIRV}

type dumpFlags struct {
	stage, after, target string
	graph                graphFlags
	all                  bool
	fusion, decisions    bool
	stats, isa           bool
	kernel, split        int
	tuning               tuningFlags
}

// dumpCommand declares the command vkc dump and its flags.
func (a *app) dumpCommand() *cobra.Command {
	f := dumpFlags{kernel: -1}
	cmd := &cobra.Command{
		Use:   "dump GRAPH|MODEL.gguf|MODEL.onnx|BUNDLE.vkb",
		Short: "Print a program at any stage of its compilation",
		Long: `Print a program at any stage of its compilation:

  graph    the graph as text IR
  passes   the changes of each pass; --after PASS prints the program after one pass, --all after every pass
  kernels  the fused kernels, before any decision that depends on the device
  plan     buffers, barriers and steps
  glsl     the shaders
  spirv    the compiled shaders, as SPIR-V assembly

A bundle contains its graph, plan, GLSL and SPIR-V. vkc dump computes the other stages from its graph.

--stats and --isa compile the kernels with the driver of the best device here. They print the driver's statistics or
machine code of each kernel, if the driver reports them (VK_KHR_pipeline_executable_properties):

  regs     32-bit registers per invocation
  spills   registers that spill to memory, or instructions that move them
  scratch  memory for spills and for indexed arrays, in bytes
  shared   shared memory of a workgroup, in bytes
  occ      resident subgroups per scheduler (AMD) or per core
  code     machine code in bytes
  instrs   machine instructions
  latency  the driver's estimate of the cycles from a subgroup's start to its end
  cycles   the driver's estimate of the cycles that a subgroup keeps the core busy`,
		Example: `  vkc dump GRAPH.json
  vkc dump GRAPH.json --after fuse_elementwise
  vkc dump GRAPH.json --fusion
  vkc dump GRAPH.json --decisions --target nvidia-h100
  vkc dump GRAPH.json --stage glsl --kernel 3 --target nvidia-h100
  vkc dump MODEL.gguf --step --split 2 --target nvidia-h100
  vkc dump GRAPH.json --stats
  vkc dump BUNDLE.vkb --stage plan`,
		Args: exactArgs("GRAPH or BUNDLE.vkb"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.complete(cmd.Flags().Changed("stage"), cmd.Flags().Changed("target")); err != nil {
				return err
			}
			return a.dump(cmd.Context(), args[0], &f)
		},
	}
	f.add(cmd)
	return cmd
}

// add declares the flags of vkc dump.
func (f *dumpFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.stage, "stage", stageGraph, strings.Join(stages, ", "))
	flags.StringVar(&f.after, "after", "", "the program after this `PASS`")
	flags.BoolVar(&f.all, "all", false, "print the program after every pass")
	flags.IntVar(&f.kernel, "kernel", noKernel, "only kernel `N`, counted from 0; without --stage it means --stage "+
		"glsl")
	flags.BoolVar(&f.fusion, "fusion", false, "print which node became part of which kernel, and why")
	flags.BoolVar(&f.decisions, "decisions", false,
		"print the other kernels that rules proposed for the device, their estimated gains, and the choices")
	flags.IntVar(&f.split, "split", 0,
		"estimate the time of a run for each way to split the program over `N` such devices; --split auto uses the "+
			"fastest; 0 means no estimate")
	flags.BoolVar(&f.stats, "stats", false, "print the driver's statistics of each kernel, such as registers and "+
		"spills, on the best device")
	flags.BoolVar(&f.isa, "isa", false, "print the machine code of each kernel on the best device")
	flags.StringVar(&f.target, "target", anyTarget, targetHelp())
	f.graph.add(cmd)
	f.tuning.addWithFile(cmd)
}

// noKernel is the default of --kernel.
const noKernel = -1

// complete sets the stage that other flags imply, and rejects combinations of flags that make no sense. staged and
// targeted report whether --stage and --target are given.
func (f *dumpFlags) complete(staged, targeted bool) error {
	switch {
	case staged:
	case f.after != "" || f.all:
		f.stage = stagePasses
	case f.kernel >= 0 && !f.stats && !f.isa:
		f.stage = stageGLSL
	}
	if err := oneOf("stage", f.stage, stages); err != nil {
		return err
	}
	ofStages := staged || f.after != "" || f.all // whether the output is a stage, not a report
	switch {
	case f.kernel < noKernel:
		return usagef("--kernel %d: want 0 or more: kernels are counted from 0", f.kernel)
	case (f.after != "" || f.all) && f.stage != stagePasses:
		return usagef("--after and --all go with --stage passes, not %s", f.stage)
	case f.after != "" && f.all:
		return usagef("--after and --all exclude each other")
	case (f.fusion || f.decisions) && (ofStages || f.kernel >= 0 || f.fusion && f.decisions):
		return usagef("--fusion and --decisions are reports of their own: give one of them, without other choices of " +
			"output")
	case f.split != 0 && (ofStages || f.kernel >= 0 || f.fusion || f.decisions || f.stats || f.isa):
		return usagef("--split is a report of its own: give it without other choices of output")
	case f.split < 0 || f.split == 1 || f.split > maxSplit:
		return usagef("--split %d: want 2 to %d devices", f.split, maxSplit)
	case (f.stats || f.isa) && (ofStages || targeted || f.fusion || f.decisions || f.stats && f.isa):
		return usagef("--stats and --isa are reports of the driver: each goes with --kernel and --no-tuning only")
	case f.stats || f.isa: // --kernel selects a kernel of these reports
	case f.kernel >= 0 && (f.stage == stageGraph || f.stage == stagePasses):
		return usagef("--kernel goes with the stages kernels, plan, glsl and spirv, not %s", f.stage)
	}
	return nil
}

// dump runs vkc dump: it reads the graph or bundle and prints the stage or report that the flags select.
func (a *app) dump(ctx context.Context, path string, f *dumpFlags) error {
	isBundle, err := filefmt.IsBundle(path)
	if err != nil {
		return err
	}
	if !strings.EqualFold(f.target, "auto") { // "auto" is resolved later, by the stages that need a device
		if _, _, err := a.targetCaps(f.target, &f.tuning); err != nil {
			return err
		}
	}
	d := dumper{app: a, ctx: ctx, flags: f}
	if isBundle {
		if err = f.graph.forBundle(); err != nil {
			return err
		}
		if d.program, err = vkc.OpenBundle(path); err != nil {
			return err
		}
		defer d.program.Close()
		d.graph = d.program.Contents.Graph // the other reports compile it again
	} else if d.graph, err = f.graph.read(path); err != nil {
		return err
	}
	switch {
	case f.fusion:
		return d.fusion()
	case f.decisions:
		return d.decisions()
	case f.split > 0:
		return d.split()
	case f.stats:
		return d.stats()
	case f.isa:
		return d.isa()
	}
	switch f.stage {
	case stagePasses:
		return d.passes()
	case stageKernels:
		return d.kernels()
	case stagePlan:
		return d.plan()
	case stageGLSL:
		return d.glsl()
	case stageSPIRV:
		return d.spirv()
	}
	_, err = fmt.Fprint(a.stdout, d.graph)
	return err
}

// dumper prints one program. Each method prints one stage or report.
type dumper struct {
	*app
	ctx     context.Context
	flags   *dumpFlags
	graph   *ir.Graph
	program *vkc.Program // nil if only the graph is given
}

// passes prints the effect of each pass: its name, time and purpose. With --all it also prints the program after each
// pass, and with --after only the program after that one.
func (d *dumper) passes() error {
	if d.flags.after != "" {
		var names []string
		for _, p := range passes.Passes() {
			names = append(names, p.Name)
		}
		if err := oneOf("after", d.flags.after, names); err != nil {
			return err
		}
	}
	why := map[string]string{}
	for _, p := range passes.Passes() {
		why[p.Name] = p.Why
	}
	_, err := passes.Run(d.graph, passes.Options{Context: d.ctx, Until: d.flags.after,
		Observe: func(e passes.Event) error {
			if d.flags.after != "" {
				if e.Pass != d.flags.after {
					return nil
				}
				_, err := fmt.Fprint(d.stdout, e.Text)
				return err
			}
			changed := ""
			if !e.Changed {
				changed = " (unchanged)"
			}
			fmt.Fprintf(d.stdout, "; %s%s, %v: %s\n", e.Pass, changed, e.Elapsed.Round(time.Microsecond), why[e.Pass])
			if d.flags.all && e.Changed {
				fmt.Fprintf(d.stdout, "%s\n", e.Text)
			}
			return nil
		}})
	return err
}

// fusion prints the kernels with the nodes that each stores, and the fusion decision about every node.
func (d *dumper) fusion() error {
	s, err := passes.Run(d.graph, passes.Options{Context: d.ctx})
	if err != nil {
		return err
	}
	text := fusionText(s.Fusion)
	if len(s.Refused) > 0 {
		text += "\ndecomposed ops (with their numbers in the original graph)\n"
	}
	for _, line := range s.Refused {
		text += fmt.Sprintf("  %s\n", line)
	}
	_, err = fmt.Fprint(d.stdout, text)
	return err
}

// fusionText lists the kernels of a graph and the fusion decisions. Kernels of loop bodies are indented.
func fusionText(f *lower.Fusion) string {
	var b strings.Builder
	live, computed := f.Graph.Live(), 0
	for _, n := range f.Graph.Nodes() {
		if live[n.ID()] && n.Op().Class() != ir.ClassLeaf {
			computed++
		}
	}
	fmt.Fprintf(&b, "%d computed nodes in %s\n", computed, plural(len(f.Clusters), "kernel"))
	for _, c := range f.Clusters {
		fmt.Fprintf(&b, "\nk%d %s\n", c.ID, c.Kind)
		for _, n := range c.Cores {
			fmt.Fprintf(&b, "  core    %s\n", ir.FormatNode(n))
		}
		for _, n := range c.Stored {
			fmt.Fprintf(&b, "  stores  %s\n", ir.FormatNode(n))
		}
		if c.Body != nil {
			body := strings.ReplaceAll(strings.TrimSuffix(fusionText(c.Body), "\n"), "\n", "\n    ")
			fmt.Fprintf(&b, "  body    %s\n", strings.ReplaceAll(body, "\n    \n", "\n\n"))
		}
	}
	fmt.Fprintln(&b, "\ndecisions")
	for _, n := range f.Graph.Nodes() {
		if why := f.Why(n); why != "" && live[n.ID()] {
			fmt.Fprintf(&b, "  %s = %s: %s\n", n, n.Op(), why)
		}
	}
	return b.String()
}

// decisions prints the proposals of the tuning rules for the device with their estimated times, and says which were
// taken.
func (d *dumper) decisions() error {
	low, err := d.lower()
	if err != nil {
		return err
	}
	if len(low.Decisions) == 0 {
		_, err := fmt.Fprintln(d.stdout, "no rule proposes other kernels for this graph; --stage glsl prints the "+
			"kernels, and --fusion the reasons")
		return err
	}
	w := tabwriter.NewWriter(d.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "rule\tkernel\tof\tproposal\tbefore\tafter\tgain\tchoice")
	micros := func(ns float64) string { return fmt.Sprintf("%.1f us", ns/1e3) }
	for _, p := range low.Decisions {
		before, after, gain, choice := "", "", "", "left"
		if p.Before > 0 {
			before, after, gain = micros(p.Before), micros(p.After), micros(p.Before-p.After)
		}
		if p.Taken {
			choice = "taken"
		}
		if p.Note != "" {
			choice += ": " + p.Note
		} else if !p.Taken && p.Before > p.After && p.Gain() <= 0 {
			choice += fmt.Sprintf(": less than %.2f times as fast", p.Margin)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Rule, p.Kernel, firstAndCount(p.Of), p.What, before, after,
			gain, choice)
	}
	return w.Flush()
}

// firstAndCount returns the first name and the number of the others, such as "k3 and 2 others".
func firstAndCount(names []string) string {
	switch len(names) {
	case 0:
		return "-"
	case 1:
		return ir.Printable(names[0])
	}
	return fmt.Sprintf("%s and %s", ir.Printable(names[0]), plural(len(names)-1, "other"))
}

// maxSplit is the largest number of devices for --split.
const maxSplit = 64

// split prints the estimated time of each way to split the program over devices, and marks the cheapest.
func (d *dumper) split() error {
	caps, _, err := d.targetCaps(d.flags.target, &d.flags.tuning)
	if err != nil {
		return err
	}
	ways, err := multi.Prices(d.ctx, d.graph, slices.Repeat([]multi.Member{multi.Unused(caps)}, d.flags.split),
		compiler.Estimate)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(d.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "way\ta run\tchoice\tdetails")
	for _, p := range ways {
		took, choice, of := fmt.Sprintf("%.1f us", p.Nanos/1e3), "left", p.Of
		switch {
		case p.Err != nil:
			took, of = "", p.Err.Error()
		case p.Taken:
			choice = "taken"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.Strategy, took, choice, of)
	}
	return w.Flush()
}

// lower lowers the graph to GLSL, for the device that the bundle was made for or for --target.
func (d *dumper) lower() (*compiler.Lowered, error) {
	if d.program != nil && d.program.Contents.Meta.Target != nil {
		return compiler.Lower(d.ctx, d.graph, *d.program.Contents.Meta.Target, nil)
	}
	caps, tuning, err := d.targetCaps(d.flags.target, &d.flags.tuning)
	if err != nil {
		return nil, err
	}
	return compiler.Lower(d.ctx, d.graph, caps, tuning)
}

// selectedKernels returns the numbers of the kernels to print: all n, or the one of --kernel.
func (d *dumper) selectedKernels(n int) ([]int, error) {
	if k := d.flags.kernel; k >= n {
		return nil, usagef("--kernel %d: the program has %d kernels, counted from 0: want a smaller number", k, n)
	} else if k >= 0 {
		return []int{k}, nil
	}
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all, nil
}

// kernels prints the fused kernels before scheduling.
func (d *dumper) kernels() error {
	s, err := passes.Run(d.graph, passes.Options{Context: d.ctx})
	if err != nil {
		return err
	}
	list, err := d.selectedKernels(len(s.Kernels))
	if err != nil {
		return err
	}
	for _, i := range list {
		fmt.Fprintf(d.stdout, "; kernel %d: %s\n%s", i, bindingsLine(s.Program, i), s.Kernels[i])
	}
	return nil
}

// bindingsLine returns a line that lists the buffers bound to a step, by their names in the graph. The shader has
// generic names, because kernels of several layers share one GLSL source.
func bindingsLine(p *kernel.Program, step int) string {
	binds := p.Dispatches()[step].Binds
	parts := make([]string, len(binds))
	for n, bind := range binds {
		b := p.Buffers[bind.Buffer]
		names := []string{ir.Printable(b.Name)}
		if len(b.Segments) > 1 { // weights laid end to end
			names = nil
			for _, s := range b.Segments {
				names = append(names, ir.Printable(cmp.Or(s.Weight, "constant")))
			}
		}
		parts[n] = fmt.Sprintf("%d = %s", n, strings.Join(names, " + "))
	}
	return "bindings " + strings.Join(parts, ", ")
}

// lowered returns the program of the bundle, or else lowers the graph to GLSL. In the second case it also returns the
// reason for each kernel's schedule.
func (d *dumper) lowered() (p *kernel.Program, sources, reasons []string, err error) {
	if d.program != nil {
		c := d.program.Contents
		return c.Program, c.GLSL, nil, nil
	}
	low, err := d.lower()
	if err != nil {
		return nil, nil, nil, err
	}
	return low.Program, low.GLSL, low.Reasons, nil
}

// plan prints the buffers and steps, or one step with --kernel.
func (d *dumper) plan() error {
	p, _, _, err := d.lowered()
	if err != nil {
		return err
	}
	list, err := d.selectedKernels(len(p.Steps))
	if err != nil {
		return err
	}
	if d.flags.kernel >= 0 {
		return d.step(p, list[0])
	}
	layout.Print(d.stdout, p)
	return nil
}

// step prints one step and the buffers bound to it.
func (d *dumper) step(p *kernel.Program, i int) error {
	st := p.Steps[i]
	fmt.Fprintf(d.stdout, "step %d %s ; %s ; %s\n", i, st.Name, strings.Join(st.Ops, ", "), st.Schedule)
	for _, a := range st.Alternatives {
		fmt.Fprintf(d.stdout, "  for %s <= %d ; %s\n", a.Symbol.Name, a.Symbol.Bound, a.Schedule)
	}
	for n, bind := range st.Binds {
		mode := "read"
		switch {
		case bind.Read && bind.Write:
			mode = "read, write"
		case bind.Write:
			mode = "write"
		}
		b := p.Buffers[bind.Buffer]
		fmt.Fprintf(d.stdout, "  binding %d: buffer %d %s %s : %s, %s\n", n, bind.Buffer, b.Kind, ir.Printable(b.Name),
			ir.Type{DType: b.DType, Shape: b.Shape}, mode)
	}
	return nil
}

// glsl prints the shader sources.
func (d *dumper) glsl() error {
	p, sources, reasons, err := d.lowered()
	if err != nil {
		return err
	}
	if sources == nil {
		return errors.New("the bundle was written without GLSL: --stage spirv prints its SPIR-V")
	}
	return d.shaders(p, reasons, func(i int) (string, error) { return sources[i], nil })
}

// spirv disassembles the shaders. It compiles a graph first; a bundle has its SPIR-V.
func (d *dumper) spirv() error {
	ctx := d.ctx
	if d.program == nil {
		caps, tuning, err := d.targetCaps(d.flags.target, &d.flags.tuning)
		if err != nil {
			return err
		}
		if d.program, err = vkc.Compile(ctx, d.graph, vkc.CompileOptions{Target: caps, Tuning: tuning}); err != nil {
			return err
		}
	}
	root, _ := cachefile.Root() // without a cache directory the tools are queried again
	tools, err := spirv.Find(ctx, spirv.FindOptions{CacheDir: root})
	if err != nil {
		return err
	}
	c := d.program.Contents
	return d.shaders(c.Program, nil, func(i int) (string, error) { return tools.Disassemble(ctx, c.SPIRV[i]) })
}

// shaders prints the source of each shader once, under a heading that lists the kernels sharing it. text returns the
// source of a shader.
func (d *dumper) shaders(p *kernel.Program, reasons []string, text func(shader int) (string, error)) error {
	list, err := d.selectedKernels(len(p.Steps))
	if err != nil {
		return err
	}
	printed := map[int]string{} // by shader: the words that refer to it under later headings
	// show prints the shader of a dispatch, or refers to it if it was printed. Dispatches of persistent kernels are
	// counted after the steps.
	show := func(heading, reference string, shader, dispatch int) error {
		bindings := bindingsLine(p, dispatch)
		if earlier, ok := printed[shader]; ok {
			fmt.Fprintf(d.stdout, "// %s; %s\n// %s\n\n", heading, earlier, bindings)
			return nil
		}
		printed[shader] = reference
		source, err := text(shader)
		if err == nil {
			fmt.Fprintf(d.stdout, "// %s\n// %s\n%s\n", heading, bindings, source)
		}
		return err
	}
	for _, i := range list {
		st := p.Steps[i]
		heading := fmt.Sprintf("kernel %d %s: %s", i, st.Name, st.Schedule)
		if reasons != nil && !strings.HasSuffix(heading, reasons[i]) {
			heading += "; " + reasons[i]
		}
		if err := show(heading, fmt.Sprintf("the shader of kernel %d", i), st.Shader, i); err != nil {
			return fmt.Errorf("kernel %d: %w", i, err)
		}
		for _, a := range st.Alternatives {
			few := fmt.Sprintf("kernel %d %s for %s <= %d", i, st.Name, a.Symbol.Name, a.Symbol.Bound)
			if err := show(few+": "+a.Schedule, "the shader of "+few, a.Shader, i); err != nil {
				return fmt.Errorf("%s: %w", few, err)
			}
		}
	}
	if d.flags.kernel >= 0 {
		return nil
	}
	for n, k := range p.Persistent {
		heading := fmt.Sprintf("kernels %d to %d in one dispatch: %s", k.First, k.First+k.Count-1, k.Dispatch.Schedule)
		reference := fmt.Sprintf("the shader that begins with kernel %d", k.First)
		if err := show(heading, reference, k.Dispatch.Shader, len(p.Steps)+n); err != nil {
			return fmt.Errorf("%s: %w", k.Dispatch.Name, err)
		}
	}
	return nil
}
