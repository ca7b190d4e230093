package ir

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Initial is the initial value of a state, before the first run and after a reset. The host computes it, so that all
// devices start with the same bits. As an attribute of a graph it is a string, "" for zeros:
//
//	constant VALUE
//	uniform LOW HIGH SEED       as random_uniform with offset 0, times HIGH-LOW plus LOW
//	normal MEAN DEVIATION SEED  as random_normal with offset 0, times DEVIATION plus MEAN
//	weight NAME                 the weight of that name, of the state's dtype and shape
type Initial struct {
	kind   string
	a, b   float64
	seed   uint64
	weight string
}

// The kinds of Initial. Zeros are "".
const (
	initConstant = "constant"
	initUniform  = "uniform"
	initNormal   = "normal"
	initWeight   = "weight"
)

// InitialConstant sets every element to a value.
func InitialConstant(value float64) Initial { return Initial{kind: initConstant, a: value} }

// InitialUniform draws elements uniformly from low up to, not including, high.
func InitialUniform(low, high float64, seed uint64) Initial {
	return Initial{kind: initUniform, a: low, b: high, seed: seed}
}

// InitialNormal draws elements from a normal distribution.
func InitialNormal(mean, deviation float64, seed uint64) Initial {
	return Initial{kind: initNormal, a: mean, b: deviation, seed: seed}
}

// InitialWeight initializes a state with the weight of that name.
func InitialWeight(name string) Initial { return Initial{kind: initWeight, weight: name} }

// String formats i as the attribute.
func (i Initial) String() string {
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	switch i.kind {
	case initConstant:
		return i.kind + " " + number(i.a)
	case initUniform, initNormal:
		return fmt.Sprintf("%s %s %s %d", i.kind, number(i.a), number(i.b), i.seed)
	case initWeight:
		return i.kind + " " + i.weight
	}
	return ""
}

// ParseInitial parses the attribute, in the form that String writes.
func ParseInitial(text string) (Initial, error) {
	if text == "" {
		return Initial{}, nil
	}
	kind, rest, _ := strings.Cut(text, " ")
	i, args := Initial{kind: kind}, strings.Fields(rest)
	var numbers []*float64
	switch kind {
	case initConstant:
		numbers = []*float64{&i.a}
	case initUniform, initNormal:
		numbers = []*float64{&i.a, &i.b}
	case initWeight:
		if rest == "" {
			return Initial{}, fmt.Errorf("%q: want the weight's name", text)
		}
		i.weight = rest
		return i, nil
	default:
		return Initial{}, fmt.Errorf("%q: want constant, uniform, normal or weight", text)
	}
	random, form := kind != initConstant, initialForms[kind]
	if len(args) != strings.Count(form, " ") {
		return Initial{}, fmt.Errorf("%q: want the form %s", text, form)
	}
	var err error
	for n, to := range numbers {
		if *to, err = strconv.ParseFloat(args[n], 64); err != nil {
			return Initial{}, fmt.Errorf("%q: %q is not a number", text, args[n])
		}
		if random && (math.IsNaN(*to) || math.IsInf(*to, 0)) {
			return Initial{}, fmt.Errorf("%q: %v is not finite", text, *to)
		}
	}
	if random {
		if i.seed, err = parseSeed(args[2]); err != nil {
			return Initial{}, fmt.Errorf("%q: the seed %q is not a 64-bit integer", text, args[2])
		}
	}
	return i, nil
}

// initialForms are the forms of the kinds with numbers: the kind, and a word for each argument.
var initialForms = map[string]string{initConstant: "constant VALUE", initUniform: "uniform LOW HIGH SEED",
	initNormal: "normal MEAN DEVIATION SEED"}

// parseSeed parses a seed. Graphs of early versions have negative ones, which stand for the same 64 bits.
func parseSeed(text string) (uint64, error) {
	if strings.HasPrefix(text, "-") {
		n, err := strconv.ParseInt(text, 10, 64)
		return uint64(n), err
	}
	return strconv.ParseUint(text, 10, 64)
}

// Weight returns the name of the weight that is the initial value, and false if the value is no weight.
func (i Initial) Weight() (name string, ok bool) { return i.weight, i.kind == initWeight }

// check returns an error if a state of dtype t cannot have this value.
func (i Initial) check(t DType) error {
	random := i.kind == initUniform || i.kind == initNormal
	switch {
	case i.kind == "" || i.kind == initWeight:
		return nil
	case t.IsBlock(), t.StorageOnly(), random && !t.IsFloat():
		return fmt.Errorf("a state of %s cannot begin as %q", t, i)
	}
	one, err := FromFloats(t, []float64{i.a})
	if err != nil || t.IsFloat() {
		return err
	}
	if held, err := one.Floats(); err != nil || held[0] != i.a {
		return fmt.Errorf("a state of %s cannot begin as %q: the dtype does not have the value", t, i)
	}
	return nil
}

// Value returns a tensor with the initial value. src is only used if that is a weight, and may otherwise be nil.
func (i Initial) Value(t DType, dims []int, src WeightSource) (*Data, error) {
	if err := i.check(t); err != nil {
		return nil, err
	}
	if i.kind == initWeight {
		return i.fromWeight(t, dims, src)
	}
	d, err := NewData(t, dims...)
	if err != nil || i.kind == "" || d.Elems() == 0 {
		return d, err
	}
	if i.kind == initConstant {
		one, err := FromFloats(t, []float64{i.a})
		if err != nil {
			return nil, err
		}
		for at := 0; at < len(d.Bytes); at += len(one.Bytes) {
			copy(d.Bytes[at:], one.Bytes)
		}
		return d, nil
	}
	return d, i.putRandom(d)
}

// putRandom fills d with random numbers of the initial value's distribution.
func (i Initial) putRandom(d *Data) error {
	const perBlock = 4 // words of a block of the random generator
	n, size := d.Elems(), len(d.Bytes)/d.Elems()
	return inParts((n+perBlock-1)/perBlock, func(lo, hi int) error {
		list := make([]float64, 0, perBlock*(hi-lo))
		for block := lo; block < hi; block++ {
			x := i.four(RandomBlock(i.seed, 0, uint64(block)))
			list = append(list, x[:]...)
		}
		list = list[:min(len(list), n-perBlock*lo)] // the last block may have more numbers than elements are left
		part, err := FromFloats(d.DType, list, len(list))
		if err != nil {
			return err
		}
		copy(d.Bytes[perBlock*lo*size:], part.Bytes)
		return nil
	})
}

// four converts a block of four random words to four random numbers of the distribution. For a normal one, it converts
// each pair of words to two numbers (Box and Muller 1958), as op random_normal does.
func (i Initial) four(words [4]uint32) (x [4]float64) {
	const unit = 0x1p-24 // the top 24 bits of a word, times unit, are uniform in [0, 1)
	if i.kind == initUniform {
		low, high := i.a, i.b
		for j := range x {
			x[j] = low + float64((high-low)*float64(words[j]>>8)*unit)
		}
		return x
	}
	mean, deviation := i.a, i.b
	for j := 0; j < 4; j += 2 {
		u, v := float64(words[j]>>8)*unit, float64(words[j+1]>>8)*unit
		r := math.Sqrt(-2 * math.Log1p(-u))
		sin, cos := math.Sincos(2 * math.Pi * v)
		x[j], x[j+1] = mean+float64(deviation*(r*cos)), mean+float64(deviation*(r*sin))
	}
	return x
}

// fromWeight reads the weight that is the initial value, and checks its type.
func (i Initial) fromWeight(t DType, dims []int, src WeightSource) (*Data, error) {
	if src == nil {
		return nil, fmt.Errorf("it begins as weight %q, and there are no weights", i.weight)
	}
	d, err := src.Weight(i.weight)
	switch {
	case err != nil:
		return nil, err
	case d == nil:
		return nil, fmt.Errorf("weight %q: the source returned neither data nor an error", i.weight)
	case d.DType != t || !slices.Equal(d.Dims, dims):
		return nil, fmt.Errorf("weight %q is %s, but the state that begins with it is %s", i.weight, d,
			&Data{DType: t, Dims: dims})
	}
	return d, d.Check()
}

// inParts calls f concurrently for subranges lo to hi-1 that together cover 0 to n-1, and returns the error of one of
// them.
func inParts(n int, f func(lo, hi int) error) error {
	const part = 1 << 14
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		first error
		next  int
	)
	take := func() (lo int, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		lo, next = next, next+part
		return lo, lo < n && first == nil // an error ends all goroutines
	}
	for range min(runtime.GOMAXPROCS(0), (n+part-1)/part) {
		group.Go(func() {
			for lo, ok := take(); ok; lo, ok = take() {
				if err := f(lo, min(lo+part, n)); err != nil {
					mu.Lock()
					first = err
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return first
}

// InitialOf returns the initial value that a state node declares.
func InitialOf(state *Node) Initial {
	i, _ := ParseInitial(state.Attrs().String_("init")) // checked by the shape rule
	return i
}
