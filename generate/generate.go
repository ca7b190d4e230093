// Package generate runs language models of GGUF files: it reads a text and goes on
// with it, token by token.
//
//	m, err := generate.Open(ctx, "model.gguf", generate.Options{})
//	defer m.Close()
//	prompt := m.Tokenizer().Encode("Once upon a time", tokenizer.Options{Whole: true})
//	for token, err := range m.Generate(ctx, prompt, generate.Sampling{Temperature: 0.8, MinP: 0.05}) {
//		if err != nil {
//			return err
//		}
//		fmt.Print(token.Text)
//	}
//
// A conversation becomes a prompt by the template in the model's file: see
// Model.Prompt.
package generate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk"
)

// Options say where and how a model runs.
type Options struct {
	Device  string // as vkc.OpenDevice takes it; empty for the best
	Split   string // how several devices have the model: SplitLayers, SplitTensor or SplitAuto; empty for layers
	Context int    // tokens of prompt and answer; 0 for 4096, or what the model was trained for
	// Cache is what keys and values are kept in, as llm.Cache takes it. Unless set it is f16, as with llama.cpp, or f32
	// on a device that has no elements of 16 bits in memory.
	Cache     ir.DType
	Precision string // what matrix products may lose, as vkc.WithPrecision takes it
	// Parallel is how many answers may be under way at once; 0 for 1. Each has keys and values
	// of its own for the whole context.
	Parallel int
	// Positions is how many positions of keys and values there are for all answers together, if not 0: then they share
	// room, in pages, and an answer begins once there are pages for its prompt and as many tokens as it may have.
	// Without it each has room for the whole context. Windows have room of their own in both cases.
	Positions int
	// Deterministic has the bits of an answer not depend on what else is or was asked: steps of few or short answers
	// then take the kernels of the largest batch, and of what a prompt begins with only that is not computed anew which
	// was read in whole parts. Without it a step has kernels for as few answers as there are, which add up in other
	// orders, so that a token may be another one where two are equally likely up to rounding.
	Deterministic bool

	// Trust, if set, is asked of a model's bundle before any of its programs is loaded. Its error refuses the bundle.
	Trust func(context.Context, *vkc.Program) error

	// ContextShift has an answer that fills the context go on: of the tokens after the first Keep, the older half is
	// forgotten. Layers with a window then keep keys and values of the whole context.
	ContextShift bool
	Keep         int // see ContextShift; 0 for 4

	Speculation Speculation // of one answer at a time

	// GPUMemory is how many bytes of the device's memory the model may take, if not 0: weights, keys and values,
	// temporaries. Weights that have no room there stay in the machine's memory, which kernels read over
	// the bus, first those of which a step reads a few rows or experts. A device without a memory of its own
	// refuses that. Programs for guesses and for sampling are not counted.
	GPUMemory uint64

	// Progress, if set, is told how far compiling and loading of the model's programs are, by one call at a time. Each
	// program has stages of its own, and shaders of one may be compiled while weights are uploaded for another.
	Progress func(vkc.Progress)

	// Ahead is how many steps the device has at a time, of which each takes the tokens that the one before it chose:
	// so it never waits for the host. Answers do not depend on it, but steps that follow the end of one are for
	// nothing. 0 means as many as take 10 ms, 2 to 16, and 1 where runs are waited for, such as on the CPU fast path;
	// more than 16 wait for each other.
	Ahead int
}

// partOf is how many tokens of a prompt are taken at a time, at most. A GPU is faster with more (M-prompt-parts), but
// what is computed anew of a prompt with Deterministic begins at a whole part, and each text keeps as many positions
// more where layers have a window.
func (m *Model) partOf(o Options) int {
	several := o.Parallel > 1
	switch {
	case several && (o.Deterministic || m.config.Window > 0):
		return 128
	case o.Deterministic:
		return 512
	}
	return llm.LargestPart
}

// cache says what is kept of keys and values, and in what.
func (m *Model) cache(o Options) []llm.Option {
	var list []llm.Option
	if !o.ContextShift {
		list = append(list, llm.KeepWindow(m.part))
	}
	if o.Parallel > 1 {
		list = append(list, llm.Texts(o.Parallel), llm.Pages(m.pages))
	}
	return append(list, llm.Cache(m.cacheType(o)))
}

// cacheType is what keys and values are kept in.
func (m *Model) cacheType(o Options) ir.DType {
	switch {
	case o.Cache != ir.Invalid:
		return o.Cache
	case m.half:
		return ir.F16
	}
	return ir.F32
}

const (
	defaultContext = 4096
	// maxParallel bounds what is asked of a device before anything is known of it.
	maxParallel = 1024
	maxAhead    = 64 // of Options.Ahead
)

// Model is a model that is loaded on a device. It may be used by several
// goroutines: see Options.Parallel.
type Model struct {
	file          *gguf.File
	bundle        *vkc.Program            // that the file is in, or nil
	bundled       map[string]*vkc.Program // its programs, by the hashes of their graphs
	half          bool                    // keys and values are kept in f16 unless told
	config        llm.Config
	tok           *tokenizer.Tokenizer
	context       int
	places        int // for texts, on the device
	deterministic bool
	pages         int // that texts share, see Options.Positions; 0 for none
	part          int // see partOf
	device        *vkc.Device
	first         *vkc.Program    // that others share weights and states with
	auto          bool            // it was vkc's choice, so that the reference may run what it does not
	cheapest      bool            // the way to have it on several devices was chosen by what a step takes
	step          *vkc.Executable // one token of each text
	classes       []class         // other programs of a step, for fewer or shorter texts, these first
	prompts       []class         // several tokens of a text at once, the fewest first
	shift         *vkc.Executable // forgets tokens of a text; nil where an answer ends with the context
	keep          int             // tokens that stay then
	drafts        *vkc.Executable // a token and guesses of what follows it; nil where none are made

	guesser drafter
	guesses int // at a time

	engine *engine
	ahead  int // see Options.Ahead; 0 where it follows from the time that steps take

	progress func(vkc.Progress) // see Options.Progress; nil when the model is loaded

	gpuMemory  uint64 // see Options.GPUMemory
	weightRoom uint64 // of it, for weights; 0 means that nothing bounds them

	options Options // as they were completed
	extras  extras

	counting   sync.Mutex
	speculated Speculated

	constraints constraints // of Sampling.Grammar
}

// Token is a part of an answer.
type Token struct {
	ID   int32
	Text string // may be empty where a character takes several tokens
	Odds *Odds  // nil without Sampling.Logprobs
}

// Open reads a model and compiles it for a device. The file is a GGUF file, or a bundle that Bundle has made of one: of
// that options that are not set are what it was compiled for.
func Open(ctx context.Context, path string, o Options) (m *Model, err error) {
	if m, err = prepare(ctx, path, &o); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
			m = nil
		}
	}()
	if err = m.loadPrograms(ctx, o); err != nil {
		return m, err
	}
	if err = m.openShift(ctx, o); err != nil {
		return m, err
	}
	if err = m.openSpeculation(ctx, o); err != nil {
		return m, err
	}
	switch m.ahead = o.Ahead; {
	case m.ahead < 0 || m.ahead > maxAhead:
		return m, fmt.Errorf("generate: %d steps at a time: want 0 to %d", m.ahead, maxAhead)
	case m.ahead == 0 && !m.step.GoesAhead():
		m.ahead = 1
	}
	m.progress, m.options = nil, o // extras, which are loaded later, are small
	m.engine = newEngine(m)
	return m, nil
}

// prepare reads what a model's file says, completes the options by it, and opens the device. It compiles nothing.
func prepare(ctx context.Context, path string, o *Options) (m *Model, err error) {
	m = &Model{gpuMemory: o.GPUMemory}
	if o.Progress != nil {
		var one sync.Mutex
		m.progress = func(p vkc.Progress) {
			one.Lock()
			defer one.Unlock()
			o.Progress(p)
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
			m = nil
		}
	}()
	if err = m.read(path, o); err != nil {
		return m, err
	}
	want := strings.TrimSpace(o.Device)
	m.auto = want == "" || strings.EqualFold(want, "auto")
	if m.device, err = m.openDevice(ctx, *o); err != nil {
		return m, err
	}
	m.half = !slices.ContainsFunc(m.device.Parts(), func(d *vkc.Device) bool {
		return !d.IsCPU() && !d.Caps().Features.Storage16
	})
	if m.bundle != nil && o.Trust != nil && !m.device.IsCPU() {
		if err = o.Trust(ctx, m.bundle); err != nil {
			return m, fmt.Errorf("%s: %w", path, err)
		}
	}
	switch {
	case m.gpuMemory > 0 && len(m.device.Parts()) > 1:
		err = fmt.Errorf("generate: %s of GPU memory and several devices (%s): want one or the other",
			sizeText(m.gpuMemory), m.device.Name())
	case m.gpuMemory > 0 && !m.device.Vulkan().HasHostMemory():
		err = fmt.Errorf("generate: %s of GPU memory on %s, which has no memory of its own beside the machine's: "+
			"leave that out", sizeText(m.gpuMemory), m.device.Name())
	}
	return m, err
}

// How several devices have a model.
const (
	SplitLayers = "layers" // each has some of the layers, by memory: for models that have no room on one
	SplitTensor = "tensor" // each has a part of every layer: for answers sooner than from one
	SplitAuto   = "auto"   // whichever of these is expected to be fastest for one answer, or one device alone
)

// openDevice opens the device that the options ask for.
func (m *Model) openDevice(ctx context.Context, o Options) (*vkc.Device, error) {
	switch o.Split {
	case "", SplitLayers:
		return vkc.OpenDevice(o.Device)
	case SplitTensor:
		return vkc.OpenTensorParallel(o.Device)
	case SplitAuto:
		return m.openCheapest(ctx, o)
	}
	return nil, fmt.Errorf("generate: split %q: want %s, %s or %s", o.Split, SplitLayers, SplitTensor, SplitAuto)
}

// openCheapest opens several devices in the way in which a step is expected to take least.
func (m *Model) openCheapest(ctx context.Context, o Options) (_ *vkc.Device, err error) {
	if !strings.Contains(o.Device, ",") {
		return vkc.OpenDevice(o.Device)
	}
	devices, err := vkc.OpenDevices(o.Device)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, devices.Close())
		}
	}()
	graphs, _, err := m.graphs(o)
	if err != nil {
		return nil, err
	}
	m.cheapest = true
	return devices.Cheapest(ctx, graphs[0])
}

// openFile opens the file of a model, or its bundle, which completes the options.
func (m *Model) openFile(path string, o *Options) error {
	isBundle, err := IsBundle(path)
	switch {
	case err != nil:
		return err
	case isBundle:
		return m.openBundle(path, o)
	}
	m.file, err = gguf.Open(path)
	return err
}

// read reads what the file of a model says, or its bundle, and completes the options by it.
func (m *Model) read(path string, o *Options) error {
	err := m.openFile(path, o)
	if err != nil {
		return err
	}
	if m.config, err = llm.FromGGUF(m.file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if m.tok, err = tokenizer.New(m.file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if m.context = o.Context; m.context == 0 {
		m.context = min(defaultContext, m.config.Context)
	}
	if err := m.config.CheckContext(m.context); err != nil {
		return fmt.Errorf("%s: %w: see --ctx, or Options.Context", path, err)
	}
	if m.places = max(o.Parallel, 1); o.Parallel < 0 || o.Parallel > maxParallel {
		return fmt.Errorf("generate: %d answers at once: want 1 to %d", o.Parallel, maxParallel)
	}
	m.part, m.deterministic = min(m.partOf(*o), m.context), o.Deterministic
	return m.checkPositions(*o)
}

// class is a program of a step for so many texts at most, of so many positions, or for so many tokens of a prompt.
type class struct {
	rows, length int
	prompt       bool
	exe          *vkc.Executable
	expected     float64 // nanoseconds that a whole part of a prompt takes, where parts overlap
}

// classStep is how many times as many texts a class takes as the one before it.
const classStep = 4

// graphs returns the programs that the model needs: a step of all texts first, then
// those of fewer or shorter ones, and those of prompts last.
func (m *Model) graphs(o Options) (list []*ir.Graph, classes []class, err error) {
	options := m.cache(o)
	add := func(c class, g *ir.Graph, failed error) {
		list, classes, err = append(list, g), append(classes, c), errors.Join(err, failed)
	}
	step := func(rows, length int) {
		how := append(slices.Clone(options), llm.Likeliest(), llm.Within(length))
		if c := (class{rows: rows, length: length}); m.places == 1 {
			g, err := llm.Step(m.config, m.context, how...)
			add(c, g, err)
		} else {
			g, err := llm.Batch(m.config, m.places, m.context, append(how, llm.AtMost(rows))...)
			add(c, g, err)
		}
	}
	step(m.places, m.context)
	for _, rows := range m.fewTexts(o) {
		for _, length := range append(m.shortTexts(o), m.context) {
			if rows < m.places || length < m.context {
				step(rows, length)
			}
		}
	}
	for _, n := range m.parts() {
		g, failed := llm.Steps(m.config, n, m.context, options...)
		add(class{rows: n, length: m.context, prompt: true}, g, failed)
	}
	return list, classes, err
}

// fewTexts are of how many texts, at most, there are steps.
func (m *Model) fewTexts(o Options) (list []int) {
	for n := 1; n < m.places && !o.Deterministic; n *= classStep {
		list = append(list, n)
	}
	return append(list, m.places)
}

// shortTexts are how many positions the texts have that there are steps for beside those of all texts. With
// Deterministic the texts of a step do not depend on the longest of them.
func (m *Model) shortTexts(o Options) []int {
	if m.device != nil && m.device.IsCPU() || m.places > 1 && o.Deterministic {
		return nil
	}
	return llm.ShortTexts(m.context)
}

// parts are how many tokens of a prompt programs take at most. Processors are as fast with one program for all, and
// where memory is short, temporaries of many tokens are not worth it.
func (m *Model) parts() []int {
	if m.device != nil && m.device.IsCPU() {
		return []int{min(m.part, 512)}
	}
	list := llm.Parts(m.part)
	if m.gpuMemory > 0 && len(list) > 1 {
		list = list[:len(list)-1]
	}
	return list
}

// tooLarge reports whether a device refuses a program because of what it takes.
func tooLarge(err error) bool {
	var (
		memory      *vk.OutOfMemoryError
		buffer      *kernel.RangeError
		unsupported *vkc.UnsupportedError
	)
	return errors.As(err, &memory) || errors.As(err, &buffer) || errors.As(err, &unsupported)
}

// loadPrograms loads the programs of the model. Weights are uploaded for the first while the others are compiled,
// unless it is to be known before how much memory these take. Of the programs that read prompts the device needs the
// first alone, and of those of a step the one of all texts: with the others, which it may have no room for, it is
// faster.
func (m *Model) loadPrograms(ctx context.Context, o Options) error {
	graphs, classes, err := m.graphs(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	short := func(i int) bool { return classes[i].length < m.context }
	faster := func(i int) bool { return short(i) || classes[i].prompt && classes[i-1].prompt }
	programs := make([]*vkc.Program, len(graphs))
	compiled := make(chan error, 1)
	first, err := m.compile(ctx, graphs[0], o)
	if err != nil {
		return err
	}
	programs[0] = first
	go func() {
		var err error
		for i := 1; i < len(programs) && err == nil; i++ {
			switch programs[i], err = m.compile(ctx, graphs[i], o); {
			case short(i) && (tooLarge(err) || m.bundle != nil): // one of an earlier vkc has none
				err = nil
			case faster(i) && tooLarge(err):
				programs, err = programs[:i], nil
			}
		}
		compiled <- err
	}()
	known := false
	wait := func() error {
		if known {
			return nil
		}
		known = true
		return <-compiled
	}
	if m.gpuMemory > 0 {
		if err := wait(); err != nil {
			return err
		}
		if err := m.makeRoom(programs); err != nil {
			return err
		}
	}
	if m.step, err = m.loadProgram(ctx, first, nil); err != nil {
		cancel()
		wait() // it reads the model's file until then; why it ended is known
		return err
	}
	if err := wait(); err != nil {
		return err
	}
	for i := 1; i < len(programs); i++ {
		p := programs[i]
		if p == nil || noFaster(i, programs, classes) {
			continue
		}
		if faster(i) && p.Contents.Program == nil && m.step.Vulkan() != nil {
			continue // the processor would run it, which has neither weights nor states
		}
		exe, err := m.loadProgram(ctx, p, m.step)
		switch {
		case short(i) && tooLarge(err):
			continue
		case faster(i) && tooLarge(err):
			return nil
		case err != nil:
			return err
		}
		c := classes[i]
		if c.exe = exe; c.prompt {
			if c.expected, err = m.expect(ctx, exe, graphs[i], o); err != nil {
				return err
			}
			m.prompts = append(m.prompts, c)
		} else {
			m.classes = append(m.classes, c)
		}
	}
	return nil
}

// expect returns what a part of a prompt is expected to take by a program that goes through several devices.
func (m *Model) expect(ctx context.Context, exe *vkc.Executable, g *ir.Graph, o Options) (float64, error) {
	if exe.Stages() == 1 || o.Deterministic || slices.ContainsFunc(m.device.Parts(), (*vkc.Device).IsCPU) {
		return 0, nil
	}
	g, err := withPrecision(g, o.Precision)
	if err != nil {
		return 0, err
	}
	return m.device.Expected(ctx, g)
}

// partFor is how many tokens are read at a time of a prompt of which so many are left: as many as there is a program
// for. Where parts go through several devices, each device waits for the first one to come and the last one to go,
// which is less with smaller parts: then it is those that take least together.
func (m *Model) partFor(left int) int {
	best, least := m.part, math.Inf(1)
	for _, c := range m.prompts {
		parts := (left+c.rows-1)/c.rows + c.exe.Stages() - 1
		if took := float64(parts) * c.expected; c.expected > 0 && took < least {
			best, least = c.rows, took
		}
	}
	return best
}

// noFaster reports whether a program is a step whose kernels are those of one for longer texts. Programs that could not
// be had are nil.
func noFaster(i int, programs []*vkc.Program, classes []class) bool {
	own := classes[i]
	for j, p := range programs {
		if c := classes[j]; !own.prompt && !c.prompt && c.rows == own.rows && c.length > own.length &&
			p.HasKernelsOf(programs[i]) && programs[i].HasKernelsOf(p) {
			return true
		}
	}
	return false
}

// stepOf returns the program of a step of so many texts, of that length with the step.
func (m *Model) stepOf(rows, length int) *vkc.Executable {
	return smallest(m.classes, rows, length, m.step)
}

// smallest returns the program of the first class that takes so many rows of that length, or else another.
func smallest(list []class, rows, length int, otherwise *vkc.Executable) *vkc.Executable {
	for _, c := range list {
		if rows <= c.rows && length <= c.length {
			return c.exe
		}
	}
	return otherwise
}

// promptOf returns the program that reads so many tokens of a prompt.
func (m *Model) promptOf(tokens int) *vkc.Executable {
	return smallest(m.prompts, tokens, m.context, m.prompts[len(m.prompts)-1].exe)
}

func (m *Model) load(ctx context.Context, g *ir.Graph, o Options, share *vkc.Executable) (*vkc.Executable, error) {
	p, err := m.compile(ctx, g, o)
	if err == nil && m.gpuMemory > 0 && m.weightRoom == 0 { // it is the first
		err = m.makeRoom([]*vkc.Program{p})
	}
	if err != nil {
		return nil, err
	}
	return m.loadProgram(ctx, p, share)
}

func (m *Model) loadProgram(ctx context.Context, p *vkc.Program, share *vkc.Executable) (*vkc.Executable, error) {
	return m.device.Load(ctx, p, vkc.LoadOptions{Weights: m.file, Share: share, WeightRoom: m.weightRoom,
		Progress: m.progress})
}

// compile compiles a graph that the device, or what stands in for it, has the memory for.
func (m *Model) compile(ctx context.Context, g *ir.Graph, o Options) (*vkc.Program, error) {
	g, err := withPrecision(g, o.Precision)
	if err != nil {
		return nil, err
	}
	if err := m.checkRoom(g); err != nil {
		return nil, err
	}
	if p, err := m.fromBundle(g); p != nil || err != nil {
		return p, err
	}
	p, err := m.device.Compile(ctx, g, vkc.CompileOptions{Weights: m.file, Progress: m.progress, Beside: m.first})
	if err != nil && m.bundle != nil {
		err = fmt.Errorf("the bundle has no program %q for this context, cache or number of answers: %w", g.Name, err)
	}
	if m.first == nil {
		m.first = p
	}
	return p, err
}

// Close ends all answers and releases the model.
func (m *Model) Close() error {
	if m.engine != nil {
		m.engine.close()
	}
	errs := []error{m.closeSpeculation(), m.extras.close()}
	programs := []*vkc.Executable{m.shift}
	for _, c := range append(m.prompts, m.classes...) {
		programs = append(programs, c.exe)
	}
	for _, exe := range append(programs, m.step) {
		if exe != nil {
			errs = append(errs, exe.Close())
		}
	}
	if m.device != nil {
		errs = append(errs, m.device.Close())
	}
	if m.file != nil {
		errs = append(errs, m.file.Close())
	}
	errs = append(errs, m.bundle.Close())
	return errors.Join(errs...)
}

// Tokenizer returns the model's tokenizer.
func (m *Model) Tokenizer() *tokenizer.Tokenizer { return m.tok }

// Why says what the model runs on, and why there.
func (m *Model) Why() string {
	if m.cheapest {
		return m.device.Why() + ": " + m.step.Why()
	}
	return m.step.Why()
}

// ChatTemplate returns the template of conversations in the model's file, or "".
func (m *Model) ChatTemplate() string {
	source, err := m.file.String("tokenizer.chat_template")
	if err != nil {
		return "" // Prompt says so
	}
	return source
}

// HasChatTemplate reports whether the file of a model, or its bundle, has a template of conversations. It loads no
// weights.
func HasChatTemplate(path string) (ok bool, err error) {
	m := &Model{}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := m.openFile(path, &Options{}); err != nil {
		return false, err
	}
	return m.ChatTemplate() != "", nil
}

// Prompt returns the tokens of a conversation, by the template in the model's file.
// BOS and EOS of the context are the model's.
func (m *Model) Prompt(c chat.Context) ([]int32, error) {
	source, err := m.file.String("tokenizer.chat_template")
	if err != nil {
		return nil, fmt.Errorf("the model was not made for conversations: %w", err)
	}
	t, err := chat.Parse(source)
	if err != nil {
		return nil, err
	}
	if bos, ok := m.tok.BOS(); ok {
		c.BOS = m.tok.Token(bos)
	}
	if eos, ok := m.tok.EOS(); ok {
		c.EOS = m.tok.Token(eos)
	}
	pieces, err := t.Render(c)
	if err != nil {
		return nil, err
	}
	return m.tok.EncodeChat(pieces), nil
}

// Context returns how many tokens a prompt and its answer may have together.
func (m *Model) Context() int { return m.context }

// Fit is Prompt of as much of a conversation as leaves room for an answer of so many tokens:
// its oldest messages go first, those of the system stay, and so does the last one. Forgotten
// is how many went.
func (m *Model) Fit(c chat.Context, room int) (prompt []int32, forgotten int, err error) {
	c.Messages = slices.Clone(c.Messages)
	for {
		if prompt, err = m.Prompt(c); err != nil || len(prompt)+room <= m.context {
			return prompt, forgotten, err
		}
		oldest := slices.IndexFunc(c.Messages, func(m chat.Message) bool { return m.Role != "system" })
		if oldest < 0 || oldest == len(c.Messages)-1 {
			return nil, forgotten, fmt.Errorf("generate: the last message alone makes a prompt of %d tokens, and the "+
				"answer is to have %d: the context is %d; shorten it or give more context", len(prompt), room,
				m.context)
		}
		c.Messages = slices.Delete(c.Messages, oldest, oldest+1)
		forgotten++
		for oldest < len(c.Messages)-1 && c.Messages[oldest].Role != "user" { // an answer goes with its question
			c.Messages = slices.Delete(c.Messages, oldest, oldest+1)
			forgotten++
		}
	}
}

// Generate goes on with a prompt, until the model ends its answer, or as many
// tokens are there as are wanted or, without Options.ContextShift, fit. The token that ends it is not among
// them, unless its Odds are asked for or a character before it was not finished, which it then stands for as
// U+FFFD. What an earlier call left of the same beginning is not computed anew; with
// Options.Deterministic, as far as it was read in whole parts of a prompt.
// The tokens of an answer do not depend on what else the model does meanwhile, with Options.Deterministic bit for bit.
//
// As many answers as Options.Parallel says are computed at once, and others wait, first come, first
// served. Tokens are made ahead of the loop over them: a loop that is slow holds up no other.
func (m *Model) Generate(ctx context.Context, prompt []int32, s Sampling) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		if err := m.check(prompt, s); err != nil {
			yield(Token{}, err)
			return
		}
		c, err := m.chooser(ctx, s)
		if err != nil {
			yield(Token{}, err)
			return
		}
		ctx, leave := context.WithCancel(ctx)
		defer leave()
		for a := m.engine.begin(&answer{ctx: ctx, text: prompt, chooser: c}); ; {
			tokens, err := a.take()
			if err != nil {
				yield(Token{}, err)
			}
			if len(tokens) == 0 {
				return
			}
			for _, t := range tokens {
				if !yield(t, nil) {
					return
				}
			}
		}
	}
}

// Parallel is how many answers may be under way at once.
func (m *Model) Parallel() int { return m.places }

// Load says how busy the model is.
func (m *Model) Load() Load { return m.engine.load() }

// DeviceBytes is how much memory of the device the model takes now, or 0 where it runs without one: weights, keys and
// values, temporaries, and tokens that are under way.
func (m *Model) DeviceBytes() (n uint64) {
	for _, d := range m.device.Parts() {
		n += d.Vulkan().MemoryStats().InUse
	}
	return n
}

// Reused says what became of all prompts so far.
func (m *Model) Reused() Reused { return m.engine.reusedSoFar() }

// check says why no answer can follow a prompt.
func (m *Model) check(prompt []int32, s Sampling) error {
	if err := s.Check(); err != nil {
		return err
	}
	switch {
	case len(prompt) == 0:
		return errors.New("generate: the prompt is empty: want at least one token, such as the one that begins a text")
	case len(prompt) >= m.context:
		return fmt.Errorf("generate: the prompt has %d tokens: want at most %d, less than the context; "+
			"shorten it or give more context", len(prompt), m.context-1)
	}
	for id := range s.Bias {
		if id < 0 || int(id) >= m.config.Vocab {
			return fmt.Errorf("generate: Bias has token %d: want 0 to %d", id, m.config.Vocab-1)
		}
	}
	return m.hasAll(prompt)
}

// hasAll refuses tokens that the model does not have.
func (m *Model) hasAll(tokens []int32) error {
	for i, id := range tokens {
		if id < 0 || int(id) >= m.config.Vocab {
			return fmt.Errorf("generate: token %d of the text is %d: want 0 to %d", i, id, m.config.Vocab-1)
		}
	}
	return nil
}
