package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/runtime/vk"
)

// finding is one line of vkc doctor.
type finding struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Optional bool   `json:"optional,omitempty"` // vkc works without it
	Detail   string `json:"detail"`             // what was found, or what is wrong
	Purpose  string `json:"purpose"`
	Without  string `json:"without,omitempty"` // for a required check that fails: what still works
	Fix      string `json:"fix,omitempty"`     // how to repair it, if not OK
}

// doctorCommand declares the command vkc doctor and its flags.
func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	var h hintFlags
	cmd := &cobra.Command{
		Use:   "doctor [GRAPH|MODEL.gguf|MODEL.onnx|BUNDLE.vkb]",
		Short: "Report installed and missing tools, or the reasons why a graph is slow",
		Long: `Report installed and missing tools, and the packages that have the missing ones. The exit code is 1 if
vkc cannot compile programs, if it cannot run them on a device, or if it cannot use the GLSL tools that are registered
for the user. The last line says what works nevertheless.

With a graph, report the reasons why it is slow or large, one per line, with the page of the documentation that helps:

  expansion  an intermediate that is 100 times as large as its operands
  launches   many kernels that all take less time than their launch
  weights    int8 weights that a matmul reads as [K, N]
  f64        f64 on a device that is much slower at it than at f32
  symbols    a symbol with a bound far above its value; --symbol gives the value of your runs`,
		Example: "  vkc doctor\n  vkc doctor --json\n  vkc doctor GRAPH.json --symbol T=20 --target nvidia-h100",
		Args:    atLeastArgs(0, "GRAPH or BUNDLE.vkb"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return a.hints(cmd.Context(), args[0], &h, asJSON)
			}
			for _, name := range h.names(cmd) {
				if cmd.Flags().Changed(name) {
					return usagef("--%s goes with a graph: vkc doctor GRAPH --%[1]s ...", name)
				}
			}
			silent := spirv.WithNotice(cmd.Context(), func(*spirv.PassedOverError) {}) // a finding says it
			findings, err := examine(silent)
			if err != nil {
				return err
			}
			if asJSON {
				err = a.printJSON(findings)
			} else {
				err = a.printFindings(findings)
			}
			if err != nil {
				return err
			}
			return verdict(findings)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	h.add(cmd)
	return cmd
}

// examine looks at everything that vkc uses.
func examine(ctx context.Context) ([]finding, error) {
	findings, err := examineTools(ctx)
	if err != nil {
		return nil, err
	}
	findings = append(findings, examineVulkan(listDevices())...)
	return append(findings, examineLayers(), examineCache()), nil
}

// What works without the tools, without the registered ones, and without Vulkan.
const (
	withoutTools = "vkc cannot compile new programs; bundles, cached programs and the CPU fast path (--device cpu) " +
		"work without it"
	withoutRegistered = "the tools of $PATH, if any, compile programs instead, and may make other kernels"
	withoutVulkan     = "programs can be compiled (--target PROFILE), but run on the CPU fast path only (--device " +
		"cpu)"
)

// newerTools is the fix for old GLSL tools.
const newerTools = "point $" + spirv.ToolsEnv +
	" at a newer glslc and spirv-opt; scripts/setup of the repository installs them"

// examineTools returns the findings about the GLSL tools: which are installed, and what the compiler supports.
func examineTools(ctx context.Context) ([]finding, error) {
	root, _ := cachefile.Root() // without a cache directory the tools are queried again
	tools, err := spirv.Find(ctx, spirv.FindOptions{CacheDir: root})
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return []finding{{Name: "GLSL tools", Detail: oneLine(err), Purpose: "compile shaders", Without: withoutTools,
			Fix: "unset $" + spirv.ToolsEnv + " or point it at the tools"}}, nil
	}
	var findings []finding
	if over := tools.PassedOver; over != nil {
		findings = append(findings, finding{Name: "registered tools", Detail: over.Dir + ": " + oneLine(over.Why),
			Purpose: "compile shaders", Without: withoutRegistered, Fix: over.Do})
	}
	for _, t := range tools.Report() {
		f := finding{Name: t.Name, OK: t.Found(), Purpose: t.Purpose, Without: withoutTools,
			Optional: isOptional(tools, t.Name)}
		if f.OK {
			f.Detail = t.Path + " (" + t.Version + ")"
		} else {
			f.Detail = "not found"
			f.Fix = t.Packages.Install()
		}
		findings = append(findings, f)
	}
	if tools.Ready() == nil {
		features, err := tools.Features(ctx)
		if err != nil {
			return nil, err
		}
		findings = append(findings, examineFeatures(features))
	}
	return findings, nil
}

// examineFeatures checks the shader features that only newer tools compile.
func examineFeatures(features map[spirv.Feature]bool) finding {
	var have, lack []string
	for _, f := range slices.Sorted(maps.Keys(features)) {
		if features[f] {
			have = append(have, string(f))
		} else {
			lack = append(lack, string(f))
		}
	}
	f := finding{Name: "shader features", OK: len(lack) == 0, Optional: true,
		Purpose: "makes kernels faster on devices that have it", Detail: strings.Join(have, ", ")}
	if !f.OK {
		f.Detail = "the tools are too old for " + strings.Join(lack, ", ") + ": kernels do without"
		f.Fix = newerTools
	}
	return f
}

// isOptional reports whether programs can be compiled without a tool.
func isOptional(tools *spirv.Toolchain, name string) bool {
	switch name {
	case "spirv-opt":
		return false
	case "glslc":
		return tools.Glslang.Found()
	case "glslangValidator":
		return tools.GLSLC.Found()
	}
	return true
}

// examineVulkan returns the findings about the Vulkan loader, the drivers and the devices, given the results of
// listDevices.
func examineVulkan(info devicesInfo, err error) []finding {
	loader := finding{Name: "Vulkan loader", OK: true, Purpose: "finds drivers", Detail: "Vulkan " + info.Vulkan}
	driver := finding{
		Name: "Vulkan driver", Purpose: "runs kernels", Without: withoutVulkan,
		Fix: "install the driver of the GPU's maker or, for the CPU, mesa-vulkan-drivers (Debian, Ubuntu, Fedora) or " +
			"vulkan-swrast (Arch)",
	}
	switch {
	case errors.Is(err, vk.ErrNoCgo):
		return []finding{{
			Name: "Vulkan", Detail: oneLine(err), Purpose: "runs kernels", Without: withoutVulkan,
			Fix: "install a C compiler and build vkc with CGO_ENABLED=1",
		}}
	case errors.Is(err, vk.ErrNoLoader):
		loader.OK, loader.Detail, loader.Without = false, oneLine(err), withoutVulkan
		loader.Fix = spirv.Packages{Debian: "libvulkan1", Fedora: "vulkan-loader", Arch: "vulkan-icd-loader"}.Install()
		return []finding{loader}
	case errors.Is(err, vk.ErrNoDriver):
		if info.Vulkan == "" { // the version is not known without a driver
			loader.Detail = "found"
		}
		driver.Detail = "the loader finds none"
		if only := vk.DriversEnv(); only != "" {
			driver.Detail += ", which takes drivers only from the environment: " + only
			driver.Fix = "unset that variable to use the system's drivers, or " + driver.Fix
		}
		return []finding{loader, driver}
	case info.Vulkan == "": // the loader exists but does not work
		loader.Detail, driver.Detail = "found", oneLine(err)
		driver.Fix = "correct the setting that the message names (the loader reads VK_DRIVER_FILES, VK_ICD_FILENAMES " +
			"and VK_INSTANCE_LAYERS)"
		return []finding{loader, driver}
	}
	findings := []finding{loader}
	usable := false
	for _, d := range info.Devices {
		usable = usable || d.Problem == ""
		f := finding{Name: fmt.Sprintf("device %d", d.Index), OK: d.Problem == "", Optional: true,
			Purpose: "runs kernels", Detail: describeDevice(d)}
		if !f.OK {
			f.Detail += ": " + d.Problem
			f.Fix = "update its driver"
		}
		findings = append(findings, f)
	}
	if !usable {
		driver.Name, driver.Detail = "Vulkan device", "none can be used"
		findings = append(findings, driver)
	}
	return findings
}

// describeDevice describes a device in a line.
func describeDevice(d deviceEntry) string {
	text := fmt.Sprintf("%s (%s, %s %s)", d.Caps.Name, d.Caps.Type, d.Caps.DriverName, d.Caps.DriverInfo)
	if d.Auto {
		text += ", which --device auto takes"
	}
	return text
}

// examineLayers looks for the validation layers in the directories that the loader searches.
func examineLayers() finding {
	f := finding{Name: "validation layers", Optional: true, Purpose: "check the use of Vulkan in tests"}
	for _, dir := range layerDirs() {
		// Distributions put VkLayer_ ahead of the name, copies elsewhere may not.
		if found, _ := filepath.Glob(filepath.Join(dir, "*khronos_validation*.json")); len(found) > 0 {
			f.OK, f.Detail = true, found[0]
			return f
		}
	}
	f.Detail = "not found"
	f.Fix = spirv.Packages{Debian: "vulkan-validationlayers", Fedora: "vulkan-validation-layers",
		Arch: "vulkan-validation-layers"}.Install()
	return f
}

// layerDirs lists the directories from which the Vulkan loader reads explicit layers on Linux and other Unix systems.
// $VK_LAYER_PATH replaces them.
func layerDirs() []string {
	if dirs := filepath.SplitList(os.Getenv("VK_LAYER_PATH")); len(dirs) > 0 {
		return dirs
	}
	bases := []string{"/etc", "/usr/local/etc", "/usr/local/share", "/usr/share"}
	if home, err := os.UserHomeDir(); err == nil {
		bases = append([]string{filepath.Join(home, ".local", "share"), filepath.Join(home, ".config")}, bases...)
	}
	for _, env := range []string{"XDG_CONFIG_DIRS", "XDG_DATA_DIRS"} {
		bases = append(bases, filepath.SplitList(os.Getenv(env))...)
	}
	for i, b := range bases {
		bases[i] = filepath.Join(b, "vulkan", "explicit_layer.d")
	}
	return bases
}

// examineCache checks that vkc can write to the cache directory.
func examineCache() finding {
	f := finding{Name: "cache", Optional: true, Purpose: "keeps compiled programs"}
	root, err := cachefile.Root()
	switch {
	case err != nil:
		f.Detail, f.Fix = oneLine(err), "set $"+cachefile.EnvDir+" to a directory"
	case root == "":
		f.OK, f.Detail = true, "off ($"+cachefile.Env+")"
	default:
		f.OK, f.Detail = true, root
		if err := tryToWrite(root); err != nil {
			f.OK, f.Detail, f.Fix = false, oneLine(err),
				"make it writable, or set $"+cachefile.EnvDir+" to a directory that is"
		}
	}
	return f
}

// tryToWrite returns an error if vkc cannot write to a directory. It makes the directory if that does not exist yet.
func tryToWrite(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(f.Name())
}

// printFindings prints a line per finding, and how to fix the failed ones.
func (a *app) printFindings(findings []finding) error {
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Name))
	}
	var b strings.Builder
	for _, f := range findings {
		mark := "ok     "
		switch {
		case !f.OK && f.Optional:
			mark = "absent "
		case !f.OK:
			mark = "MISSING"
		}
		fmt.Fprintf(&b, "%s  %-*s  %s\n", mark, width, f.Name, f.Detail)
		if f.Fix != "" {
			fmt.Fprintf(&b, "%9s%-*s  %s: %s\n", "", width, "", f.Purpose, f.Fix)
		}
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}

// verdict returns an error if a required check failed. The error says what still works.
func verdict(findings []finding) error {
	var without []string // each once, in the order of the findings
	missing := map[string][]string{}
	for _, f := range findings {
		if f.OK || f.Optional {
			continue
		}
		if missing[f.Without] == nil {
			without = append(without, f.Without)
		}
		missing[f.Without] = append(missing[f.Without], f.Name)
	}
	if without == nil {
		return nil
	}
	var parts []string
	for _, w := range without {
		parts = append(parts, strings.Join(missing[w], ", ")+": "+w)
	}
	return fmt.Errorf("missing: %s", strings.Join(parts, "; and "))
}
