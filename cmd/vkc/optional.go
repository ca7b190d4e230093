package main

import (
	"strconv"

	"github.com/spf13/pflag"
)

// optionalInt is a flag for a number that need not be said. It is for options where 0 is a number like any other, or
// wrong: others are plain flags whose default is 0, and their help says what 0 means.
type optionalInt struct{ n **int }

var _ pflag.Value = (*optionalInt)(nil)

// String implements pflag.Value.
func (o *optionalInt) String() string {
	if o.n == nil || *o.n == nil {
		return ""
	}
	return strconv.Itoa(**o.n)
}

// Type implements pflag.Value.
func (o *optionalInt) Type() string { return "int" }

// Set implements pflag.Value.
func (o *optionalInt) Set(text string) error {
	n, err := strconv.ParseInt(text, 0, 32)
	*o.n = new(int(n))
	return err
}
