package vkc

import (
	"context"
	"crypto/ed25519"
	"errors"

	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/runtime"
)

var errNoBundle = errors.New("the program was not opened from a bundle")

// Signer returns the public key of the signature on the program's bundle, or nil. Anybody can sign a bundle, so a
// signature alone proves nothing: see [Program.SignedBy].
func (p *Program) Signer() ed25519.PublicKey {
	if p == nil {
		return nil
	}
	return p.file.Signer()
}

// SignedBy returns nil if the program was opened from a bundle signed with one of the trusted keys.
// [bundle.ReadPublicKeys] reads keys from a file. Weights are checked against the signature on use. To sign a program,
// set Contents.Sign before [Program.Save].
func (p *Program) SignedBy(trusted []ed25519.PublicKey) error {
	if p == nil || p.file == nil {
		return errNoBundle
	}
	return p.file.SignedBy(trusted)
}

// Validate runs spirv-val on the shaders of the program and its parts. Drivers assume valid shaders and may crash on
// others, so validate a bundle from elsewhere before loading it. If spirv-val is not installed, the error is a
// [*spirv.MissingToolError].
func (p *Program) Validate(ctx context.Context) error {
	if err := runtime.CheckContext(ctx); err != nil {
		return err
	}
	if p == nil {
		return errNoBundle
	}
	if p.Contents.Program == nil {
		return nil // the reference runs the graph
	}
	root, _ := cachefile.Root() // without a cache directory the tools are queried each time
	tools, err := spirv.Find(ctx, spirv.FindOptions{CacheDir: root})
	if err != nil {
		return err
	}
	parts, err := p.Parts()
	if err != nil {
		return err
	}
	var modules []spirv.Module
	for _, part := range append(parts, p) {
		for i, code := range part.Contents.SPIRV {
			modules = append(modules, spirv.Module{Name: part.Contents.Program.Shaders[i].Name, SPIRV: code})
		}
	}
	return tools.Validate(ctx, modules)
}

// Verify does the checks that [OpenBundle] postpones: the checksums of all weights, also against the signature, if
// there is one. A program that was not opened from a bundle has nothing to check.
func (p *Program) Verify() error {
	if p == nil || p.file == nil {
		return nil
	}
	return p.file.Verify()
}
