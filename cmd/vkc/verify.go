package main

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	goruntime "runtime"
	"slices"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/internal/atomicfile"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/optest"
	"github.com/vkc-go/vkc/runtime"
)

type verifyFlags struct {
	device, filter, trusted string
	onnx, report            string
	except                  []string
	rtol, atol              float64
	tuning                  tuningFlags
	ops, quick, cases, json bool
}

// verifyInfo is the output of vkc verify --json.
type verifyInfo struct {
	Device  string           `json:"device"`
	Total   optest.Summary   `json:"total"`
	Ops     []optest.Summary `json:"ops"`
	Results []optest.Result  `json:"results"` // all cases with --cases, otherwise only the failed ones
}

// problemReport is the file of vkc verify --report, with everything needed to investigate a problem on a device.
type problemReport struct {
	Version versionInfo `json:"version"`
	Doctor  []finding   `json:"doctor"`
	Devices devicesInfo `json:"devices"`
	Verify  verifyInfo  `json:"verify"`
	// Failing has the programs of the first failed cases.
	Failing []failingProgram `json:"failing,omitempty"`
	Error   string           `json:"error,omitempty"` // the reason that there are no results
}

// failingProgram is the compiled program of a failed case.
type failingProgram struct {
	Case    string   `json:"case"`
	Graph   string   `json:"graph"`
	Kernels []string `json:"kernels,omitempty"` // with their schedules
	GLSL    []string `json:"glsl,omitempty"`    // by shader
	Error   string   `json:"error,omitempty"`   // why it has no kernels
}

// maxFailing limits the failing programs in a report.
const maxFailing = 20

// verifyCommand declares the command vkc verify and its flags.
func (a *app) verifyCommand() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify --ops | verify BUNDLE.vkb | verify --onnx DIR",
		Short: "Check the ops on a device against the CPU reference, a bundle against its graph, or ONNX models",
		Long: `Check the ops on a device, case by case, against the CPU reference: dtypes, ranks, shapes, views and
extreme values of every op. A pattern around every output reveals writes outside of it. vkc verify prints one line per
op: its cases, the numbers that passed, failed and were refused, and the worst error, both absolute and in units of the
op's tolerance (more than 1 is a failure). The reasons of refusals and each failure follow.

If a device cannot run a case, the case is refused and never counts as passed. The exit code is 1 if a case failed. To
report a problem, send the file that --report writes: it has the results, the programs that failed, vkc's version, the
findings of vkc doctor, and all properties of the devices. It is written even if the device cannot be opened.

With a bundle, vkc verify checks every checksum and the signature, if there is one. It runs spirv-val on the shaders,
compiles the bundle's graph again, and compares program, GLSL and SPIR-V. Other versions of the GLSL tools make
different SPIR-V from the same GLSL. In that case vkc verify does not compare the SPIR-V, and says so. The exit code is
1 unless the SPIR-V is the compiled graph, or the bundle is signed with one of --trusted-keys.

With a folder of ONNX models in the layout of ONNX's own tests (model.onnx, and next to it test_data_set_0 with
input_0.pb and output_0.pb), vkc verify runs each model and compares the outputs: |got-want| at most atol + rtol*|want|,
integers equal. It prints the cases that did not pass, with the reasons. The exit code is 1 if a case failed that
--except does not name.`,
		Example: `  vkc verify --ops
  vkc verify --ops --device 0 --filter '^matmul/'
  vkc verify --ops --quick --json
  vkc verify --ops --report report.json
  vkc verify BUNDLE.vkb --trusted-keys KEY.pem.pub
  vkc verify --onnx DIR --device cpu
  vkc verify --onnx DIR --except FILE --atol 1e-5`,
		Args: atLeastArgs(0, "BUNDLE.vkb"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.report != "" && (!f.ops || f.onnx != "") {
				return usagef("--report goes with --ops")
			}
			if f.onnx != "" {
				if len(args) > 0 {
					return usagef("--onnx goes without BUNDLE")
				}
				return a.verifyONNX(cmd.Context(), &f)
			}
			for _, name := range []string{"except", "rtol", "atol"} {
				if cmd.Flags().Changed(name) {
					return usagef("--%s goes with --onnx", name)
				}
			}
			if len(args) == 1 {
				return a.verifyBundle(cmd.Context(), args[0], &f)
			}
			return a.verify(cmd.Context(), &f)
		},
	}
	f.add(cmd)
	return cmd
}

// add declares the flags of vkc verify.
func (f *verifyFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.ops, "ops", false, "prove the ops")
	flags.StringVar(&f.onnx, "onnx", "", "run the models in `DIR` and in the folders below it")
	flags.StringArrayVar(&f.except, "except", nil, "with --onnx: `FILE` with cases that may fail: a name "+
		"and the reason on each line; may be repeated")
	flags.Float64Var(&f.rtol, "rtol", 1e-3, "with --onnx: the allowed relative difference; the default is that "+
		"of ONNX's own tests")
	flags.Float64Var(&f.atol, "atol", 1e-7, "with --onnx: the allowed absolute difference")
	addTrusted(cmd, &f.trusted)
	f.tuning.addWithFile(cmd)
	flags.StringVarP(&f.device, "device", "d", "vulkan",
		"vulkan (the best device), cpu (its fast path), reference, an index of vkc devices, or part of a name")
	flags.StringVar(&f.filter, "filter", "", "only cases with names that match `RE`, such as "+
		"add/f32/13x17/transposed; with --onnx, cases with matching folders")
	flags.StringVar(&f.report, "report", "", "with --ops: write the report of a problem to `FILE`, as JSON")
	flags.BoolVar(&f.quick, "quick", false, "only a few cases of each op")
	flags.BoolVar(&f.cases, "cases", false,
		"with --json or --report: include the cases that passed")
	flags.BoolVar(&f.json, "json", false, "print JSON")
}

// verify runs vkc verify --ops: it runs the op cases on the device, prints the results, and writes the report of
// --report.
func (a *app) verify(ctx context.Context, f *verifyFlags) (err error) {
	opt, err := f.options()
	if err != nil {
		return err
	}
	dev, err := openOne(f.device, "verify")
	if err != nil {
		return a.reportError(ctx, f.report, err)
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	a.note("device %s", dev.Why())
	report, err := a.runOpCases(ctx, dev, opt)
	if err != nil {
		return a.reportError(ctx, f.report, err)
	}
	if f.json {
		err = a.printJSON(verification(dev, report, f.cases))
	} else {
		err = report.WriteTable(a.stdout)
	}
	if err == nil && f.report != "" {
		err = a.writeReport(ctx, f.report, problemReport{Verify: verification(dev, report, f.cases),
			Failing: failing(ctx, dev, report)})
	}
	if err != nil {
		return err
	}
	return report.Err()
}

// failing returns the programs of the first cases that failed, for a report of the problem. It compiles them again,
// each alone.
func failing(ctx context.Context, dev *vkc.Device, report *optest.Report) (list []failingProgram) {
	cases := optest.Cases()
	for _, res := range report.Results {
		if res.Outcome != optest.Fail || len(list) == maxFailing {
			continue
		}
		i := slices.IndexFunc(cases, func(c optest.Case) bool { return c.Name == res.Case })
		if i < 0 {
			continue
		}
		g, _, ok := cases[i].Build(res.DType)
		if !ok {
			continue
		}
		f := failingProgram{Case: res.Case, Graph: g.String()}
		p, err := dev.Compile(ctx, g, vkc.CompileOptions{})
		switch {
		case err != nil:
			f.Error = oneLine(err)
		case p.Contents.Program != nil:
			for _, st := range p.Contents.Program.Steps {
				f.Kernels = append(f.Kernels, st.Name+": "+st.Schedule)
			}
			f.GLSL = p.Contents.GLSL
		}
		list = append(list, f)
	}
	return list
}

// reportError returns the error that prevented the cases from running, and writes it to a report if one is requested.
func (a *app) reportError(ctx context.Context, path string, why error) error {
	if path == "" {
		return why
	}
	return errors.Join(why, a.writeReport(ctx, path, problemReport{Error: oneLine(why)}))
}

// writeReport adds the version, the devices and the results of vkc doctor to a report, and writes it to path.
func (a *app) writeReport(ctx context.Context, path string, r problemReport) error {
	r.Version = thisVersion()
	var err error
	if r.Devices, err = listDevices(); err != nil {
		r.Devices.Error = oneLine(err)
	}
	if r.Doctor, err = examine(ctx); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	a.note("report in %s", path)
	return atomicfile.WriteFile(path, append(text, '\n'), 0o666)
}

// options checks the flags of vkc verify --ops, and returns the options that they select.
func (f *verifyFlags) options() (opt optest.Options, err error) {
	if !f.ops {
		return opt, usagef("nothing to verify: pass --ops, --onnx DIR, or a bundle")
	}
	if f.cases && !f.json && f.report == "" {
		return opt, usagef("--cases goes with --json or --report")
	}
	opt.Smoke = f.quick
	if f.filter == "" {
		return opt, nil
	}
	if opt.Filter, err = regexp.Compile(f.filter); err != nil {
		return opt, usagef("--filter %q: %w", f.filter, err)
	}
	if len(optest.Select(opt)) == 0 {
		return opt, usagef("--filter %q matches no case; names are like %s", f.filter, optest.Cases()[0])
	}
	return opt, nil
}

// runOpCases runs the op cases on the device under a progress bar.
func (a *app) runOpCases(ctx context.Context, dev *vkc.Device, opt optest.Options) (*optest.Report, error) {
	bar := a.progress("verifying")
	defer bar.end()
	opt.Jobs = goruntime.GOMAXPROCS(0)
	opt.Progress = func(done, total int) { bar.report(int64(done), int64(total)) }
	return optest.Run(ctx, func(ctx context.Context, g *ir.Graph, w ir.WeightSource) (runtime.Executable, error) {
		p, err := dev.Compile(ctx, g, vkc.CompileOptions{})
		if err != nil {
			return nil, err
		}
		return dev.Load(ctx, p, vkc.LoadOptions{Weights: w, Guards: true})
	}, opt)
}

// verification returns the report as programs read it. It lists all results if all is set, and otherwise the results
// that did not pass.
func verification(dev *vkc.Device, r *optest.Report, all bool) verifyInfo {
	info := verifyInfo{Device: dev.Name(), Total: r.Total(), Ops: r.Summaries(), Results: []optest.Result{}}
	for _, res := range r.Results {
		if all || res.Outcome != optest.Pass {
			info.Results = append(info.Results, res)
		}
	}
	return info
}
