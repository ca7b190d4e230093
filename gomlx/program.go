package gomlx

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pkg/errors"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/ir"
)

// program is a compiled and loaded graph, shared by all computations with the same graph. Its inputs are named by
// inputName or stateName, in order, and its outputs by outputName. A state is an input that stays on the device between
// runs: blocks, or a donated input that the program updates in place.
type program struct {
	executable *vkc.Executable
	uses       int

	mu   sync.Mutex          // held while a run starts, so that its states have the given values
	held map[string]*storage // by state: the storage with the value that is in the state now
}

func inputName(i int) string  { return fmt.Sprintf("x%d", i) }
func stateName(i int) string  { return fmt.Sprintf("s%d", i) }
func outputName(i int) string { return fmt.Sprintf("y%d", i) }

// inputNumber returns the number in a name by inputName or stateName.
func inputNumber(name string, in []*storage) (int, error) {
	i, err := strconv.Atoi(name[1:])
	if err != nil || i < 0 || i >= len(in) {
		return 0, errors.Errorf("a program has the input %q, and is given %d", name, len(in))
	}
	return i, nil
}

// programKey identifies a graph: by its hash, which does not depend on names, and by the numbers in the names of
// inputs, states, outputs and symbols, which connect them to the step's values and the call's axes.
func programKey(g *ir.Graph) string {
	var key strings.Builder
	key.WriteString(g.HashString())
	ports := g.Interface()
	for _, n := range slices.Concat(ports.Inputs, ports.States) {
		key.WriteString(" " + n.Name())
	}
	key.WriteString(" -> " + strings.Join(ports.Outputs, " ") + " of " + strings.Join(g.Symbols(), " "))
	return key.String()
}

// load returns the loaded program of a graph, which the caller gives back with release. Equal graphs share a program,
// unless they update states.
func (b *Backend) load(ctx context.Context, g *ir.Graph) (*program, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.check(0); err != nil {
		return nil, err
	}
	key := programKey(g)
	if len(g.Updates()) > 0 {
		b.updating++
		key += fmt.Sprint(" number ", b.updating) // never equal to another key
	}
	p, ok := b.programs[key]
	if !ok {
		executable, err := b.device.LoadGraph(ctx, g, nil)
		if err != nil {
			return nil, errors.WithMessagef(err, "computation %q", g.Name)
		}
		p = &program{executable: executable, held: map[string]*storage{}}
		b.programs[key] = p
	}
	p.uses++
	return p, nil
}

// release ends one use of a program. The last use closes it.
func (b *Backend) release(p *program) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.uses--
	if p.uses > 0 {
		return
	}
	for key, q := range b.programs {
		if q == p {
			delete(b.programs, key)
			p.close()
		}
	}
}

// close copies tensors that exist only in states to the host, and closes the program.
func (p *program) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.held {
		_ = s.leaveState(p, 0)
	}
	p.held = nil
	_ = p.executable.Close()
}

// inputs returns the program's inputs by name, each as it is: in the host's memory, or on the device.
func (p *program) inputs(ctx context.Context, in []*storage) (
	host vkc.Tensors, onDevice map[string]*vkc.DeviceTensor, err error) {
	host, onDevice = vkc.Tensors{}, map[string]*vkc.DeviceTensor{}
	for _, port := range p.executable.Inputs() {
		i, err := inputNumber(port.Name, in)
		if err != nil {
			return nil, nil, err
		}
		device, data, err := in[i].forRun(ctx, p.executable)
		switch {
		case err != nil:
			return nil, nil, err
		case device != nil:
			onDevice[port.Name] = device
		default:
			host[port.Name] = data
		}
	}
	return host, onDevice, nil
}

// run runs the program. Results stay on the device. updates maps the index of a result to the index of an input: the
// result is then in the state of that input.
func (p *program) run(ctx context.Context, b *Backend, in []*storage, symbols map[string]int64, results int,
	updates map[int]int) ([]*storage, error) {
	host, onDevice, err := p.inputs(ctx, in)
	if err != nil {
		return nil, err
	}
	opt := vkc.RunOptions{Inputs: onDevice, Symbols: map[string]int64{}}
	for _, s := range p.executable.Symbols() {
		opt.Symbols[s.Name] = symbols[s.Name]
	}
	for _, port := range p.executable.Outputs() {
		opt.Keep = append(opt.Keep, port.Name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.hold(in); err != nil {
		return nil, err
	}
	const users = 2 // of an input that is overwritten: the step and its call
	for _, i := range updates {
		if err := in[i].leaveState(p, users); err != nil {
			return nil, err
		}
		delete(p.held, stateName(i))
	}
	res, err := p.executable.Run(ctx, host, opt)
	if err != nil {
		return nil, err
	}
	out := make([]*storage, results)
	for j := range out {
		if i, ok := updates[j]; ok {
			out[j] = &storage{backend: b, dims: in[i].dims, state: p, name: stateName(i)}
			p.held[stateName(i)] = out[j]
		} else {
			out[j] = b.onDevice(res.Kept[outputName(j)])
		}
	}
	return out, nil
}

// hold makes the program's states equal to the inputs with their numbers. It copies those that the states do not hold
// already.
func (p *program) hold(in []*storage) error {
	for _, port := range p.executable.States() {
		i, err := inputNumber(port.Name, in)
		if err != nil {
			return err
		}
		before := p.held[port.Name]
		if before == in[i] {
			continue
		}
		dims, err := port.Type.Shape.Eval(nil)
		if err != nil {
			return err
		}
		d, err := ir.NewData(port.Type.DType, dims...)
		if err != nil {
			return err
		}
		if err := in[i].read(d.Bytes); err != nil {
			return err
		}
		if before != nil {
			// The storage that this state held needs memory of its own.
			if err := before.leaveState(p, 0); err != nil {
				return err
			}
		}
		if err := p.executable.WriteState(port.Name, d); err != nil {
			return err
		}
		p.held[port.Name] = in[i]
	}
	return nil
}
