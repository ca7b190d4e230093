package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/internal/atomicfile"
	"github.com/vkc-go/vkc/passes/layout"
)

// dumpFiles writes a program to a directory: graph.ir, plan.txt, and for each kernel NN-NAME.kernel (its IR), .comp
// (GLSL) and .spv (SPIR-V). An alternative is NN-NAME-BOUND.
func dumpFiles(ctx context.Context, dir string, p *vkc.Program, tuning device.Tuning) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	c := p.Contents
	// A program from the cache has no kernel IR, so always lower the graph again.
	low, err := compiler.Lower(ctx, c.Graph, *c.Meta.Target, tuning)
	if err != nil {
		return err
	}
	var plan strings.Builder
	layout.Print(&plan, c.Program)
	files := map[string][]byte{"graph.ir": []byte(c.Graph.String()), "plan.txt": []byte(plan.String())}
	for i, st := range c.Program.Steps {
		base := fmt.Sprintf("%02d-%s", i, fileName(st.Name))
		files[base+".kernel"] = []byte(low.Kernels[i].String())
		files[base+".comp"] = []byte(c.GLSL[st.Shader])
		files[base+".spv"] = c.SPIRV[st.Shader]
		for _, a := range st.Alternatives {
			few := fmt.Sprintf("%s-%d", base, a.Symbol.Bound)
			files[few+".comp"], files[few+".spv"] = []byte(c.GLSL[a.Shader]), c.SPIRV[a.Shader]
		}
	}
	for name, content := range files {
		if err := atomicfile.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fileName replaces the characters of s that some file system forbids in a name.
func fileName(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '.', r == '-':
			return r
		}
		return '_'
	}, s)
}
