package vk_test

import (
	"context"
	"testing"

	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

const benchKernels = 300

// benchProgram is a list of kernels with a set of their own each and a barrier between any two.
func benchProgram(b *testing.B, d *vk.Device) (*vk.Pipeline, *vk.Bindings, []vk.BindingSet) {
	x, y := buffer(b, d, "x", 4096, vk.DeviceMemory), buffer(b, d, "y", 4096, vk.DeviceMemory)
	var sets []vk.BindingSet
	for range benchKernels {
		sets = append(sets, bind(x, y))
	}
	return pipeline(b, d, accumulateDesc(b)), bindings(b, d, sets...), sets
}

func buildList(d *vk.Device, p *vk.Pipeline, sets *vk.Bindings) *vk.CommandList {
	c := d.NewCommandList()
	for i := range benchKernels {
		c.BindPipeline(p)
		c.Bind(sets, i)
		c.Dispatch(1, 1, 1)
		c.Barrier(vk.StageCompute, vk.StageCompute)
	}
	return c
}

// BenchmarkRecord300 records 300 kernels of 4 or 5 commands each, building the list included.
func BenchmarkRecord300(b *testing.B) {
	d := vktest.Device(b, vk.DeviceOptions{})
	p, sets, _ := benchProgram(b, d)
	for b.Loop() {
		r, err := d.Record("bench", buildList(d, p, sets))
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}

// BenchmarkBindings300 makes and fills 300 descriptor sets.
func BenchmarkBindings300(b *testing.B) {
	d := vktest.Device(b, vk.DeviceOptions{})
	_, _, sets := benchProgram(b, d)
	for b.Loop() {
		made, err := d.NewBindings(sets)
		if err != nil {
			b.Fatal(err)
		}
		made.Close()
	}
}

// BenchmarkRoundTrip submits one tiny kernel and waits for it.
func BenchmarkRoundTrip(b *testing.B) {
	d := vktest.Device(b, vk.DeviceOptions{})
	p, sets, _ := benchProgram(b, d)
	c := d.NewCommandList()
	c.BindPipeline(p)
	c.Bind(sets, 0)
	c.Dispatch(1, 1, 1)
	r := record(b, d, c)
	run(b, d, r)
	for b.Loop() {
		if err := d.Run(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReplay300 submits a recording of 300 dependent tiny kernels and waits for it.
func BenchmarkReplay300(b *testing.B) {
	d := vktest.Device(b, vk.DeviceOptions{})
	p, sets, _ := benchProgram(b, d)
	r := record(b, d, buildList(d, p, sets))
	run(b, d, r)
	for b.Loop() {
		if err := d.Run(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
}

func benchTransfer(b *testing.B, options vk.DeviceOptions, move func(*vk.Device, *vk.Buffer, []byte) error) {
	d := vktest.Device(b, options)
	data := make([]byte, 256<<20)
	buf := buffer(b, d, "b", int64(len(data)), vk.DeviceMemory)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := move(d, buf, data); err != nil {
			b.Fatal(err)
		}
	}
}

func uploadAll(d *vk.Device, b *vk.Buffer, data []byte) error {
	if err := d.Upload(context.Background(), b, 0, data); err != nil {
		return err
	}
	return d.WaitIdle(context.Background())
}

func downloadAll(d *vk.Device, b *vk.Buffer, data []byte) error {
	return d.Download(context.Background(), data, b, 0)
}

func BenchmarkUpload(b *testing.B)   { benchTransfer(b, vk.DeviceOptions{}, uploadAll) }
func BenchmarkDownload(b *testing.B) { benchTransfer(b, vk.DeviceOptions{}, downloadAll) }
func BenchmarkUploadStaged(b *testing.B) {
	benchTransfer(b, vk.ForceStaging(vk.DeviceOptions{}), uploadAll)
}
func BenchmarkDownloadStaged(b *testing.B) {
	benchTransfer(b, vk.ForceStaging(vk.DeviceOptions{}), downloadAll)
}

// BenchmarkRun makes a synchronous run of a small program, of which the output is read by the host.
func BenchmarkRun(b *testing.B) {
	for name, options := range placements {
		for _, of := range []func(testing.TB, int) *fixture{counter, symbolic} {
			b.Run(name+"/"+of(b, 100).program.Name, func(b *testing.B) {
				f := of(b, 100)
				exe := f.load(vktest.Device(b, options))
				in := inputs(ramp(1, 100))
				if f.program.Name == "symbolic" {
					in = inputs(ramp(1, 800), 100, 8)
				}
				for range 3 {
					runProgram(b, exe, in, runtime.RunOptions{Symbols: explicit(exe)})
				}
				b.ReportAllocs()
				for b.Loop() {
					runProgram(b, exe, in, runtime.RunOptions{Symbols: explicit(exe)})
				}
			})
		}
	}
}
