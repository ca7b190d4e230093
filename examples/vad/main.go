// Vad finds speech in WAV files with the Silero models, which `make models` downloads:
//
//	make models
//	espeak-ng -m -w speech.wav '<speak>Good morning. <break time="2s"/> How are you today?</speak>'
//	go run ./examples/vad speech.wav
//	go run ./examples/vad -model .tools/models/vad-lstm/dist/silero_vad_legacy.onnx speech.wav
//
// A model takes one window of 32 ms at a time. It keeps what it needs of earlier windows in states on the device.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"slices"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

const (
	rate   = 16000 // samples a second
	window = 512   // samples in each run
)

func main() {
	model := flag.String("model", ".tools/models/vad/weights/silero_vad_op18_ifless.onnx", "the model")
	device := flag.String("device", "auto", "the device to run on")
	flag.Parse()
	for _, path := range flag.Args() {
		samples, err := readWAV(path, rate)
		if err != nil {
			log.Fatal(err)
		}
		speech, err := speechProbabilities(context.Background(), *device, *model, samples)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %.2f s\n", path, float64(len(samples))/rate)
		for _, s := range spans(speech) {
			fmt.Printf("  speech from %.2f s to %.2f s\n", s.start, s.end)
		}
	}
}

// detector is a model on a device.
type detector struct {
	exe    *vkc.Executable
	before int                          // number of samples of the previous window that it gets again
	states map[string]*vkc.DeviceTensor // by the inputs' names
	keep   map[string]string            // the outputs that are the states of the next window, by the inputs' names
}

// speechProbabilities returns the probability of speech in each window.
func speechProbabilities(ctx context.Context, device, model string, samples []float32) ([]float32, error) {
	dev, err := vkc.OpenDevice(device)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	d, err := open(ctx, dev, model)
	if err != nil {
		return nil, err
	}
	defer d.close()
	// Silence is assumed before the first window and after the last sample.
	samples = slices.Concat(make([]float32, d.before), samples, make([]float32, window-1))
	var speech []float32
	for at := 0; at+d.before+window <= len(samples); at += window {
		p, err := d.probability(ctx, samples[at:at+d.before+window])
		if err != nil {
			return nil, err
		}
		speech = append(speech, p)
	}
	return speech, nil
}

// open builds a model for one stream of sound. The sample rate is a constant and selects a branch of the model.
func open(ctx context.Context, dev *vkc.Device, path string) (*detector, error) {
	f, err := onnx.Read(path)
	if err != nil {
		return nil, fmt.Errorf("%w: make models fetches the models", err)
	}
	defer f.Close()
	d := &detector{states: map[string]*vkc.DeviceTensor{}, keep: map[string]string{}}
	for _, in := range f.Model.Graph.Inputs {
		switch in.Name {
		case "input", "sr":
		case "state": // models with one state also get the end of the previous window
			d.before, d.keep[in.Name] = 64, "stateN"
		default:
			d.keep[in.Name] = in.Name + "n"
		}
	}
	hz, err := vkc.Of([]int64{rate})
	if err != nil {
		return nil, err
	}
	n, one := ir.D(d.before+window), ir.D(1)
	dims := map[string]ir.Dim{
		"batch": one, "sequence": n, // for models with named extents
		"input_0": one, "input_1": n, "state_1": one, // for models with unnamed extents
	}
	maps.DeleteFunc(dims, func(name string, _ ir.Dim) bool { return !slices.Contains(f.Model.Extents(), name) })
	m, err := onnx.Open(path, onnx.Options{Inputs: map[string]*ir.Data{"sr": hz}, Dims: dims})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if d.exe, err = dev.LoadGraph(ctx, m.Graph, m); err != nil {
		return nil, err
	}
	for name := range d.keep {
		in, ok := m.Graph.Named(name)
		if !ok {
			return nil, errors.Join(fmt.Errorf("%s has no state %q", path, name), d.close())
		}
		dims, err := in.Shape().Eval(nil)
		if err != nil {
			return nil, errors.Join(err, d.close())
		}
		zero, err := ir.NewData(in.DType(), dims...)
		if err != nil {
			return nil, errors.Join(err, d.close())
		}
		if d.states[name], err = d.exe.Upload(ctx, zero); err != nil {
			return nil, errors.Join(err, d.close())
		}
	}
	return d, nil
}

// probability returns the probability of speech in the next window.
func (d *detector) probability(ctx context.Context, samples []float32) (float32, error) {
	in, err := vkc.Of(samples, 1, len(samples))
	if err != nil {
		return 0, err
	}
	opt := vkc.RunOptions{Inputs: d.states}
	for _, output := range d.keep {
		opt.Keep = append(opt.Keep, output)
	}
	res, err := d.exe.Run(ctx, vkc.Tensors{"input": in}, opt)
	if err != nil {
		return 0, err
	}
	for name, output := range d.keep {
		d.states[name].Close()
		d.states[name] = res.Kept[output]
	}
	p, err := vkc.Values[float32](res.Outputs["output"])
	if err != nil {
		return 0, err
	}
	return p[0], nil
}

func (d *detector) close() error {
	for _, s := range d.states {
		s.Close()
	}
	return d.exe.Close()
}

// span is a part of a recording, in seconds.
type span struct{ start, end float64 }

// spans returns the parts with speech. A part begins when speech is likely, and ends when it has been unlikely for a
// while.
func spans(speech []float32) []span {
	const (
		likely, unlikely = 0.5, 0.35
		pause            = 4 // windows, 0.128 s
		seconds          = float64(window) / rate
	)
	var list []span
	speaking, last := false, 0
	for i, p := range speech {
		switch {
		case !speaking && p >= likely:
			speaking = true
			list = append(list, span{start: float64(i) * seconds})
			fallthrough
		case speaking && p >= unlikely:
			last = i
		case speaking && i-last > pause:
			speaking = false
		}
		if len(list) > 0 {
			list[len(list)-1].end = float64(last+1) * seconds
		}
	}
	return list
}
