package generate

import (
	"context"
	"errors"
	"slices"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/onnx/folder"
	"github.com/vkc-go/vkc/ir"
)

// A Decoder keeps the caches of finished answers on the device. A new answer takes over the cache with the longest
// prefix of its prompt, cut to that prefix.

// pastCutter is the program that cuts caches to their first positions.
type pastCutter struct{ exe *vkc.Executable }

// cutSymbol is the symbol of the cutter's graph for the number of positions that are kept.
const cutSymbol = "K"

// newPastCutter compiles a program that cuts the caches of a graph to their first positions. It returns nil if a cache
// has no axis of positions, such as the state of a recurrence: then a cache can only be taken over whole.
func (d *Decoder) newPastCutter(ctx context.Context) (*pastCutter, error) {
	axes := map[string]int{}
	g := d.files[0].Graph
	for _, c := range d.ports.Past {
		n, ok := g.Named(c.Past)
		if !ok {
			return nil, nil
		}
		axis := slices.IndexFunc(n.Shape(), func(extent ir.Dim) bool {
			isSymbol := extent.Mul == 1 && extent.Add == 0
			return isSymbol && slices.Equal(extent.Symbols(), []string{folder.PastSymbol})
		})
		if axis < 0 {
			return nil, nil
		}
		axes[c.Past] = axis
	}
	cut, err := frontend.Build("cut", func(b *frontend.Builder) {
		kept := b.Sym(cutSymbol, d.model.context)
		for _, c := range d.ports.Past {
			n, _ := g.Named(c.Past)
			x := b.Input(c.Past, n.DType(), n.Shape())
			b.Output(c.Present, x.IndexSelect(axes[c.Past], b.Iota(ir.I32, 0, kept)))
		}
	})
	if err != nil {
		return nil, err
	}
	exe, err := d.model.device.LoadGraph(ctx, cut, nil)
	if err != nil {
		return nil, err
	}
	return &pastCutter{exe}, nil
}

// cut returns caches with the first n positions of past. The caller closes the old ones and the new ones.
func (p *pastCutter) cut(ctx context.Context, ports folder.Ports, past map[string]*vkc.DeviceTensor, n int) (
	map[string]*vkc.DeviceTensor, error) {
	o := vkc.RunOptions{Inputs: map[string]*vkc.DeviceTensor{}, Symbols: map[string]int64{cutSymbol: int64(n)}}
	for _, c := range ports.Past {
		o.Inputs[c.Past] = past[c.Present]
		o.Keep = append(o.Keep, c.Present)
	}
	res, err := p.exe.Run(ctx, nil, o)
	if err != nil {
		return nil, err
	}
	return res.Kept, nil
}

// takeIdle returns the finished answer that has the longest prefix in common with a prompt, and removes it from the
// idle ones. If no answer has a token in common, it returns a new one while there is room, and then the oldest.
func (d *Decoder) takeIdle(prompt []int32) *decoding {
	d.mu.Lock()
	defer d.mu.Unlock()
	best, most := -1, 0
	for i, r := range d.idle {
		if n := r.reusable(prompt); n > most {
			best, most = i, n
		}
	}
	if best < 0 {
		if len(d.idle)+d.load.Running <= d.Parallel() { // Running counts this answer too
			return &decoding{Decoder: d}
		}
		best = 0 // the oldest; keepPrefix empties it
	}
	r := d.idle[best]
	d.idle = slices.Delete(d.idle, best, best+1)
	return r
}

// putIdle keeps a finished answer.
func (d *Decoder) putIdle(r *decoding) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle = append(d.idle, r)
}

// reusable returns how many tokens of a prompt the caches of r can serve.
func (r *decoding) reusable(prompt []int32) int {
	n := 0
	for n < min(len(r.tokens), len(prompt)) && r.tokens[n] == prompt[n] {
		n++
	}
	// Without a cutter, caches cannot get shorter, so all their tokens must be in the prompt.
	if r.model.options.Deterministic || r.cutter == nil && n < len(r.tokens) {
		return 0
	}
	return n
}

// keepPrefix cuts the caches of r to the tokens that a prompt begins with. After an error r has no tokens.
func (r *decoding) keepPrefix(ctx context.Context, prompt []int32) error {
	n := r.reusable(prompt)
	if n == len(r.tokens) {
		return nil
	}
	past, tokens := r.past, r.tokens[:n]
	defer closeAll(past)
	r.past, r.tokens = nil, nil
	if n == 0 {
		return nil
	}
	r.one.Lock()
	defer r.one.Unlock()
	var err error
	if r.past, err = r.cutter.cut(ctx, r.ports, past, n); err == nil {
		r.tokens = tokens
	}
	return err
}

// closePast releases the cutter and the caches of finished answers.
func (d *Decoder) closePast() error {
	var errs []error
	for _, r := range d.idle {
		closeAll(r.past)
	}
	d.idle = nil
	if d.cutter != nil {
		errs = append(errs, d.cutter.exe.Close())
	}
	return errors.Join(errs...)
}
