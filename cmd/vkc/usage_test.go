package main

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/runtime/vk"
)

// commands lists a command and all below it.
func commands(cmd *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{cmd}
	for _, c := range cmd.Commands() {
		list = append(list, commands(c)...)
	}
	return list
}

// TestHelp compares the help of every command with the golden file. Each command needs an example.
func TestHelp(t *testing.T) {
	var all strings.Builder
	for _, cmd := range commands((&app{}).rootCommand()) {
		path := strings.Fields(cmd.CommandPath())[1:]
		r := ok(t, append(path, "--help")...)
		all.WriteString("$ " + cmd.CommandPath() + " --help\n" + r.stdout + "\n")
		if r.stderr != "" {
			t.Errorf("%s --help: %q on standard error", cmd.CommandPath(), r.stderr)
		}
		if cmd.Example == "" || !strings.Contains(r.stdout, "Examples:") {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
	}
	goldenFile(t, "help.txt", all.String())
}

// TestExamples parses every example of the help: flags and arguments must be
// ones that the commands take.
func TestExamples(t *testing.T) {
	root := (&app{}).rootCommand()
	for _, cmd := range commands(root) {
		for line := range strings.Lines(cmd.Example) {
			args := words(line)
			if args[0] != "vkc" {
				t.Errorf("%s: example %q", cmd.CommandPath(), line)
				continue
			}
			fresh := (&app{}).rootCommand()
			target, rest, err := fresh.Find(args[1:])
			if err == nil {
				err = target.ParseFlags(rest)
			}
			if err == nil {
				err = target.ValidateArgs(target.Flags().Args())
			}
			if err != nil || target == fresh {
				t.Errorf("%s: example %q: %v", cmd.CommandPath(), line, err)
			}
		}
	}
}

// words are the words of a command line as a shell splits it, without the variables set before the command,
// up to a redirection or a pipe.
func words(line string) []string {
	var all []string
	line = regexp.MustCompile(`^\s*([A-Z_]+=\S*\s+)*`).ReplaceAllString(line, "")
	for _, w := range regexp.MustCompile(`'[^']*'|[^\s']+`).FindAllString(line, -1) {
		if strings.ContainsAny(w[:1], "<>|") {
			break
		}
		all = append(all, strings.Trim(w, "'"))
	}
	return all
}

func TestNoCommandIsHelp(t *testing.T) {
	for _, args := range [][]string{{}, {"help"}, {"cache"}} {
		if r := ok(t, args...); !strings.Contains(r.stdout, "Usage:") {
			t.Errorf("vkc %v prints %q", args, r.stdout)
		}
	}
}

func TestCompletion(t *testing.T) {
	if r := ok(t, "completion", "bash"); !strings.Contains(r.stdout, "__start_vkc") {
		t.Error("completion bash prints no completion")
	}
}

// TestCompletedValues: shell completion offers the values of a flag, and no files.
func TestCompletedValues(t *testing.T) {
	noVulkan(t)
	for line, want := range map[string]string{
		"compile --target ":   "auto generic lavapipe nvidia-h100",
		"dump --target n":     "nvidia-h100",
		"bench --target ":     "generic",
		"run --precision ":    "exact bf16x3 half half_sums int8",
		"dump --stage ":       "graph passes kernels plan glsl spirv",
		"dump --after ":       "dce",
		"quantize --type q4":  "q4_0 q4_1 q4_K",
		"run --device ":       "auto vulkan cpu",
		"verify -d ":          "auto vulkan cpu",
		"bench --suite ":      "matmul",
		"tune --scale ":       "auto full tiny",
		"compile --precision": "--precision",
	} {
		verb, rest, _ := strings.Cut(line, " ")
		args := append([]string{"__complete", verb}, strings.SplitN(rest, " ", 2)...)
		r := ok(t, args...)
		for _, value := range strings.Fields(want) {
			if !strings.Contains("\n"+r.stdout, "\n"+value) {
				t.Errorf("vkc %s<tab> does not offer %s:\n%s", line, value, r.stdout)
			}
		}
		if !strings.HasPrefix(rest, "--precision") && !strings.Contains(r.stdout, "\n:4\n") { // no files
			t.Errorf("vkc %s<tab> offers files:\n%s", line, r.stdout)
		}
	}
}

func TestVersionFlags(t *testing.T) {
	want := ok(t, "version").stdout
	for _, flag := range []string{"--version", "-v"} {
		if got := ok(t, flag).stdout; got != want || !strings.HasPrefix(got, "vkc ") {
			t.Errorf("vkc %s prints %q, and vkc version %q", flag, got, want)
		}
	}
}

// TestNoPlaceForOutput: a file that cannot be written is refused before there is
// any work for it.
func TestNoPlaceForOutput(t *testing.T) {
	devtest.EmptyCache(t)
	graph, weights := absolute(t, mlpGraph), mlpWeights(t)
	noTools(t)  // or compile says that they are missing
	noVulkan(t) // or tune and bench that the device is
	there := t.TempDir()
	nowhere := filepath.Join(there, "no", "x")
	for _, line := range [][]string{
		{"compile", graph, "-o"}, {"quantize", weights, "--type", "q8_0", "-o"}, {"tune", graph, "--output"}, {"bench", "--plot"}, {"bench", "--chart"}, {"bench", "--output"}, {"bench", "--trace"},
		{"run", graph, "--trace"},
	} {
		fails(t, exitFailure, append(line, nowhere), "no such file", "make the directory first")
		fails(t, exitFailure, append(line, there), "this is a directory: name a file in it")
		fails(t, exitFailure, append(line, filepath.Join(weights, "x")), "is not a directory")
		if runtime.GOOS == "linux" { // even root cannot create files in this directory
			fails(t, exitFailure, append(line, "/proc/self/x"), "/proc/self/x: ", "name a file in a directory where "+
				"you may write")
		}
	}
	fails(t, exitFailure, []string{"devices", "--profile", nowhere + ".json"}, "make the directory first")
	fails(t, exitFailure, []string{"run", graph, "--output", "label=" + nowhere}, `output "label"`,
		"make the directory first")
}

// TestCompileForThisDevice: without --target a graph is compiled for the device
// here and says so, or for any where there is none.
func TestCompileForThisDevice(t *testing.T) {
	needTools(t)
	devtest.OwnCache(t)
	path := filepath.Join(t.TempDir(), "x.vkb")
	if dev, err := vkc.OpenDevice("vulkan"); err != nil && !errors.Is(err, vk.ErrUnavailable) {
		t.Fatal(err)
	} else if err == nil {
		name := dev.Name()
		dev.Close()
		r := ok(t, "compile", mlpGraph, "-o", path)
		if !strings.Contains(r.stderr, "vkc: compiling for the device here, "+name+"; --target names another\n") ||
			strings.Contains(r.stdout, " for Generic ") {
			t.Errorf("%+v", r)
		}
	}
	noVulkan(t)
	r := ok(t, "compile", mlpGraph, "-o", path)
	if !strings.Contains(r.stderr, "vkc: there is no device here, so this is compiled for generic, which every "+
		"device can run (") ||
		!strings.Contains(r.stdout, " for Generic ") {
		t.Errorf("%+v", r)
	}
	fails(t, exitFailure, []string{"compile", mlpGraph, "-o", path, "--target", "auto"},
		"there is no device for --target auto")
}

func TestWrongUsage(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"cmpile", `unknown command "cmpile" for vkc: did you mean compile?`},
		{"quux", "see vkc --help"},
		{"genrate -m x.gguf", `unknown command "genrate" for vkc: did you mean generate?`},
		{"cache sl --json", `unknown command "sl" for vkc cache: did you mean ls?`},
		{"cache sl", "did you mean ls?"},
		{"cache quux", `unknown command "quux" for vkc cache: see vkc cache --help`},
		{"completion quux", `unknown command "quux" for vkc completion: see vkc completion --help`},
		{"help quux", `unknown command "quux" for vkc: see vkc --help`},
		{"help cache quux", `unknown command "quux" for vkc cache`},
		{"help run quux", `unexpected argument "quux"`},
		{"--quux", "unknown flag: --quux; see vkc --help"},
		{"run x --chekc", "unknown flag: --chekc: did you mean --check?"},
		{"compile x --wieghts y", "did you mean --weights?"},
		{"dump x --kernl 1", "did you mean --kernel?"},
		{"--vresion", "did you mean --version?"},
		{"run x --queit", "did you mean --quiet?"},
		{"version extra", `unexpected argument "extra"`},
		{"devices --device 0", "--device goes with --profile"},
		{"compile", "GRAPH is missing"},
		{"compile g.json", "-o OUT.vkb is missing"},
		{"compile g.json h.json -o x", `unexpected argument "h.json"`},
		{"compile " + mlpGraph + " -o x --target gtx", "--target"},
		{"compile " + mlpGraph + " -o x --jobs many", "--jobs"},
		{"compile " + mlpGraph + " -o " + mlpGraph, "is both the input and the output"},
		{"compile " + mlpGraph + " -o x --jobs -1", "--jobs -1: want at least 1"},
		{"run x --check=maybe", "--check maybe: want true or false"},
		{"run x --repeat 1.5", "--repeat 1.5: want a whole number"},
		{"tune --budget 5", "--budget 5: want a time with its unit"},
		{"run " + mlpGraph + " --top 3", "--top 3: want a number of kernels, at least 0, with --profile"},
		{"run " + mlpGraph + " --profile --top -3", "--top -3"},
		{"compile " + mlpGraph + " -o x --precision quarter", `--precision: no precision "quarter": want one of exact, bf16x3, half`},
		{"run " + mlpGraph + " --precision quarter", `no precision "quarter"`},
		{"dump " + mlpGraph + " --precision quarter", `no precision "quarter"`},
		{"tune --precision half", "go with GRAPH"},
		{"run", "GRAPH or BUNDLE.vkb is missing"},
		{"run x --repeat 0", "--repeat 0"},
		{"run x --symbol T", "want NAME=N"},
		{"run x --symbol T=-1", "at least 0"},
		{"run x --symbol T=1 --symbol T=2", "T is given twice"},
		{"run x --output y", "want NAME=FILE.npy"},
		{"run " + mlpGraph + " --input =1", "want NAME="},
		{"run " + mlpGraph + " --output quux=y.npy", `no output "quux"; the program has probabilities, label`},
		{"run " + mlpGraph + " --input quux=1", `no input "quux"; the program has x`},
		{"run " + mlpGraph, `inputs are missing: pass --input x=FILE.npy, x=[1,2,3] or x=random:SEED; missing: x, f32[T,8]`},
		{"run " + mlpGraph + " --input x=random:1", "--symbol T=N (at most 64)"},
		{"run " + mlpGraph + " --input x=random:1 --symbol T=65", "outside 0..64"},
		{"run " + mlpGraph + " --input x=random:one --symbol T=1", "want random:SEED"},
		{"run " + mlpGraph + " --input x=[1,[2]]", "--input x"},
		{"dump", "GRAPH or BUNDLE.vkb is missing"},
		{"dump x --stage quux", "none of graph, passes, kernels, plan, glsl, spirv"},
		{"dump x --stage glsl --all", "go with --stage passes, not glsl"},
		{"dump x --after dce --all", "exclude each other"},
		{"dump x --fusion --stage plan", "--fusion and --decisions are reports of their own"},
		{"dump x --decisions --kernel 1", "--fusion and --decisions are reports"},
		{"dump x --split 2 --decisions", "--split is a report of its own"},
		{"dump x --split 1", "want 2 to 64 devices"},
		{"dump x --decisions --fusion", "--fusion and --decisions are reports"},
		{"dump x --stage graph --kernel 1", "not graph"},
		{"dump " + mlpGraph + " --after quux", "--after"},
		{"dump " + mlpGraph + " --target quux", `--target: `},
		{"run " + mlpGraph + " --input x=random:1 --symbol M=2", `--symbol: there is no symbol "M"; the program has T`},
		{"dump " + mlpGraph + " --kernel 99", "--kernel 99: the program has"},
		{"dump " + mlpGraph + " --stage glsl --target quux", "--target"},
	} {
		t.Run(tt.line, func(t *testing.T) { fails(t, exitUsage, strings.Fields(tt.line), tt.want) })
	}
}

func TestInterrupted(t *testing.T) {
	needTools(t)
	devtest.EmptyCache(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dir := t.TempDir()
	r := runCtx(t, ctx, "compile", mlpGraph, "-o", dir+"/x.vkb")
	if r.code != exitInterrupted || !strings.HasSuffix(r.stderr, "vkc: interrupted\n") || len(files(t, dir)) != 0 {
		t.Errorf("%+v, files %v", r, files(t, dir))
	}
	for _, stage := range []string{stageKernels, stagePasses, stageGLSL} { // the stages that need only the passes
		if r := runCtx(t, ctx, "dump", mlpGraph, "--stage", stage); r.code != exitInterrupted || r.stdout != "" {
			t.Errorf("dump of %s: %+v", stage, r)
		}
	}
}
