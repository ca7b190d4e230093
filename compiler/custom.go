package compiler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/ir"
)

// CustomOpError reports that the GLSL of a custom op does not compile.
type CustomOpError struct {
	Op   string // the op's name
	Part string // which of the op's GLSL sources has the error: "Expr", "Body" or "Shared"; empty if unknown
	Line int    // in that source, from 1; 0 if unknown
	Text string // that line
	Err  *spirv.CompileError
}

// Error returns a message that names the op and the line of its GLSL.
func (e *CustomOpError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("custom op %s: a shader that has its GLSL does not compile: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("custom op %s: %s line %d: %s (%s)\n\t%d | %s", e.Op, e.Part, e.Line, e.Err.Message,
		e.Err.Tool, e.Line, e.Text)
}

// Unwrap returns the GLSL compiler's error for the whole shader.
func (e *CustomOpError) Unwrap() error { return e.Err }

// validateCustom runs spirv-val, if installed, on the SPIR-V modules of custom ops.
func (c *compilation) validateCustom(ctx context.Context, low *Lowered) error {
	var modules []spirv.Module
	for i, code := range low.SPIRV {
		if code != nil {
			modules = append(modules, spirv.Module{Name: low.Program.Shaders[i].Name, SPIRV: code})
		}
	}
	if modules == nil {
		return nil
	}
	err := c.tools.Validate(ctx, modules)
	if missing := (*spirv.MissingToolError)(nil); errors.As(err, &missing) && !c.opt.Validate {
		return nil // the modules' structure was checked already; further checks need the tool
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("SPIR-V of a custom op: %w", err)
	}
	return err
}

// explainCustom returns a [CustomOpError] for each GLSL compiler error in a shader with custom ops. It returns err
// unchanged if there is none.
func explainCustom(err error, shaders []spirv.Shader) error {
	source := map[string]string{}
	for _, s := range shaders {
		source[s.Name] = s.Source
	}
	var explained []error
	for _, e := range compileErrors(err) {
		if at, ok := glsl.LocateCustom(source[e.Shader], e.Line); ok {
			explained = append(explained, &CustomOpError{Op: at.Op, Part: at.Part, Line: at.Line,
				Text: at.Text, Err: e})
		} else if ops := glsl.CustomOpsIn(source[e.Shader]); len(ops) > 0 {
			explained = append(explained, &CustomOpError{Op: strings.Join(ops, ", "), Err: e})
		}
	}
	if len(explained) == 0 {
		return err
	}
	return errors.Join(explained...)
}

// compileErrors returns the GLSL compiler errors among the errors that err joins or wraps.
func compileErrors(err error) []*spirv.CompileError {
	switch e := err.(type) {
	case nil:
		return nil
	case *spirv.CompileError:
		return []*spirv.CompileError{e}
	case interface{ Unwrap() []error }:
		var all []*spirv.CompileError
		for _, one := range e.Unwrap() {
			all = append(all, compileErrors(one)...)
		}
		return all
	}
	// e wraps one error, or none.
	return compileErrors(errors.Unwrap(err))
}

// SameCustomOps returns an error if a graph has custom ops and this process has registered other definitions of them
// than the program was compiled with. The program's kernels and the interpreter would then give different results. hash
// is the graph's hash when the program was compiled, which covers the definitions of custom ops.
func SameCustomOps(g *ir.Graph, hash string) error {
	var names []string
	for _, n := range g.Nodes() {
		if n.Op().Info().Custom != nil && !slices.Contains(names, n.Op().String()) {
			names = append(names, n.Op().String())
		}
	}
	if len(names) == 0 || g.HashString() == hash {
		return nil
	}
	return fmt.Errorf("the program was compiled with another definition of %s than this process has registered: "+
		"compile it again", strings.Join(names, " or "))
}

// IsCustom reports whether a graph has custom ops. The Go implementation of such an op is slow and meant for checks, so
// callers do not choose the CPU for these graphs.
func IsCustom(g *ir.Graph) bool {
	return slices.ContainsFunc(g.Nodes(), func(n *ir.Node) bool {
		return n.Op().Info().Custom != nil || slices.ContainsFunc(n.Bodies(), IsCustom)
	})
}
