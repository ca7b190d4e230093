package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// onDriver creates the pipeline of each shader on the best device of this machine, and calls visit with it. It first
// compiles the program for this device, unless the program comes from a bundle. Each shader is visited once, with the
// number and the step of the first kernel that uses it. capture says which facts the driver reports.
func (d *dumper) onDriver(capture vk.Capture, visit func(i int, st kernel.Step, p *vk.Pipeline) error) (err error) {
	dev, err := vkc.OpenDevice("vulkan")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	d.note("device %s, driver %s %s", dev.Why(), dev.Caps().DriverName, dev.Caps().DriverInfo)
	if d.program == nil {
		caps, tuning, err := d.targetCaps("auto", &d.flags.tuning)
		if err != nil {
			return err
		}
		if d.program, err = vkc.Compile(d.ctx, d.graph, vkc.CompileOptions{Target: caps, Tuning: tuning}); err != nil {
			return err
		}
	}
	c := d.program.Contents
	list, err := d.selectedKernels(len(c.Program.Steps))
	if err != nil {
		return err
	}
	seen := map[int]bool{}
	for _, i := range list {
		for _, st := range c.Program.Steps[i].Kernels() {
			if seen[st.Shader] {
				continue
			}
			seen[st.Shader] = true
			desc := vk.Of(dev).DescribeShader(c.Program.Shaders[st.Shader], c.SPIRV[st.Shader])
			desc.Capture = capture
			p, err := vk.Of(dev).NewPipeline(desc)
			if err != nil {
				return err
			}
			err = visit(i, st, p)
			if err = errors.Join(err, p.Close()); err != nil {
				return err
			}
		}
	}
	return nil
}

// stats prints the driver's statistics of each kernel, such as registers and spills.
func (d *dumper) stats() error {
	var costs []runtime.KernelCost
	var steps []kernel.Step
	err := d.onDriver(vk.CaptureStatistics, func(_ int, st kernel.Step, p *vk.Pipeline) error {
		cost, err := p.Cost()
		costs, steps = append(costs, cost), append(steps, st)
		return err
	})
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(d.stdout, 0, 0, 2, ' ', 0)
	for _, item := range runtime.CostItems() {
		fmt.Fprintf(w, "%s\t", item.Short())
	}
	fmt.Fprintln(w, "kernel\tschedule")
	for i, cost := range costs {
		for _, item := range runtime.CostItems() {
			fmt.Fprintf(w, "%s\t", cmp.Or(cost.Text(item), "-"))
		}
		fmt.Fprintf(w, "%s\t%s\n", steps[i].Name, steps[i].Schedule)
	}
	return w.Flush()
}

// isa prints the machine code that the driver made of each kernel.
func (d *dumper) isa() error {
	return d.onDriver(vk.CaptureRepresentations, func(i int, st kernel.Step, p *vk.Pipeline) error {
		list, err := p.Representations()
		if err != nil {
			return err
		}
		var names []string
		found := false
		for _, r := range list {
			names = append(names, r.Name)
			// Drivers call the machine code Assembly, IR3 Assembly or NAK assembly. Earlier representations have other
			// names.
			if r.IsText && strings.HasSuffix(strings.ToLower(r.Name), "assembly") {
				found = true
				fmt.Fprintf(d.stdout, "; kernel %d %s: %s\n; %s\n%s\n", i, st.Name, st.Schedule, r.Name,
					strings.TrimRight(string(r.Data), "\x00\n"))
			}
		}
		if !found {
			return fmt.Errorf("the driver reports no machine code of kernel %d; it reports: %s", i,
				cmp.Or(strings.Join(names, ", "), "nothing"))
		}
		return nil
	})
}
