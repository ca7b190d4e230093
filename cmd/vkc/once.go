package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// rejectRepeated makes the flags of a command and its subcommands reject a second value. Declare a flag that may be
// repeated as a list: StringArray, StringSlice or IntSlice.
func rejectRepeated(cmd *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			_, list := f.Value.(pflag.SliceValue)
			if _, done := f.Value.(*onceValue); !list && !done {
				f.Value = &onceValue{Value: f.Value}
			}
		})
	}
	for _, c := range cmd.Commands() {
		rejectRepeated(c)
	}
}

// onceValue is a flag value that can be set once. A boolean flag may be repeated with the same value.
type onceValue struct {
	pflag.Value
	given *string
}

// twiceError reports that a flag is given twice.
type twiceError struct{ first, second string }

func (e *twiceError) Error() string {
	return fmt.Sprintf("it is given twice, as %s and as %s: give it once", e.first, e.second)
}

// Set sets the flag's value. A repeated flag is an error, except a bool flag with the same value.
func (v *onceValue) Set(text string) error {
	if v.given != nil && (v.Type() != "bool" || *v.given != text) {
		return &twiceError{*v.given, text}
	}
	v.given = &text
	return v.Value.Set(text)
}
