package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// origins are the names of packages and formats that begin errors of the library, so that Go programs see where an
// error comes from. The command strips them from messages, because its users do not know the packages.
var origins = strings.Fields(`alternate audio bundle chat check collective device fast generate gguf grammar graph
	graphgen huggingface imatrix interp kernel key llm lora multi npy onnx optest optim passes quant quantize
	safetensors schedule schema serve speech spirv tokenizer train transcribe vision vk vkb weights`)

// origin matches names of origins that begin a message, or a part of it.
var origin = regexp.MustCompile(`(^|: )((?:(?:` + strings.Join(origins, "|") + `): )+)`)

// ofGraph matches the beginning of an error of a program: the call, and the name of the graph.
var ofGraph = regexp.MustCompile(`^([a-z ]+) graph(?: "[^"]*")?: `)

// message returns an error's text for the user of a command, without the names of packages at its beginning and after
// colons. A name that the user gave as an argument or as the model stays. If the user gave just one, the message names
// it in place of a graph.
func message(cmd *cobra.Command, text string) string {
	given := cmd.Flags().Args()
	if model := cmd.Flags().Lookup("model"); model != nil && model.Changed {
		if list, ok := model.Value.(pflag.SliceValue); ok {
			given = append(given, list.GetSlice()...)
		} else {
			given = append(given, model.Value.String())
		}
	}
	text = origin.ReplaceAllStringFunc(text, func(found string) string {
		groups := origin.FindStringSubmatch(found)
		before, names := groups[1], strings.Split(strings.TrimSuffix(groups[2], ": "), ": ")
		if last := names[len(names)-1]; slices.Contains(given, last) {
			return before + last + ": " // it is the name of a file here
		}
		return before
	})
	if len(given) == 1 {
		text = ofGraph.ReplaceAllString(text, "$1 "+strings.ReplaceAll(given[0], "$", "$$")+": ")
	}
	return text
}
