package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/internal/generator"
)

// versionInfo is the output of vkc version --json.
type versionInfo struct {
	Version   string `json:"version"`
	Generator string `json:"generator"` // changes when generated code may change
	Go        string `json:"go"`
	Platform  string `json:"platform"`
}

// versionCommand declares the command vkc version and its flags.
func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of vkc and of its code generator",
		Example: "  vkc version\n  vkc version --json",
		Args:    exactArgs(),
		RunE:    func(*cobra.Command, []string) error { return a.printVersion(asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func thisVersion() versionInfo {
	return versionInfo{vkc.Version(), generator.ID(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

// printVersion prints the version in one line, or as JSON if asJSON is set.
func (a *app) printVersion(asJSON bool) error {
	v := thisVersion()
	if asJSON {
		return a.printJSON(v)
	}
	_, err := fmt.Fprintf(a.stdout, "vkc %s (generator %.12s, %s, %s)\n", v.Version, v.Generator, v.Go, v.Platform)
	return err
}
