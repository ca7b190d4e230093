package spirv

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/vkc-go/vkc/internal/cachefile"
)

// Feature is a GLSL extension that only some versions of the tools can compile.
type Feature string

// The features that have probes.
const (
	CoopMat  Feature = "coopmat"  // GL_KHR_cooperative_matrix
	CoopMat2 Feature = "coopmat2" // GL_NV_cooperative_matrix2; needs the target vulkan1.3
	IntDot   Feature = "int_dot"  // GL_EXT_integer_dot_product
	BFloat16 Feature = "bfloat16" // GL_EXT_bfloat16
	Float8   Feature = "float8"   // GL_EXT_float_e4m3
)

// featureProbes has, for each feature, the smallest shader that uses it. All are compiled in one call. They test the
// tools together: the spirv-opt of Debian bookworm, for example, rejects the cooperative matrices that a newer compiler
// emits.
var featureProbes = []Shader{
	{Name: string(CoopMat), TargetEnv: "vulkan1.2", Source: `#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
layout(local_size_x = 32) in;
layout(binding = 0) buffer B { float x[]; };
void main() {
	coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> c;
	coopMatLoad(c, x, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
	coopMatStore(c, x, 256, 16, gl_CooperativeMatrixLayoutRowMajor);
}
`},
	{Name: string(CoopMat2), TargetEnv: "vulkan1.3", Source: `#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
layout(local_size_x = 128) in;
layout(binding = 0) buffer B { float x[]; };
void main() {
	coopmat<float, gl_ScopeWorkgroup, 32, 32, gl_MatrixUseAccumulator> c;
	tensorLayoutNV<2> t = createTensorLayoutNV(2);
	t = setTensorLayoutDimensionNV(t, 64, 64);
	coopMatLoadTensorNV(c, x, 0, sliceTensorLayoutNV(t, 0, 32, 0, 32));
	coopMatStoreTensorNV(c, x, 0, sliceTensorLayoutNV(t, 32, 32, 32, 32));
}
`},
	{Name: string(IntDot), TargetEnv: "vulkan1.2", Source: `#version 460
#extension GL_EXT_integer_dot_product : require
layout(local_size_x = 32) in;
layout(binding = 0) buffer B { int x[]; };
void main() { x[2] = dotPacked4x8EXT(x[0], x[1]); }
`},
	{Name: string(BFloat16), TargetEnv: "vulkan1.2", Source: `#version 460
#extension GL_EXT_bfloat16 : require
layout(local_size_x = 32) in;
layout(binding = 0) buffer B { bfloat16_t b[2]; float x[]; };
void main() { x[0] = float(b[0]); b[1] = bfloat16_t(x[1]); }
`},
	{Name: string(Float8), TargetEnv: "vulkan1.2", Source: `#version 460
#extension GL_EXT_float_e4m3 : require
layout(local_size_x = 32) in;
layout(binding = 0) buffer B { floate4m3_t b[4]; float x[]; };
void main() { x[0] = float(b[0]); b[1] = floate4m3_t(x[1]); }
`},
}

// featureProbe caches the answer of [Toolchain.Features] within a process.
type featureProbe struct {
	mu     sync.Mutex
	result map[Feature]bool // nil before the first call
}

// Features reports for every feature whether the tools can compile and optimize shaders that use it. The first call in
// a process compiles one tiny shader per feature, unless the cache directory has the answer for these versions of the
// tools. Without tools no feature is supported. The only error is the end of ctx.
func (t *Toolchain) Features(ctx context.Context) (map[Feature]bool, error) {
	t.features.mu.Lock()
	defer t.features.mu.Unlock()
	if t.features.result == nil {
		found, err := t.probeFeatures(ctx)
		if err != nil {
			return nil, err
		}
		t.features.result = make(map[Feature]bool, len(featureProbes))
		// Every feature gets an entry, true or false.
		for _, p := range featureProbes {
			t.features.result[Feature(p.Name)] = found[Feature(p.Name)]
		}
	}
	return maps.Clone(t.features.result), nil
}

// probeFeatures returns the features that the tools support, from the cache directory or by compiling the probes. It
// returns nil if there are no tools.
func (t *Toolchain) probeFeatures(ctx context.Context) (map[Feature]bool, error) {
	fingerprint := t.Fingerprint()
	if known, ok := t.probes.features(fingerprint); ok {
		return known, nil
	}
	if t.Ready() != nil {
		return nil, nil
	}
	results, _, err := t.Compile(ctx, featureProbes, Options{Optimize: true, Validate: t.Val.Found()})
	if ctx.Err() != nil {
		return nil, fmt.Errorf("spirv: features of the tools: %w", context.Cause(ctx))
	}
	found := map[Feature]bool{}
	for i, r := range results {
		found[Feature(featureProbes[i].Name)] = r.SPIRV != nil
	}
	// Save that the tools reject a probe, but not that a tool hung or did not start.
	if err == nil || allRefusals(err) {
		t.probes.noteFeatures(fingerprint, found)
	}
	return found, nil
}

// allRefusals reports whether err, from Compile, consists only of CompileErrors of shaders that a tool rejected. A tool
// that hit a limit did not reject its shader.
func allRefusals(err error) bool {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return false
	}
	for _, e := range joined.Unwrap() {
		if ce := (*CompileError)(nil); !errors.As(e, &ce) || ce.stopped {
			return false
		}
	}
	return true
}

// versionLimits bounds a run of `--version`, which takes milliseconds.
var versionLimits = limits{memory: defaultLimits.memory, cpu: 10 * time.Second, wall: 2 * time.Minute}

// identity has the name and version of each tool that a compiled shader depends on, or "" for a missing tool.
type identity struct{ Compiler, Opt, Val string }

// identity returns the versions of the tools in use. For a missing tool it returns the version that was last seen. So
// the cache still finds programs that a tool compiled before it was removed.
func (t *Toolchain) identity() identity {
	last := t.probes.lastTools()
	return identity{
		Compiler: cmp.Or(t.compiler().nameAndVersion(), last.Compiler),
		Opt:      cmp.Or(t.Opt.nameAndVersion(), last.Opt),
		Val:      cmp.Or(t.Val.nameAndVersion(), last.Val),
	}
}

// Fingerprint names the versions of the compiler and the optimizer, and the list of passes: every input of the SPIR-V
// except the source. It is the same in every run, starts no process, and may be part of other cache keys.
func (t *Toolchain) Fingerprint() string {
	id := t.identity()
	passes := sha256.Sum256([]byte(passesKey))
	return fmt.Sprintf("%s | %s | passes %x", id.Compiler, id.Opt, passes[:4])
}

// probeFile caches facts about the tools that can only be found out by running them.
type probeFile struct {
	// Versions has the versions by path of the program.
	Versions map[string]probedVersion
	// Features has the supported features by fingerprint of the toolchain.
	Features map[string]map[Feature]bool
	// Last is the identity of the tools that were last seen.
	Last identity
}

// probedVersion is the version of a program, and the size and time of its file at that time. The version is valid while
// the file still has this size and time.
type probedVersion struct {
	Size    int64
	ModTime time.Time
	Version string
}

// probeStore has the facts about the tools that are known, and saves them in the cache directory.
type probeStore struct {
	disk *cachefile.Dir // nil: in memory only
	mu   sync.Mutex
	data probeFile
	// unsaved says that data differs from the entry on disk.
	unsaved bool
}

// probeKey is the key of the cache entry with the probeFile. It must change with the layout of probeFile.
var probeKey = cachefile.KeyOf("vkc tool probes 1")

// probeCache returns the cache below cacheDir that has the entry probeKey.
func probeCache(cacheDir string) cachefile.Dir {
	return cachefile.Dir{
		Path: filepath.Join(cacheDir, "tools"), Suffix: ".cache",
		Magic: [8]byte([]byte("VKCTOOLS")), Format: 1, MaxPayload: maxProbes,
	}
}

// maxProbes is the maximum size of that entry in bytes.
const maxProbes = 1 << 20

// inMemory is the store of this process for Find without a cache directory.
var inMemory = newProbeStore()

func newProbeStore() *probeStore {
	return &probeStore{data: probeFile{Versions: map[string]probedVersion{}, Features: map[string]map[Feature]bool{}}}
}

// openProbeStore reads the stored probe results from the cache directory. "" means to keep them in memory only, for
// this process.
func openProbeStore(cacheDir string) *probeStore {
	if cacheDir == "" {
		return inMemory
	}
	s, disk := newProbeStore(), probeCache(cacheDir)
	s.disk = &disk
	// A missing or damaged file counts as empty.
	if b, ok := disk.Get(probeKey); ok {
		if stored := (probeFile{}); json.Unmarshal(b, &stored) == nil {
			maps.Copy(s.data.Versions, stored.Versions)
			maps.Copy(s.data.Features, stored.Features)
			s.data.Last = stored.Last
		}
	}
	return s
}

// save writes the store to disk if it has changed. It ignores errors, because they only cost another run of the probes.
func (s *probeStore) save() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.unsaved || s.disk == nil {
		return
	}
	if b, err := json.Marshal(s.data); err == nil && s.disk.Put(probeKey, b) == nil {
		s.unsaved = false
	}
}

// lastTools returns the identity of the tools that were last seen, in this or an earlier process.
func (s *probeStore) lastTools() identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data.Last
}

// noteTools records the identity of the tools of this run, and saves it if it has changed.
func (s *probeStore) noteTools(id identity) {
	s.mu.Lock()
	changed := s.data.Last != id
	s.data.Last, s.unsaved = id, s.unsaved || changed
	s.mu.Unlock()
	if changed {
		s.save()
	}
}

// features returns the known features of the toolchain with a fingerprint, and false if they are unknown.
func (s *probeStore) features(fingerprint string) (map[Feature]bool, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.data.Features[fingerprint]
	return maps.Clone(f), ok
}

// noteFeatures records the features of the toolchain with a fingerprint, and saves them.
func (s *probeStore) noteFeatures(fingerprint string, f map[Feature]bool) {
	s.mu.Lock()
	s.data.Features[fingerprint], s.unsaved = maps.Clone(f), true
	s.mu.Unlock()
	s.save()
}

// version returns the version of a tool, from the store or by running it. A tool that returns no version gets one made
// of the hash of its file. The only error is the end of ctx.
func (s *probeStore) version(ctx context.Context, tool Tool) (string, error) {
	info, err := os.Stat(tool.Path)
	if err != nil {
		return "unknown version", nil // removed since it was found; running it will report an error
	}
	s.mu.Lock()
	known, ok := s.data.Versions[tool.Path]
	s.mu.Unlock()
	if ok && known.Size == info.Size() && known.ModTime.Equal(info.ModTime()) {
		return known.Version, nil
	}
	version, err := askVersion(ctx, tool)
	if ctx.Err() != nil {
		return "", fmt.Errorf("spirv: version of %s: %w", tool.Name, context.Cause(ctx))
	}
	if err != nil {
		return fileVersion(tool), nil
	}
	s.mu.Lock()
	s.data.Versions[tool.Path] = probedVersion{info.Size(), info.ModTime(), version}
	s.unsaved = true
	s.mu.Unlock()
	return version, nil
}

// askVersion runs `tool --version` and joins the lines that tell versions apart. glslc and glslangValidator print
// several such lines, for themselves and the libraries in them.
func askVersion(ctx context.Context, tool Tool) (string, error) {
	out, err := runTool(ctx, tool, command{args: []string{"--version"}, limits: versionLimits})
	if err != nil {
		return "", err
	}
	var parts []string
	for line := range strings.Lines(out.text()) {
		line = strings.Join(strings.Fields(line), " ")
		if line == "" || strings.HasPrefix(line, "Target") {
			break // the other lines list targets, or repeat standards
		}
		parts = append(parts, line)
		if strings.HasPrefix(line, "Glslang Version") {
			break
		}
	}
	if len(parts) == 0 {
		return "", errors.New("no version printed")
	}
	return strings.Join(parts, ", "), nil
}

// fileVersion returns a version for a tool that does not report one: the hash of its file, or of nothing if the file
// cannot be opened.
func fileVersion(tool Tool) string {
	h := sha256.New()
	if f, err := os.Open(tool.Path); err == nil {
		defer f.Close()
		if _, err := io.Copy(h, f); err != nil {
			return "unknown version"
		}
	}
	return fmt.Sprintf("unknown version, sha256 %x", h.Sum(nil)[:8])
}
