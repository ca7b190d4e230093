package vkc

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/ir"
)

// TestShadersOfOneIdentity: two matmuls of 512x1032x4096 differ only in the memory after their second operand. For one
// it is padding, for the other it is out of bounds. If a tile has more columns than remain, the first may read on but
// the second must not.
func TestShadersOfOneIdentity(t *testing.T) {
	caps, err := device.Profile("nvidia-h100")
	if err != nil {
		t.Fatal(err)
	}
	g, err := frontend.Build("products", func(b *frontend.Builder) {
		x := b.Input("x", ir.F16, 512, 4096)
		w := func(name string) frontend.Tensor { return b.Weight(name, ir.F16, 1032, 4096) }
		b.Output("plain", x.MatMul(w("w").Transpose(1, 0)))
		b.Output("padded", x.MatMul(w("u").Add(w("v")).Transpose(1, 0)))
	})
	if err != nil {
		t.Fatal(err)
	}
	low, err := compiler.Lower(context.Background(), g, caps, nil)
	if err != nil {
		t.Fatal(err)
	}
	tuning := device.Tuning{}
	for _, k := range low.Kernels {
		for _, c := range schedule.Variants(k, caps) {
			if s, ok := c.Schedule.(kernel.CoopMat2); ok && s.Tile == (kernel.Tile{TileM: 32, TileN: 32, TileK: 128}) {
				tuning[schedule.TuningKey(k)] = device.Tuned{Schedule: s}
			}
		}
	}
	if low, err = compiler.Lower(context.Background(), g, caps, tuning); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for i, k := range low.Kernels {
		if s, ok := low.Schedules[i].(kernel.CoopMat2); ok && s.TileM == 32 && k.Parallel[0].Is(8) {
			texts = append(texts, low.GLSL[low.Program.Steps[i].Shader])
		}
	}
	const clamped = "> layout_a = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV)"
	if len(texts) != 2 || strings.Contains(texts[0], clamped) == strings.Contains(texts[1], clamped) {
		t.Errorf("want two products of 8 columns that are left, one of which reads on and one not:\n%s",
			strings.Join(texts, "\n"))
	}
}

// TestEqualIdentityEqualText: kernels with the same identity and schedule have the same GLSL except for names. The
// kernels come from random graphs, and the schedules from all candidates for tuning.
func TestEqualIdentityEqualText(t *testing.T) {
	graphs := 60
	if testing.Short() {
		graphs = 25
	}
	for _, profile := range device.Kinds() {
		caps, err := device.Profile(profile)
		if err != nil {
			t.Fatal(err)
		}
		type key struct {
			kernel.Identity
			schedule kernel.Schedule
			symbols  string
		}
		texts, again := map[key]string{}, 0
		variants := map[kernel.Identity][]schedule.Candidate{} // listing them takes long
		for seed := range uint64(graphs) {
			g, err := graphgen.New(seed, graphgen.Options{})
			if err != nil {
				t.Fatal(err)
			}
			low, err := compiler.Lower(context.Background(), g, caps, nil)
			if err != nil {
				continue // the device lacks a feature
			}
			var symbols []string
			for _, s := range low.Program.Symbols {
				symbols = append(symbols, s.Name)
			}
			distinct := map[kernel.Identity]bool{}
			for i, k := range low.Kernels {
				id := k.Identity()
				distinct[id] = true
				dropNames(k)
				if k.Identity() != id {
					t.Fatalf("graph %d: kernel %d has another identity without names", seed, i)
				}
				// Kernels of one identity try the same schedules.
				schedules := []kernel.Schedule{low.Schedules[i]}
				if n := len(id.Structure); n%4 == 0 {
					all, ok := variants[id]
					if !ok {
						all = schedule.Variants(k, caps)
						variants[id] = all
					}
					schedules = append(schedules, all[n%len(all)].Schedule, all[n*n%len(all)].Schedule)
				}
				for _, s := range schedules {
					sh, err := glsl.Emit(k, s, caps, symbols)
					if err != nil {
						t.Fatalf("graph %d: kernel %d by %v: %v", seed, i, s, err)
					}
					at := key{id, s, fmt.Sprint(symbols)}
					if was, ok := texts[at]; ok {
						again++
						if was != sh.Source {
							t.Errorf("%s: graph %d: kernels of one identity have two texts:\n%s\n%s", profile,
								seed, was, sh.Source)
						}
					}
					texts[at] = sh.Source
				}
			}
			shaders := map[int]bool{} // except those of persistent kernels
			for _, st := range low.Program.Steps {
				shaders[st.Shader] = true
			}
			if len(distinct) != len(shaders) {
				t.Errorf("graph %d: %d shaders for %d identities", seed, len(shaders), len(distinct))
			}
		}
		if again == 0 {
			t.Errorf("%s: no two kernels of one identity", profile)
		}
	}
}

// dropNames takes from a kernel all that is only for its readers.
func dropNames(k *kernel.Kernel) {
	k.Name, k.Ops = "kernel", nil
	for i := range k.Bindings {
		k.Bindings[i].Name = "buffer"
	}
	for i := range k.Phases {
		k.Phases[i].Name = "acc"
	}
	for i := range k.MatMuls {
		k.MatMuls[i].Name = "acc"
	}
	kernel.Walk(k.Roots(), func(e *kernel.Expr) { e.Hint = "" })
}
