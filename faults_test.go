package vkc_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

// faulty is a graph that has one of each thing that a caller can get wrong.
func faulty(t *testing.T) *ir.Graph { return faultyOf(t, 32) }

func faultyOf(t *testing.T, width int) *ir.Graph {
	t.Helper()
	g, err := frontend.Build("faulty", func(b *frontend.Builder) {
		n, free := b.Sym("N", 8), b.Sym("M", 8)
		x, other, rows := b.Input("x", ir.F32, n, width), b.Input("other", ir.F32, n), b.Input("rows", ir.F32, 2, 32)
		w, v, s := b.Weight("w", ir.F32, width), b.Weight("v", ir.F32, 2), b.State("s", ir.F32, width)
		b.Update(s, s.Add(w))
		b.Output("y", x.Add(w).Add(s).Add(other.Unsqueeze(1)))
		b.Output("first", x.Argmax(0))
		b.Output("blocks", rows.Quantize(ir.Q8_0).Dequantize(ir.F32).Mul(v.Unsqueeze(1)))
		b.Output("z", b.Iota(ir.F32, 0, free))
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func zeros(t *testing.T, dt ir.DType, dims ...int) *ir.Data {
	t.Helper()
	d, err := ir.NewData(dt, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// call is a right run of such a graph, which a fault changes.
type call struct {
	t   *testing.T
	ctx context.Context
	dev *vkc.Device
	exe *vkc.Executable
	in  vkc.Tensors
	opt vkc.RunOptions
}

func (c *call) run() error {
	_, err := c.exe.Run(c.ctx, c.in, c.opt)
	return err
}

func (c *call) upload(d *ir.Data) *vkc.DeviceTensor {
	c.t.Helper()
	return upload(c.t, c.exe, d)
}

// runFaults are mistakes in the arguments of a run.
var runFaults = map[string]func(c *call){
	"an input is missing": func(c *call) { delete(c.in, "x") },
	"no inputs":           func(c *call) { c.in = nil },
	"an unknown input":    func(c *call) { c.in["X"] = c.in["x"] },
	"a weight as input":   func(c *call) { c.in["w"] = zeros(c.t, ir.F32, 32) },
	"a nil input":         func(c *call) { c.in["x"] = nil },
	"wrong dtype":         func(c *call) { c.in["x"] = zeros(c.t, ir.I32, 3, 32) },
	"wrong extent":        func(c *call) { c.in["x"] = zeros(c.t, ir.F32, 3, 31) },
	"wrong rank":          func(c *call) { c.in["x"] = zeros(c.t, ir.F32, 32) },
	"bytes are missing":   func(c *call) { c.in["x"].Bytes = c.in["x"].Bytes[4:] },
	"past the bound": func(c *call) {
		c.in["x"], c.in["other"] = zeros(c.t, ir.F32, 9, 32), zeros(c.t, ir.F32, 9)
	},
	"two values of a symbol":  func(c *call) { c.in["other"] = zeros(c.t, ir.F32, 4) },
	"explicit and other":      func(c *call) { c.opt.Symbols["N"] = 5 },
	"a symbol without value":  func(c *call) { c.opt.Symbols = nil },
	"an unknown symbol":       func(c *call) { c.opt.Symbols["K"] = 1 },
	"a symbol past its bound": func(c *call) { c.opt.Symbols["M"] = 9 },
	"a negative symbol":       func(c *call) { c.opt.Symbols["M"] = -1 },
	"nothing to pick from": func(c *call) {
		c.in["x"], c.in["other"] = zeros(c.t, ir.F32, 0, 32), zeros(c.t, ir.F32, 0)
	},
	"what a format cannot hold": func(c *call) {
		c.in["rows"] = full(c.t, float32(math.NaN()), 64)
		c.in["rows"].Dims = []int{2, 32}
	},
	"a context that is over":  func(c *call) { c.ctx = over() },
	"no context":              func(c *call) { c.ctx = nil },
	"memory for no output":    func(c *call) { c.opt.Into = vkc.Tensors{"Y": zeros(c.t, ir.F32, 3, 32)} },
	"nil memory":              func(c *call) { c.opt.Into = vkc.Tensors{"y": nil} },
	"memory of another shape": func(c *call) { c.opt.Into = vkc.Tensors{"y": zeros(c.t, ir.F32, 4, 32)} },
	"no output to keep":       func(c *call) { c.opt.Keep = []string{"Y"} },
	"kept twice":              func(c *call) { c.opt.Keep = []string{"y", "y"} },
	"kept and into": func(c *call) {
		c.opt.Keep, c.opt.Into = []string{"y"}, vkc.Tensors{"y": zeros(c.t, ir.F32, 3, 32)}
	},
	"an unknown device tensor": func(c *call) {
		c.opt.Inputs = map[string]*vkc.DeviceTensor{"X": c.upload(c.in["x"])}
	},
	"given twice": func(c *call) {
		c.opt.Inputs = map[string]*vkc.DeviceTensor{"x": c.upload(c.in["x"])}
	},
	"a nil device tensor": func(c *call) {
		delete(c.in, "x")
		c.opt.Inputs = map[string]*vkc.DeviceTensor{"x": nil}
	},
	"a device tensor of another dtype": func(c *call) {
		delete(c.in, "x")
		c.opt.Inputs = map[string]*vkc.DeviceTensor{"x": c.upload(zeros(c.t, ir.I32, 3, 32))}
	},
	"a device tensor of another shape": func(c *call) {
		delete(c.in, "x")
		c.opt.Inputs = map[string]*vkc.DeviceTensor{"x": c.upload(zeros(c.t, ir.F32, 3, 31))}
	},
	"a closed device tensor": func(c *call) {
		x := c.upload(c.in["x"])
		delete(c.in, "x")
		c.opt.Inputs = map[string]*vkc.DeviceTensor{"x": x}
		x.Close()
	},
	"states of another executable": func(c *call) { c.opt.States = otherStates{} },
	"closed states": func(c *call) {
		s, err := c.exe.NewStates()
		if err != nil {
			c.t.Fatal(err)
		}
		s.Close()
		c.opt.States = s
	},
}

func negated(b *frontend.Builder) { b.Output("y", b.Input("x", ir.F32, 2).Neg()) }

// none is no context.
var none context.Context

// otherStates are none of the executable's.
type otherStates struct{ vkc.States }

// over is a context that has ended.
func over() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}

// faults are mistakes in other calls.
var faults = map[string]func(c *call) error{
	"two RunOptions": func(c *call) error {
		_, err := c.exe.Run(c.ctx, c.in, c.opt, c.opt)
		return err
	},
	"read no state":       func(c *call) error { _, err := c.exe.ReadState("S"); return err },
	"write no state":      func(c *call) error { return c.exe.WriteState("S", zeros(c.t, ir.F32, 32)) },
	"write another shape": func(c *call) error { return c.exe.WriteState("s", zeros(c.t, ir.F32, 31)) },
	"write another dtype": func(c *call) error { return c.exe.WriteState("s", zeros(c.t, ir.I32, 32)) },
	"write nil":           func(c *call) error { return c.exe.WriteState("s", nil) },
	"write too little": func(c *call) error {
		return c.exe.WriteState("s", &ir.Data{DType: ir.F32, Dims: []int{32}})
	},
	"read no state of others": func(c *call) error {
		return withStates(c, func(s vkc.States) error { _, err := s.Read("S"); return err })
	},
	"write nil to others": func(c *call) error {
		return withStates(c, func(s vkc.States) error { return s.Write("s", nil) })
	},
	"write no state of others": func(c *call) error {
		return withStates(c, func(s vkc.States) error { return s.Write("S", zeros(c.t, ir.F32, 32)) })
	},
	"read of closed states": func(c *call) error {
		return withStates(c, func(s vkc.States) error { s.Close(); _, err := s.Read("s"); return err })
	},
	"write to closed states": func(c *call) error {
		return withStates(c, func(s vkc.States) error { s.Close(); return s.Write("s", zeros(c.t, ir.F32, 32)) })
	},
	"reset closed states": func(c *call) error {
		return withStates(c, func(s vkc.States) error { s.Close(); return s.Reset() })
	},
	"upload nil":             func(c *call) error { _, err := c.exe.Upload(c.ctx, nil); return err },
	"upload without context": func(c *call) error { _, err := c.exe.Upload(none, c.in["x"]); return err },
	"upload too little": func(c *call) error {
		_, err := c.exe.Upload(c.ctx, &ir.Data{DType: ir.F32, Dims: []int{2}})
		return err
	},
	"upload from nil": func(c *call) error {
		_, err := c.exe.UploadFrom(c.ctx, ir.F32, []int{2}, nil)
		return err
	},
	"upload from a stub": func(c *call) error {
		_, err := c.exe.UploadFrom(c.ctx, ir.F32, []int{2}, bytes.NewReader([]byte("1234")))
		return err
	},
	"upload what cannot be": func(c *call) error {
		_, err := c.exe.UploadFrom(c.ctx, ir.F32, []int{-2}, bytes.NewReader(nil))
		return err
	},
	"run after Close":  func(c *call) error { c.exe.Close(); return c.run() },
	"read after Close": func(c *call) error { c.exe.Close(); _, err := c.exe.ReadState("s"); return err },
	"write after Close": func(c *call) error {
		c.exe.Close()
		return c.exe.WriteState("s", zeros(c.t, ir.F32, 32))
	},
	"reset after Close":  func(c *call) error { c.exe.Close(); return c.exe.ResetStates() },
	"states after Close": func(c *call) error { c.exe.Close(); _, err := c.exe.NewStates(); return err },
	"upload after Close": func(c *call) error {
		c.exe.Close()
		_, err := c.exe.Upload(c.ctx, c.in["x"])
		return err
	},
	"no states": func(c *call) error {
		exe := built(c.t, c.dev, "stateless", negated)
		_, err := exe.NewStates()
		return err
	},
	"read without states": func(c *call) error {
		exe := built(c.t, c.dev, "stateless", negated)
		_, err := exe.ReadState("s")
		return err
	},
	"no name": func(c *call) error {
		exe := built(c.t, c.dev, "", negated)
		_, err := exe.Run(c.ctx, nil)
		return err
	},
	"no weights": func(c *call) error { return loadFault(c, nil) },
	"a weight is missing": func(c *call) error {
		return loadFault(c, vkc.WeightMap{"w": zeros(c.t, ir.F32, 32)})
	},
	"both weights are missing": func(c *call) error { return loadFault(c, vkc.WeightMap{}) },
	"a weight of another shape": func(c *call) error {
		return loadFault(c, vkc.WeightMap{"w": zeros(c.t, ir.F32, 31), "v": zeros(c.t, ir.F32, 2)})
	},
	"a nil weight": func(c *call) error {
		return loadFault(c, vkc.WeightMap{"w": nil, "v": zeros(c.t, ir.F32, 2)})
	},
	"no program": func(c *call) error {
		_, err := c.dev.Load(c.ctx, nil, vkc.LoadOptions{})
		return err
	},
	"no graph": func(c *call) error { _, err := c.dev.LoadGraph(c.ctx, nil, nil); return err },
	"compile no graph": func(c *call) error {
		_, err := c.dev.Compile(c.ctx, nil, vkc.CompileOptions{})
		return err
	},
	"an empty graph": func(c *call) error {
		_, err := c.dev.LoadGraph(c.ctx, ir.NewGraph("empty"), nil)
		return err
	},
	"load twice over": func(c *call) error {
		_, err := c.dev.LoadGraph(c.ctx, faulty(c.t), faultyWeights(c.t), vkc.LoadOptions{}, vkc.LoadOptions{})
		return err
	},
	"load without context": func(c *call) error {
		_, err := c.dev.LoadGraph(none, faulty(c.t), faultyWeights(c.t))
		return err
	},
	"load in a context that is over": func(c *call) error {
		_, err := c.dev.LoadGraph(over(), faulty(c.t), faultyWeights(c.t))
		return err
	},
	"shared state of another type": func(c *call) error {
		_, err := c.dev.LoadGraph(c.ctx, faultyOf(c.t, 31), vkc.WeightMap{"w": zeros(c.t, ir.F32, 31),
			"v": zeros(c.t, ir.F32, 2)}, vkc.LoadOptions{Share: c.exe})
		return err
	},
	"compile after Close": func(c *call) error {
		c.exe.Close()
		c.dev.Close()
		_, err := c.dev.Compile(c.ctx, faulty(c.t), vkc.CompileOptions{})
		return err
	},
	"load after Close": func(c *call) error {
		c.exe.Close()
		c.dev.Close()
		_, err := c.dev.LoadGraph(c.ctx, faulty(c.t), faultyWeights(c.t))
		return err
	},
}

func loadFault(c *call, weights vkc.WeightMap) error {
	var source ir.WeightSource
	if weights != nil {
		source = weights
	}
	_, err := c.dev.LoadGraph(c.ctx, faulty(c.t), source)
	return err
}

func faultyWeights(t *testing.T) vkc.WeightMap {
	return vkc.WeightMap{"w": zeros(t, ir.F32, 32), "v": zeros(t, ir.F32, 2)}
}

func withStates(c *call, do func(vkc.States) error) error {
	s, err := c.exe.NewStates()
	if err != nil {
		c.t.Fatal(err)
	}
	defer s.Close()
	return do(s)
}

// TestFaults: the same mistake has the same words on every device, which name the graph once.
func TestFaults(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	all := map[string]func(*call) error{}
	for name, do := range faults {
		all[name] = do
	}
	for name, change := range runFaults {
		all[name] = func(c *call) error { change(c); return c.run() }
	}
	said := map[string]map[string][]string{} // by fault and words, the devices
	for _, device := range []string{"reference", "cpu", "vulkan", "together", "tensor"} {
		t.Run(device, func(t *testing.T) {
			var dev *vkc.Device
			var exe *vkc.Executable
			defer func() { exe.Close(); dev.Close() }()
			for name, do := range all {
				if dev == nil || dev.Synchronize(t.Context()) != nil {
					dev, exe = openFor(t, device), nil
				}
				// A mistake leaves the executable as it was, so the next mistake takes it, too, unless it was closed.
				if exe == nil || exe.ResetStates() != nil {
					var err error
					if exe, err = dev.LoadGraph(t.Context(), faulty(t), faultyWeights(t)); err != nil {
						t.Fatal(err)
					}
				}
				err := do(&call{t: t, ctx: t.Context(), dev: dev, exe: exe,
					opt: vkc.RunOptions{Symbols: map[string]int64{"M": 2}},
					in: vkc.Tensors{"x": zeros(t, ir.F32, 3, 32), "other": zeros(t, ir.F32, 3),
						"rows": zeros(t, ir.F32, 2, 32)}})
				if err == nil {
					t.Errorf("%s is no error", name)
					continue
				}
				if said[name] == nil {
					said[name] = map[string][]string{}
				}
				words := wordsOf(err, dev)
				said[name][words] = append(said[name][words], device)
				if !slices.Contains(noGraph, name) && !beginning.MatchString(words) {
					t.Errorf("%s: the error begins with neither call nor graph: %s", name, words)
				}
				if strings.Count(words, `"faulty"`) > 1 {
					t.Errorf("%s: the error names the graph twice: %s", name, words)
				}
			}
		})
	}
	for name, by := range said {
		if len(by) > 1 {
			list := name
			for words, devices := range by {
				list += fmt.Sprintf("\n  %v: %s", devices, words)
			}
			t.Error(list)
		}
	}
}

// beginning is how errors begin: by the call and the graph.
var beginning = regexp.MustCompile(`^(compile|load|run|(read|write|reset|make) states? of|upload for) ` +
	`(graph "[a-z]+"|the graph): `)

// noGraph lists the errors of calls without a graph, or with a graph that has its own name.
var noGraph = []string{"no program", "no graph", "compile no graph", "an empty graph", "load twice over",
	"load without context", "load in a context that is over", "compile after Close", "load after Close"}

// openFor opens a device, or two as one.
func openFor(t *testing.T, name string) *vkc.Device {
	t.Helper()
	as := map[string]func(vkc.Devices) (*vkc.Device, error){"together": vkc.Devices.Together,
		"tensor": vkc.Devices.TensorParallel}[name]
	if as == nil {
		dev, err := vkc.OpenDevice(name)
		vktest.Need(t, err)
		return dev
	}
	list, err := vkc.OpenDevices("vulkan,vulkan")
	vktest.Need(t, err)
	dev, err := as(list)
	if err != nil {
		t.Fatal(err)
	}
	return dev
}

// wordsOf returns an error message without the parts that may differ: the device's name, the device that found it, and
// how precisely a device knows the faulty element.
func wordsOf(err error, dev *vkc.Device) string {
	text := strings.ReplaceAll(err.Error(), dev.Name(), "DEVICE")
	text = regexp.MustCompile(`part \d of \d, on [^:]*: `).ReplaceAllString(text, "")
	text = regexp.MustCompile(`one of elements (\d+) to \d+`).ReplaceAllString(text, "element $1")
	first, rest, _ := strings.Cut(text, "\n")
	if strings.HasSuffix(first, rest) { // both of two devices report it
		return first
	}
	return text
}

// TestFaultsOfMemory: a device needs all memory at once, so the words differ. The call, the graph and the fault do not.
func TestFaultsOfMemory(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	for _, device := range []string{"reference", "cpu", "vulkan"} {
		dev, err := vkc.OpenDevice(device, vkc.WithMemoryLimit(1<<20))
		vktest.Need(t, err)
		defer dev.Close()
		for name, build := range map[string]func(b *frontend.Builder){
			"values": func(b *frontend.Builder) {
				x := b.Input("x", ir.F32, 1)
				b.Output("y", x.Broadcast(ir.ShapeOf(1<<20)).CumSum(0))
			},
			"states": func(b *frontend.Builder) {
				s := b.State("s", ir.F32, 1<<20)
				b.Update(s, s.Add(b.Input("x", ir.F32, 1)))
			},
		} {
			g, err := frontend.Build(name, build)
			if err != nil {
				t.Fatal(err)
			}
			exe, err := dev.LoadGraph(t.Context(), g, nil)
			if err == nil {
				_, err = exe.Run(t.Context(), vkc.Tensors{"x": zeros(t, ir.F32, 1)})
				exe.Close()
			}
			want := regexp.MustCompile(`^(load|run) graph "` + name + `": .*out of memory: .*a higher limit`)
			if err == nil || !want.MatchString(err.Error()) {
				t.Errorf("%s on %s: %v, want %v", name, device, err, want)
			}
		}
	}
}
