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

// most is the maximum number of tokens in a run of the test.
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
// the positions that the longest test needs. It ignores tests that need more than the model's context. These have a
// case too, which fails when it runs.
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
	for _, depth := range m.Depths {
		for _, prompt := range []bool{true, false} {
			all := m.Answers
			if prompt {
				all = m.Prompts
			}
			for _, n := range all {
				if n == 0 {
					continue // like llama-bench, where 0 leaves out a kind of test
				}
				t := &textTest{model: m, tokens: n, depth: depth, prompt: prompt}
				if n < 1 || depth < 0 || n > math.MaxInt32 || depth > math.MaxInt32 {
					return nil, fmt.Errorf("bench: a test of %d tokens after %d: want at least 1, after 0 or more", n,
						depth)
				}
				if depth+n <= m.config.Context {
					m.context = max(m.context, depth+n)
				}
				list = append(list, Case{Suite: "model", Name: m.name() + "/" + t.String(), text: t})
			}
		}
	}
	if list == nil {
		return nil, errors.New("bench: no test of a model: want tokens to read or to generate, after 0 or more")
	}
	return list, nil
}

// name returns the model's name and the dtype of most of its weights.
func (m *Model) name() string {
	bytes, most := map[ir.DType]int64{}, ir.F32
	for _, t := range m.config.Types {
		n, err := t.MaxBytes()
		if bytes[t.DType] += n; err == nil && bytes[t.DType] > bytes[most] {
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

// text loads a language model, reads a text of t.depth random tokens, and times test t after it.
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
	for m.filled < t.depth { // the content of the text does not matter, only its length
		n := min(m.most(), t.depth-m.filled)
		if err := m.run(ctx, m.filled, n); err != nil {
			return err
		}
		m.filled += n
	}
	if err := r.timeText(ctx, t, &rate, res); err != nil {
		return err
	}
	res.Status = OK
	if r.Trace == nil {
		return nil
	}
	return m.profile(ctx, t, func(p *runtime.Profile) {
		r.Trace(Case{Suite: "model", Name: m.name() + "/" + t.String(), text: t}, p)
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

// timeText measures a test by both clocks.
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
	gpu, err := r.clock(ctx, &Case{}, exe, opt, func() error { return m.run(ctx, middle, size) })
	if err != nil {
		return err
	}
	runs := float64(t.tokens) / float64(size)
	res.Micros, res.Min, res.Max = micros(gpu.Median)*runs, micros(gpu.Min)*runs, micros(gpu.Max)*runs
	res.Replays, res.Copies = gpu.Replays, 1
	if exe.Vulkan() != nil {
		rate.Device = float64(t.tokens) / (res.Micros / 1e6)
	}
	var sum, squares float64
	for i := range m.Repeats + 1 {
		start := time.Now()
		if !t.prompt {
			if err := m.answer(ctx, t.depth, t.tokens, gpu.Median); err != nil {
				return err
			}
		}
		for done := 0; t.prompt && done < t.tokens; {
			n := min(size, t.tokens-done)
			if err := m.run(ctx, t.depth+done, n); err != nil {
				return err
			}
			done += n
		}
		if i == 0 {
			continue // it warms up
		}
		speed := float64(t.tokens) / max(time.Since(start).Seconds(), 1e-9)
		sum, squares = sum+speed, squares+speed*speed
	}
	n := float64(m.Repeats)
	rate.Mean = sum / n
	if n > 1 {
		rate.StdDev = math.Sqrt(max(squares/n-rate.Mean*rate.Mean, 0) * n / (n - 1))
	}
	return nil
}

// most is the number of prompt tokens processed at a time.
func (m *Model) most() int { return min(m.Batches[len(m.Batches)-1], m.context) }

// run processes n random tokens after a text of length `after`.
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
		_, err := inFlight[steps-1].Read(ctx)
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
			in, o.Inputs = nil, map[string]*vkc.DeviceTensor{"tokens": inFlight[len(inFlight)-1]}
		}
		res, err := m.loaded.of(1, after+i+1).exe.Run(ctx, in, o)
		if err != nil {
			return err
		}
		res.Kept["logits"].Close()
		res.Kept["top"].Close()
		if inFlight = append(inFlight, res.Kept["likeliest"]); len(inFlight) == depth && i+1 < n {
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

// modelPrograms are the programs of a model; they share weights and states. step decodes one token at any position.
// short[i] decodes one token of a sequence of at most length[i] tokens. prompts[i] prefills at most most[i] tokens.
type modelPrograms struct {
	step           *modelProgram
	short, prompts []*modelProgram
	length, most   []int
}

// of returns the program that processes the given number of tokens in one run. length is the length of the sequence
// including them.
func (p *modelPrograms) of(tokens, length int) *modelProgram {
	list, sizes, size := append(slices.Clone(p.short), p.step), p.length, length
	if tokens > 1 {
		list, sizes, size = p.prompts, p.most, tokens
	}
	i, _ := slices.BinarySearch(sizes, size)
	return list[min(i, len(list)-1)]
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

// compileModel compiles the programs of a model that is cut to its first layers, but keeps its embedding and output.
func (r *Runner) compileModel(ctx context.Context, m *Model, layers int) (p *modelPrograms, err error) {
	p = &modelPrograms{step: &modelProgram{}}
	cfg, cache, window := m.config, llm.Cache(m.Cache), llm.KeepWindow(m.most())
	cfg.Layers = layers
	if p.step.graph, err = m.step(cfg); err != nil {
		return nil, err
	}
	for _, n := range llm.ShortTexts(m.context) {
		if r.Device.IsCPU() {
			break
		}
		g, err := llm.Step(cfg, m.context, cache, window, llm.Likeliest(), llm.Within(n))
		if err != nil {
			return nil, err
		}
		p.short, p.length = append(p.short, &modelProgram{graph: g}), append(p.length, n)
	}
	for _, n := range m.Batches {
		if n = min(n, m.context); slices.Contains(p.most, n) {
			continue
		}
		g, err := llm.Steps(cfg, n, m.context, cache, window)
		if err != nil {
			return nil, err
		}
		p.prompts, p.most = append(p.prompts, &modelProgram{graph: g}), append(p.most, n)
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

// loadModel loads the programs. On an error it closes them.
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

// fewLayers is the minimum number of checked layers: the first follows the embedding, and the last precedes the output.
const fewLayers = 3

// checkedModel loads the programs of a model. Before, it compares a smaller model with the reference, which would take
// too long for the whole one. The smaller model has only the first few layers, but enough of them to have all kernels.
func (r *Runner) checkedModel(ctx context.Context, m *Model, res *Result) (*modelPrograms, error) {
	all, err := r.compileModel(ctx, m, m.config.Layers)
	if err != nil {
		res.Status = Refused
		return nil, err
	}
	for layers := min(fewLayers, m.config.Layers); ; layers = min(2*layers, m.config.Layers) {
		some, err := r.compileModel(ctx, m, layers)
		if err != nil {
			return nil, errors.Join(err, all.close())
		}
		if layers < m.config.Layers && !some.hasKernelsOf(all) {
			if err := some.close(); err != nil {
				return nil, errors.Join(err, all.close())
			}
			continue
		}
		if err := r.loadModel(ctx, m, some); err != nil {
			return nil, errors.Join(err, all.close())
		}
		if err := errors.Join(m.check(ctx, some), some.close()); err != nil {
			res.Status = Wrong
			return nil, errors.Join(err, all.close())
		}
		break
	}
	if err := r.loadModel(ctx, m, all); err != nil {
		res.Status = Refused
		return nil, err
	}
	return all, nil
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

// check runs all programs on consecutive parts of one sequence: the prompt programs on several tokens each, then the
// step programs on one token each. It compares the logits with the reference, which starts from the device's states.
func (m *Model) check(ctx context.Context, p *modelPrograms) error {
	length := 0
	for i, one := range slices.Concat(p.prompts, p.prompts[:1], p.short, []*modelProgram{p.step}) {
		n := 1
		switch {
		case i < len(p.prompts):
			n = checkTokens
		case i == len(p.prompts):
			n = checkAgain
		}
		n = max(min(n, m.Batches[0], m.context/4), 1)
		if length+n > m.context {
			break
		}
		ref, err := interp.New(one.graph, interp.Options{Weights: m.adapters.Source(m.File)})
		if err != nil {
			return err
		}
		for _, s := range one.exe.States() {
			d, err := one.exe.ReadState(s.Name)
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
		got, err := one.exe.Run(ctx, in, runtime.RunOptions{Symbols: symbols})
		if err != nil {
			return err
		}
		tolerances := interp.Tolerances(one.graph)
		for _, o := range one.graph.Outputs() {
			if o.Name == "likeliest" {
				continue // if logits are nearly equal, any token may be chosen
			}
			if err := interp.Compare(got.Outputs[o.Name], want[o.Name], tolerances[o.Node.ID()]).Err(); err != nil {
				return fmt.Errorf("output %q of %d tokens after %d: %w", o.Name, n, length, err)
			}
		}
		length += n
	}
	return nil
}
