package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// sizeFlag is a flag for a number of bytes, such as 8G or 1.5GiB.
type sizeFlag uint64

var _ pflag.Value = (*sizeFlag)(nil)

// String implements pflag.Value.
func (s *sizeFlag) String() string {
	if *s == 0 {
		return ""
	}
	return size(int64(min(*s, math.MaxInt64)))
}

// Type implements pflag.Value.
func (s *sizeFlag) Type() string { return "SIZE" }

// Set parses a size: a number of bytes, or a number with a unit such as K, MB or GiB. All units are powers of 1024.
func (s *sizeFlag) Set(text string) error {
	number := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(strings.TrimSpace(text)), "B"), "I")
	unit := 1.0
	for i, letter := range "KMGT" {
		if rest, ok := strings.CutSuffix(number, string(letter)); ok {
			number, unit = rest, math.Ldexp(1, 10*(i+1)) // 1024 to the power i+1
			break
		}
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(n*unit >= 1) || n*unit >= math.MaxInt64 {
		return fmt.Errorf("%q is not a size: want bytes, or a number with K, M, G or T, such as 8G", text)
	}
	*s = sizeFlag(n * unit)
	return nil
}
