package lint

// all as the only entry of a rule's Packages allows every package of the module.
const all = "..."

// A Rule says which packages one part of the module may import. The standard library is always allowed.
type Rule struct {
	// Path is the part's folder, "." for the root package. It includes subfolders, except subfolders with their own
	// rule.
	Path string
	// Packages are the other parts it may import, by their rules' paths.
	Packages []string
	// Modules are the external modules that it may import.
	Modules []string
	// Why is the reason for the rule.
	Why string
}

const (
	float16     = "github.com/x448/float16"
	goki        = "github.com/goki/vulkan"
	cobra       = "github.com/spf13/cobra"
	pflag       = "github.com/spf13/pflag" // cobra's flags
	protowire   = "google.golang.org/protobuf"
	progressbar = "github.com/schollz/progressbar/v3"
	ximage      = "golang.org/x/image"
	xsync       = "golang.org/x/sync"
	xsys        = "golang.org/x/sys"
	xtext       = "golang.org/x/text"
	xterm       = "golang.org/x/term"
	xtools      = "golang.org/x/tools"
	honnef      = "honnef.co/go/tools"
)

// Rules is the table of allowed imports. Data flows one way through vkc, from a graph to a device, and imports follow
// it; docs/ARCHITECTURE.md describes the parts.
//
// Subfolders of a part may import each other. Packages under internal are helpers outside this order: every package
// except ir may use them, and the packages of this module that a helper imports count as imports of its user.
var Rules = []Rule{
	{".", []string{all}, nil, "the few names most users need, made of everything below"},
	{"check", []string{"ir", "ir/interp", "runtime"}, nil, "it compares any backend with the reference, so it knows none"},
	{"compiler", []string{"ir", "passes", "codegen", "codegen/kernel", "codegen/device", "codegen/schedule", "codegen/glsl", "codegen/spirv", "codegen/bundle", "runtime"}, nil, "it drives passes, generator and tools, and runs nothing"},
	{"ir", nil, []string{float16}, "a graph knows no device, no strides and no kernels; all else stands on it"},
	{"ir/interp", []string{"ir", "quant"}, []string{float16, xsync}, "the executable definition of every op must not share code with what it checks"},
	{"ir/optest", []string{"ir", "ir/interp", "runtime", "quant"}, []string{xsync}, "it proves any backend, so it knows none"},
	{"quant", []string{"ir"}, []string{float16, xsync}, "block formats are bytes and numbers, wherever they are used"},
	{"frontend", []string{"ir", "quant"}, []string{float16, xsync, xsys}, "building a graph must not need a compiler or a device"},
	{"frontend/tokenizer", []string{"frontend", "ir"}, []string{xsys, xtext}, "the one place that knows patterns of words and forms of characters"},
	{"frontend/vision", []string{"frontend", "ir"}, []string{ximage}, "it decodes the pictures that a user gives to a model"},
	{"frontend/speech", []string{"frontend", "frontend/tokenizer", "ir"}, nil, "the tokens that control a model are in its vocabulary"},
	{"frontend/huggingface", []string{"frontend", "frontend/speech", "frontend/tokenizer", "frontend/vision", "ir", "quant"}, nil, "a folder has a model and its tokenizer, and GGUF is the spelling of both; packed matrices are blocks"},
	{"frontend/onnx", []string{"frontend", "ir", "ir/interp"}, []string{protowire, ximage}, "it computes a model's constants by the reference, reads the wire format by protobuf's own package, and decodes pictures that are constants"},
	{"frontend/onnx/export", []string{"ir", "quant"}, []string{protowire}, "it writes a graph, whatever built it"},
	{"frontend/onnx/folder", []string{"frontend", "frontend/tokenizer", "frontend/huggingface", "frontend/onnx", "ir"}, nil, "a folder has a graph and its tokenizer, which is Hugging Face's"},
	{"grammar", nil, nil, "which texts are allowed is a question about bytes, whatever model writes them"},
	{"generate", []string{all}, nil, "running a language model takes all of vkc, from its file to its device"},
	{"transcribe", []string{all}, nil, "running a model of speech takes all of vkc, from its file to its device"},
	{"serve", []string{"generate", "transcribe", "frontend/speech", "grammar", "frontend", "frontend/tokenizer", "frontend/vision"}, nil, "a protocol around package generate, which knows nothing of graphs"},
	{"train", []string{all}, nil, "a loop around what a user has: an executable, its states and files"},
	{"npy", []string{"ir"}, []string{float16}, "NumPy's files and tensors written out as text, for programs as for the command line"},
	{"passes", []string{"ir", "codegen/kernel", "passes/plan", "passes/rewrite", "passes/lower", "passes/rules", "passes/layout"}, nil, "passes end in kernels; which device runs them is decided later"},
	{"passes/analysis", []string{"ir"}, nil, "facts about a graph, whatever a pass does with them"},
	{"passes/plan", []string{"ir", "codegen/kernel"}, nil, "the graph of kernels knows no pass"},
	{"passes/rewrite", []string{"ir", "codegen/kernel", "passes/analysis"}, nil, "graph to graph: it knows of kernels only their prices"},
	{"passes/lower", []string{"ir", "quant", "codegen/kernel", "passes/analysis", "passes/plan"}, nil, "graph to kernels, whatever rewrote the graph"},
	{"passes/rules", []string{"ir", "codegen/kernel", "passes/lower", "passes/plan"}, nil, "kernels to kernels; a rule may lower a convolution again"},
	{"passes/layout", []string{"ir", "quant", "codegen/kernel", "passes/analysis", "passes/plan"}, nil, "kernels to buffers and steps, whatever made the kernels"},
	{"passes/partition", []string{"ir"}, nil, "it divides a graph before there are kernels, and needs no other pass"},
	{"codegen", nil, nil, "it has only the source of the packages below it"},
	{"codegen/kernel", []string{"ir"}, []string{float16}, "a kernel says what to compute, so it knows neither GLSL nor a target"},
	{"codegen/device", []string{"ir", "codegen/kernel"}, nil, "a device is described by plain data, which the runtime fills in and a profile has"},
	{"codegen/schedule", []string{"ir", "codegen/kernel", "codegen/device"}, []string{xsync}, "a schedule is chosen from a description of a device, never from a live one"},
	{"codegen/glsl", []string{"ir", "codegen/kernel", "codegen/device", "codegen/schedule", "codegen/glsl/syntax", "codegen/glsl/lib", "codegen/glsl/emit", "codegen/glsl/blocks", "codegen/glsl/attention", "codegen/glsl/maps", "codegen/glsl/matmul", "codegen/glsl/matvec", "codegen/glsl/order", "codegen/glsl/recurrence", "codegen/glsl/rows"}, []string{float16, xsync}, "the generator is a pure function of kernel and schedule"},
	{"codegen/glsl/syntax", nil, nil, "trees of GLSL know nothing of kernels"},
	{"codegen/glsl/expr", []string{"codegen/glsl/syntax"}, nil, "expressions know nothing of kernels"},
	{"codegen/glsl/lib", []string{"ir", "codegen/glsl/syntax"}, nil, "library functions stand alone"},
	{"codegen/glsl/emit", []string{"ir", "codegen/kernel", "codegen/device", "codegen/schedule", "codegen/glsl/syntax", "codegen/glsl/expr", "codegen/glsl/lib"}, nil, "the base of the families knows none of them"},
	{"codegen/glsl/rows", []string{"ir", "codegen/kernel", "codegen/device", "codegen/schedule", "codegen/glsl/syntax", "codegen/glsl/expr", "codegen/glsl/emit"}, nil, "a family stands on the base"},
	{"codegen/glsl/recurrence", []string{"ir", "codegen/kernel", "codegen/device", "codegen/schedule", "codegen/glsl/syntax", "codegen/glsl/expr", "codegen/glsl/emit"}, nil, "a family stands on the base"},
	{"codegen/glsl/order", []string{"ir", "codegen/kernel", "codegen/device", "codegen/schedule", "codegen/glsl/syntax", "codegen/glsl/expr", "codegen/glsl/emit", "codegen/glsl/rows"}, nil, "a sorted row is a row"},
	{"codegen/glsl/maps", []string{"ir", "codegen/kernel", "codegen/device", "codegen/schedule", "codegen/glsl/syntax", "codegen/glsl/expr", "codegen/glsl/emit"}, nil, "a family stands on the base"},
	{"codegen/glsl/blocks", []string{"ir", "codegen/kernel", "codegen/device", "codegen/schedule", "codegen/glsl/syntax", "codegen/glsl/expr", "codegen/glsl/lib", "codegen/glsl/emit", "codegen/glsl/rows"}, nil, "decoders are functions in any shader; a quantized block is a row"},
	{"codegen/glsl/matmul", []string{"ir", "codegen/kernel", "codegen/device", "codegen/schedule", "codegen/glsl/syntax", "codegen/glsl/expr", "codegen/glsl/emit", "codegen/glsl/blocks"}, nil, "a family stands on the base"},
	{"codegen/glsl/matvec", []string{"ir", "codegen/kernel", "codegen/device", "codegen/schedule", "codegen/glsl/syntax", "codegen/glsl/expr", "codegen/glsl/emit", "codegen/glsl/blocks", "codegen/glsl/matmul"}, nil, "a matvec is a matmul of few rows"},
	{"codegen/glsl/attention", []string{"ir", "codegen/kernel", "codegen/device", "codegen/schedule", "codegen/glsl/syntax", "codegen/glsl/expr", "codegen/glsl/emit", "codegen/glsl/blocks"}, nil, "a family stands on the base"},
	{"codegen/spirv", nil, []string{xsync, xsys}, "it drives compilers over text and bytes, and knows nothing of graphs"},
	{"codegen/bundle", []string{"ir", "codegen/kernel", "codegen/device"}, []string{float16}, "a bundle is read where there is no compiler"},
	{"runtime", []string{"ir"}, []string{float16}, "what both backends share"},
	{"runtime/vk", []string{"ir", "runtime", "codegen/kernel", "codegen/bundle", "codegen/device"}, []string{float16, goki, xsync, xsys}, "a program that only runs a bundle stays small: no passes, no generator"},
	{"runtime/cpu", []string{"ir", "ir/interp", "runtime"}, []string{float16, xsync, xsys}, "the processor as a backend"},
	{"runtime/trial", []string{"ir", "runtime"}, nil, "it changes from one backend to another, and knows neither"},
	{"runtime/collective", []string{"ir", "runtime", "runtime/vk", "codegen/device", "passes/partition"}, nil, "devices of one process exchange values during a run, whatever program they run"},
	{"runtime/multi", []string{"ir", "runtime", "runtime/vk", "runtime/collective", "codegen/device", "codegen/kernel", "passes/partition"}, []string{xsync}, "it runs the parts of a program, which others compile"},
	{"bench", []string{all}, []string{xsync}, "it measures what a user gets, so it uses vkc as one does"},
	{"internal", []string{all}, []string{float16, xsync, xsys, xterm}, "small shared helpers"},
	{"internal/lint", nil, []string{xtools, honnef}, "the rules of the house know the code by its text alone"},
	{"cmd/vkc", []string{all}, []string{cobra, pflag, progressbar, xsync, xsys, xterm}, "the command line is the only place that talks to a terminal"},
	{"examples", []string{all}, nil, "an example uses what a user has: vkc and the standard library"},
	{"golden", []string{all}, nil, "test data and what writes it"},
	{"docs", []string{all}, nil, "pages, and what generates them"},
}

// Layers are the parts in the picture of docs/ARCHITECTURE.md, the lowest layer first. No part imports one of a higher
// layer, whatever its rule allows.
var Layers = [][]string{
	{"ir", "ir/interp", "quant"},
	{"frontend", "frontend/tokenizer", "frontend/speech", "frontend/huggingface", "frontend/onnx", "grammar", "npy"},
	{"codegen/kernel", "codegen/device", "codegen/schedule", "passes/partition"},
	{"codegen/bundle", "runtime", "runtime/vk", "runtime/cpu", "runtime/trial", "runtime/collective", "runtime/multi", "check"},
	{"passes/analysis", "passes/plan"},
	{"passes/rewrite", "passes/lower"},
	{"passes/rules", "passes/layout"},
	{"codegen/glsl/syntax", "codegen/glsl/expr", "codegen/glsl/lib"},
	{"codegen/glsl/emit"},
	{"codegen/glsl/attention", "codegen/glsl/blocks", "codegen/glsl/maps", "codegen/glsl/matmul", "codegen/glsl/matvec",
		"codegen/glsl/order", "codegen/glsl/recurrence", "codegen/glsl/rows"},
	{"passes", "codegen/glsl", "codegen/spirv", "compiler"},
	{"."},
	{"generate", "transcribe", "train", "bench"},
	{"serve", "cmd/vkc"},
}

// A Closure is a package and the packages it must not depend on, directly or indirectly.
type Closure struct {
	Path      string
	Forbidden []string
	Why       string
}

// Closures are rules about complete dependency trees, which must hold even if Rules change.
var Closures = []Closure{
	{"runtime/vk", []string{"passes", "codegen/glsl", "codegen/schedule", "codegen/spirv", "frontend"}, "a program that only runs a bundle carries no compiler"},
	{"ir/interp", []string{"passes", "codegen", "runtime"}, "the reference must not rest on what it checks"},
	{"frontend", []string{"passes", "codegen", "runtime"}, "building a graph must not need a compiler or a device"},
}
