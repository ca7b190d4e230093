package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// runLimit is the default time limit of a run on several devices. If a run takes longer, the group assumes that one of
// its devices hangs.
const runLimit = 2 * time.Minute

// Group is a process group: devices, numbered by rank, that exchange values during their runs. A caller must lock the
// group to start a run, so that all devices execute runs in the same order.
type Group struct {
	// These settings may be changed before the first run.
	Limit      time.Duration                      // time limit of a run
	ProbeLimit time.Duration                      // time limit of a run that probes a transport
	OpenCopier func([]*vk.Device) (Copier, error) // makes the Copier of transport Copied
	// LoadGraph loads the graph of a probe on a device.
	LoadGraph func(ctx context.Context, rank int, g *ir.Graph) (runtime.Executable, error)

	names  []string      // names of the devices, by rank
	vulkan []*vk.Device  // the devices by rank; empty if all are the CPU
	token  chan struct{} // has an element while the group is locked

	// The lock guards the fields below.
	Choices
	channels [len(transports)]Channel
	copier   Copier // nil until needed
	inFlight []*Run // asynchronous runs, oldest first
}

// New makes the group of the devices in list. vulkan has the same devices in the same order, or is empty if all are
// CPUs. A group cannot contain both kinds.
func New(list []Traits, vulkan []*vk.Device) (*Group, error) {
	if len(vulkan) != 0 && len(vulkan) != len(list) {
		return nil, fmt.Errorf("devices: %d of %d are Vulkan devices and others are not: want one or the other to "+
			"share each op", len(vulkan), len(list))
	}
	g := &Group{vulkan: vulkan, token: make(chan struct{}, 1), Limit: runLimit, ProbeLimit: probeLimit,
		OpenCopier: openPeers, Choices: Available(list)}
	for _, t := range list {
		g.names = append(g.names, t.Caps.Name)
	}
	return g, nil
}

// Lock waits for the lock of the group and takes it.
func (g *Group) Lock(ctx context.Context) error {
	select {
	case g.token <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("another run is under way: %w", ctx.Err())
	}
}

// Unlock releases the lock.
func (g *Group) Unlock() { <-g.token }

// Idle waits until all devices are idle.
func (g *Group) Idle() error {
	return runtime.Each(g.vulkan, func(d *vk.Device) error { return d.WaitIdle(context.Background()) })
}

// Close frees the memory of all channels. It returns the errors of runs that no caller has received yet.
func (g *Group) Close() error {
	errs := []error{g.drain(0)}
	for i := range g.channels {
		errs = append(errs, g.channels[i].free())
	}
	if g.copier != nil {
		errs = append(errs, g.copier.Close())
	}
	return errors.Join(errs...)
}

// Reserve returns a channel of the cheapest working transport, large enough for the exchanges of a run. The caller
// holds the lock.
func (g *Group) Reserve(ctx context.Context, exchanges []int) (*Channel, error) {
	for {
		t, err := g.choose(ctx, exchanges)
		if err != nil {
			return nil, err
		}
		c, err := g.channel(t, exchanges)
		if err == nil || !transports[t].copies {
			return c, err
		}
		g.exclude(t, err) // the devices may lack memory for slots; the other transports use host memory
	}
}

// choose returns the cheapest working transport for the exchanges of a run. It probes transports as needed. The caller
// holds the lock.
func (g *Group) choose(ctx context.Context, exchanges []int) (Transport, error) {
	for {
		c := g.cheapest(exchanges)
		if !c.Unprobed {
			return c.Transport, nil
		}
		if err := g.Probe(ctx, c.Transport, g.ProbeLimit); err != nil {
			return 0, err
		}
	}
}

// Waits reports whether kernels wait for the other devices in these exchanges, while their programs go on.
func (g *Group) Waits(ctx context.Context, exchanges []int) (bool, error) {
	if err := g.Lock(ctx); err != nil {
		return false, err
	}
	defer g.Unlock()
	t, err := g.choose(ctx, exchanges)
	return !transports[t].ends, err
}

// Probe finds out whether a transport works by running small programs, each with a time limit. It excludes a transport
// that does not work. It returns an error if ctx ends. The caller holds the lock.
func (g *Group) Probe(ctx context.Context, t Transport, limit time.Duration) error {
	c, failed := g.channel(t, probeExchanges(t))
	if failed == nil {
		failed = g.probe(ctx, c, limit)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if failed != nil {
		g.exclude(t, failed)
		return g.channels[t].free()
	}
	i := slices.IndexFunc(g.List, func(c Choice) bool { return c.Transport == t })
	g.List[i].Unprobed = false
	return nil
}

// drain waits for the oldest asynchronous runs until at most `most` are in flight. It returns the errors of failed runs
// that no caller has received yet.
func (g *Group) drain(most int) error {
	var errs []error
	for len(g.inFlight) > most {
		errs = append(errs, g.inFlight[0].wait())
		g.inFlight = g.inFlight[1:]
	}
	return errors.Join(errs...)
}
