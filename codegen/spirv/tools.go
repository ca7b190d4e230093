package spirv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/vkc-go/vkc/internal/trusted"
)

// ToolsEnv is the name of the environment variable with the user's preferred directory of tools.
const ToolsEnv = "VKC_TOOLS"

// Tool is one external program.
type Tool struct {
	// Name is the usual name of the program, for messages: "spirv-opt".
	Name string
	// Path is the program's file; empty if the tool was not found.
	Path string
	// Version is the output of the program's --version, on one line. It is part of the cache keys.
	Version string
}

// Found reports whether the tool is on this machine.
func (t Tool) Found() bool { return t.Path != "" }

// nameAndVersion returns the tool's part of an identity; empty if the tool was not found.
func (t Tool) nameAndVersion() string {
	if !t.Found() {
		return ""
	}
	return t.Name + " " + t.Version
}

// FindOptions says where Find looks for the tools.
type FindOptions struct {
	// CacheDir is where the versions and features of tools are saved, so that later processes need not run the tools
	// again. It is usually the same as Options.CacheDir. If it is empty, they are kept for this process only.
	CacheDir string
	// SearchDirs replaces the default search, including $VKC_TOOLS and $PATH. The directories are absolute.
	SearchDirs []string
}

// Toolchain is the set of external programs found on this machine. Several goroutines may use it at the same time.
type Toolchain struct {
	GLSLC   Tool // glslc: compiles many shaders in one process; preferred
	Glslang Tool // glslangValidator: one shader per process; used without glslc
	Opt     Tool // spirv-opt
	Val     Tool // spirv-val; optional
	Dis     Tool // spirv-dis; optional
	// PassedOver says why the registered tools (see RegisteredDir) are not used. It is nil if they are used, if none
	// are registered, and if $VKC_TOOLS has all tools.
	PassedOver *PassedOverError

	probes   *probeStore
	features featureProbe
	limits   limits // of each run of a tool
}

// toolSpec describes one tool that Find looks for.
type toolSpec struct {
	tool     func(*Toolchain) *Tool
	programs []string // file names to look for, best first
	purpose  string
	packages Packages
}

// Packages names the distribution packages that hold a tool.
type Packages struct{ Debian, Fedora, Arch string }

// Install says how to install the packages on this system.
func (p Packages) Install() string {
	switch runtime.GOOS {
	case "windows", "darwin":
		return "install LunarG's Vulkan SDK, which has it"
	}
	return fmt.Sprintf("install %s (Debian, Ubuntu), %s (Fedora) or %s (Arch)", p.Debian, p.Fedora, p.Arch)
}

// The indexes in toolSpecs of the tools that are not optional.
const (
	glslcIndex = iota
	glslangIndex
	optIndex
)

// toolSpecs lists all tools. toolSet refers to them by index.
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

// Find searches for the tools in this order: the directory in $VKC_TOOLS; the directory that scripts/setup has
// registered for this user (see RegisteredDir); $PATH. The first of these places that has a compiler and spirv-opt
// supplies all tools, because a validator or optimizer that is older than the compiler rejects valid modules. But each
// tool in $VKC_TOOLS is used, even if some are missing there.
//
// Find never depends on the working directory or on the program's location, so that it cannot run planted files. A
// relative $VKC_TOOLS is an error, and relative entries of $PATH are ignored. A registered directory is not used if
// other users may write to it, if it is gone, or if it lacks tools. Toolchain.PassedOver says why. If other tools were
// found, Find also calls the function of [WithNotice].
//
// A missing tool is not an error here, so that a fully cached program runs on a machine without tools, and a doctor
// command can report the tools: see Ready and Report. Find fails if $VKC_TOOLS is a directory without any tool, or
// if ctx ends.
//
// Versions are read by running each tool once, or from opt.CacheDir if the tool's file has not changed since.
func Find(ctx context.Context, opt FindOptions) (*Toolchain, error) {
	t := &Toolchain{probes: openProbeStore(opt.CacheDir), limits: defaultLimits}
	if opt.SearchDirs != nil {
		var sets []toolSet
		for _, dir := range opt.SearchDirs {
			sets = append(sets, findSet(inDir(dir)))
		}
		t.useTools(chooseSet(sets))
	} else if err := t.searchDefault(); err != nil {
		return nil, err
	}
	for _, s := range toolSpecs {
		// A tool that was not found is called by its usual name in messages.
		if tool := s.tool(t); tool.Name == "" {
			tool.Name = s.programs[0]
		}
	}
	if err := t.readVersions(ctx); err != nil {
		return nil, err
	}
	t.probes.noteTools(t.identity())
	if say, ok := ctx.Value(noticeKey{}).(func(*PassedOverError)); ok && t.PassedOver != nil && t.Ready() == nil {
		say(t.PassedOver)
	}
	return t, nil
}

// noticeKey is the context key of the function of WithNotice.
type noticeKey struct{}

// WithNotice returns a context for [Find]. If Find passes over the registered tools and uses others, it calls say. The
// notice matters because other tools have other features, and so lead to other kernels.
func WithNotice(ctx context.Context, say func(*PassedOverError)) context.Context {
	return context.WithValue(ctx, noticeKey{}, say)
}

// searchDefault sets the tools that Find finds in its default search, and PassedOver.
func (t *Toolchain) searchDefault() error {
	override, err := overrideSet()
	if err != nil {
		return err
	}
	if override.complete() {
		t.useTools(override)
		return nil
	}
	registered, passedOver := registeredSet()
	path := findSet(onPath)
	if registered != nil && !registered.complete() && path.complete() {
		passedOver = registeredError(errors.New("it lacks a compiler or spirv-opt"))
	}
	t.PassedOver = passedOver
	t.useTools(chooseSet([]toolSet{registered, path}))
	t.useTools(override) // replaces single tools
	return nil
}

// overrideSet returns the tools in $VKC_TOOLS, or none if it is not set.
func overrideSet() (toolSet, error) {
	dir := os.Getenv(ToolsEnv)
	if dir == "" {
		return nil, nil
	}
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("spirv: $%s is %s, which means another directory wherever vkc runs: write it as an "+
			"absolute path", ToolsEnv, dir)
	}
	set := findSet(inDir(dir))
	if len(set) == 0 {
		return nil, fmt.Errorf("spirv: $%s is %s, which holds none of %s: correct or unset it",
			ToolsEnv, dir, strings.Join(programNames(), ", "))
	}
	return set, nil
}

// RegisteredDir is the directory of the user's own tools: vkc/tools in the user's data directory. It is usually a link
// to the tools that scripts/setup installed. The data directory is $XDG_DATA_HOME or else the platform's:
// ~/.local/share, on macOS ~/Library/Application Support, on Windows %LocalAppData%. The result is empty if there is no
// data directory.
func RegisteredDir() string {
	data := os.Getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(data) { // the XDG specification says to ignore it
		home, _ := os.UserHomeDir()
		switch runtime.GOOS {
		case "windows":
			data = os.Getenv("LocalAppData")
		case "darwin", "ios":
			data = filepath.Join(home, "Library", "Application Support")
		default:
			data = filepath.Join(home, ".local", "share")
		}
	}
	if !filepath.IsAbs(data) {
		return ""
	}
	return filepath.Join(data, "vkc", "tools")
}

// registeredSet returns the tools in RegisteredDir, or nil if there is no such directory. It returns an error if anyone
// except the user can write the directory or its tools, because they could then run programs as the user.
func registeredSet() (toolSet, *PassedOverError) {
	dir := RegisteredDir()
	if dir == "" {
		return nil, nil
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil // never registered
	}
	err := trusted.Check(dir)
	link, _ := os.Readlink(dir) // "" if dir is not a link
	if link != "" && errors.Is(err, fs.ErrNotExist) {
		return nil, registeredError(fmt.Errorf("it is a link to %q, which is not there", link))
	}
	target, linkErr := filepath.EvalSymlinks(dir) // fixed, in case the link changes while the program runs
	err = errors.Join(err, linkErr)
	set := findSet(inDir(target))
	for _, tool := range set {
		err = errors.Join(err, trusted.Check(tool.Path))
	}
	if err != nil {
		return nil, registeredError(err)
	}
	return set, nil
}

// PassedOverError says why the registered tools are not used.
type PassedOverError struct {
	Dir string // RegisteredDir
	Why error
	Do  string // how to make them usable, or to remove them
}

func (e *PassedOverError) Error() string {
	return fmt.Sprintf("spirv: the registered tools, %s, are not used: %v: %s", e.Dir, e.Why, e.Do)
}

// Unwrap returns the reason.
func (e *PassedOverError) Unwrap() error { return e.Why }

// registeredError returns the error for registered tools that are not used for the given reason.
func registeredError(why error) *PassedOverError {
	e := &PassedOverError{Dir: RegisteredDir(), Why: why}
	e.Do = "run scripts/setup of the repository, or remove " + e.Dir
	if others := (*trusted.Error)(nil); errors.As(why, &others) { // its text already says what to do
		e.Do = "do so, or remove " + e.Dir
	}
	return e
}

// toolSet has the tools that were found in one directory, by index into toolSpecs.
type toolSet map[int]Tool

// complete reports whether the set has a compiler and spirv-opt.
func (s toolSet) complete() bool {
	_, glslc := s[glslcIndex]
	_, glslang := s[glslangIndex]
	_, opt := s[optIndex]
	return (glslc || glslang) && opt
}

// chooseSet returns the first complete set. If none is complete, it merges the sets; earlier sets have priority.
func chooseSet(sets []toolSet) toolSet {
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

// useTools sets the tools of a set, and leaves the others as they are.
func (t *Toolchain) useTools(set toolSet) {
	for i, tool := range set {
		*toolSpecs[i].tool(t) = tool
	}
}

// findSet returns the tools that lookup finds. Like exec.LookPath, lookup maps a program's name to its path.
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

// inDir returns a function that looks for a program in one directory.
func inDir(dir string) func(string) (string, error) {
	return func(name string) (string, error) {
		if !filepath.IsAbs(dir) {
			return "", exec.ErrDot
		}
		return exec.LookPath(filepath.Join(dir, name))
	}
}

// onPath searches $PATH for a program and returns its path. It ignores relative and empty entries, with which
// exec.LookPath would fail even if a later, absolute entry has the program.
func onPath(name string) (string, error) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if path, err := inDir(dir)(name); err == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

// programNames returns the usual names of all tools.
func programNames() []string {
	var names []string
	for _, s := range toolSpecs {
		names = append(names, s.programs[0])
	}
	return names
}

// compiler returns the GLSL compiler to use: glslc if it was found, else glslangValidator.
func (t *Toolchain) compiler() Tool {
	if t.GLSLC.Found() {
		return t.GLSLC
	}
	return t.Glslang
}

// readVersions sets Tool.Version of all tools. It runs the tools with unknown versions, all at the same time.
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

// Ready returns nil if shaders can be compiled and optimized. Otherwise it returns a *MissingToolError, which names the
// missing tools and says how to get them.
func (t *Toolchain) Ready() error { return t.require(Options{Optimize: true}) }

// require returns an error if a tool that opt needs was not found.
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
	return &MissingToolError{Tools: missing, PassedOver: t.PassedOver}
}

// MissingToolError says that a tool that is needed to compile shaders was not found on this machine.
type MissingToolError struct {
	Tools      []string
	PassedOver *PassedOverError // Toolchain.PassedOver
}

// Error names the missing tools, and says how to get them.
func (e *MissingToolError) Error() string {
	if e.PassedOver != nil {
		return fmt.Sprintf("spirv: %s not found elsewhere, and %v", strings.Join(e.Tools, " and "), e.PassedOver)
	}
	all := Packages{Debian: "glslc glslang-tools spirv-tools", Fedora: "glslc glslang spirv-tools",
		Arch: "shaderc glslang spirv-tools"} // of all tools
	return fmt.Sprintf("spirv: %s not found: run scripts/setup, or %s, or point $%s at a directory that has it",
		strings.Join(e.Tools, " and "), all.Install(), ToolsEnv)
}

// ToolStatus describes one tool in a report.
type ToolStatus struct {
	Tool
	Purpose  string
	Packages Packages // the distribution packages that have it
}

// Report describes every tool, found or not, in a fixed order.
func (t *Toolchain) Report() []ToolStatus {
	var report []ToolStatus
	for _, s := range toolSpecs {
		report = append(report, ToolStatus{Tool: *s.tool(t), Purpose: s.purpose, Packages: s.packages})
	}
	return report
}

// Disassemble returns a module as SPIR-V assembly. It needs spirv-dis.
func (t *Toolchain) Disassemble(ctx context.Context, module []byte) (string, error) {
	if !t.Dis.Found() {
		return "", &MissingToolError{Tools: []string{"spirv-dis"}, PassedOver: t.PassedOver}
	}
	out, err := runTool(ctx, t.Dis, command{stdin: module, args: []string{"-"}, module: true, limits: t.limits})
	if err != nil {
		return "", fmt.Errorf("spirv: disassemble: %w", err)
	}
	return string(out.stdout), nil
}
