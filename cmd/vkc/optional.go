package main

import (
	"strconv"

	"github.com/spf13/pflag"
)

// optionalInt is a flag for an optional number. It is for options where 0 is an ordinary or an invalid value. Other
// options are plain flags with the default 0, and their help says what 0 means.
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
