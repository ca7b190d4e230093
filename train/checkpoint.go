package train

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/internal/chart"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// A checkpoint is a safetensors file. It has each state under its name, and the losses of all steps so far as
// lossesName. Its metadata has the number of steps and the training's settings.
const (
	lossesName = "vkc.losses" // f64[steps]
	stepsKey   = "vkc.steps"
	settingKey = "vkc.setting." // prefix of a setting's name
)

// Save writes the states of a program, the losses so far and settings to a safetensors file, a checkpoint that Restore
// reads. The file appears complete or not at all. Other programs find the states under their names.
func Save(exe *vkc.Executable, path string, losses []float64, settings map[string]string) error {
	var tensors []safetensors.Named
	for _, port := range exe.States() {
		d, err := exe.ReadState(port.Name)
		if err != nil {
			return fmt.Errorf("checkpoint %s: %w", path, err)
		}
		tensors = append(tensors, safetensors.Named{Name: port.Name, Data: d})
	}
	d, err := ir.FromFloats(ir.F64, losses, len(losses))
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", path, err)
	}
	tensors = append(tensors, safetensors.Named{Name: lossesName, Data: d})
	meta := map[string]string{stepsKey: strconv.Itoa(len(losses))}
	for name, value := range settings {
		meta[settingKey+name] = value
	}
	return safetensors.WriteFile(path, meta, tensors)
}

// Restore sets all states of a program from a checkpoint, and returns its losses. A file without one of the states, or
// with other tensors, belongs to another program. A file with different settings belongs to another training; settings
// on only one side are ignored. In both cases Restore changes nothing, and the error names the difference.
func Restore(exe *vkc.Executable, path string, settings map[string]string) (losses []float64, err error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	wrong := func(err error) error {
		return fmt.Errorf("checkpoint %s is of another program: %w; name another file, or remove it to start again",
			path, err)
	}
	meta := f.Metadata()
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if was, ok := meta[settingKey+name]; ok && was != settings[name] {
			return nil, fmt.Errorf("checkpoint %s is of a training with %s %q, and this one has %q: use the same "+
				"value, name another file, or remove it to start again", path, name, was, settings[name])
		}
	}
	states := map[string]*ir.Data{}
	for _, port := range exe.States() {
		d, err := f.Weight(port.Name)
		if err != nil {
			return nil, wrong(err)
		}
		if have := (ir.Type{DType: d.DType, Shape: ir.ShapeOf(d.Dims...)}); !have.Equal(port.Type) {
			return nil, wrong(fmt.Errorf("state %q is %s there and %s here", port.Name, have, port.Type))
		}
		states[port.Name] = d
	}
	for _, name := range f.Names() {
		if states[name] == nil && name != lossesName {
			return nil, wrong(fmt.Errorf("the file has a tensor %q, and the program no such state", name))
		}
	}
	list, err := f.Weight(lossesName)
	if err != nil {
		return nil, wrong(err)
	}
	err = mmap.Guard(func() (err error) { losses, err = list.Floats(); return err })
	if steps := meta[stepsKey]; err != nil || steps != strconv.Itoa(len(losses)) {
		return nil, wrong(fmt.Errorf("it has the losses of %d steps, but says that there were %q", len(losses), steps))
	}
	for name, d := range states {
		own := *d // WriteState reads a copy, because the file may be truncated meanwhile
		err := mmap.Guard(func() error { own.Bytes = slices.Clone(d.Bytes); return nil })
		if err == nil {
			err = exe.WriteState(name, &own)
		}
		if err != nil {
			return nil, err
		}
	}
	return losses, nil
}

// Curve is the losses of one training.
type Curve struct {
	Name   string
	Losses []float64 // by step
}

// WriteSVG draws the losses of each training over its steps. Above a hundred steps it also draws a running mean.
func WriteSVG(w io.Writer, title string, curves ...Curve) error {
	c := chart.Chart{Title: title, X: "step", Y: "loss"}
	for _, curve := range curves {
		line := chart.Line{Name: curve.Name, Y: curve.Losses}
		for i := range curve.Losses {
			line.X = append(line.X, float64(i+1))
		}
		c.Lines = append(c.Lines, line)
		if len(curve.Losses) <= 100 {
			continue
		}
		smooth, mean := chart.Line{Name: curve.Name + ", running mean", X: line.X}, curve.Losses[0]
		for _, x := range curve.Losses {
			mean += (x - mean) / 25 // an exponential mean of about the last 25 steps
			smooth.Y = append(smooth.Y, mean)
		}
		c.Lines = append(c.Lines, smooth)
	}
	return c.Write(w)
}
