package multi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/collective"
)

// shardTensor is the memory of a device tensor of a [Tensor]. It is replicated on all devices, unless the devices have
// different kernels: the bits of its copies could then differ. In that case the tensor is only on the first device, and
// a run that takes it as an input copies it to the others through the host.
type shardTensor struct {
	of    *collective.Group
	parts []*runtime.DeviceTensor // by rank
	run   *collective.Run         // the run that made it; nil for none
}

// ReadAt implements runtime.Memory.
func (t *shardTensor) ReadAt(ctx context.Context, p []byte, offset int64) error {
	if err := t.parts[0].ReadBytes(ctx, p, offset); err != nil {
		return err
	}
	return t.run.Failed()
}

// Close implements runtime.Memory.
func (t *shardTensor) Close() error { return runtime.Each(t.parts, (*runtime.DeviceTensor).Close) }

// Device implements runtime.Memory.
func (t *shardTensor) Device() string { return t.parts[0].Device() }

// inputsByRank returns the inputs of a run by rank. It reads inputs that are not on all devices to the host. The
// tensors stay allocated until release is called.
func (x *Tensor) inputsByRank(ctx context.Context, in map[string]*ir.Data, opt runtime.RunOptions) (_ []shardInputs,
	release func(), err error) {
	held, done, err := runtime.Hold(opt.Inputs)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	defer bailout.Caught(&err)
	var list []shardInputs
	for range x.exes { // each rank needs maps of its own, because runPart adds its link
		one := shardInputs{host: map[string]*ir.Data{}, device: map[string]*runtime.DeviceTensor{}}
		maps.Copy(one.host, in)
		list = append(list, one)
	}
	for name, memory := range held {
		t, ok := memory.(*shardTensor)
		if ok && t.of == x.group && len(t.parts) == len(x.exes) {
			if err := t.run.Failed(); err != nil {
				return nil, nil, fmt.Errorf("input %q: %w", name, err)
			}
			for rank := range list {
				list[rank].device[name] = t.parts[rank]
			}
			continue
		}
		d := bailout.Must(opt.Inputs[name].Read(ctx))
		for rank := range list {
			list[rank].host[name] = d
		}
	}
	return list, done, nil
}

// result combines the results of all ranks into the run's result: the outputs of rank 0. A kept output has the tensors
// of all ranks if all of them have the same bits. It closes the other ranks' outputs.
func (x *Tensor) result(results []*runtime.Result, run *collective.Run) (r *runtime.Result, err error) {
	r = results[0]
	for name, first := range r.Kept {
		t := &shardTensor{of: x.group, parts: []*runtime.DeviceTensor{first}, run: run}
		if x.alike {
			for _, other := range results[1:] {
				t.parts = append(t.parts, other.Kept[name])
				delete(other.Kept, name)
			}
		}
		var made error
		r.Kept[name], made = runtime.NewDeviceTensor(fmt.Sprintf("output %q", name), first.DType(), first.Dims(), t)
		err = errors.Join(err, made)
	}
	for _, other := range results[1:] {
		err = errors.Join(err, other.CloseKept())
	}
	return r, err
}

// Upload implements runtime.Executable: to each device.
func (x *Tensor) Upload(ctx context.Context, d *ir.Data) (*runtime.DeviceTensor, error) {
	return x.onEach(func(p runtime.Executable) (*runtime.DeviceTensor, error) { return p.Upload(ctx, d) })
}

// UploadFrom implements runtime.Executable: to each device.
func (x *Tensor) UploadFrom(ctx context.Context, t ir.DType, dims []int,
	from io.ReaderAt) (*runtime.DeviceTensor, error) {
	return x.onEach(func(p runtime.Executable) (*runtime.DeviceTensor, error) {
		return p.UploadFrom(ctx, t, dims, from)
	})
}

// onEach calls upload for each part, and returns a tensor that consists of the uploaded ones: it is on all devices.
func (x *Tensor) onEach(upload func(runtime.Executable) (*runtime.DeviceTensor, error)) (*runtime.DeviceTensor, error) {
	t := &shardTensor{of: x.group}
	for _, p := range x.exes {
		one, err := upload(p)
		if err != nil {
			return nil, errors.Join(runtime.Reason(err), t.Close())
		}
		t.parts = append(t.parts, one)
	}
	return runtime.NewDeviceTensor("uploaded", t.parts[0].DType(), t.parts[0].Dims(), t)
}
