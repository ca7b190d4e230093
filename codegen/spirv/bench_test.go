package spirv

import (
	"context"
	"testing"
)

// BenchmarkCompileCold compiles a program of 15 shaders, among them four
// matmul tiles, without a cache.
func BenchmarkCompileCold(b *testing.B) {
	tc, s := realTools(b), program(b)
	for b.Loop() {
		compile(b, tc, s, Options{Optimize: true})
	}
}

// BenchmarkCompileColdNoOpt is the share of the GLSL compiler in it.
func BenchmarkCompileColdNoOpt(b *testing.B) {
	tc, s := realTools(b), program(b)
	for b.Loop() {
		compile(b, tc, s, Options{})
	}
}

// BenchmarkCompileWarm takes the same program from the cache.
func BenchmarkCompileWarm(b *testing.B) {
	tc, s, opt := realTools(b), program(b), Options{Optimize: true, CacheDir: b.TempDir()}
	compile(b, tc, s, opt)
	for b.Loop() {
		if _, stats := compile(b, tc, s, opt); stats.Processes > 0 {
			b.Fatalf("%d processes started", stats.Processes)
		}
	}
}

// BenchmarkFindWarm measures the cost of finding the tools in a process that compiles nothing.
func BenchmarkFindWarm(b *testing.B) {
	opt := FindOptions{CacheDir: b.TempDir(), SearchDirs: realDirs(b)}
	find(b, opt)
	for b.Loop() {
		if _, err := Find(context.Background(), opt); err != nil {
			b.Fatal(err)
		}
	}
}
