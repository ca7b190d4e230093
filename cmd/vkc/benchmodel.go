package main

import (
	"slices"

	"github.com/spf13/pflag"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/bench"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/generate"
)

// benchModelFlags select the language model that vkc bench measures, and its options.
type benchModelFlags struct {
	bench.Model
	path, kv string
	split    string
	adapters loraFlag
	names    []string // flags that go only with -m
}

// register declares the flags of vkc bench -m. It sets f.names to the names of the flags that need -m.
func (f *benchModelFlags) register(flags *pflag.FlagSet) {
	flags.StringVarP(&f.path, "model", "m", "", "measure the language model in the GGUF `FILE` or Hugging Face folder")
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.IntSliceVarP(&f.Prompts, "n-prompt", "p", []int{512, 2048},
		"with -m: read prompts of `N,...` tokens; 0 for none")
	own.IntSliceVarP(&f.Answers, "n-gen", "n", []int{128}, "with -m: generate `N,...` tokens; 0 for none")
	own.IntSliceVar(&f.Depths, "n-depth", []int{0, 4096, 16384}, "with -m: after texts of `N,...` tokens")
	own.IntSliceVarP(&f.Batches, "batch", "b", llm.Parts(llm.LargestPart),
		"with -m: compile prompt programs for `N,...` tokens; a run reads up to the last number")
	own.IntVarP(&f.Repeats, "repetitions", "r", 5, "with -m: repeat each test `N` times by the wall clock")
	own.StringVar(&f.kv, "kv", "f16", "with -m: keep keys and values in this `TYPE`, such as f32 or q8_0")
	own.StringVar(&f.split, "split", generate.SplitLayers, "with -m: "+splitHelp+autoHelp)
	own.StringVar(&f.Precision, "precision", generate.DefaultPrecision, "with -m: "+precisionHelp)
	own.StringArrayVar((*[]string)(&f.adapters), "lora", nil, "with -m: "+loraHelp)
	own.VisitAll(func(flag *pflag.Flag) { f.names = append(f.names, flag.Name) })
	flags.AddFlagSet(own)
}

// check reports flags that contradict each other.
func (f *benchModelFlags) check(flags *pflag.FlagSet, suites []string) (err error) {
	if f.path == "" { // without -m, flags of a model are a mistake
		for _, name := range f.names {
			if flags.Changed(name) {
				return usagef("--%s goes with -m MODEL.gguf", name)
			}
		}
		return nil
	}
	for _, s := range suites {
		if s != "model" {
			return usagef("--suite %s has no cases that read a file: -m goes with --suite model", s)
		}
	}
	for _, list := range []struct {
		flag   string
		values []int
		least  int
	}{
		{"n-prompt", f.Prompts, 0}, {"n-gen", f.Answers, 0}, {"n-depth", f.Depths, 0}, {"batch", f.Batches, 1},
		{"repetitions", []int{f.Repeats}, 1},
	} {
		for _, n := range list.values {
			if n < list.least {
				return usagef("--%s %d: want at least %d", list.flag, n, list.least)
			}
		}
	}
	if slices.Max(slices.Concat([]int{0}, f.Prompts, f.Answers)) == 0 {
		return usagef("--n-prompt and --n-gen are both 0: want tokens to read or to generate")
	}
	splits := []string{generate.SplitLayers, generate.SplitTensor, generate.SplitAuto}
	if err := oneOf("split", f.split, splits); err != nil {
		return err
	}
	if f.Adapters, err = f.adapters.files(); err != nil {
		return err
	}
	f.Cache, err = parseKV(f.kv)
	return err
}

// open opens the model's file, if one is given.
func (f *benchModelFlags) open() (err error) {
	if f.path != "" {
		f.File, err = vkc.OpenModel(f.path)
	}
	return err
}

// close closes the model's file. Call Model.Close first, which closes the programs that the tests loaded.
func (f *benchModelFlags) close() error {
	if f.File == nil {
		return nil
	}
	return f.File.Close()
}
