package generate

import (
	"errors"
	"sync"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/tokenizer"
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

// Context returns how many tokens a prompt and its answer may have together.
func (m *Model) Context() int { return m.context }

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
