package vk_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime/vk"
)

func TestPipelineErrors(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	caps := d.Caps()
	tests := map[string]struct {
		change func(*vk.PipelineDesc)
		want   string
	}{
		"no code":            {func(p *vk.PipelineDesc) { p.Code = nil }, "0 bytes that are not a SPIR-V"},
		"odd code":           {func(p *vk.PipelineDesc) { p.Code = p.Code[:len(p.Code)-1] }, "not a SPIR-V"},
		"text":               {func(p *vk.PipelineDesc) { p.Code = []byte("#version 450 void main(){}  ") }, "not a SPIR-V"},
		"negative buffers":   {func(p *vk.PipelineDesc) { p.Buffers = -1 }, "-1 storage buffers"},
		"too many buffers":   {func(p *vk.PipelineDesc) { p.Buffers = int(caps.MaxStorageBuffers) + 1<<16 }, "storage buffers"},
		"odd subgroup size":  {func(p *vk.PipelineDesc) { p.SubgroupSize = int(caps.MaxSubgroupSize) + 1 }, "subgroup size"},
		"large subgroup":     {func(p *vk.PipelineDesc) { p.SubgroupSize = int(caps.MaxSubgroupSize) * 2 }, "subgroup size"},
		"negative subgroups": {func(p *vk.PipelineDesc) { p.SubgroupSize = -8 }, "subgroup size"},
	}
	for name, test := range tests {
		desc := copyDesc(t)
		test.change(&desc)
		p, err := d.NewPipeline(desc)
		if err == nil {
			p.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "pipeline copy") {
			t.Errorf("%s: error %v; want one that says %q", name, err, test.want)
		}
	}
}

func TestSubgroupSize(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	caps := d.Caps()
	out := buffer(t, d, "out", 4, vk.DeviceMemory)
	sets := bindings(t, d, bind(out))
	check := func(ask, want uint32) {
		desc := vk.PipelineDesc{Name: "subgroup", Code: shader(t, "subgroup"), Buffers: 1, SubgroupSize: int(ask),
			FullSubgroups: ask != 0 && caps.Features.FullSubgroups}
		c := d.NewCommandList()
		c.BindPipeline(pipeline(t, d, desc))
		c.Bind(sets, 0)
		c.Dispatch(1, 1, 1)
		run(t, d, record(t, d, c))
		if got := binary.LittleEndian.Uint32(download(t, d, out)); got != want {
			t.Errorf("asked for subgroups of %d, got %d; want %d", ask, got, want)
		}
	}
	check(0, caps.SubgroupSize)
	if caps.RequiredSubgroupSize {
		for size := caps.MinSubgroupSize; size <= min(caps.MaxSubgroupSize, 64); size *= 2 {
			check(size, size)
		}
	}
}

func TestNewPipelines(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	var descs []vk.PipelineDesc
	for i := range 40 {
		desc := copyDesc(t)
		desc.Name = fmt.Sprint("copy", i)
		descs = append(descs, desc)
	}
	list := must(d.NewPipelines(context.Background(), descs, nil))(t)
	for i, p := range list {
		if p.Name() != descs[i].Name {
			t.Errorf("pipeline %d is %s", i, p.Name())
		}
		p.Close()
	}
	descs[20].Code = nil
	_, err := d.NewPipelines(context.Background(), descs, nil)
	if err == nil || !strings.Contains(err.Error(), "copy20") {
		t.Errorf("a faulty one among them: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := d.NewPipelines(ctx, descs, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: %v", err)
	}
	if n := d.Live()["pipeline"]; n != 0 {
		t.Errorf("%d pipelines are left", n)
	}
}

func TestPipelineCacheFile(t *testing.T) {
	dir := t.TempDir()
	var path string
	use := func() {
		t.Helper()
		d := vktest.Device(t, vk.DeviceOptions{CacheDir: dir})
		path = d.CachePath()
		p := must(d.NewPipeline(accumulateDesc(t)))(t)
		p.Close()
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	use()
	whole, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		t.Skip("the driver has nothing to keep")
	}
	if err != nil {
		t.Fatal(err)
	}
	use() // with the file there
	for name, damage := range map[string]func([]byte) []byte{
		"cut":      func(b []byte) []byte { return b[:len(b)/2] },
		"flipped":  func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"empty":    func([]byte) []byte { return nil },
		"nonsense": func([]byte) []byte { return bytes.Repeat([]byte("nonsense"), 100) },
	} {
		damaged := damage(bytes.Clone(whole))
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		use()
		if now, err := os.ReadFile(path); err != nil || bytes.Equal(now, damaged) {
			t.Errorf("a %s file is not replaced (%v)", name, err)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("more than the cache is left: %v", entries)
	}
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 1 {
		t.Errorf("more than the cache is left: %v", files)
	}
}
