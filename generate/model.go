package generate

import (
	"errors"
	"slices"
	"sync"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/lora"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk"
)

// Model is a model loaded on a device. Several goroutines may use it: see Options.Parallel.
type Model struct {
	file          *gguf.File
	bundle        *vkc.Program            // the bundle of the file, or nil
	bundled       map[string]*vkc.Program // the bundle's programs, by the hashes of their graphs
	halfCache     bool                    // whether the default dtype of the KV cache is f16
	adapters      lora.Set
	vision        *visionTower    // nil for a model that reads no pictures
	noVision      error           // the reason, if there is an mmproj file that does not fit
	weights       ir.WeightSource // of the file and the adapters
	config        llm.Config
	tok           *tokenizer.Tokenizer
	context       int
	slotCount     int // slots on the device
	deterministic bool
	pages         int // pages of the KV cache, see Options.Positions; 0 without paging
	part          int // see partOf
	device        *vkc.Device
	first         *vkc.Program    // the program whose weights and states the others share
	auto          bool            // vkc chose the device, so the CPU may replace it
	refused       error           // the reason that the CPU replaced the device after the step was loaded; else nil
	cheapest      bool            // the way to use several devices was chosen by estimated step time
	step          *vkc.Executable // decodes one token of each sequence
	smallSteps    []sizedProgram  // step programs for fewer or shorter sequences, smallest first
	prompts       []sizedProgram  // prefill programs, by increasing number of tokens
	mixed         []sizedProgram  // programs for answers and parts of prompts in one run, smallest first; or nil
	shift         *vkc.Executable // performs context shifts; nil if an answer ends with the context
	keep          int             // tokens that a context shift keeps
	drafts        *vkc.Executable // evaluates a token and guesses after it; nil without speculation

	guesser    drafter
	guessCount int // guesses at a time

	engine *engine
	ahead  int // see Options.Ahead; 0 to choose it from the duration of a step

	progress func(vkc.Progress) // see Options.Progress; nil when the model is loaded
	fallback func(why error)    // see Options.Fallback

	gpuMemory  uint64 // see Options.GPUMemory
	weightRoom uint64 // the part of it for weights; 0 means no bound

	options Options // after completion
	extras  extras

	counting   sync.Mutex
	speculated Speculated

	constraints constraints // of Sampling.Grammar
}

// Close ends all answers and releases the model.
func (m *Model) Close() error {
	// Open calls Close after an error too, so every field may be nil.
	if m.engine != nil {
		m.engine.close()
	}
	errs := []error{m.closeSpeculation(), m.extras.close(), m.vision.close()}
	programs := []*vkc.Executable{m.shift}
	for _, c := range slices.Concat(m.prompts, m.smallSteps, m.mixed) {
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
	errs = append(errs, m.adapters.Close())
	if m.file != nil {
		errs = append(errs, m.file.Close())
	}
	errs = append(errs, m.bundle.Close())
	return errors.Join(errs...)
}

// Tokenizer returns the model's tokenizer.
func (m *Model) Tokenizer() *tokenizer.Tokenizer { return m.tok }

// Why names the model's device and the reason for its choice. It also says if the device had no memory for decoded
// copies of the weights.
func (m *Model) Why() string {
	isWithoutCopies := func(p sizedProgram) bool { return p.exe.WithoutCopies() }
	switch {
	case m.refused != nil:
		return m.device.Name() + ": " + m.refused.Error()
	case m.cheapest:
		return m.device.Why() + ": " + m.step.Why()
	case m.step.WithoutCopies(): // Why of the step says so itself
	case slices.ContainsFunc(slices.Concat(m.smallSteps, m.prompts, m.mixed), isWithoutCopies):
		return m.step.Why() + vkc.WithoutCopies
	}
	return m.step.Why()
}

// Context returns how many tokens a prompt and its answer may have together.
func (m *Model) Context() int { return m.context }

// Parallel returns the maximum number of concurrent answers.
func (m *Model) Parallel() int { return m.slotCount }

// Load returns the current load of the model.
func (m *Model) Load() Load { return m.engine.load() }

// DeviceBytes returns the device memory that the model uses now: weights, KV cache, temporaries, and steps in flight.
// It is 0 without a device.
func (m *Model) DeviceBytes() (n uint64) {
	for _, d := range m.device.Parts() {
		n += vk.Of(d).MemoryStats().InUse
	}
	return n
}

// Reused counts the prefix reuse of all prompts so far.
func (m *Model) Reused() Reused { return m.engine.reusedSoFar() }
