package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// takeOnce makes the flags of a command, and of all commands below it, refuse a second value. A flag that may be
// repeated is declared as a list: StringArray, StringSlice or IntSlice.
func takeOnce(cmd *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			_, list := f.Value.(pflag.SliceValue)
			if _, done := f.Value.(*onceValue); !list && !done {
				f.Value = &onceValue{Value: f.Value}
			}
		})
	}
	for _, c := range cmd.Commands() {
		takeOnce(c)
	}
}

// onceValue is a flag's value that is set once. A flag that says yes or no may say the same again.
type onceValue struct {
	pflag.Value
	given *string
}

// twiceError is a flag that is given twice.
type twiceError struct{ first, second string }

func (e *twiceError) Error() string {
	return fmt.Sprintf("it is given twice, as %s and as %s: give it once", e.first, e.second)
}

func (v *onceValue) Set(text string) error {
	if v.given != nil && (v.Type() != "bool" || *v.given != text) {
		return &twiceError{*v.given, text}
	}
	v.given = &text
	return v.Value.Set(text)
}
