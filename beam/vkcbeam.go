// Package vkcbeam runs vkc programs over data sets of any size as Apache Beam transforms: locally with the Prism runner
// of Beam's Go SDK, or on Flink, Spark and Dataflow with the flag --runner.
//
//	outputs := vkcbeam.RunInference(s, "model.vkb", examples, vkcbeam.Options{})
//	vectors := vkcbeam.Embed(s, "model.gguf", texts, vkcbeam.Options{})
//
// Elements are grouped by key, and each group is computed in batches. So an unbounded collection needs windows or a
// trigger. All transforms of a process with the same file and device share one loaded program, which stays loaded until
// Beam tears down the last of them or the process ends. A runner may recompute an element after a worker failed; the
// result is the same. Metrics in the namespace vkcbeam count elements (elements), the elements per batch (batch) and
// the time per batch (batch_us, in microseconds).
package vkcbeam

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"reflect"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/ir"
)

// Tensor is an input or output of a program.
type Tensor struct {
	Name  string
	DType string  // as ir.ParseDType takes it, such as f32
	Dims  []int64 // outermost axis first
	Data  []byte  // in row-major order, little-endian
}

// Example is one set of a program's inputs or outputs. Key belongs to the caller and is passed through.
type Example struct {
	Key     string
	Tensors []Tensor
}

// Text is a text to embed, by the caller's key.
type Text struct{ Key, Text string }

// Vector is the embedding of a text, of length 1.
type Vector struct {
	Key    string
	Tokens int64 // tokens of the text
	Values []float32
}

// Options adjusts a transform. A zero field means its default, given last.
type Options struct {
	Device string // as for vkc.OpenDevice; the best device
	Batch  int64  // maximum elements per batch; 32
	Shards int64  // groups of elements that different workers may compute; 8
}

// orUsual returns the options with defaults in place of 0.
func (o Options) orUsual() Options {
	if o.Batch <= 0 {
		o.Batch = 32
	}
	if o.Shards <= 0 {
		o.Shards = 8
	}
	return o
}

// init registers the types and functions that Beam sends to its workers.
func init() {
	beam.RegisterType(reflect.TypeFor[Tensor]())
	beam.RegisterType(reflect.TypeFor[Example]())
	beam.RegisterType(reflect.TypeFor[Text]())
	beam.RegisterType(reflect.TypeFor[Vector]())
	register.DoFn1x2[Example, int64, Example](&shardExamples{})
	register.DoFn1x2[Text, int64, Text](&shardTexts{})
	register.DoFn4x1[context.Context, int64, func(*Example) bool, func(Example), error](&inferFn{})
	register.DoFn4x1[context.Context, int64, func(*Text) bool, func(Vector), error](&embedFn{})
	register.Iter1[Example]()
	register.Iter1[Text]()
	register.Emitter1[Example]()
	register.Emitter1[Vector]()
}

// RunInference runs the program of a bundle on each [Example] of a collection and returns the collection of its
// outputs, with the keys of the inputs. A bundle is code: run one that you trust. A program with states is an error.
func RunInference(s beam.Scope, bundle string, examples beam.PCollection, o Options) beam.PCollection {
	s, o = s.Scope("vkcbeam.RunInference"), o.orUsual()
	sharded := beam.ParDo(s, &shardExamples{Shards: o.Shards}, examples)
	return beam.ParDo(s, &inferFn{Bundle: bundle, Device: o.Device, Batch: o.Batch}, beam.GroupByKey(s, sharded))
}

// Embed makes a [Vector] of each [Text] of a collection, with the embedding model in a GGUF file. A text longer than
// the model's context is an error with the text's key.
func Embed(s beam.Scope, model string, texts beam.PCollection, o Options) beam.PCollection {
	s, o = s.Scope("vkcbeam.Embed"), o.orUsual()
	sharded := beam.ParDo(s, &shardTexts{Shards: o.Shards}, texts)
	return beam.ParDo(s, &embedFn{Model: model, Device: o.Device, Batch: o.Batch}, beam.GroupByKey(s, sharded))
}

// shardOf returns the number of the group of an element.
func shardOf(key string, shards int64) int64 {
	h := fnv.New32a()
	io.WriteString(h, key)
	return int64(h.Sum32()) % shards
}

type shardExamples struct{ Shards int64 }

func (f *shardExamples) ProcessElement(x Example) (int64, Example) {
	return shardOf(x.Key, f.Shards), x
}

type shardTexts struct{ Shards int64 }

func (f *shardTexts) ProcessElement(x Text) (int64, Text) { return shardOf(x.Key, f.Shards), x }

// pool holds the programs that the transforms of this process have loaded, by file and device.
var pool = struct {
	sync.Mutex
	entries map[string]*entry
}{entries: map[string]*entry{}}

type entry struct {
	value io.Closer
	users int
}

// take returns the cached value of a key, or opens and caches it.
func take[T io.Closer](key string, open func() (T, error)) (T, error) {
	pool.Lock()
	defer pool.Unlock()
	if e := pool.entries[key]; e != nil {
		e.users++
		return e.value.(T), nil
	}
	v, err := open()
	if err == nil {
		pool.entries[key] = &entry{v, 1}
	}
	return v, err
}

// give releases a value of take, and closes it with its last user.
func give(key string) error {
	pool.Lock()
	defer pool.Unlock()
	e := pool.entries[key]
	if e == nil {
		return nil
	}
	e.users--
	if e.users > 0 {
		return nil
	}
	delete(pool.entries, key)
	return e.value.Close()
}

var (
	elements    = beam.NewCounter("vkcbeam", "elements")
	batchSizes  = beam.NewDistribution("vkcbeam", "batch")
	batchMicros = beam.NewDistribution("vkcbeam", "batch_us")
)

// inBatches calls do for batches of size elements and for the remainder, and records metrics.
func inBatches[T any](ctx context.Context, size int64, next func(*T) bool, do func([]T) error) error {
	for more := true; more; {
		var list []T
		for int64(len(list)) < size {
			var x T
			more = next(&x)
			if !more {
				break
			}
			list = append(list, x)
		}
		if len(list) == 0 {
			return nil
		}
		start := time.Now()
		if err := do(list); err != nil {
			return err
		}
		elements.Inc(ctx, int64(len(list)))
		batchSizes.Update(ctx, int64(len(list)))
		batchMicros.Update(ctx, time.Since(start).Microseconds())
	}
	return nil
}

// program is a bundle on a device.
type program struct {
	device *vkc.Device
	bundle *vkc.Program
	exe    *vkc.Executable
}

// openProgram opens a bundle and loads its program on a device. It refuses a program with states.
func openProgram(ctx context.Context, path, device string) (p *program, err error) {
	p = &program{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.bundle, err = vkc.OpenBundle(path); err != nil {
		return nil, err
	}
	if states := p.bundle.Contents.Graph.Leaves(ir.OpState); len(states) > 0 {
		return p, fmt.Errorf("%s: the program has states, %q the first: what it gives would depend on the order of "+
			"elements", path, states[0].Name())
	}
	if p.device, err = vkc.OpenDevice(device); err != nil {
		return p, err
	}
	p.exe, err = p.device.Load(ctx, p.bundle, vkc.LoadOptions{})
	return p, err
}

// Close implements io.Closer.
func (p *program) Close() error {
	var errs []error
	if p.exe != nil {
		errs = append(errs, p.exe.Close())
	}
	if p.device != nil {
		errs = append(errs, p.device.Close())
	}
	if p.bundle != nil {
		errs = append(errs, p.bundle.Close())
	}
	return errors.Join(errs...)
}

// inferFn runs a bundle.
type inferFn struct {
	Bundle, Device string
	Batch          int64

	program *program
}

func (f *inferFn) key() string { return "bundle\x00" + f.Bundle + "\x00" + f.Device }

// Setup loads the program, once in a process.
func (f *inferFn) Setup(ctx context.Context) (err error) {
	f.program, err = take(f.key(), func() (*program, error) { return openProgram(ctx, f.Bundle, f.Device) })
	return err
}

// Teardown releases the program.
func (f *inferFn) Teardown() error {
	if f.program == nil {
		return nil
	}
	f.program = nil
	return give(f.key())
}

// ProcessElement runs the examples of a group, with several runs on the device at a time.
func (f *inferFn) ProcessElement(ctx context.Context, _ int64, next func(*Example) bool, emit func(Example)) error {
	return inBatches(ctx, f.Batch, next, func(examples []Example) error {
		in := make([]vkc.Tensors, len(examples))
		for i, x := range examples {
			var err error
			if in[i], err = tensorsOf(x); err != nil {
				return err
			}
		}
		results, err := f.program.exe.RunBatch(ctx, in)
		if err != nil {
			return fmt.Errorf("batch of %d examples that begins with key %q: %w", len(examples), examples[0].Key, err)
		}
		for i, r := range results {
			emit(f.program.example(examples[i].Key, r.Outputs))
		}
		return nil
	})
}

// tensorsOf returns the tensors of an example as inputs of a program, by name.
func tensorsOf(x Example) (vkc.Tensors, error) {
	in := vkc.Tensors{}
	for _, t := range x.Tensors {
		dtype, err := ir.ParseDType(t.DType)
		if err != nil {
			return nil, fmt.Errorf("example %q: tensor %q: %w", x.Key, t.Name, err)
		}
		d := &ir.Data{DType: dtype, Bytes: t.Data}
		for _, n := range t.Dims {
			d.Dims = append(d.Dims, int(n))
		}
		if in[t.Name] != nil {
			return nil, fmt.Errorf("example %q: tensor %q is given twice", x.Key, t.Name)
		}
		in[t.Name] = d
	}
	return in, nil
}

// example converts a run's outputs, in the order of the program's outputs.
func (p *program) example(key string, out vkc.Tensors) Example {
	x := Example{Key: key}
	for _, port := range p.exe.Outputs() {
		d := out[port.Name]
		t := Tensor{Name: port.Name, DType: d.DType.String(), Data: d.Bytes}
		for _, n := range d.Dims {
			t.Dims = append(t.Dims, int64(n))
		}
		x.Tensors = append(x.Tensors, t)
	}
	return x
}

// embedFn makes vectors.
type embedFn struct {
	Model, Device string
	Batch         int64

	embedder *generate.Embedder
}

func (f *embedFn) key() string { return "embedder\x00" + f.Model + "\x00" + f.Device }

// Setup loads the model, once in a process.
func (f *embedFn) Setup(ctx context.Context) (err error) {
	f.embedder, err = take(f.key(), func() (*generate.Embedder, error) {
		return generate.OpenEmbedder(ctx, f.Model, generate.Options{Device: f.Device})
	})
	return err
}

// Teardown releases the model.
func (f *embedFn) Teardown() error {
	if f.embedder == nil {
		return nil
	}
	f.embedder = nil
	return give(f.key())
}

// ProcessElement makes the vectors of a group.
func (f *embedFn) ProcessElement(ctx context.Context, _ int64, next func(*Text) bool, emit func(Vector)) error {
	return inBatches(ctx, f.Batch, next, func(texts []Text) error {
		for _, x := range texts {
			tokens := f.embedder.Tokenizer().Encode(x.Text, tokenizer.Options{Whole: true})
			v, err := f.embedder.Embed(ctx, tokens)
			if err != nil {
				return fmt.Errorf("text %q: %w", x.Key, err)
			}
			emit(Vector{x.Key, int64(len(tokens)), generate.Unit(v)})
		}
		return nil
	})
}
