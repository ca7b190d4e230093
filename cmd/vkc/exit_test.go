package main

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vkc-go/vkc/internal/devtest"
)

// TestExitCodesInHelp: vkc help explains every exit code.
func TestExitCodesInHelp(t *testing.T) {
	help := ok(t, "help").stdout
	for _, code := range []int{exitOK, exitFailure, exitUsage, exitInterrupted} {
		if !strings.Contains(help, "\n  "+strconv.Itoa(code)+" ") {
			t.Errorf("vkc help does not say what %d means", code)
		}
	}
}

// verbs are all commands that do something, as the words of their lines.
func verbs(t *testing.T) map[string]*cobra.Command {
	all := map[string]*cobra.Command{}
	for _, cmd := range commands((&app{}).rootCommand()) {
		path := strings.TrimPrefix(cmd.CommandPath(), "vkc ")
		if len(cmd.Commands()) == 0 && path != "help" {
			all[path] = cmd
		}
	}
	if len(all) < 20 {
		t.Fatalf("%d verbs", len(all))
	}
	return all
}

// TestExitCodes: of every verb, a flag that it does not have, a value that a flag never takes, a flag without a value
// and too many arguments are wrong usage, whatever else the line has.
func TestExitCodes(t *testing.T) {
	for path, cmd := range verbs(t) {
		line := strings.Fields(path)
		fails(t, exitUsage, append(line, "--quux"), "unknown flag: --quux")
		if path != "embed" { // which takes any number of texts
			fails(t, exitUsage, append(line, "a", "b", "c"), `unexpected argument`)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			what, _ := pflag.UnquoteUsage(f)
			flag := "--" + f.Name
			switch kind := f.Value.Type(); {
			case f.Name == "help":
			case kind == "bool":
				fails(t, exitUsage, append(line, flag+"=perhaps"), flag)
			case kind != "string" && kind != "stringArray" && kind != "stringSlice":
				fails(t, exitUsage, append(line, flag, "quux"), flag)
			case what != "TEXT":
				if strings.Contains(path, "completion") {
					return
				}
				fails(t, exitUsage, append(withArguments(cmd, line), flag+"="), flag+" is empty")
			}
		})
	}
}

// withArguments adds as many arguments as a command requires. None of them is a file.
func withArguments(cmd *cobra.Command, line []string) []string {
	for n := range 3 {
		args := make([]string, n)
		for i := range args {
			args[i] = "quux" + strconv.Itoa(i)
		}
		if cmd.Args == nil || cmd.Args(cmd, args) == nil {
			return append(line, args...)
		}
	}
	return line
}

// TestExitCodesOfFiles: a file that is not there, that is empty or a directory is a failure, of every verb that reads
// one; a command line that no file makes right is wrong usage.
func TestExitCodesOfFiles(t *testing.T) {
	noVulkan(t) // or tune asks for the device first
	devtest.EmptyCache(t)
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	for name, path := range map[string]string{
		"none": filepath.Join(dir, "none"), "empty": write(t, "empty", nil), "directory": dir,
	} {
		for _, line := range [][]string{
			{"run", path}, {"dump", path}, {"inspect", path}, {"graph", path}, {"compile", path, "-o", out},
			{"verify", path}, {"verify", "--onnx", path}, {"sign", path, "--key", path},
			{"quantize", path, "-o", out, "--type", "q8_0"}, {"tokenize", "-m", path, "text"},
			{"generate", "-m", path, "-p", "text"}, {"chat", "-m", path}, {"serve", "-m", path}, {"embed", "-m", path, "text"},
			{"transcribe", path, "-m", gollama},
			{"perplexity", "-m", path, mlpGraph}, {"imatrix", "-m", path, mlpGraph, "-o", out}, {"bench", "-m", path},
			{"run", mlpGraph, "--input", "x=random:1", "--symbol", "T=1", "--weights", path},
		} {
			t.Run(name+" "+line[0], func(t *testing.T) { fails(t, exitFailure, line, path) })
		}
	}
	gollama := "../../examples/gollama/gollama-q8_0.gguf"
	for _, line := range []string{
		"run " + gollama + " --ctx -1", "run " + gollama + " --ctx 100000", "run " + gollama + " --texts -1",
		"graph " + gollama + " --chunk -1", "graph " + gollama + " --chunk 8 --step",
		"run " + gollama + " --step --kv i32", "run " + gollama + " --step --kv q4_K",
		"graph " + gollama + " --step --kv bool",
		"dump " + gollama + " --kernel -2", "compile " + gollama + " -o - --target generic",
		"compile " + gollama + " --generate --kv i8 -o " + out, "generate -m " + gollama + " -p x --ctx 100000",
		"generate -m " + gollama + " -p x --kv i32", "generate -m " + gollama + " -p x --precision quarter",
		"generate -m " + gollama + " -p x --context-shift --keep -1", "serve -m " + gollama + " --parallel -1",
		"generate -m " + gollama + " -p x --keep 8 -d cpu", "generate -m " + gollama + " -p x --split tensor -d cpu",
		"serve -m " + gollama + " --keep 8 -d cpu", "serve -m " + gollama + " --split tensor -d cpu",
		"tune --device cpu", "tune " + mlpGraph + " --device cpu --symbol T=1",
		"serve -m " + gollama + " --kv-tokens 1", "serve -m " + gollama + " --listen localhost:99999",
		"serve -m " + gollama + " --queue 0",
		"bench -m " + gollama + " -p -1", "bench -m " + gollama + " -r 0",
		"serve -m " + gollama + " --drain -1s", "bench -m " + gollama + " --kv i32",
		"perplexity -m " + gollama + " " + mlpGraph + " --ctx 3",
		"imatrix -m " + gollama + " " + mlpGraph + " --ctx -1 -o " + out,
		"embed -m " + gollama + " --ctx -1 x", "quantize  -o " + out + " --type q8_0",
	} {
		args := strings.Fields(line)
		t.Run(line, func(t *testing.T) { fails(t, exitUsage, args) })
	}
	fails(t, exitUsage, []string{"quantize", "", "-o", out, "--type", "q8_0"}, "is empty")
}
