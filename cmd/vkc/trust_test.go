package main

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/bundle"
	"github.com/vkc-go/vkc/internal/devtest"
)

// TestSignedBundles goes the way of a bundle from who signs it to who trusts it.
func TestSignedBundles(t *testing.T) {
	devtest.OwnCache(t)
	dir := t.TempDir()
	key, other := filepath.Join(dir, "key.pem"), filepath.Join(dir, "other.pem")
	if r := ok(t, "keygen", key); !strings.Contains(r.stdout, key+".pub: public key ") {
		t.Errorf("keygen printed %q", r.stdout)
	}
	fails(t, exitFailure, []string{"keygen", key}, "exists")
	ok(t, "keygen", other)

	plain, signed := compiled(t), compiled(t, "--sign", key)
	later := filepath.Join(dir, "later.vkb")
	if r := ok(t, "sign", plain, "--key", key, "-o", later); !strings.Contains(r.stdout, "signed with key ") {
		t.Errorf("sign printed %q", r.stdout)
	}
	one, err := os.ReadFile(signed)
	if err != nil {
		t.Fatal(err)
	}
	if two, err := os.ReadFile(later); err != nil || string(one) != string(two) {
		t.Errorf("signing at once and afterwards gives different files (%v)", err)
	}
	fails(t, exitUsage, []string{"sign", plain}, "--key")
	if r := ok(t, "inspect", signed); !strings.Contains(r.stdout, "signed_with") {
		t.Errorf("inspect names no signer: %s", r.stdout)
	}

	run := func(path, keys string) []string {
		return runArgs(t, path, "--device", "cpu", "--trusted-keys", keys)
	}
	ok(t, run(signed, key+".pub")...)
	fails(t, exitFailure, run(plain, key+".pub"), plain, "is not signed")
	fails(t, exitFailure, run(signed, other+".pub"), signed, "none of the 1 trusted")
	fails(t, exitFailure, run(signed, key), "PRIVATE KEY")
	fails(t, exitUsage, run(mlpGraph, key+".pub"), "is a graph")

	if r := ok(t, "verify", signed, "--trusted-keys", key+".pub"); !strings.Contains(r.stdout, "trusted key") {
		t.Errorf("verify printed %q", r.stdout)
	}
	fails(t, exitFailure, []string{"verify", plain, "--trusted-keys", key + ".pub"}, "is not signed")
}

// rewritten returns a bundle with the first shader's SPIR-V changed and every
// checksum right, as who wants to harm makes it.
func rewritten(t *testing.T, path string, change func(module []byte) []byte) string {
	t.Helper()
	p, err := vkc.OpenBundle(path)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c := p.Contents
	c.SPIRV = append([][]byte{change(append([]byte{}, c.SPIRV[0]...))}, c.SPIRV[1:]...)
	out := filepath.Join(t.TempDir(), "forged.vkb")
	if err := bundle.Write(out, &c); err != nil {
		t.Fatal(err)
	}
	return out
}

// instruction returns the position of the first instruction with an opcode.
func instruction(t *testing.T, module []byte, opcode uint32) int {
	t.Helper()
	for at := 20; at < len(module); {
		word := binary.LittleEndian.Uint32(module[at:])
		if word&0xffff == opcode {
			return at
		}
		at += 4 * int(word>>16)
	}
	t.Fatalf("no instruction %d", opcode)
	return 0
}

const opLoad, opFAdd, opFSub = 61, 129, 131

// TestVerifyBundle: verify accepts a bundle that matches its graph, and otherwise reports the difference.
func TestVerifyBundle(t *testing.T) {
	devtest.OwnCache(t)
	path := compiled(t)
	has(t, ok(t, "verify", path).stdout, "checksums: right", "signature: none", "spirv-val: ",
		"SPIR-V: 4 shaders are equal to the compiled graph's")
	other := rewritten(t, path, func(m []byte) []byte { // valid, but with another result
		binary.LittleEndian.PutUint16(m[instruction(t, m, opFAdd):], opFSub)
		return m
	})
	fails(t, exitFailure, []string{"verify", other}, "SPIR-V of shader", "differs from the compiled graph's")

	fails(t, exitUsage, []string{"verify", path, "--ops"}, "is a bundle")
	fails(t, exitFailure, []string{"verify", mlpGraph}, "not a vkc bundle")

	noTools(t)
	devtest.OwnCache(t)
	fails(t, exitFailure, []string{"verify", path}, "cannot confirm", "no GLSL tools")
}

// TestRunValidatesBundle: a driver never gets shaders that spirv-val rejects.
func TestRunValidatesBundle(t *testing.T) {
	devtest.OwnCache(t)
	path := compiled(t)
	bad := rewritten(t, path, func(m []byte) []byte { // a load through something other than a pointer
		at := instruction(t, m, opLoad)
		copy(m[at+12:], m[at+4:at+8])
		return m
	})
	ok(t, runArgs(t, path, "--device", "cpu")...)
	fails(t, exitFailure, runArgs(t, bad, "--device", "cpu"), "could crash the driver", "spirv-val")

	noTools(t)
	devtest.OwnCache(t)
	if r := ok(t, runArgs(t, path, "--device", "cpu")...); !strings.Contains(r.stderr, "spirv-val is not installed") {
		t.Errorf("without spirv-val nothing is said of it: %q", r.stderr)
	}
}

// TestSandbox runs a program on a device with checked memory accesses, and the output says so.
func TestSandbox(t *testing.T) {
	needDevice(t)
	devtest.OwnCache(t)
	path := compiled(t)
	r := ok(t, runArgs(t, path, "--sandbox", "--check")...)
	if !strings.Contains(r.stderr, "sandbox: kernels cannot leave") {
		t.Errorf("nothing is said of what the sandbox gives: %q", r.stderr)
	}
}
