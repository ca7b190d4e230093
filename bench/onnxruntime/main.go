// Onnxruntime compares models on the CPU fast path with onnxruntime: it runs both in turns, with the same number of
// threads, and compares their results. Without arguments, the models are convolutions of the kinds of image models, and
// matmuls and convolutions of 8-bit integers.
//
//	npm install --ignore-scripts --prefix .tools/onnxruntime onnxruntime-node@1.30.0
//	cd bench/onnxruntime
//	go run .
//	go run . -dim N=1,H=640,W=640 -set sr=16000 model.onnx
//	go run . -dim input_1=576 -constant sr=16000 silero_vad_v5.onnx
//
// A time is the shortest of all runs, in milliseconds by the wall clock. The columns "cpu" have the processor time of
// all threads in a run, the least of the turns. The last column is the largest difference of the results relative to
// the largest result. It is a module of its own, and needs Node, so that vkc depends on neither.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/bench/onnxruntime/peer"
	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

var (
	folder  = flag.String("peer", "../../.tools/onnxruntime", "the `FOLDER` with node_modules/onnxruntime-node")
	dims    = flag.String("dim", "", "symbolic extents, such as `N=1,H=640`; others are 1")
	set     = flag.String("set", "", "elements of inputs, as `sr=16000`; others are random, or 0 (integers, not u8)")
	fixed   = flag.String("constant", "", "scalar inputs of i64 that vkc builds the graph for, as `sr=16000`")
	turns   = flag.Int("turns", 5, "`turns` of each side")
	seconds = flag.Float64("seconds", 0.4, "`seconds` of a turn")
	filter  = flag.String("filter", "", "only models with names that match this `RE`")
	profile = flag.String("cpuprofile", "", "write a profile of vkc's runs to this `FILE`")
)

func main() {
	flag.Parse()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			log.Fatal(err)
		}
		defer pprof.StopCPUProfile()
	}
	err := peer.With(*folder, func(ort *peer.Peer, scratch string) error { return compare(ort, scratch, flag.Args()) })
	if err != nil {
		log.Fatal(err)
	}
}

// compare runs models in onnxruntime and in vkc and prints a row of times for each. Without models it compares built-in
// convolutions and quantized layers.
func compare(ort *peer.Peer, scratch string, models []string) error {
	fmt.Println("| model | onnxruntime | vkc | ratio | onnxruntime, cpu | vkc, cpu | difference |")
	fmt.Println("|---|---:|---:|---:|---:|---:|---:|")
	for _, path := range models {
		name := filepath.Base(path)
		if err := compareModel(ort, name, path, scratch); err != nil {
			fmt.Printf("| %s | %v |\n", name, err)
		}
	}
	if len(models) > 0 {
		return nil
	}
	re, err := regexp.Compile(*filter)
	if err != nil {
		return err
	}
	compareOne := func(name string, write func(folder string) (string, error)) error {
		if !re.MatchString(name) {
			return nil
		}
		path, err := write(scratch)
		if err == nil {
			err = compareModel(ort, name, path, scratch)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	for _, c := range convs {
		if err := compareOne(c.name, c.write); err != nil {
			return err
		}
	}
	for _, q := range quantized() {
		if err := compareOne(q.name, q.write); err != nil {
			return err
		}
	}
	return nil
}

// optionsOf returns the options for a model by the flags. Symbolic extents without a flag are 1.
func optionsOf(path string) (onnx.Options, error) {
	options := onnx.Options{Dims: map[string]ir.Dim{}, Inputs: map[string]*ir.Data{}}
	constants, err := pairs(*fixed)
	if err != nil {
		return options, err
	}
	for name, n := range constants {
		if options.Inputs[name], err = ir.FromInts(ir.I64, []int64{n}); err != nil {
			return options, err
		}
	}
	list, err := pairs(*dims)
	if err != nil {
		return options, err
	}
	whole, err := onnx.Read(path)
	if err != nil {
		return options, err
	}
	extents := whole.Model.Extents()
	for _, e := range extents {
		options.Dims[e] = ir.D(1)
	}
	for name, n := range list {
		if !slices.Contains(extents, name) {
			return options, fmt.Errorf("-dim %s: the model has the symbolic extents %q", name, extents)
		}
		options.Dims[name] = ir.Dim{Add: n}
	}
	return options, whole.Close()
}

// compareModel runs the model at path here and in onnxruntime, and prints a row of the table: the times of both, and
// how much the outputs differ. scratch is a folder for the inputs' files.
func compareModel(ort *peer.Peer, name, path, scratch string) (err error) {
	ctx := context.Background()
	options, err := optionsOf(path)
	if err != nil {
		return err
	}
	f, err := onnx.Open(path, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	dev, err := vkc.OpenDevice("cpu")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	program, err := dev.Compile(ctx, f.Graph, vkc.CompileOptions{Weights: f})
	if err != nil {
		return err
	}
	exe, err := dev.Load(ctx, program, vkc.LoadOptions{Weights: f})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, exe.Close()) }()
	in, err := inputs(f.Graph)
	if err != nil {
		return err
	}
	request := peer.Request{Load: path, Threads: runtime.GOMAXPROCS(0), Folder: scratch}
	all := maps.Clone(in)
	maps.Copy(all, options.Inputs) // constants in vkc's graph are inputs of the model
	if request.Inputs, err = peer.Write(all, scratch); err != nil {
		return err
	}
	theirs, err := ort.Ask(request)
	if err != nil {
		return err
	}
	ours, err := exe.Run(ctx, in, vkc.RunOptions{})
	if err != nil {
		return err
	}
	difference, err := differ(ours.Outputs, theirs.Outputs)
	if err != nil {
		return err
	}
	best, peerBest, err := inTurns(ort, func() error {
		_, err := exe.Run(ctx, in, vkc.RunOptions{})
		return err
	})
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %.3f | %.3f | %.2f | %.3f | %.3f | %.1e |\n", name, peerBest.Best, best.Best,
		best.Best/peerBest.Best, peerBest.CPU, best.CPU, difference)
	return nil
}

// inTurns measures run and the model that onnxruntime has loaded, in turns. It returns the least times of each.
func inTurns(ort *peer.Peer, run func() error) (best, peerBest peer.Answer, err error) {
	best = peer.Answer{Best: math.Inf(1), CPU: math.Inf(1)}
	peerBest = best
	for range *turns {
		turn, err := ort.Ask(map[string]float64{"seconds": *seconds})
		if err != nil {
			return best, peerBest, err
		}
		peerBest = least(peerBest, *turn)
		time.Sleep(20 * time.Millisecond) // onnxruntime's threads wait for work in a loop before they sleep
		mine, err := measure(run)
		if err != nil {
			return best, peerBest, err
		}
		best = least(best, mine)
	}
	return best, peerBest, nil
}

// measure calls run repeatedly for the time of one turn, and returns the best time and the mean CPU time of a call.
func measure(run func() error) (a peer.Answer, err error) {
	a.Best = math.Inf(1)
	before, begin, runs := used(), time.Now(), 0 // CPU time of the process
	for runs < 3 || time.Since(begin).Seconds() < *seconds {
		start := time.Now()
		if err := run(); err != nil {
			return a, err
		}
		a.Best = min(a.Best, milliseconds(time.Since(start)))
		runs++
	}
	a.CPU = milliseconds(used()-before) / float64(runs)
	return a, nil
}

// least returns the shorter times.
func least(a, b peer.Answer) peer.Answer {
	return peer.Answer{Best: min(a.Best, b.Best), CPU: min(a.CPU, b.CPU)}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// used returns the processor time of this process.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// pairs parses the flag -set, such as N=1,H=640.
func pairs(text string) (map[string]int64, error) {
	list := map[string]int64{}
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q: want NAME=NUMBER", part)
		}
		list[name] = n
	}
	return list, nil
}

// inputs returns inputs for a graph: the values of the flag -set, which fill the whole input, or random floats and
// bytes. Other integers are 0, which is a valid index.
func inputs(g *ir.Graph) (map[string]*ir.Data, error) {
	given, err := pairs(*set)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(17, 1))
	in := map[string]*ir.Data{}
	for _, n := range g.Leaves(ir.OpInput) {
		extents, err := n.Shape().Eval(nil)
		if err != nil {
			return nil, err
		}
		d, err := ir.NewData(n.DType(), extents...)
		if err != nil {
			return nil, err
		}
		values := make([]float64, d.Elems())
		for i := range values {
			if v, ok := given[n.Name()]; ok {
				values[i] = float64(v)
			} else if n.DType().IsFloat() {
				values[i] = rng.NormFloat64()
			} else if n.DType() == ir.U8 {
				values[i] = float64(rng.IntN(256))
			}
		}
		if n.DType().IsFloat() {
			ir.EncodeFloats(d.Bytes, d.DType, values)
		} else {
			list := make([]int64, len(values))
			for i, v := range values {
				list[i] = int64(v)
			}
			ir.EncodeInts(d.Bytes, d.DType, list)
		}
		in[n.Name()] = d
	}
	return in, nil
}

// differ returns the largest difference of an element, relative to the largest element of its output, over all outputs.
func differ(ours map[string]*ir.Data, theirs []peer.TensorFile) (worst float64, err error) {
	for _, o := range theirs {
		have := ours[o.Name]
		if have == nil {
			return 0, fmt.Errorf("there is no output %q", o.Name)
		}
		raw, err := os.ReadFile(o.File)
		if err != nil {
			return 0, err
		}
		if len(raw) != len(have.Bytes) {
			return 0, fmt.Errorf("output %q has %d bytes, onnxruntime's %d", o.Name, len(have.Bytes), len(raw))
		}
		x, err := have.Floats()
		if err != nil {
			return 0, err
		}
		y, err := (&ir.Data{DType: have.DType, Dims: have.Dims, Bytes: raw}).Floats()
		if err != nil {
			return 0, err
		}
		largest, most := 0.0, 0.0
		for i := range x {
			largest = max(largest, math.Abs(y[i]))
			most = max(most, math.Abs(x[i]-y[i]))
		}
		if most > 0 {
			worst = max(worst, most/largest)
		}
	}
	return worst, nil
}
