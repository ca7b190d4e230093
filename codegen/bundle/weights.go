package bundle

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// weightRef is a weight that a program or graph uses, with its type.
type weightRef struct {
	name  string
	dtype ir.DType
	dims  []int
}

// String returns the type, such as "q4_0[64,32]".
func (r weightRef) String() string {
	return ir.Type{DType: r.dtype, Shape: ir.ShapeOf(r.dims...)}.String()
}

// check returns nil if the given weight has the type of r, and an error otherwise.
func (r weightRef) check(given weightRef) *ir.BadWeight {
	if given.dtype != r.dtype || !slices.Equal(given.dims, r.dims) {
		return &ir.BadWeight{Name: r.name, Want: r.String(), Given: given.String()}
	}
	return nil
}

// refSet collects references by name, in the order of first use.
type refSet struct {
	list   []weightRef
	byName map[string]int
}

// add adds a weight. It fails if the weight is in the set with another type.
func (s *refSet) add(r weightRef) {
	if i, ok := s.byName[r.name]; ok {
		if err := s.list[i].check(r); err != nil {
			bailout.Check(fmt.Errorf("two uses of a weight differ: %w", err))
		}
		return
	}
	if s.byName == nil {
		s.byName = map[string]int{}
	}
	s.byName[r.name] = len(s.list)
	s.list = append(s.list, r)
}

// addProgram adds the weights of a program, in the order of its buffers, and then the weights that are initial values
// of its states.
func (s *refSet) addProgram(p *kernel.Program) {
	for _, b := range p.Buffers {
		for _, seg := range b.Segments {
			if seg.Weight != "" {
				s.add(segmentRef(seg))
			}
		}
	}
	for _, port := range p.States {
		first, err := ir.ParseInitial(port.Init)
		if err != nil {
			bailout.Check(fmt.Errorf("state %q: init: %w", port.Name, err))
		}
		if name, ok := first.Weight(); ok {
			s.add(weightRef{name, port.DType, fixed("state", port.Name, port.Shape)})
		}
	}
}

// fixed returns the extents of a shape without symbols. what and name describe its owner in an error, such as "state"
// and "cache".
func fixed(what, name string, s ir.Shape) []int {
	dims, err := s.Eval(nil)
	if err != nil {
		bailout.Check(fmt.Errorf("%s %q: %w", what, name, err))
	}
	return dims
}

func segmentRef(s kernel.Segment) weightRef { return weightRef{s.Weight, s.DType, s.Dims} }

// weightRefs lists the weights to include. The program's weights come first, in the order of its buffers, so that an
// upload reads the file sequentially. Then come the weights that only the graph uses, the weights of the model's other
// programs, and the remaining weights of the model's file.
func (c *Contents) weightRefs() (list []weightRef, err error) {
	if c.Weights == nil {
		return nil, nil
	}
	defer bailout.Caught(&err)
	var set refSet
	set.addProgram(c.Program)
	for _, n := range c.Graph.Leaves(ir.OpWeight) {
		set.add(weightRef{n.Name(), n.DType(), fixed("weight", n.Name(), n.Shape())})
	}
	for _, part := range c.Parts {
		set.addProgram(part.Program)
	}
	all, canList := c.Weights.(interface{ Names() []string })
	if canList && c.Model != nil {
		for _, name := range all.Names() {
			d, err := c.Weights.Weight(name)
			bailout.Check(err)
			set.add(weightRef{name, d.DType, d.Dims})
		}
	}
	return set.list, nil
}

// load returns the weight after checking its type against r.
func (r weightRef) load(src ir.WeightSource) (*ir.Data, error) {
	d, err := src.Weight(r.name)
	if err != nil {
		return nil, err
	}
	if d == nil {
		return nil, fmt.Errorf("weight %q: the source returned nothing", r.name)
	}
	if err := r.check(weightRef{r.name, d.DType, d.Dims}); err != nil {
		return nil, err
	}
	if err := d.Check(); err != nil {
		return nil, fmt.Errorf("weight %q: %w", r.name, err)
	}
	return d, nil
}

// WeightBytes returns the contents of a weight buffer, as slices to be concatenated. They share memory with src and
// buf. It is an error if a weight has another type than the program expects. src may be nil if the buffer has only
// constants.
func WeightBytes(buf kernel.Buffer, src ir.WeightSource) ([][]byte, error) {
	if buf.Kind != kernel.BufWeight {
		return nil, fmt.Errorf("buffer %q holds no weights, it is of kind %q", buf.Name, buf.Kind)
	}
	parts := make([][]byte, len(buf.Segments))
	for i, s := range buf.Segments {
		if s.Weight == "" {
			parts[i] = s.Data
			continue
		}
		if src == nil {
			return nil, ir.CheckWeight(nil, s.Weight, s.DType, s.Dims)
		}
		d, err := segmentRef(s).load(src)
		if err != nil {
			return nil, err
		}
		parts[i] = d.Bytes
	}
	return parts, nil
}

// CheckWeights returns a [*ir.WeightError] that lists the program's weights that src does not have, or has with another
// type. src may be nil if the program has no weights.
func CheckWeights(p *kernel.Program, src ir.WeightSource) (err error) {
	if p == nil {
		return errors.New("vkb: there is no program: it is nil")
	}
	defer bailout.Caught(&err)
	var set refSet
	set.addProgram(p)
	bad := &ir.WeightError{Total: len(set.list)}
	for _, r := range set.list {
		if err := ir.CheckWeight(src, r.name, r.dtype, r.dims); err != nil {
			bad.Bad = append(bad.Bad, err)
		}
	}
	if len(bad.Bad) == 0 {
		return nil
	}
	return bad
}

// HasWeights reports whether the bundle contains weights.
func (f *File) HasWeights() bool { return f.content().weights != nil }

// Weights returns the bundle as a source of its own weights, or nil if it has none.
func (f *File) Weights() ir.WeightSource {
	if !f.HasWeights() {
		return nil
	}
	return f
}

// WeightNames returns the names of all weights, in the order of the file.
func (f *File) WeightNames() []string {
	if !f.HasWeights() {
		return nil
	}
	names := make([]string, len(f.weights.index.Tensors))
	for i, t := range f.weights.index.Tensors {
		names[i] = t.Name
	}
	return names
}

// WeightType returns the type of a weight without reading the weight.
func (f *File) WeightType(name string) (ir.DType, []int, error) {
	t, err := f.tensor(name)
	return t.DType, slices.Clone(t.Dims), err
}

// Weight returns a weight. It verifies the checksums of its chunks once. The bytes are part of the mapped file, so they
// are read-only and valid until Close. They begin at a multiple of 64 bytes in the file. Weight implements
// ir.WeightSource.
func (f *File) Weight(name string) (*ir.Data, error) {
	t, err := f.tensor(name)
	if err != nil {
		return nil, err
	}
	err = f.guard(func() error { return f.weights.check(t.Offset, t.Offset+t.Bytes) })
	if err != nil {
		return nil, fmt.Errorf("weight %q: %w", name, err)
	}
	return &ir.Data{DType: t.DType, Dims: slices.Clone(t.Dims), Bytes: f.weights.bytes(t)}, nil
}

// Verify performs the checks that Open leaves out: it verifies the checksums of all weights, and decodes the graph.
func (f *File) Verify() error {
	if _, err := f.Graph(); err != nil {
		return err
	}
	if f.weights == nil {
		return nil
	}
	return f.guard(func() error { return f.weights.check(0, int64(len(f.weights.data))) })
}

// tensor returns the index entry of a weight.
func (f *File) tensor(name string) (tensor, error) {
	if f == nil {
		return tensor{}, errNoFile
	}
	if f.weights == nil {
		return tensor{}, f.src.Unknown("weight", name, nil)
	}
	i, ok := f.weights.byName[name]
	if !ok {
		return tensor{}, f.src.Unknown("weight", name, f.WeightNames())
	}
	return f.weights.index.Tensors[i], nil
}

// guard calls read, which accesses weight data, and turns a page fault in the mapped file into an error.
func (f *File) guard(read func() error) error {
	if f.closed {
		return fmt.Errorf("vkb: %s: %w", f.src.Path, os.ErrClosed)
	}
	if f.mapping == nil {
		return f.located(read())
	}
	// The caller will read the mapping without guard, so a truncated file must fail here.
	if err := f.mapping.Intact(); err != nil {
		return fmt.Errorf("vkb: %w", err)
	}
	return f.located(mmap.Guard(read))
}
