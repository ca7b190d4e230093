package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/ir"
)

const precisionHelp = "what matrix products may do to be faster: full (nothing), bf16x3 (multiply f32 as sums of two bf16), half (round operands to f16), half_sums (sum in f16, too), int8 (round rows that meet quantized weights to 8 bits)"

func addPrecision(cmd *cobra.Command, precision *string) {
	cmd.Flags().StringVar(precision, "precision", ir.PrecisionFull, precisionHelp)
}

// readGraph reads a graph whose products may be as inexact as --precision says.
func readGraph(path, precision string) (*ir.Graph, error) {
	g, err := vkc.ReadGraph(path)
	if err != nil {
		return nil, err
	}
	if g, err = vkc.WithPrecision(g, precision); err != nil {
		return nil, usagef("--precision: %w", err)
	}
	return g, nil
}

// refusePrecision is for bundles, whose kernels are made.
func refusePrecision(precision string) error {
	if precision != ir.PrecisionFull {
		return &usageError{errors.New("--precision: a bundle has the precision that it was compiled with")}
	}
	return nil
}
