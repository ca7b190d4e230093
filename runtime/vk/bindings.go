package vk

import "fmt"

// BufferRange is the part of a buffer bound at one binding of a kernel.
type BufferRange struct {
	Buffer *Buffer
	Offset int64 // a multiple of Caps.StorageAlignment
	Size   int64 // at most Caps.MaxStorageRange; 0 means up to the buffer's end
}

// Whole is the range of the whole buffer.
func Whole(b *Buffer) BufferRange { return BufferRange{Buffer: b} }

// BindingSet lists the buffers of one kernel, by binding.
type BindingSet struct {
	Name    string // of the kernel, for errors
	Buffers []BufferRange
}

// Bindings is a group of descriptor sets made together, for example one for each dispatch in a recording.
type Bindings struct {
	object
	sets   []uint64
	counts []int       // buffers of each set
	users  [][]*Buffer // the buffers of each set

	// If grids of a program depend on symbols, the device reads their workgroup counts from buffer grids at offset
	// gridsAt. If symbols is set, the recording has the counts for these values instead.
	grids   *Buffer
	gridsAt int64
	symbols map[string]int64
}

// NewBindings makes a descriptor set for each element of list. [CommandList.Bind] selects one by its index in list.
func (d *Device) NewBindings(list []BindingSet) (*Bindings, error) {
	if err := d.checkUsable("make bindings"); err != nil {
		return nil, err
	}
	b := &Bindings{object: object{device: d}}
	if len(list) == 0 {
		d.adopt(b)
		return b, nil
	}
	layouts, descriptors, err := b.check(list)
	if err != nil {
		return nil, err
	}
	pool, sets, r := d.native.createSets(layouts, descriptors)
	if err := d.checkResult(r, "create %d descriptor sets", len(list)); err != nil {
		return nil, err
	}
	// Destroying the pool frees the sets.
	b.sets, b.owned[0] = sets, handle{objectDescriptorPool, pool}
	if err := d.checkResult(d.native.updateSets(b.descriptorWords(list)), "update descriptor sets"); err != nil {
		b.release()
		return nil, err
	}
	d.adopt(b)
	return b, nil
}

// check validates every range, and sets counts and users. It returns each set's layout and the number of descriptors.
func (b *Bindings) check(sets []BindingSet) (layouts []uint64, descriptors int, err error) {
	for _, set := range sets {
		var users []*Buffer
		for i, r := range set.Buffers {
			if err := b.device.checkBinding(r); err != nil {
				return nil, 0, fmt.Errorf("vk: kernel %s, binding %d: %w", set.Name, i, err)
			}
			users = append(users, r.Buffer)
		}
		layout, err := b.device.layouts.layoutFor(len(set.Buffers))
		if err != nil {
			return nil, 0, err
		}
		layouts = append(layouts, layout.set)
		b.counts = append(b.counts, len(set.Buffers))
		b.users = append(b.users, users)
		descriptors += len(set.Buffers)
	}
	return layouts, descriptors, nil
}

// checkBinding returns an error if the range cannot be bound to a kernel on this device.
func (d *Device) checkBinding(r BufferRange) error {
	size := r.extent()
	if err := d.checkRange(r.Buffer, r.Offset, size); err != nil {
		return err
	}
	caps := &d.info.Caps
	switch {
	case size == 0:
		return fmt.Errorf("buffer %s: empty range at %d", r.Buffer.name, r.Offset)
	case caps.StorageAlignment > 1 && uint64(r.Offset)%caps.StorageAlignment != 0:
		return fmt.Errorf("buffer %s: offset %d is not a multiple of %d", r.Buffer.name, r.Offset,
			caps.StorageAlignment)
	case uint64(size) > caps.MaxStorageRange:
		return fmt.Errorf("buffer %s: a range of %s %w of %s", r.Buffer.name, formatBytes(uint64(size)), ErrTooLarge,
			formatBytes(caps.MaxStorageRange))
	}
	return nil
}

// extent returns the size of the range in bytes, also if Size is 0.
func (r BufferRange) extent() int64 {
	if r.Size == 0 {
		return r.Buffer.Size() - r.Offset
	}
	return r.Size
}

// descriptorWords returns the arguments for the C function that writes the sets: five words for each binding.
func (b *Bindings) descriptorWords(sets []BindingSet) []uint64 {
	var words []uint64
	for i, set := range sets {
		for binding, r := range set.Buffers {
			words = append(words, b.sets[i], uint64(binding), r.Buffer.handle, uint64(r.Offset), uint64(r.extent()))
		}
	}
	return words
}

// Close frees the sets after the work submitted so far has finished. Closing twice is fine.
func (b *Bindings) Close() error { return closeOnce(b) }

func (b *Bindings) describe() string { return fmt.Sprintf("bindings of %d kernels", len(b.sets)) }
