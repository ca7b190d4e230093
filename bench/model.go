package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/lora"
	"github.com/vkc-go/vkc/internal/ahead"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime"
)

// Model is a language model from a file. Its cases measure what users experience: reading prompts and generating
// tokens, after texts of given lengths. It has llama-bench's tests and columns.
type Model struct {
	File      *gguf.File
	Prompts   []int    // tokens of prompts
	Answers   []int    // numbers of tokens to generate one by one
	Depths    []int    // lengths of the text before the test, in tokens
	Batches   []int    // maximum numbers of prompt tokens per run, ascending
	Repeats   int      // of each test, in wall-clock time
	Cache     ir.DType // dtype of keys and values, for llm.Cache
	Precision string   // one of vkc.Precisions

	Adapters []lora.File // low-rank adapters of the model

	adapters lora.Set
	config   llm.Config
	context  int // positions that the tests need

	loaded *modelPrograms // once the first test has run
	filled int            // positions of the cache with a text
}

// textTest is a case of a Model: it reads a prompt of some tokens, or generates them one by one, after a text of
// depth tokens.
type textTest struct {
	model         *Model
	tokens, depth int
	prompt        bool
}

// String returns the test's name in llama-bench, such as "tg128 @ d4096".
func (t *textTest) String() string {
	name := "tg"
	if t.prompt {
		name = "pp"
	}
	name += fmt.Sprint(t.tokens)
	if t.depth > 0 {
		name += fmt.Sprintf(" @ d%d", t.depth)
	}
	return name
}

// most returns the maximum number of tokens in a run of the test.
func (t *textTest) most() int {
	if t.prompt {
		return min(t.model.most(), t.tokens)
	}
	return 1
}

// Rate is how fast a language model reads or generates.
type Rate struct {
	Model  string `json:"model"`
	Size   int64  `json:"size"` // of the weights, in bytes
	Params int64  `json:"params"`
	// Backend is the backend by llama-bench's names: Vulkan or CPU.
	Backend string  `json:"backend,omitempty"`
	Test    string  `json:"test"`                 // such as pp512, or tg128 @ d4096
	On      string  `json:"on,omitempty"`         // where the program runs, and why
	Mean    float64 `json:"per_second,omitempty"` // tokens per second of wall-clock time
	StdDev  float64 `json:"stddev,omitempty"`
	// By the device's clock, without waits for the host; 0: no clock.
	Device float64 `json:"device_per_second,omitempty"`
}

// Cases validates the options and returns a case for each test. It reads m.config from the file, and sets m.context to
// the positions that the longest test needs. A test that needs more positions than the model has does not count for
// m.context, and its case fails when it runs.
func (m *Model) Cases() ([]Case, error) {
	var err error
	if m.config, err = llm.FromGGUF(m.File); err != nil {
		return nil, err
	}
	if m.adapters, err = lora.OpenSet(m.Adapters, m.config); err != nil {
		return nil, err
	}
	m.config.Adapters = m.adapters.Graph()
	if len(m.Batches) == 0 || m.Batches[0] < 1 || !slices.IsSorted(m.Batches) || m.Repeats < 1 {
		return nil, fmt.Errorf("bench: %v tokens at a time and %d repeats: want at least 1, the fewest tokens first",
			m.Batches, m.Repeats)
	}
	var list []Case
	for _, t := range m.tests() {
		if t.tokens == 0 {
			continue // like llama-bench, where 0 leaves out a kind of test
		}
		if t.tokens < 1 || t.depth < 0 || t.tokens > math.MaxInt32 || t.depth > math.MaxInt32 {
			return nil, fmt.Errorf("bench: a test of %d tokens after %d: want at least 1, after 0 or more", t.tokens,
				t.depth)
		}
		if length := t.depth + t.tokens; length <= m.config.Context {
			m.context = max(m.context, length)
		}
		list = append(list, m.caseOf(t))
	}
	if list == nil {
		return nil, errors.New("bench: no test of a model: want tokens to read or to generate, after 0 or more")
	}
	return list, nil
}

// tests returns a test for each depth and number of tokens: at each depth first the prompts, then the answers.
func (m *Model) tests() (list []*textTest) {
	for _, depth := range m.Depths {
		for _, n := range m.Prompts {
			list = append(list, &textTest{model: m, tokens: n, depth: depth, prompt: true})
		}
		for _, n := range m.Answers {
			list = append(list, &textTest{model: m, tokens: n, depth: depth})
		}
	}
	return list
}

// caseOf returns the case of a test.
func (m *Model) caseOf(t *textTest) Case {
	return Case{Suite: "model", Name: m.name() + "/" + t.String(), text: t}
}

// name returns the model's name, and the dtype that takes most of the bytes of its weights.
func (m *Model) name() string {
	bytes, most := map[ir.DType]int64{}, ir.F32
	for _, t := range m.config.Types {
		n, err := t.MaxBytes()
		bytes[t.DType] += n
		if err == nil && bytes[t.DType] > bytes[most] {
			most = t.DType
		}
	}
	name := m.config.Name
	if name == "" {
		name = m.config.Architecture
	}
	return fmt.Sprintf("%s %s", name, most)
}

// Step returns the graph of a decode step. Call Cases before.
func (m *Model) Step() (*ir.Graph, error) { return m.step(m.config) }

func (m *Model) step(cfg llm.Config) (*ir.Graph, error) {
	return llm.Step(cfg, m.context, llm.Cache(m.Cache), llm.KeepWindow(m.most()), llm.Likeliest())
}

// Close releases the loaded programs. The file stays open.
func (m *Model) Close() error {
	err := m.adapters.Close()
	if m.loaded != nil {
		err = errors.Join(m.loaded.close(), err)
	}
	return err
}

// text measures a test of a language model: it loads the model, reads a text of t.depth random tokens, and times the
// test after it.
func (r *Runner) text(ctx context.Context, t *textTest, res *Result) error {
	m := t.model
	rate := Rate{Model: m.name(), Backend: "Vulkan", Test: t.String()}
	if r.Device.IsCPU() {
		rate.Backend = "CPU"
	}
	res.Text = &rate
	for _, w := range m.config.Types {
		n, err := w.MaxBytes()
		if err != nil {
			return err
		}
		rate.Size += n
		rate.Params += w.Shape.MaxElems()
	}
	if need := t.depth + t.tokens; need > m.config.Context {
		res.Status = Refused
		return fmt.Errorf("%d positions: the model was trained for %d", need, m.config.Context)
	}
	if m.loaded == nil {
		var err error
		if m.loaded, err = r.checkedModel(ctx, m, res); err != nil {
			return err
		}
	}
	rate.On = m.loaded.of(t.most(), t.depth+t.tokens).exe.Why()
	if m.filled < t.depth { // the content of the text does not matter, only its length
		if err := m.prefill(ctx, m.filled, t.depth-m.filled); err != nil {
			return err
		}
		m.filled = t.depth
	}
	if err := r.timeText(ctx, t, &rate, res); err != nil {
		return err
	}
	res.Status = OK
	if r.Trace == nil {
		return nil
	}
	return m.profile(ctx, t, func(p *runtime.Profile) {
		r.Trace(m.caseOf(t), p)
	})
}

// profile runs one batch of a prompt, or one token, again and shows the profile.
func (m *Model) profile(ctx context.Context, t *textTest, show func(*runtime.Profile)) error {
	size := t.most()
	in, symbols, err := m.tokens(t.depth+t.tokens-size, size)
	if err != nil {
		return err
	}
	var out *runtime.Result
	o := runtime.RunOptions{Symbols: symbols, Profile: true}
	for range 2 { // the second profiled run has its commands recorded already
		if out, err = m.loaded.of(size, t.depth+t.tokens).exe.Run(ctx, in, o); err != nil {
			return err
		}
	}
	show(out.Profile)
	return nil
}

// timeText times a test of a language model: a prompt of t.tokens tokens, or the decoding of as many. It times one run
// by the device's clock, and then the whole test by the wall clock.
func (r *Runner) timeText(ctx context.Context, t *textTest, rate *Rate, res *Result) error {
	m := t.model
	// The time of a run grows with the length of the text: measure in the middle.
	size := t.most()
	middle := t.depth + (t.tokens-size)/2
	if err := m.run(ctx, middle, size); err != nil {
		return err
	}
	opt := r.Options
	opt.Copies = 1
	exe := m.loaded.of(size, middle+size).exe
	gpu, err := r.clock(ctx, exe, opt, func() error { return m.run(ctx, middle, size) })
	if err != nil {
		return err
	}
	runs := float64(t.tokens) / float64(size) // of the whole test
	res.Micros, res.Min, res.Max = micros(gpu.Median)*runs, micros(gpu.Min)*runs, micros(gpu.Max)*runs
	res.Replays, res.Copies = gpu.Replays, 1
	if exe.Vulkan() != nil {
		rate.Device = float64(t.tokens) / (res.Micros / 1e6)
	}
	rate.Mean, rate.StdDev, err = t.speed(ctx, gpu.Median)
	return err
}

// speed runs a test m.Repeats times after a warm-up. It returns the mean and the standard deviation of its speed, in
// tokens per second of wall-clock time. pace is the time of a decode step, see answer.
func (t *textTest) speed(ctx context.Context, pace time.Duration) (mean, deviation float64, err error) {
	m := t.model
	var sum, squares float64
	for i := range m.Repeats + 1 {
		start := time.Now()
		if t.prompt {
			err = m.prefill(ctx, t.depth, t.tokens)
		} else {
			err = m.answer(ctx, t.depth, t.tokens, pace)
		}
		if err != nil {
			return 0, 0, err
		}
		if i == 0 {
			continue // it warms up
		}
		speed := float64(t.tokens) / max(time.Since(start).Seconds(), 1e-9)
		sum, squares = sum+speed, squares+speed*speed
	}
	n := float64(m.Repeats)
	mean = sum / n
	if n > 1 {
		// Of a sample: n-1 in place of n.
		deviation = math.Sqrt(max(squares/n-mean*mean, 0) * n / (n - 1))
	}
	return mean, deviation, nil
}

// most returns the number of prompt tokens processed at a time.
func (m *Model) most() int { return min(m.Batches[len(m.Batches)-1], m.context) }

// prefill processes n random tokens after a text of length `after`, at most m.most() in a run.
func (m *Model) prefill(ctx context.Context, after, n int) error {
	for n > 0 {
		tokens := min(m.most(), n)
		if err := m.run(ctx, after, tokens); err != nil {
			return err
		}
		after, n = after+tokens, n-tokens
	}
	return nil
}

// run processes n random tokens after a text of length `after` in one run.
func (m *Model) run(ctx context.Context, after, n int) error {
	in, symbols, err := m.tokens(after, n)
	if err != nil {
		return err
	}
	_, err = m.loaded.of(n, after+n).exe.Run(ctx, in, runtime.RunOptions{Symbols: symbols})
	return err
}

// answer generates n tokens after a sequence of the given length, as package generate does: each step takes the
// previous step's token on the device, and the host reads tokens while later steps are in flight. pace is the time of
// a step and decides how many steps are in flight.
func (m *Model) answer(ctx context.Context, after, n int, pace time.Duration) error {
	var inFlight []*vkc.DeviceTensor // the tokens of submitted steps that the host has not read
	collected := 0
	collect := func(steps int) error {
		_, err := inFlight[steps-1].Read(ctx) // later steps depend on earlier ones, so those are done too
		for _, t := range inFlight[:steps] {
			t.Close()
		}
		inFlight, collected = inFlight[steps:], collected+steps
		return err
	}
	defer func() {
		for _, t := range inFlight {
			t.Close()
		}
	}()
	for i := range n {
		depth := ahead.Depth(pace, collected)
		in, symbols, err := m.tokens(after+i, 1)
		if err != nil {
			return err
		}
		o := runtime.RunOptions{Symbols: symbols, Keep: []string{"logits", "likeliest", "top"},
			More: ahead.SubmitsTogether(len(inFlight), depth) && i+1 < n}
		if i > 0 {
			// The token of the step before.
			in, o.Inputs = nil, map[string]*vkc.DeviceTensor{"tokens": inFlight[len(inFlight)-1]}
		}
		res, err := m.loaded.of(1, after+i+1).exe.Run(ctx, in, o)
		if err != nil {
			return err
		}
		res.Kept["logits"].Close()
		res.Kept["top"].Close()
		inFlight = append(inFlight, res.Kept["likeliest"])
		if len(inFlight) == depth && i+1 < n {
			if err := collect(ahead.CollectAtOnce(depth)); err != nil {
				return err
			}
		}
	}
	return collect(len(inFlight))
}

// tokens returns the inputs of a run with that many random tokens after a text of the given length.
func (m *Model) tokens(after, n int) (in vkc.Tensors, symbols map[string]int64, err error) {
	random, list := rand.New(rand.NewPCG(7, uint64(after))), make([]int32, n)
	for i := range list {
		list[i] = random.Int32N(int32(m.config.Vocab))
	}
	d, err := vkc.Of(list, n)
	return vkc.Tensors{"tokens": d}, map[string]int64{"S": int64(after + n)}, err
}

// modelProgram is one compiled graph of a model: it processes some tokens of a prompt, or one token.
type modelProgram struct {
	graph *ir.Graph
	prog  *vkc.Program
	exe   *vkc.Executable
}

// modelPrograms are the programs of a model; they share weights and states.
type modelPrograms struct {
	step          *modelProgram   // decodes one token at any position
	short         []*modelProgram // short[i] decodes one token of a sequence of at most shortLengths[i] tokens
	shortLengths  []int           // ascending
	prompts       []*modelProgram // prompts[i] prefills at most promptLengths[i] tokens
	promptLengths []int           // ascending
}

// of returns the program that processes the given number of tokens in one run. length is the length of the sequence
// including them.
func (p *modelPrograms) of(tokens, length int) *modelProgram {
	if tokens > 1 {
		i, _ := slices.BinarySearch(p.promptLengths, tokens)
		return p.prompts[min(i, len(p.prompts)-1)]
	}
	if i, _ := slices.BinarySearch(p.shortLengths, length); i < len(p.short) {
		return p.short[i]
	}
	return p.step
}

// all returns the programs with the decode step first.
func (p *modelPrograms) all() []*modelProgram {
	return slices.Concat([]*modelProgram{p.step}, p.short, p.prompts)
}

// close closes all programs, loaded or only compiled.
func (p *modelPrograms) close() error {
	var errs []error
	for _, one := range p.all() {
		if one.exe != nil {
			errs = append(errs, one.exe.Close())
		}
		if one.prog != nil {
			errs = append(errs, one.prog.Close())
		}
	}
	return errors.Join(errs...)
}

// compileModel compiles the programs of a model: the step for one token, steps for short texts, and prompts of each
// batch size. The model has only its first layers, as many as given, and all of its embedding and output.
func (r *Runner) compileModel(ctx context.Context, m *Model, layers int) (p *modelPrograms, err error) {
	p = &modelPrograms{step: &modelProgram{}}
	cfg, cache, window := m.config, llm.Cache(m.Cache), llm.KeepWindow(m.most())
	cfg.Layers = layers
	if p.step.graph, err = m.step(cfg); err != nil {
		return nil, err
	}
	var shortTexts []int
	if !r.Device.IsCPU() {
		shortTexts = llm.ShortTexts(m.context)
	}
	for _, n := range shortTexts {
		g, err := llm.Step(cfg, m.context, cache, window, llm.Likeliest(), llm.Within(n))
		if err != nil {
			return nil, err
		}
		p.short, p.shortLengths = append(p.short, &modelProgram{graph: g}), append(p.shortLengths, n)
	}
	for _, n := range m.Batches {
		n = min(n, m.context)
		if slices.Contains(p.promptLengths, n) { // two batch sizes above the context are equal
			continue
		}
		g, err := llm.Steps(cfg, n, m.context, cache, window)
		if err != nil {
			return nil, err
		}
		p.prompts, p.promptLengths = append(p.prompts, &modelProgram{graph: g}), append(p.promptLengths, n)
	}
	for _, one := range p.all() {
		if one.graph, err = vkc.WithPrecision(one.graph, m.Precision); err == nil {
			one.prog, err = r.compile(ctx, one.graph, p.step.prog)
		}
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	return p, nil
}

// loadModel loads the programs of a model, which share weights and the KV cache with the step program. On an error it
// closes them.
func (r *Runner) loadModel(ctx context.Context, m *Model, p *modelPrograms) error {
	var err error
	opt := vkc.LoadOptions{Weights: m.adapters.Source(m.File)}
	if p.step.exe, err = r.Device.Load(ctx, p.step.prog, opt); err != nil {
		return errors.Join(err, p.close())
	}
	opt.Share = p.step.exe
	for _, one := range p.all()[1:] {
		if one.exe, err = r.Device.Load(ctx, one.prog, opt); err != nil {
			return errors.Join(err, p.close())
		}
	}
	return nil
}

// checkedModel loads the programs of a model, after it has checked a model of fewer layers with the same kernels.
func (r *Runner) checkedModel(ctx context.Context, m *Model, res *Result) (*modelPrograms, error) {
	all, err := r.compileModel(ctx, m, m.config.Layers)
	if err != nil {
		res.Status = Refused
		return nil, err
	}
	if err := r.checkFewLayers(ctx, m, all, res); err != nil {
		return nil, errors.Join(err, all.close())
	}
	if err := r.loadModel(ctx, m, all); err != nil {
		res.Status = Refused
		return nil, err
	}
	return all, nil
}

// checkFewLayers compares the results of a model's first layers with the reference, which would take too long for the
// whole model. all are the programs of the whole model: their kernels are checked.
func (r *Runner) checkFewLayers(ctx context.Context, m *Model, all *modelPrograms, res *Result) error {
	few, err := r.compileFewLayers(ctx, m, all)
	if err != nil {
		return err
	}
	if err := r.loadModel(ctx, m, few); err != nil {
		return err
	}
	if err := errors.Join(m.check(ctx, few), few.close()); err != nil {
		res.Status = Wrong
		return err
	}
	return nil
}

// fewLayers is the minimum number of checked layers: the first follows the embedding, and the last precedes the output.
const fewLayers = 3

// compileFewLayers compiles the model's first fewLayers layers. It doubles their number until the programs have all
// kernels of the whole model's programs.
func (r *Runner) compileFewLayers(ctx context.Context, m *Model, whole *modelPrograms) (*modelPrograms, error) {
	for layers := min(fewLayers, m.config.Layers); ; layers = min(2*layers, m.config.Layers) {
		few, err := r.compileModel(ctx, m, layers)
		if err != nil || layers == m.config.Layers || few.hasKernelsOf(whole) {
			return few, err
		}
		if err := few.close(); err != nil {
			return nil, err
		}
	}
}

// hasKernelsOf reports whether the programs of p contain all kernels of the other's.
func (p *modelPrograms) hasKernelsOf(other *modelPrograms) bool {
	for i, one := range p.all() {
		if !one.prog.HasKernelsOf(other.all()[i].prog) {
			return false
		}
	}
	return true
}

// checkTokens is the number of tokens that each prompt program prefills in the check. Then the first prompt program
// prefills checkAgain more.
const checkTokens, checkAgain = 24, 8

// check compares the results of all programs with the reference. It runs them on consecutive parts of one sequence: the
// prompt programs on several tokens each, then the step programs on one token each.
func (m *Model) check(ctx context.Context, p *modelPrograms) error {
	type part struct {
		program *modelProgram
		tokens  int
	}
	var parts []part
	for _, prompt := range p.prompts {
		parts = append(parts, part{prompt, checkTokens})
	}
	// A second part of a prompt attends to the tokens of the first.
	parts = append(parts, part{p.prompts[0], checkAgain})
	for _, step := range append(slices.Clone(p.short), p.step) {
		parts = append(parts, part{step, 1})
	}
	length := 0
	for _, part := range parts {
		n := max(min(part.tokens, m.Batches[0], m.context/4), 1)
		if length+n > m.context { // a short context has no room for all parts
			break
		}
		if err := m.checkRun(ctx, part.program, length, n); err != nil {
			return err
		}
		length += n
	}
	return nil
}

// checkRun runs a program on n random tokens after a sequence of the given length. It compares the logits with the
// reference, which starts from the device's states.
func (m *Model) checkRun(ctx context.Context, p *modelProgram, length, n int) error {
	ref, err := interp.New(p.graph, interp.Options{Weights: m.adapters.Source(m.File)})
	if err != nil {
		return err
	}
	for _, s := range p.exe.States() {
		d, err := p.exe.ReadState(s.Name)
		if err == nil {
			err = ref.SetState(s.Name, d)
		}
		if err != nil {
			return err
		}
	}
	in, symbols, err := m.tokens(length, n)
	if err != nil {
		return err
	}
	want, err := ref.Run(ctx, in, symbols)
	if err != nil {
		return err
	}
	got, err := p.exe.Run(ctx, in, runtime.RunOptions{Symbols: symbols})
	if err != nil {
		return err
	}
	tolerances := interp.Tolerances(p.graph)
	for _, o := range p.graph.Outputs() {
		if o.Name == "likeliest" {
			continue // if logits are nearly equal, any token may be chosen
		}
		if err := interp.Compare(got.Outputs[o.Name], want[o.Name], tolerances[o.Node.ID()]).Err(); err != nil {
			return fmt.Errorf("output %q of %d tokens after %d: %w", o.Name, n, length, err)
		}
	}
	return nil
}
