package vkc

import (
	"errors"

	"github.com/vkc-go/vkc/codegen/bundle"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/multi"
)

// Program is a compiled graph, ready to load on a device or to write to a bundle. A program for the CPU fast path has
// no kernels, since the fast path interprets the graph.
type Program struct {
	// Contents is the content of the program's bundle. Contents.Weights is set if the program was opened from a bundle
	// with weights. Contents.Program is nil for the CPU fast path.
	Contents bundle.Contents
	Stats    CompileStats

	file    *bundle.File   // Contents aliases it; nil for a program just compiled
	refused error          // the reason that the Vulkan device of "auto" does not run it; nil for other programs
	options CompileOptions // for a device that tries the program later, see [software]

	// In a program compiled for several devices, Contents has only the graph. parts are programs, one per part of
	// split.
	split multi.Split
	parts []*Program
}

// HasKernelsOf reports whether the program contains all kernels of other: for each device, the same SPIR-V code. Then
// loading this program makes the driver compile everything that other needs.
func (p *Program) HasKernelsOf(other *Program) bool {
	own := p.kernels()
	for code := range other.kernels() {
		if !own[code] {
			return false
		}
	}
	return true
}

// kernels returns the set of the SPIR-V codes of all kernels, each with the index of its device.
func (p *Program) kernels() map[deviceCode]bool {
	all := map[deviceCode]bool{}
	if p == nil {
		return all
	}
	devices := []*Program{p}
	if p.parts != nil {
		devices = p.parts
	}
	for i, one := range devices {
		for _, code := range one.Contents.SPIRV {
			all[deviceCode{i, string(code)}] = true
		}
	}
	return all
}

// deviceCode is a kernel's SPIR-V code, and which of the program's devices it is for (0 if there is one).
type deviceCode struct {
	device int
	code   string
}

// Close closes the bundle that the program was opened from, if any. Do not use the bundle's weights afterwards.
func (p *Program) Close() error {
	if p == nil || p.file == nil {
		return nil
	}
	return p.file.Close()
}

// Save writes the program to a bundle file atomically. A bundle with weights can run without other files.
func (p *Program) Save(path string, weights ir.WeightSource) error {
	if p == nil || p.Contents.Graph == nil {
		return errors.New("save: there is no program: Compile and OpenBundle make one, unless they return an error")
	}
	if p.parts != nil {
		return errors.New("save: the program was compiled for several devices, and a bundle is for one: compile the " +
			"graph for one")
	}
	if p.Contents.Program == nil {
		return errors.New("save: the program was made for the CPU fast path and has no kernels: compile the graph " +
			"for a device")
	}
	c := p.Contents
	c.Weights = weights
	return bundle.Write(path, &c)
}
