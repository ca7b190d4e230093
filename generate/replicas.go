package generate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
)

// Replicas runs one model on several devices. An answer goes to the device with the fewest answers. On equal devices
// the answer does not depend on the choice.
type Replicas struct {
	*Model // the first, for common methods
	models []*Model

	mu         sync.Mutex
	inProgress []int // the number of answers in progress, by index in models
}

// OpenReplicas calls [Open] for each device of a list such as "0,1" (Options.Device).
func OpenReplicas(ctx context.Context, path string, o Options) (_ *Replicas, err error) {
	r := &Replicas{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	for name := range strings.SplitSeq(o.Device, ",") {
		one := o
		one.Device = strings.TrimSpace(name)
		if one.Device == "" {
			return nil, fmt.Errorf("generate: devices %q: a name is missing: want a list such as 0,1", o.Device)
		}
		m, err := Open(ctx, path, one) // later devices find the compiled programs in the cache
		if err != nil {
			return nil, err
		}
		r.models = append(r.models, m)
	}
	r.Model, r.inProgress = r.models[0], make([]int, len(r.models))
	return r, nil
}

// Generate calls [Model.Generate] on one of the devices.
func (r *Replicas) Generate(ctx context.Context, prompt []int32, s Sampling) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		i, done := r.pick()
		defer done()
		r.models[i].Generate(ctx, prompt, s)(yield)
	}
}

// Score calls [Model.Score] on one of the devices.
func (r *Replicas) Score(ctx context.Context, text []int32, likeliest int) ([]Token, error) {
	i, done := r.pick()
	defer done()
	return r.models[i].Score(ctx, text, likeliest)
}

// Slots describes the slots of all devices, in order.
func (r *Replicas) Slots() (list []SlotInfo) {
	for _, m := range r.models {
		list = append(list, m.Slots()...)
	}
	return list
}

// SaveSlot calls [Model.SaveSlot] on the slot's device.
func (r *Replicas) SaveSlot(ctx context.Context, index int, w io.Writer) (tokens int, err error) {
	m, index := r.slotOf(index)
	return m.SaveSlot(ctx, index, w)
}

// RestoreSlot calls [Model.RestoreSlot] on the slot's device.
func (r *Replicas) RestoreSlot(ctx context.Context, index int, from io.Reader) (tokens int, err error) {
	m, index := r.slotOf(index)
	return m.RestoreSlot(ctx, index, from)
}

// EraseSlot calls [Model.EraseSlot] on the slot's device.
func (r *Replicas) EraseSlot(ctx context.Context, index int) (tokens int, err error) {
	m, index := r.slotOf(index)
	return m.EraseSlot(ctx, index)
}

// slotOf returns the device of a slot, and the slot's index there. All devices have the same number of slots.
func (r *Replicas) slotOf(index int) (m *Model, own int) {
	each := r.models[0].slotCount
	if index < 0 || index >= each*len(r.models) {
		return r.models[0], -1
	}
	return r.models[index/each], index % each
}

// pick returns the index of the device with the fewest answers in progress, or the first of several such devices. So
// under light load, texts with a common prefix run on the device that has it in its cache. done ends the answer.
func (r *Replicas) pick() (best int, done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.inProgress {
		if r.inProgress[i] < r.inProgress[best] {
			best = i
		}
	}
	r.inProgress[best]++
	return best, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.inProgress[best]--
	}
}

// Parallel returns the maximum number of concurrent answers, on all devices.
func (r *Replicas) Parallel() int {
	n := 0
	for _, m := range r.models {
		n += m.Parallel()
	}
	return n
}

// Load returns the current load of all devices.
func (r *Replicas) Load() (l Load) {
	for _, m := range r.models {
		one := m.Load()
		l.Running += one.Running
		l.Waiting += one.Waiting
		l.Cache += one.Cache / float64(len(r.models))
	}
	return l
}

// Reused sums the prefix reuse of all devices.
func (r *Replicas) Reused() (u Reused) {
	for _, m := range r.models {
		one := m.Reused()
		u.Tokens += one.Tokens
		u.Known += one.Known
	}
	return u
}

// DeviceBytes returns the memory that the model uses now, on all devices.
func (r *Replicas) DeviceBytes() (n uint64) {
	for _, m := range r.models {
		n += m.DeviceBytes()
	}
	return n
}

// Why gives the reason for the model's devices, one line for each device.
func (r *Replicas) Why() string {
	var lines []string
	for _, m := range r.models {
		lines = append(lines, m.Why())
	}
	return strings.Join(lines, "\n")
}

// Close ends all answers and releases the model on all devices.
func (r *Replicas) Close() error {
	var errs []error
	for _, m := range r.models {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
