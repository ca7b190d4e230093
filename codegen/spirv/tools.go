package spirv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// ToolsEnv names the environment variable with a directory of tools that is
// preferred to all others.
const ToolsEnv = "VKC_TOOLS"

// projectTools is where scripts/setup installs a newer set of the tools,
// relative to the project root or to the directory of the executable.
var projectTools = filepath.Join(".tools", "glsl", "bin")

// Tool is one external program.
type Tool struct {
	// Name is the usual name of the program, for messages: "spirv-opt".
	Name string
	// Path is the program's file; empty where the tool was not found.
	Path string
	// Version is what the program says of itself, on one line. It is part of
	// the cache keys.
	Version string
}

// Found reports whether the tool is on this machine.
func (t Tool) Found() bool { return t.Path != "" }

// label is the tool's part of an identity: empty where it was not found.
func (t Tool) label() string {
	if !t.Found() {
		return ""
	}
	return t.Name + " " + t.Version
}

// FindOptions says where Find looks.
type FindOptions struct {
	// CacheDir keeps what was learned by running the tools (versions, features)
	// so that later processes need not run them again. Usually the same as
	// Options.CacheDir. Empty: nothing is kept.
	CacheDir string
	// SearchDirs replaces the default places, $VKC_TOOLS and $PATH included.
	SearchDirs []string
}

// Toolchain is the set of external programs found on this machine. It may be
// used by several goroutines at once.
type Toolchain struct {
	GLSLC   Tool // glslc: compiles many shaders in one process; preferred
	Glslang Tool // glslangValidator: one shader a process; used without glslc
	Opt     Tool // spirv-opt
	Val     Tool // spirv-val; optional
	Dis     Tool // spirv-dis; optional

	probes   *probeStore
	features featureProbe
}

// toolSpec is a row of the table of tools.
type toolSpec struct {
	tool     func(*Toolchain) *Tool
	programs []string // file names to look for, best first
	purpose  string
	packages Packages
}

// Packages names the distribution packages that hold a tool.
type Packages struct{ Debian, Fedora, Arch string }

var toolSpecs = []toolSpec{
	{func(t *Toolchain) *Tool { return &t.GLSLC }, []string{"glslc"},
		"compiles GLSL to SPIR-V, many shaders in one process",
		Packages{Debian: "glslc", Fedora: "glslc", Arch: "shaderc"}},
	{func(t *Toolchain) *Tool { return &t.Glslang }, []string{"glslangValidator", "glslang"},
		"compiles GLSL to SPIR-V where glslc is missing",
		Packages{Debian: "glslang-tools", Fedora: "glslang", Arch: "glslang"}},
	{func(t *Toolchain) *Tool { return &t.Opt }, []string{"spirv-opt"},
		"optimizes SPIR-V",
		Packages{Debian: "spirv-tools", Fedora: "spirv-tools", Arch: "spirv-tools"}},
	{func(t *Toolchain) *Tool { return &t.Val }, []string{"spirv-val"},
		"checks SPIR-V (optional)",
		Packages{Debian: "spirv-tools", Fedora: "spirv-tools", Arch: "spirv-tools"}},
	{func(t *Toolchain) *Tool { return &t.Dis }, []string{"spirv-dis"},
		"prints SPIR-V (optional)",
		Packages{Debian: "spirv-tools", Fedora: "spirv-tools", Arch: "spirv-tools"}},
}

// Find looks for the tools in, in this order: the directory in $VKC_TOOLS;
// .tools/glsl/bin beside the executable, in the current directory, and in every
// parent of it that has a go.mod; $PATH. The first of these that holds both a
// compiler and spirv-opt supplies the whole set, because a validator or
// optimizer older than the compiler rejects good modules. $VKC_TOOLS always
// wins for the tools that it holds.
//
// A missing tool is no error here, so that a fully cached program runs on a
// machine without tools and a doctor command can say what is there: see Ready
// and Report. Find fails if $VKC_TOOLS names a directory without any tool, or
// if ctx ends.
//
// Versions are read by running each tool once, or from opt.CacheDir if the
// file of the tool has not changed since.
func Find(ctx context.Context, opt FindOptions) (*Toolchain, error) {
	t := &Toolchain{probes: openProbeStore(opt.CacheDir)}
	var err error
	if opt.SearchDirs != nil {
		t.adopt(pickSet(dirSets(opt.SearchDirs)))
	} else {
		err = t.searchDefault()
	}
	if err != nil {
		return nil, err
	}
	for _, s := range toolSpecs {
		if tool := s.tool(t); tool.Name == "" {
			tool.Name = s.programs[0]
		}
	}
	if err := t.readVersions(ctx); err != nil {
		return nil, err
	}
	t.probes.noteTools(t.identity())
	return t, nil
}

func (t *Toolchain) searchDefault() error {
	sets := append(dirSets(defaultDirs()), findSet(exec.LookPath))
	override := os.Getenv(ToolsEnv)
	if override == "" {
		t.adopt(pickSet(sets))
		return nil
	}
	own := findSet(inDir(override))
	if len(own) == 0 {
		return fmt.Errorf("spirv: $%s is %s, which holds none of %s: correct or unset it",
			ToolsEnv, override, strings.Join(programNames(), ", "))
	}
	t.adopt(pickSet(append([]toolSet{own}, sets...)))
	t.adopt(own)
	return nil
}

// defaultDirs lists the .tools/glsl/bin directories that may exist.
func defaultDirs() []string {
	var dirs []string
	if exe, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Join(filepath.Dir(exe), projectTools))
	}
	wd, err := os.Getwd()
	if err != nil {
		return dirs
	}
	dirs = append(dirs, filepath.Join(wd, projectTools))
	for dir := wd; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil && dir != wd {
			dirs = append(dirs, filepath.Join(dir, projectTools))
		}
		if dir == filepath.Dir(dir) {
			return dirs
		}
	}
}

// toolSet maps an index into toolSpecs to the tool found in one place.
type toolSet map[int]Tool

func (s toolSet) complete() bool {
	_, glslc := s[0]
	_, glslang := s[1]
	_, opt := s[2]
	return (glslc || glslang) && opt
}

// pickSet returns the first complete set or, where none is, each tool from the
// first set that has it.
func pickSet(sets []toolSet) toolSet {
	merged := toolSet{}
	for _, set := range sets {
		if set.complete() {
			return set
		}
		for i, tool := range set {
			if _, ok := merged[i]; !ok {
				merged[i] = tool
			}
		}
	}
	return merged
}

func (t *Toolchain) adopt(set toolSet) {
	for i, tool := range set {
		*toolSpecs[i].tool(t) = tool
	}
}

// findSet collects the tools that lookup (in the manner of exec.LookPath) finds.
func findSet(lookup func(string) (string, error)) toolSet {
	set := toolSet{}
	for i, s := range toolSpecs {
		for _, name := range s.programs {
			if path, err := lookup(name); err == nil {
				set[i] = Tool{Name: name, Path: path}
				break
			}
		}
	}
	return set
}

func dirSets(dirs []string) []toolSet {
	var sets []toolSet
	for _, dir := range dirs {
		sets = append(sets, findSet(inDir(dir)))
	}
	return sets
}

// inDir looks programs up in one directory. The path is made absolute because
// the tools run in a directory of their own.
func inDir(dir string) func(string) (string, error) {
	return func(name string) (string, error) {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		return exec.LookPath(filepath.Join(abs, name))
	}
}

func programNames() []string {
	var names []string
	for _, s := range toolSpecs {
		names = append(names, s.programs[0])
	}
	return names
}

// compiler returns the GLSL compiler to use: glslc if it is there.
func (t *Toolchain) compiler() Tool {
	if t.GLSLC.Found() {
		return t.GLSLC
	}
	return t.Glslang
}

// readVersions fills in Tool.Version, running at once all the tools whose
// version is not known yet.
func (t *Toolchain) readVersions(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(toolSpecs))
	for i, s := range toolSpecs {
		tool := s.tool(t)
		if tool.Found() {
			wg.Go(func() { tool.Version, errs[i] = t.probes.version(ctx, *tool) })
		}
	}
	wg.Wait()
	t.probes.save()
	return errors.Join(errs...)
}

// Ready returns nil if shaders can be compiled and optimized, or else a
// *MissingToolError that names what is missing and how to get it.
func (t *Toolchain) Ready() error { return t.require(Options{Optimize: true}) }

// require checks that the tools which opt asks for are there.
func (t *Toolchain) require(opt Options) error {
	var missing []string
	if !t.compiler().Found() {
		missing = append(missing, "glslc or glslangValidator")
	}
	if opt.Optimize && !t.Opt.Found() {
		missing = append(missing, "spirv-opt")
	}
	if opt.Validate && !t.Val.Found() {
		missing = append(missing, "spirv-val")
	}
	if missing == nil {
		return nil
	}
	return &MissingToolError{Tools: missing}
}

// MissingToolError says that shaders had to be compiled and a tool for it is
// not on this machine.
type MissingToolError struct{ Tools []string }

func (e *MissingToolError) Error() string {
	return fmt.Sprintf("spirv: %s not found: run scripts/setup, or install (Debian/Ubuntu: glslc glslang-tools spirv-tools; "+
		"Fedora: glslc glslang spirv-tools; Arch: shaderc glslang spirv-tools), or point $%s at a directory that has it",
		strings.Join(e.Tools, " and "), ToolsEnv)
}

// ToolStatus is one line of a report on the tools.
type ToolStatus struct {
	Tool
	Purpose  string
	Packages Packages // where to get it
}

// Report describes every tool, found or not, in a fixed order.
func (t *Toolchain) Report() []ToolStatus {
	var report []ToolStatus
	for _, s := range toolSpecs {
		report = append(report, ToolStatus{Tool: *s.tool(t), Purpose: s.purpose, Packages: s.packages})
	}
	return report
}

// Disassemble prints a module as SPIR-V assembly. It needs spirv-dis.
func (t *Toolchain) Disassemble(ctx context.Context, module []byte) (string, error) {
	if !t.Dis.Found() {
		return "", &MissingToolError{Tools: []string{"spirv-dis"}}
	}
	out, err := runTool(ctx, t.Dis, command{stdin: module, args: []string{"-"}})
	if err != nil {
		return "", fmt.Errorf("spirv: disassemble: %w", err)
	}
	return string(out.stdout), nil
}
