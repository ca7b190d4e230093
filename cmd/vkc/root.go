package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// app is the state that all commands share.
type app struct {
	stdout, stderr *output
	terminal       *os.File // standard error, if that is a terminal
	quiet          bool
}

// say prints a line on standard error, after flushing standard output. A failure to print it is ignored.
func (a *app) say(format string, args ...any) {
	a.stdout.Flush()
	fmt.Fprintf(a.stderr, "vkc: "+format+"\n", args...)
	a.stderr.Flush()
}

// note prints a line on standard error, as say does, unless --quiet is given.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		a.say(format, args...)
	}
}

// printJSON prints a value on standard output.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// rootCommand declares vkc itself and its groups of commands.
func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "vkc",
		Short: "Compile tensor programs to fused Vulkan compute kernels, and run them",
		Long: `vkc compiles tensor programs to fused Vulkan compute kernels, and runs them.

A program is a graph (graph.json or text IR), with weights in a GGUF or safetensors file. vkc compile makes a bundle
(.vkb) of it, which runs on machines without a compiler.

Exit codes:
` + exitCodes() + `
Errors go to standard error, results to standard output.`,
		Example: `  vkc doctor
  vkc generate -m MODEL.gguf -p 'Once upon a time'
  vkc run GRAPH.json --weights MODEL.gguf --input x=random:1 --check
  vkc compile GRAPH.json -o OUT.vkb --target auto`,
		PersistentPreRunE: noEmptyFlags,
		SilenceErrors:     true,
		SilenceUsage:      true,
	}
	root.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "print no notes and no progress on standard error")
	root.SetFlagErrorFunc(flagError)
	for _, part := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Language models:", []*cobra.Command{a.generateCommand(), a.chatCommand(), a.serveCommand(), a.embedCommand(),
			a.transcribeCommand(), a.tokenizeCommand(), a.perplexityCommand()}},
		{"Graphs and bundles:", []*cobra.Command{a.runCommand(), a.compileCommand(), a.graphCommand(), a.dumpCommand(),
			a.viewCommand(), a.inspectCommand(), a.signCommand(), a.keygenCommand()}},
		{"Weights:", []*cobra.Command{a.quantizeCommand(), a.imatrixCommand(), a.mergeCommand()}},
		{"Speed and proof:", []*cobra.Command{a.benchCommand(), a.tuneCommand(), a.verifyCommand()}},
		{"This machine:", []*cobra.Command{a.doctorCommand(), a.devicesCommand(), a.cacheCommand(), a.versionCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: part.title, Title: part.title})
		for _, c := range part.commands {
			c.GroupID = part.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(a.manCommand())
	rejectUnknownSubcommands(root)
	help := root.RunE // rejectUnknownSubcommands has set it
	version := root.Flags().BoolP("version", "v", false, "print the version, as vkc version does")
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *version && len(args) == 0 {
			return a.printVersion(false)
		}
		return help(cmd, args)
	}
	root.SetHelpCommand(helpCommand())
	completeValues(root)
	rejectRepeated(root)
	return root
}

// helpCommand is cobra's help command, except that it rejects unknown commands.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return usagef("%w; see vkc --help", err)
			}
			if len(rest) > 0 && about.HasSubCommands() {
				return about.RunE(about, rest) // RunE rejects them
			}
			if len(rest) > 0 {
				return usagef("unexpected argument %q; see %s --help", rest[0], about.CommandPath())
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// rejectUnknownSubcommands makes a command with subcommands print its help when called alone, and reject unknown
// subcommands with a suggestion.
func rejectUnknownSubcommands(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		hint := "see " + cmd.CommandPath() + " --help"
		cmd.SuggestionsMinimumDistance = 2
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "did you mean " + strings.Join(near, " or ") + "?"
		}
		return usagef("unknown command %q for %s: %s", args[0], cmd.CommandPath(), hint)
	}
}

// exactArgs requires exactly these arguments. The names are for the error message.
func exactArgs(names ...string) cobra.PositionalArgs { return atLeastArgs(len(names), names...) }

// atLeastArgs returns a check that a command has at least the first `least` of the named arguments, no more than are
// named, and none that is empty.
func atLeastArgs(least int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usagef("%s is missing; see %s --help", names[len(args)], cmd.CommandPath())
		case len(args) > len(names):
			return usagef("unexpected argument %q; see %s --help", args[len(names)], cmd.CommandPath())
		case slices.Contains(args, ""):
			return usagef("%s is empty; see %s --help", names[slices.Index(args, "")], cmd.CommandPath())
		}
		return nil
	}
}

// oneOf returns an error if the value of a flag is not in the allowed list.
func oneOf(flag, value string, allowed []string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return usagef("--%s %q is none of %s", flag, value, strings.Join(allowed, ", "))
}
