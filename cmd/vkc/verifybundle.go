package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/bundle"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/generator"
)

// verifyBundle checks a bundle's checksums, its signature and its shaders. It also compiles the bundle's graph and
// checks that the shaders are the result. It prints a line for each check.
func (a *app) verifyBundle(ctx context.Context, path string, f *verifyFlags) (err error) {
	if f.ops || f.quick || f.cases || f.json || f.filter != "" {
		return usagef("--ops and its flags are for ops, and %s is a bundle: leave them out", path)
	}
	p, err := vkc.OpenBundle(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if err := p.Verify(); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout, "checksums: right")
	if err := a.verifySigner(p, f.trusted); err != nil {
		return err
	}
	if err := a.verifyShaders(ctx, p); err != nil {
		return err
	}
	parts, err := p.Parts()
	if err != nil {
		return err
	}
	// A bundle for several devices has a program for each.
	for _, program := range append([]*vkc.Program{p}, parts...) {
		compared, why, err := a.compareBundle(ctx, program, f)
		if err != nil {
			return err
		}
		if !compared {
			fmt.Fprintf(a.stdout, "SPIR-V: not compared: %s\n", why)
			if f.trusted == "" {
				return fmt.Errorf("%s: cannot confirm that its SPIR-V is its compiled graph: %s", path, why)
			}
		}
	}
	return nil
}

// verifySigner checks a bundle's signature against the keys in the file trusted, if that is given, and prints the
// signer.
func (a *app) verifySigner(p *vkc.Program, trusted string) error {
	if trusted != "" {
		keys, err := bundle.ReadPublicKeys(trusted)
		if err != nil {
			return err
		}
		if err := p.SignedBy(keys); err != nil {
			return err
		}
	}
	switch key := p.Signer(); {
	case key == nil:
		fmt.Fprintln(a.stdout, "signature: none")
	case trusted == "":
		fmt.Fprintf(a.stdout, "signature: valid, by key %s; with --trusted-keys vkc says whether you trust it\n",
			bundle.KeyName(key))
	default:
		fmt.Fprintf(a.stdout, "signature: valid, by trusted key %s\n", bundle.KeyName(key))
	}
	return nil
}

// verifyShaders runs spirv-val over the bundle's shaders, if it is installed.
func (a *app) verifyShaders(ctx context.Context, p *vkc.Program) error {
	err := p.Validate(ctx)
	if missing := (*spirv.MissingToolError)(nil); errors.As(err, &missing) {
		fmt.Fprintln(a.stdout, "spirv-val: not installed, so only the form of the shaders was checked")
		return nil
	}
	if err != nil {
		return fmt.Errorf("the shaders are invalid: %w", err)
	}
	fmt.Fprintf(a.stdout, "spirv-val: %d shaders are valid\n", len(p.Contents.SPIRV))
	return nil
}

// compareBundle recompiles the bundle's graph and compares. If the comparison can say nothing about the SPIR-V, it
// returns the reason; a difference is an error.
func (a *app) compareBundle(ctx context.Context, p *vkc.Program,
	f *verifyFlags) (compared bool, why string, err error) {
	meta := p.Contents.Meta
	switch {
	case meta.Target == nil:
		return false, "the bundle does not name the device that it was compiled for", nil
	case meta.Generator != generator.ID():
		return false, fmt.Sprintf("vkc %q made it, and this is %q: verify it with that "+
			"version", meta.Version, vkc.Version()), nil
	}
	caps, tuning, err := f.tuning.choose(*meta.Target, profileTuning(meta.Target.Name))
	if err != nil {
		return false, "", err
	}
	hash := ""
	if len(tuning) > 0 {
		hash = tuning.Hash()
	}
	if hash != meta.Tuning {
		return false, "it was compiled with other measurements of vkc tune: pass their file with --tuning FILE", nil
	}
	again, err := vkc.Compile(ctx, p.Contents.Graph, vkc.CompileOptions{Target: caps, Tuning: tuning,
		OneKernel: meta.OneKernel, NoCache: true})
	if missing := (*spirv.MissingToolError)(nil); errors.As(err, &missing) {
		return false, "there are no GLSL tools here to compile its graph with: vkc doctor says how to install them", nil
	}
	if err != nil {
		return false, "", err
	}
	return a.compareContents(&p.Contents, &again.Contents)
}

// compareContents compares a bundle with the compiled graph, and returns the results of compareBundle.
func (a *app) compareContents(p, compiled *bundle.Contents) (compared bool, why string, err error) {
	have, err := json.Marshal(p.Program)
	if err != nil {
		return false, "", err
	}
	want, err := json.Marshal(compiled.Program)
	if err != nil {
		return false, "", err
	}
	// The program contains the GLSLHash of each shader, so comparing programs also compares the GLSL.
	if !bytes.Equal(have, want) {
		return false, "", errors.New("the program differs from the compiled graph")
	}
	for i, text := range p.GLSL {
		if text != compiled.GLSL[i] {
			return false, "", fmt.Errorf("the GLSL of shader %q differs from the compiled graph's",
				compiled.Program.Shaders[i].Name)
		}
	}
	fmt.Fprintf(a.stdout, "program: equal to the compiled graph's, with the GLSL of %d shaders\n", len(p.GLSL))
	if p.Meta.Tools != compiled.Meta.Tools {
		return false, fmt.Sprintf("other GLSL tools made it: %q, and here are %q", p.Meta.Tools,
			compiled.Meta.Tools), nil
	}
	for i, code := range p.SPIRV {
		if !bytes.Equal(code, compiled.SPIRV[i]) {
			return false, "", fmt.Errorf("the SPIR-V of shader %q differs from the compiled graph's",
				compiled.Program.Shaders[i].Name)
		}
	}
	fmt.Fprintf(a.stdout, "SPIR-V: %d shaders are equal to the compiled graph's\n", len(p.SPIRV))
	return true, "", nil
}

// profileTuning returns the tuning of the profile for devices of that name, or nil.
func profileTuning(name string) device.Tuning {
	for _, profile := range device.Profiles() {
		if caps, err := device.Profile(profile); err == nil && caps.Name == name {
			tuning, _ := device.ProfileTuning(profile) // ignore a tuning that cannot be read
			return tuning
		}
	}
	return nil
}
