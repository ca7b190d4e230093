package generate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/internal/tunefile"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/multi"
	"github.com/vkc-go/vkc/runtime/vk"
)

// sizedProgram is a loaded program with its limits. A step program decodes one token of each of up to rows sequences. A
// prompt program prefills up to rows tokens of one sequence, and a mixed program computes up to rows tokens of all
// sequences. A sequence has up to length positions.
type sizedProgram struct {
	rows, length int
	kind         programKind
	exe          *vkc.Executable
	expected     float64 // estimated nanoseconds per prefill part, if parts overlap on several devices
}

// programKind is a kind of program: see sizedProgram.
type programKind int

const (
	stepProgram programKind = iota
	promptProgram
	mixedProgram
)

// rowsRatio is the ratio of the batch sizes of successive step programs: 1, 4, 16 and so on.
const rowsRatio = 4

// candidate is a program that the model may have.
type candidate struct {
	sizedProgram
	graph   *ir.Graph
	program *vkc.Program // nil before compilation, and if compilation failed
	// optional marks a program that the model works without, more slowly.
	optional bool
	short    bool // a step for texts that do not fill the context
}

// candidates lists the programs that the model may have. The first one is the step for all slots and the whole context.
// Then come steps for fewer slots or shorter sequences, and the prefill and mixed programs. The model requires the
// steps for the whole context and the first prefill program, and the others are optional.
func (m *Model) candidates(o Options) (list []candidate, err error) {
	options := m.cache(o)
	add := func(c candidate, g *ir.Graph, failed error) {
		c.graph, err = g, errors.Join(err, failed)
		list = append(list, c)
	}
	// step adds the step for a number of rows and a length. One slot and several have different graphs.
	step := func(rows, length int) {
		how := append(slices.Clone(options), llm.Likeliest(), llm.Within(length))
		c := candidate{sizedProgram: sizedProgram{rows: rows, length: length}, optional: length < m.context,
			short: length < m.context}
		if m.slotCount == 1 {
			g, err := llm.Step(m.config, m.context, how...)
			add(c, g, err)
		} else {
			g, err := llm.Batch(m.config, m.slotCount, m.context, append(how, llm.AtMost(rows))...)
			add(c, g, err)
		}
	}
	step(m.slotCount, m.context)
	for _, rows := range m.stepRows(o) {
		for _, length := range append(m.stepLengths(o), m.context) {
			if rows < m.slotCount || length < m.context {
				step(rows, length)
			}
		}
	}
	for i, n := range m.prefillSizes() {
		g, failed := llm.Steps(m.config, n, m.context, options...)
		add(candidate{sizedProgram: sizedProgram{rows: n, length: m.context, kind: promptProgram}, optional: i > 0}, g,
			failed)
	}
	for _, n := range m.mixedSizes(o) {
		g, failed := llm.Mixed(m.config, n, m.slotCount, m.context, append(slices.Clone(options), llm.Likeliest())...)
		add(candidate{sizedProgram: sizedProgram{rows: n, length: m.context, kind: mixedProgram}, optional: true}, g,
			failed)
	}
	return list, err
}

// stepRows lists the batch sizes for which there are step programs. The last is the number of slots.
func (m *Model) stepRows(o Options) (list []int) {
	for n := 1; n < m.slotCount && !o.Deterministic; n *= rowsRatio {
		list = append(list, n)
	}
	return append(list, m.slotCount)
}

// stepLengths lists the sequence lengths below the context for which there are step programs. With Deterministic and
// several slots there are none, because the kernels of an answer must not depend on the longest sequence of the
// batch.
func (m *Model) stepLengths(o Options) []int {
	if m.device != nil && m.device.IsCPU() || m.slotCount > 1 && o.Deterministic {
		return nil
	}
	return llm.ShortTexts(m.context)
}

// prefillSizes lists the sizes of the prefill programs, in tokens. On a CPU one size is as fast as several. With
// Options.GPUMemory it leaves out the largest size: weights need the memory of its temporaries more.
func (m *Model) prefillSizes() []int {
	if m.device != nil && m.device.IsCPU() {
		return []int{min(m.part, 512)}
	}
	list := llm.Parts(m.part)
	if m.gpuMemory > 0 && len(list) > 1 {
		list = list[:len(list)-1]
	}
	return list
}

// mixedSizes lists the sizes of the mixed programs, in tokens. With Deterministic there are none, because the kernels
// of an answer must not depend on other prompts.
func (m *Model) mixedSizes(o Options) []int {
	if m.slotCount == 1 || o.Deterministic || m.config.IsRecurrent() || !mixesOn(m.device) {
		return nil
	}
	list := llm.MixedSizes(m.slotCount, m.slotCount*m.part)
	if m.gpuMemory > 0 { // the temporaries of larger sizes are not worth it
		list = list[:1]
	}
	return list
}

// mixesOn reports whether mixed programs are faster on a device. A CPU gains nothing by more rows, and copies the keys
// of each run. Several devices work on successive parts of one prompt. Tests replace mixesOn.
var mixesOn = func(d *vkc.Device) bool { return d == nil || !d.IsCPU() && len(d.Parts()) == 1 }

// tooLarge reports whether a device refuses a program because of its size.
func tooLarge(err error) bool {
	var (
		memory      *vk.OutOfMemoryError
		buffer      *kernel.RangeError
		unsupported *vkc.UnsupportedError
	)
	return errors.As(err, &memory) || errors.As(err, &buffer) || errors.As(err, &unsupported)
}

// loadPrograms loads the programs of the model. It uploads the weights for the first program while it compiles the
// others. With Options.GPUMemory it compiles all programs first, because their sizes decide how much memory is left for
// weights.
func (m *Model) loadPrograms(ctx context.Context, o Options) error {
	list, err := m.candidates(o)
	if err != nil {
		return err
	}
	if err := m.tune(ctx, list, o); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first, others := &list[0], list[1:]
	if first.program, err = m.compile(ctx, first.graph, o); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- m.compileAll(ctx, others, o) }()
	compiled := sync.OnceValue(func() error { return <-done }) // waits for compileAll; may be called twice
	if m.gpuMemory > 0 {
		if err := compiled(); err != nil {
			return err
		}
		var programs []*vkc.Program
		for _, c := range list {
			programs = append(programs, c.program)
		}
		if err := m.setWeightRoom(programs); err != nil {
			return err
		}
	}
	if m.step, err = m.loadProgram(ctx, first.program, nil); err != nil {
		cancel()
		compiled() // it reads the model's file until then; why it ended is known
		return err
	}
	if err := compiled(); err != nil {
		return err
	}
	for _, c := range others {
		if c.program == nil || c.isSuperfluous(list) {
			continue
		}
		switch err := m.loadCandidate(ctx, c, o); {
		case c.short && tooLarge(err): // the model works without it
		case c.optional && tooLarge(err):
			return nil // the rest is larger still
		case err != nil:
			return err
		}
	}
	return nil
}

// tune calls Options.Tune with the graphs of the candidates. A bundle's programs are compiled already.
func (m *Model) tune(ctx context.Context, list []candidate, o Options) error {
	if o.Tune == nil {
		return nil
	}
	if m.bundle != nil {
		return wrongOption("Tune", "the schedules of a bundle are fixed when it is compiled: tune its GGUF file, and "+
			"compile that")
	}
	var graphs []*ir.Graph
	for _, c := range list {
		g, err := withPrecision(c.graph, o.Precision)
		if err != nil {
			return err
		}
		graphs = append(graphs, g)
	}
	return o.Tune(ctx, m.device, graphs)
}

// compileAll compiles the candidates. It leaves out optional ones that are too large for the device.
func (m *Model) compileAll(ctx context.Context, list []candidate, o Options) error {
	for i := range list {
		c := &list[i]
		p, err := m.compile(ctx, c.graph, o)
		switch {
		case (c.short || c.kind == mixedProgram) && err != nil && (tooLarge(err) || m.bundle != nil):
			// bundles of earlier versions have none
		case c.optional && tooLarge(err):
			return nil // the rest is larger still
		case err != nil:
			return err
		default:
			c.program = p
		}
	}
	return nil
}

// loadCandidate loads a program in addition to the main step, and adds it to the model's smallSteps, prompts or mixed.
func (m *Model) loadCandidate(ctx context.Context, c candidate, o Options) (err error) {
	if c.optional && c.program.Contents.Program == nil && m.step.Vulkan() != nil {
		return nil // it would run on the CPU, without the weights and states
	}
	if c.exe, err = m.loadProgram(ctx, c.program, m.step); err != nil {
		return err
	}
	switch c.kind {
	case stepProgram:
		m.smallSteps = append(m.smallSteps, c.sizedProgram)
		return nil
	case mixedProgram:
		m.mixed = append(m.mixed, c.sizedProgram)
		return nil
	}
	c.expected, err = m.expect(ctx, c.exe, c.graph, o)
	m.prompts = append(m.prompts, c.sizedProgram) // keep it even after an error, so that it gets closed
	return err
}

// expect returns the estimated nanoseconds in which a pipeline of several devices computes a part of a prompt by graph
// g. It returns 0 if the size of parts does not depend on estimates: on one device, with a CPU among the devices, and
// with Options.Deterministic.
func (m *Model) expect(ctx context.Context, exe *vkc.Executable, g *ir.Graph, o Options) (float64, error) {
	if exe.Stages() == 1 || o.Deterministic || slices.ContainsFunc(m.device.Parts(), (*vkc.Device).IsCPU) {
		return 0, nil
	}
	g, err := withPrecision(g, o.Precision)
	if err != nil {
		return 0, err
	}
	var list []multi.Member
	for _, d := range m.device.Parts() {
		measured, _ := tunefile.DeviceTuning(d.Caps()) // an unusable tuning file is ignored
		list = append(list, multi.MemberOf(vk.Of(d), measured.On(d.Caps())))
	}
	return multi.Expected(ctx, g, list, multi.PipelineParallel, compiler.Estimate)
}

// isSuperfluous reports whether a step program is no faster than the step for longer sequences, because both have the
// same kernels.
func (c candidate) isSuperfluous(list []candidate) bool {
	return slices.ContainsFunc(list, func(o candidate) bool {
		isLonger := c.kind == stepProgram && o.kind == stepProgram && o.rows == c.rows && o.length > c.length
		return isLonger && o.program.HasKernelsOf(c.program) && c.program.HasKernelsOf(o.program)
	})
}

// load compiles and loads a graph. Its program shares weights and states with share, if that is not nil.
func (m *Model) load(ctx context.Context, g *ir.Graph, o Options, share *vkc.Executable) (*vkc.Executable, error) {
	p, err := m.compile(ctx, g, o)
	if err == nil && m.gpuMemory > 0 && m.weightRoom == 0 { // only for the first program
		err = m.setWeightRoom([]*vkc.Program{p})
	}
	if err != nil {
		return nil, err
	}
	exe, err := m.loadProgram(ctx, p, share)
	if err == nil && share == nil { // the only program
		m.reportFallback(exe.Fallback())
	}
	return exe, err
}

// loadProgram loads a compiled program on the model's device. It shares weights and states with share, if that is not
// nil.
func (m *Model) loadProgram(ctx context.Context, p *vkc.Program, share *vkc.Executable) (*vkc.Executable, error) {
	return loadOn(ctx, m.device, p, vkc.LoadOptions{Weights: m.weights, Share: share, WeightRoom: m.weightRoom,
		Progress: m.progress})
}

// loadOn loads a program on a device. Tests replace it.
var loadOn = func(ctx context.Context, d *vkc.Device, p *vkc.Program, o vkc.LoadOptions) (*vkc.Executable, error) {
	return d.Load(ctx, p, o)
}

// compile compiles a graph after checking that the device, or its replacement, has the memory for it.
func (m *Model) compile(ctx context.Context, g *ir.Graph, o Options) (*vkc.Program, error) {
	g, err := withPrecision(g, o.Precision)
	if err != nil {
		return nil, err
	}
	if err := m.checkMemory(g); err != nil {
		return nil, err
	}
	if p, err := m.fromBundle(g, m.weights); p != nil || err != nil {
		return p, err
	}
	sized := m.config.Layers > 0 // a GGUF file's model has programs for few rows, see candidates
	p, err := m.device.Compile(ctx, g, vkc.CompileOptions{Weights: m.weights, Progress: m.progress, ShareWith: m.first,
		Memory: m.gpuMemory, OneKernel: sized || o.Deterministic})
	if err != nil && m.bundle != nil {
		err = fmt.Errorf("the bundle has no program %q for this context, cache or number of answers: %w", g.Name, err)
	}
	if m.first == nil {
		m.first = p
	}
	return p, err
}

// stepOf returns the smallest program for a step of that many texts (rows) of that length.
func (m *Model) stepOf(rows, length int) *vkc.Executable {
	return smallest(m.smallSteps, rows, length, m.step)
}

// smallest returns the first program of the list that fits. If none fits, it returns otherwise.
func smallest(list []sizedProgram, rows, length int, otherwise *vkc.Executable) *vkc.Executable {
	for _, c := range list {
		if rows <= c.rows && length <= c.length {
			return c.exe
		}
	}
	return otherwise
}

// promptOf returns the smallest prefill program for that many tokens.
func (m *Model) promptOf(tokens int) *vkc.Executable {
	return smallest(m.prompts, tokens, m.context, m.prompts[len(m.prompts)-1].exe)
}

// partFor returns the size of the next prefill part of a prompt with left tokens to go. By default that is the largest
// size. If parts pass through several devices, a device idles until the first part arrives and after the last one
// leaves, which favors smaller parts. Then partFor returns the size with the lowest estimated total time.
func (m *Model) partFor(left int) int {
	best, least := m.part, math.Inf(1)
	for _, c := range m.prompts {
		parts := (left+c.rows-1)/c.rows + c.exe.Stages() - 1 // with the time until the last part leaves the last device
		if took := float64(parts) * c.expected; c.expected > 0 && took < least {
			best, least = c.rows, took
		}
	}
	return best
}
