package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/internal/hints"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// hintFlags are the flags of vkc doctor GRAPH.
type hintFlags struct {
	graph   graphFlags
	target  string
	symbols []string
	tuning  tuningFlags
}

// add declares the flags.
func (f *hintFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.target, "target", anyTarget, targetHelp())
	flags.StringArrayVar(&f.symbols, "symbol", nil,
		"`NAME=N`: the value of a symbol in your runs; may be repeated")
	f.graph.add(cmd)
	f.tuning.addWithFile(cmd)
}

// names lists the flags that go with a graph.
func (f *hintFlags) names(cmd *cobra.Command) (names []string) {
	cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "json" && flag.Name != "help" {
			names = append(names, flag.Name)
		}
	})
	return names
}

// hints runs vkc doctor GRAPH. asJSON is flag --json.
func (a *app) hints(ctx context.Context, path string, f *hintFlags, asJSON bool) error {
	symbols, err := parseSymbols(f.symbols)
	if err != nil {
		return err
	}
	g, caps, tuning, err := a.lowerable(path, &f.graph, f.target, &f.tuning)
	if err != nil {
		return err
	}
	if err := checkSymbols(runtime.SignatureOf(g), symbols, 0); err != nil {
		return err
	}
	list, err := hints.Of(ctx, g, caps, tuning, symbols)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(list)
	}
	for _, h := range list {
		fmt.Fprintf(a.stdout, "%-9s  %s; see %s\n", h.Name, h.Text, h.Page)
	}
	if len(list) == 0 {
		fmt.Fprintf(a.stdout, "found no usual reason for a slow graph, for %s\n", caps.Name)
	}
	return nil
}

// lowerable returns the graph of a file, and the device and the tuning to compile it for. A bundle names the device
// that it was compiled for. For other files, --target and the tuning flags f select the device and the tuning.
func (a *app) lowerable(path string, graph *graphFlags, target string, f *tuningFlags) (g *ir.Graph, caps device.Caps,
	tuning device.Tuning, err error) {
	isBundle, err := filefmt.IsBundle(path)
	if err != nil {
		return nil, caps, nil, err
	}
	if isBundle {
		if err = graph.forBundle(); err != nil {
			return nil, caps, nil, err
		}
		p, err := vkc.OpenBundle(path)
		if err != nil {
			return nil, caps, nil, err
		}
		defer p.Close()
		if target := p.Contents.Meta.Target; target != nil {
			return p.Contents.Graph, *target, nil, nil
		}
		g = p.Contents.Graph
	} else if g, err = graph.read(path); err != nil {
		return nil, caps, nil, err
	}
	caps, tuning, err = a.targetCaps(target, f)
	return g, caps, tuning, err
}
