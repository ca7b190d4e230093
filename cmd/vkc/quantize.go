package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/huggingface"
	"github.com/vkc-go/vkc/frontend/quantize"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/internal/inputfile"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant/imatrix"
)

type quantizeFlags struct {
	output, dtype, imatrix string
	keep, search           []string
	outputType, embedding  string
	pure                   bool
	threads                int
	requantize, json       bool
	split                  sizeFlag
	projector              string // the file of a folder's vision tower, or "" or "none"
}

// quantizeCommand declares the command vkc quantize and its flags.
func (a *app) quantizeCommand() *cobra.Command {
	var f quantizeFlags
	cmd := &cobra.Command{
		Use:   "quantize IN.gguf|FOLDER|IN.safetensors -o OUT.gguf --type TYPE",
		Short: "Quantize a model to a GGUF file, and report the error of each tensor",
		Long: `Quantize a model to a GGUF file, and report the error of each tensor.

A type in small letters, such as q4_K, is a format, and all matrices take it. A type in capitals, such as Q4_K_M, is one
of llama.cpp's recipes: it gives sensitive matrices more bits, by their names and layers. --pure takes the recipe's main
format for all matrices.

Vectors, norms, biases, routers of experts and short convolutions stay f32, as ggml programs expect. If rows are not a
whole number of blocks, their tensor falls back to a format with blocks of 32, or else to f16. A table lists these
tensors.

--keep and --tensor-type name exceptions. The first pattern that matches a tensor counts. --keep takes a pattern for the
whole name, and --tensor-type a regular expression for a part of it, like llama-quantize.

The report has two errors of each tensor: the root mean square error divided by the root mean square of the values, and
the largest error of an element. NaN and infinity are refused, and the message gives their position. vkc quantize
streams the model. It writes the whole file or none.

A Hugging Face folder becomes a GGUF file with GGUF's names, metadata and tokenizer. --type f32, f16 or bf16 converts
without quantizing. A safetensors file alone has no metadata, and its tensors keep their names.

The vision tower of a folder becomes a separate file, as ggml programs expect: mmproj-OUT.gguf for -o OUT.gguf, or the
file that --mmproj names. Its matrices are f32 or bf16 with that --type, and f16 otherwise.

A model in several files (MODEL-00001-of-00003.gguf) is read as one model, from any of its parts. --split-size writes
such parts: for -o OUT.gguf, OUT-00001-of-00002.gguf and so on. A tensor larger than that has a part to itself.`,
		Example: `  vkc quantize MODEL-f16.gguf -o MODEL-q4_K.gguf --type q4_K
  vkc quantize MODEL-f16.gguf -o OUT.gguf --type Q4_K_M --tensor-type 'attn_[kv]=q8_0' --output-tensor-type q8_0
  vkc quantize MODEL-f16.gguf -o OUT.gguf --type iq2_xxs --imatrix MODEL.imatrix --keep token_embd.weight=q6_K
  vkc quantize FOLDER -o MODEL.gguf --type bf16
  vkc quantize MODEL.safetensors -o OUT.gguf --type q8_0 --keep *.lm_head.*=f16
  vkc quantize MODEL-00001-of-00007.gguf -o OUT.gguf --type q4_K --split-size 2G`,
		Args: exactArgs("IN.gguf or IN.safetensors"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.output == "":
				return usagef("-o OUT.gguf is missing; see vkc quantize --help")
			case f.dtype == "":
				return usagef("--type is missing: want one of %s", strings.Join(typesAndRecipes(), ", "))
			}
			if err := writable("output", f.output); err != nil {
				return err
			}
			if f.projector != "" && !huggingface.IsFolder(args[0]) {
				return usagef("--mmproj %s: only Hugging Face folders have a vision tower to write: leave out "+
					"--mmproj", f.projector)
			}
			opt, err := f.options()
			if err != nil {
				return err
			}
			return a.quantize(cmd.Context(), args[0], &f, opt)
		},
	}
	f.add(cmd)
	return cmd
}

// add declares the flags of vkc quantize.
func (f *quantizeFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "the GGUF `FILE` to write")
	flags.StringVar(&f.dtype, "type", "", "the `TYPE` of the matrices: "+strings.Join(typesAndRecipes(), ", "))
	flags.BoolVar(&f.pure, "pure", false, "use the recipe's main format for all matrices")
	flags.StringArrayVar(&f.keep, "keep", nil,
		"`PATTERN=TYPE` for tensors by name, such as output.*=q6_K; may be repeated")
	flags.StringArrayVar(&f.search, "tensor-type", nil,
		"`REGEXP=TYPE` for tensors with a name that the expression matches in part; may be repeated")
	flags.StringVar(&f.outputType, "output-tensor-type", "",
		"`TYPE` of the output matrix, even if it is also the embedding")
	flags.StringVar(&f.embedding, "token-embedding-type", "", "`TYPE` of the token embedding")
	flags.StringVar(&f.imatrix, "imatrix", "", "importance matrix `FILE` of vkc imatrix or llama-imatrix (.dat or "+
		"GGUF)")
	flags.Var(&f.split, "split-size", "write several files of at most `SIZE` each, such as 500M or 2G; 0 means one "+
		"file")
	flags.StringVar(&f.projector, "mmproj", "", "write the vision tower of a folder to this GGUF `FILE`, or none "+
		"(default mmproj-OUT.gguf)")
	flags.IntVar(&f.threads, "threads", 0, "use `N` cores; 0 means all")
	flags.BoolVar(&f.requantize, "requantize", false, "accept tensors that are already quantized; the errors add up")
	flags.BoolVar(&f.json, "json", false, "print the report as JSON")
}

// quantizeTypes lists the values of --type.
func quantizeTypes() []string {
	var names []string
	for _, t := range ir.DTypes() {
		if _, ok := quantize.FileType(t); ok {
			names = append(names, t.String())
		}
	}
	return names
}

// typesAndRecipes lists the values of --type: formats in small letters, and then recipes in capitals.
func typesAndRecipes() []string {
	names := quantizeTypes()
	for _, r := range quantize.Recipes() {
		names = append(names, r.Name)
	}
	return names
}

// quantizeType parses a format. Upper case is allowed too, because ggml's programs use it.
func quantizeType(flag, name string) (ir.DType, error) {
	t, err := ir.ParseDType(name)
	if _, ok := quantize.FileType(t); err != nil || !ok {
		return t, oneOf(flag, name, quantizeTypes())
	}
	return t, nil
}

// parseType parses --type and --pure into opt. The name of --type is a recipe or a format. If it is both, in capitals
// it is the recipe and in small letters the format.
func (f *quantizeFlags) parseType(opt *quantize.Options) (err error) {
	t, err := quantizeType("type", f.dtype)
	recipe := quantize.RecipeNamed(f.dtype)
	switch format := err == nil; {
	case recipe == nil && !format:
		return oneOf("type", f.dtype, typesAndRecipes())
	case recipe == nil || format && unicode.IsLower(rune(f.dtype[0])):
		opt.Type = t
	case f.pure:
		opt.Type = recipe.Base // --pure: the recipe's main format for all tensors
	default:
		opt.Recipe = recipe
	}
	return nil
}

// options parses all flags except the importance matrix, which method quantize reads.
func (f *quantizeFlags) options() (opt quantize.Options, err error) {
	if f.threads < 0 {
		return opt, usagef("--threads %d: want at least 0", f.threads)
	}
	opt = quantize.Options{Requantize: f.requantize, Workers: f.threads, PartBytes: int64(f.split)}
	if err := f.parseType(&opt); err != nil {
		return opt, err
	}
	for _, text := range f.keep {
		pattern, t, err := parseRule("keep", "PATTERN", text)
		if err != nil {
			return opt, err
		}
		if _, err := path.Match(pattern, ""); err != nil {
			return opt, usagef("--keep %q: the pattern has an open bracket or a trailing backslash", text)
		}
		opt.Keep = append(opt.Keep, quantize.Rule{Pattern: pattern, Type: t})
	}
	for _, text := range f.search {
		pattern, t, err := parseRule("tensor-type", "REGEXP", text)
		if err != nil {
			return opt, err
		}
		re, err := regexp.Compile(pattern)
		if err != nil {
			return opt, usagef("--tensor-type %q: %w", text, err)
		}
		opt.Search = append(opt.Search, quantize.SearchRule{Name: re, Type: t})
	}
	for flag, o := range map[string]struct {
		name string
		to   *ir.DType
	}{"output-tensor-type": {f.outputType, &opt.Output}, "token-embedding-type": {f.embedding, &opt.Embedding}} {
		if o.name == "" {
			continue
		}
		if *o.to, err = quantizeType(flag, o.name); err != nil {
			return opt, err
		}
	}
	return opt, nil
}

// parseRule parses PATTERN=TYPE. It splits at the last =, since names may contain = but types do not.
func parseRule(flag, what, text string) (pattern string, t ir.DType, err error) {
	i := strings.LastIndexByte(text, '=')
	if i < 1 {
		return "", t, usagef("--%s %q: want %s=TYPE", flag, text, what)
	}
	t, err = quantizeType(flag+" "+text+":", text[i+1:])
	return text[:i], t, err
}

// quantize runs vkc quantize: it quantizes the model in file in and prints the report.
func (a *app) quantize(ctx context.Context, in string, f *quantizeFlags, opt quantize.Options) (err error) {
	output := f.output
	// If both are in parts, the part of the output with the input's number must not be the input.
	if part, of := filefmt.PartOf(in); f.split > 0 && of > 0 {
		output = filefmt.PartPath(output, int(part), int(of))
	}
	if sameFile(in, output) {
		return usagef("%s is both the input and the output: name another output", in)
	}
	if f.imatrix != "" {
		if opt.Imatrix, err = readImatrix(f.imatrix); err != nil {
			return fmt.Errorf("--imatrix: %w", err)
		}
	}
	file, err := vkc.OpenWeights(in)
	if err != nil {
		return err
	}
	bar := a.byteProgress("quantize")
	opt.Progress = func(p quantize.Progress) {
		bar.describe(fmt.Sprintf("tensor %d of %d", p.Index+1, p.Tensors))
		bar.report(p.Done, p.Total)
	}
	report, err := writeQuantized(ctx, file, f.output, opt)
	bar.end()
	if err != nil {
		return err
	}
	if err := a.printQuantized(report, f); err != nil {
		return err
	}
	return a.writeProjector(ctx, in, f, opt)
}

// writeQuantized quantizes the tensors of file into a new file, output, and closes file.
func writeQuantized(ctx context.Context, file vkc.Weights, output string, opt quantize.Options) (
	report *quantize.Report, err error) {
	defer func() { err = errors.Join(err, file.Close()) }()
	src, err := quantize.NewSource(file)
	if err != nil {
		return nil, err
	}
	plan, err := quantize.New(src, opt)
	if err != nil {
		return nil, err
	}
	return plan.WriteFile(ctx, output)
}

// writeProjector writes the vision tower of a model in a Hugging Face folder to a file of its own, unless --mmproj none
// is given. It does nothing for a model without one.
func (a *app) writeProjector(ctx context.Context, in string, f *quantizeFlags, opt quantize.Options) error {
	if f.projector == generate.NoProjector || !huggingface.IsFolder(in) {
		return nil
	}
	has, err := huggingface.HasVision(in)
	switch {
	case err != nil:
		return err
	case !has && f.projector != "":
		return usagef("--mmproj %s: %s has no vision tower that vkc supports: leave out --mmproj", f.projector, in)
	case !has:
		return nil
	}
	output := f.projector
	if output == "" {
		output = filepath.Join(filepath.Dir(f.output), "mmproj-"+filepath.Base(f.output))
	}
	if err := writable("mmproj", output); err != nil {
		return err
	}
	file, err := huggingface.OpenVision(in)
	if err != nil {
		return err
	}
	// A tower is small and loses much by quantizing: it stays in floats.
	tower := quantize.Options{Type: ir.F16, Workers: opt.Workers}
	if opt.Type == ir.F32 || opt.Type == ir.BF16 {
		tower.Type = opt.Type
	}
	if _, err := writeQuantized(ctx, file, output, tower); err != nil {
		return err
	}
	a.note("the vision tower is in %s", output)
	return nil
}

// sameFile reports whether the file output exists and is the model's file input, or another part of that model.
func sameFile(input, output string) bool {
	to, err := os.Stat(output)
	if err != nil {
		return false
	}
	_, parts := filefmt.PartOf(input) // 0 if the model is one file
	for i := range max(1, min(parts, filefmt.MaxParts)) {
		if from, err := os.Stat(filefmt.SiblingPart(input, i+1)); err == nil && os.SameFile(from, to) {
			return true
		}
	}
	return false
}

// maxImatrixBytes bounds an importance matrix. The largest models' matrices have some hundred megabytes.
const maxImatrixBytes = 4 << 30

// readImatrix reads an importance matrix from a .dat file or a GGUF file, which its first bytes tell apart.
func readImatrix(path string) (*imatrix.Matrix, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxImatrixBytes {
		return nil, fmt.Errorf("%s is not a file, or larger than %s", path, size(maxImatrixBytes))
	}
	data, err := inputfile.Read(path)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(string(data[:min(4, len(data))]), "GGUF") {
		return imatrix.Read(data, path)
	}
	f, err := gguf.NewReader(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return imatrix.FromTensors(f)
}

// quantizedInfo is the output of vkc quantize --json.
type quantizedInfo struct {
	File    string            `json:"file"`
	Parts   []string          `json:"parts,omitempty"` // written by --split-size
	Tensors []quantizedTensor `json:"tensors"`
	Notes   []string          `json:"notes,omitempty"`
	Before  int64             `json:"bytes_before"` // of all tensors
	Bytes   int64             `json:"bytes"`
	Ratio   float64           `json:"ratio"`
	Bits    float64           `json:"bits_per_weight"`
	Types   []typeTotal       `json:"types"`
	RMSE    number            `json:"relative_rmse"` // over all elements
}

type quantizedTensor struct {
	Name     string   `json:"name"`
	Shape    []int    `json:"shape"`
	From     ir.DType `json:"from"`
	To       ir.DType `json:"to"`
	Before   int64    `json:"bytes_before"`
	Bytes    int64    `json:"bytes"`
	Bits     float64  `json:"bits_per_weight"`
	RMSE     number   `json:"relative_rmse"`
	MaxError number   `json:"max_error"`
	Weighted bool     `json:"imatrix,omitempty"`
	Wanted   string   `json:"wanted,omitempty"` // the type of which blocks do not fit the rows
	Note     string   `json:"note,omitempty"`
}

// printQuantized prints the errors and sizes of the quantized tensors, as a table or JSON.
func (a *app) printQuantized(r *quantize.Report, f *quantizeFlags) error {
	for _, note := range r.Notes {
		a.note("note: %s", note)
	}
	if f.json {
		return a.printJSON(quantizedInfoOf(r, f))
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TENSOR\tSHAPE\tTYPE\tBYTES\tREL RMSE\tMAX ERROR\tNOTE")
	for _, t := range r.Tensors {
		loss := fmt.Sprintf("%s\t%s", percent(t.RMSE), short(number(t.MaxError)))
		if t.RMSE == 0 {
			loss = "exact\t0"
		}
		note := t.Note
		if t.Weighted {
			note = strings.TrimPrefix(note+"; weighted", "; ")
		}
		fmt.Fprintf(w, "%s\t%v\t%s -> %s\t%d\t%s\t%s\n", ir.Printable(t.Name), t.Dims, t.From, t.To,
			t.BytesOut, loss, note)
	}
	info := quantizedInfoOf(r, f)
	if slices.ContainsFunc(info.Tensors, func(t quantizedTensor) bool { return t.Wanted != "" }) {
		fmt.Fprintln(w, "\nROWS THAT DO NOT FIT\tSHAPE\tWANTED\tTYPE\tBYTES\tBITS/WEIGHT")
		for _, t := range info.Tensors {
			if t.Wanted != "" {
				fmt.Fprintf(w, "%s\t%v\t%s\t%s\t%d\t%.4g\n", ir.Printable(t.Name), t.Shape, t.Wanted, t.To, t.Bytes,
					t.Bits)
			}
		}
	}
	fmt.Fprintln(w)
	for _, t := range info.Types {
		fmt.Fprintf(w, "%s:\t%s\t%d elements\t%s\t%.4g bits per weight\n", t.Type, plural(t.Tensors, "tensor"),
			t.Elements, size(t.Bytes), bitsPer(t.Bytes, t.Elements))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	name := filepath.Base(r.Files[0])
	if n := len(r.Files); n > 1 {
		name += " to " + filepath.Base(r.Files[n-1])
	}
	_, err := fmt.Fprintf(a.stdout,
		"%s: %d tensors, %s -> %s (%.2fx smaller), %.4g bits per weight, relative RMSE %s\n", name, len(r.Tensors),
		size(r.BytesIn), size(r.BytesOut), r.Ratio(), info.Bits, percent(r.RMSE))
	return err
}

// quantizedInfoOf converts a report for JSON.
func quantizedInfoOf(r *quantize.Report, f *quantizeFlags) quantizedInfo {
	info := quantizedInfo{File: r.Files[0], Tensors: []quantizedTensor{}, Notes: r.Notes, Before: r.BytesIn,
		Bytes: r.BytesOut, Ratio: r.Ratio(), RMSE: number(r.RMSE)}
	if f.split > 0 {
		info.Parts = r.Files
	}
	var all inspected // sums by type
	for _, t := range r.Tensors {
		all.addTensor(t.Name, t.To.String(), t.Dims, 0, t.BytesOut)
		sum := &all.Tensors[len(all.Tensors)-1]
		q := quantizedTensor{Name: t.Name, Shape: sum.Shape, From: t.From, To: t.To, Before: t.BytesIn,
			Bytes: t.BytesOut, Bits: sum.Bits, RMSE: number(t.RMSE), MaxError: number(t.MaxError), Weighted: t.Weighted, Note: t.Note}
		if t.Wanted != ir.Invalid {
			q.Wanted = t.Wanted.String()
		}
		info.Tensors = append(info.Tensors, q)
	}
	all.total()
	info.Types, info.Bits = all.Types, all.Bits
	return info
}

// percent prints a share with three digits.
func percent(v float64) string { return fmt.Sprintf("%.3g%%", 100*v) }
