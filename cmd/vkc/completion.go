package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/bench"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/passes"
)

// flagValues maps flag names to the values that shells complete. Flags not in the map take a file or arbitrary text.
var flagValues = map[string]func() []string{
	"after":     passNames,
	"device":    deviceValues,
	"format":    func() []string { return transcribeFormatNames },
	"precision": vkc.Precisions,
	"scale":     func() []string { return []string{"auto", "full", "tiny"} },
	"stage":     func() []string { return stages },
	"suite":     bench.Suites,
	"target":    func() []string { return append([]string{"auto"}, device.Profiles()...) },
	"type":      quantizeTypes,
}

// completeValues registers shell completion for the flag values of cmd and all its subcommands.
func completeValues(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if values, ok := flagValues[f.Name]; ok {
			err := cmd.RegisterFlagCompletionFunc(f.Name,
				func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
					return values(), cobra.ShellCompDirectiveNoFileComp
				})
			if err != nil {
				panic("vkc: " + err.Error()) // a flag has two completions
			}
		}
	})
	for _, c := range cmd.Commands() {
		completeValues(c)
	}
}

// deviceValues lists the values of --device for completion: names, and the indices of the devices of this machine.
// Without Vulkan it lists only names.
func deviceValues() []string {
	values := []string{"auto\tthe device on which a graph runs fastest here", "vulkan\tthe best Vulkan device",
		"cpu\tthe CPU fast path, without Vulkan", "reference\tthe definition of every op, slow"}
	info, _ := listDevices()
	for _, d := range info.Devices {
		values = append(values, fmt.Sprintf("%d\t%s", d.Index, d.Caps.Name))
	}
	return values
}

// passNames lists the names of the passes.
func passNames() (names []string) {
	for _, p := range passes.Passes() {
		names = append(names, p.Name)
	}
	return names
}

// unknownFlag matches the flag parser's error for an unknown flag.
var unknownFlag = regexp.MustCompile(`^unknown flag: --(.+)$`)

// flagError turns an error of the flag parser into a usage error. For a misspelt flag it suggests similar ones.
func flagError(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 { // these are flags of an unknown command
		return cmd.RunE(cmd, words)
	}
	if typo := unknownFlag.FindStringSubmatch(err.Error()); typo != nil {
		if names := similarFlags(cmd, typo[1]); len(names) > 0 {
			return usagef("%w: did you mean --%s?", err, strings.Join(names, " or --"))
		}
	}
	if wrong := (*pflag.InvalidValueError)(nil); errors.As(err, &wrong) {
		f := wrong.GetFlag()
		if twice := (*twiceError)(nil); errors.As(err, &twice) {
			return usagef("--%s: %w", f.Name, twice)
		}
		want := wantedValues[f.Value.Type()]
		if want == "" {
			return usagef("--%s: %w", f.Name, errors.Unwrap(err))
		}
		return usagef("--%s %s: want %s", f.Name, wrong.GetValue(), want)
	}
	return usagef("%w; see %s --help", err, cmd.CommandPath())
}

// wantedValues describes the values of flags, by the type names of package pflag.
var wantedValues = map[string]string{"bool": "true or false", "int": "a whole number", "int64": "a whole number",
	"uint64": "a whole number of at least 0", "float64": "a number", "duration": "a time with its unit, such as 30s or 2m"}

// similarFlags returns the flags of a command with names that are similar to a misspelt one. cobra finds similar
// commands, so it declares the flags as commands.
func similarFlags(cmd *cobra.Command, name string) []string {
	flags := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	return flags.SuggestionsFor(name)
}

// noEmptyFlags returns an error for a flag with an empty value, such as an unset variable of a script. A flag may be
// empty only if the help calls its value TEXT.
func noEmptyFlags(cmd *cobra.Command, _ []string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		what, _ := pflag.UnquoteUsage(f)
		if err == nil && (len(values) == 0 || slices.Contains(values, "")) && what != "TEXT" {
			err = usagef("--%s is empty: give it a value, or leave it out", f.Name)
		}
	})
	return err
}
