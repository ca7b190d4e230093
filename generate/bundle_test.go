package generate

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/visiontest"
	"github.com/vkc-go/vkc/ir"
)

// TestBundleOptions: options in a bundle are checked like options from a caller.
func TestBundleOptions(t *testing.T) {
	needDevice(t)
	caps, err := device.Profile("generic")
	if err != nil {
		t.Fatal(err)
	}
	model := tinyModel(t)
	path := filepath.Join(t.TempDir(), "model.vkb")
	p, err := Bundle(t.Context(), model, path, Options{Context: 16, Parallel: 2}, vkc.CompileOptions{Target: caps}, nil)
	if err != nil {
		t.Fatal(err)
	}
	weights := &Model{}
	defer weights.Close()
	if err := weights.openFile(model, &Options{}); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), path, Options{Device: "cpu", Precision: vkc.Exact})
	if err == nil || !strings.Contains(err.Error(), "the precision of a bundle is fixed when it is compiled") {
		t.Errorf("exact answers from a bundle of int8 rows: %v", err)
	}
	_, err = Open(t.Context(), path, Options{Device: "cpu", Projector: "mmproj.gguf"})
	if err == nil || !strings.Contains(err.Error(), "this bundle has no vision tower") {
		t.Errorf("a tower for a bundle: %v", err)
	}
	tune := func(context.Context, *vkc.Device, []*ir.Graph) error { return nil }
	_, err = Open(t.Context(), path, Options{Device: "cpu", Tune: tune})
	if err == nil || !strings.Contains(err.Error(), "the schedules of a bundle are fixed") {
		t.Errorf("tuning of a bundle: %v", err)
	}
	auto := openModel(t, path, Options{Device: "cpu", Projector: AutoProjector})
	if _, err := auto.ReadImage(t.Context(), nil); err == nil || !strings.Contains(err.Error(),
		"this bundle has no vision tower") {
		t.Errorf("a picture for a bundle: %v", err)
	}
	if m := openModel(t, path, Options{Device: "cpu"}); m.options.Precision != DefaultPrecision {
		t.Errorf("a bundle has precision %s, want that of a GPU", m.options.Precision)
	}
	key := []byte(keyParallel)
	at := bytes.Index(p.Contents.Model, key)
	if at < 0 {
		t.Fatalf("no %s in the bundle", key)
	}
	at += len(key) + 4 // the value's type
	binary.LittleEndian.PutUint32(p.Contents.Model[at:], 1<<31)
	if err := p.Save(path, weights.file); err != nil {
		t.Fatal(err)
	}
	m, err := Open(t.Context(), path, Options{Device: "cpu"})
	if err == nil || !strings.Contains(err.Error(), "cannot read how the bundle was compiled") {
		t.Errorf("a bundle for 1 << 31 answers: %v", err)
	}
	if err == nil {
		m.Close()
	}
}

// TestBundledTower: a bundle with a vision tower reads pictures as the model's files do, without a compiler.
func TestBundledTower(t *testing.T) {
	needDevice(t)
	path := tinyReader(t, "llama", nil)
	o := Options{Device: "vulkan", Context: 128, Projector: tinyTower(t, "llava-tiles", path), Precision: vkc.Exact}
	model := openModel(t, path, o)
	out := filepath.Join(t.TempDir(), "model.vkb")
	_, err := Bundle(t.Context(), path, out, o, vkc.CompileOptions{Target: model.device.Caps()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(m *Model) (answer string) {
		p, err := m.ReadImage(t.Context(), visiontest.PNG(t, 1, 40, 24))
		if err != nil {
			t.Fatal(err)
		}
		prompt := slices.Concat([]int32{3, 4}, p.Tokens(), []int32{5})
		for _, token := range answerOf(t, m, prompt, Sampling{MaxTokens: 6, Images: []*Image{p}}) {
			answer += fmt.Sprint(token.ID, " ")
		}
		return answer
	}
	want := ask(model)
	t.Setenv("VKC_TOOLS", "")
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv("PATH", "")
	t.Setenv("VKC_CACHE_DIR", t.TempDir())
	for _, device := range []string{"vulkan", "cpu"} {
		if got := ask(openModel(t, out, Options{Device: device})); got != want {
			t.Errorf("%s: the bundle answers %s, and the files %s", device, got, want)
		}
	}
	_, err = Open(t.Context(), out, Options{Device: "cpu", Projector: o.Projector})
	if err == nil || !strings.Contains(err.Error(), "the bundle has a vision tower, and takes no other") {
		t.Errorf("another tower: %v", err)
	}
}
