package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc/internal/atomicfile"
	"github.com/vkc-go/vkc/internal/view"
)

type viewFlags struct {
	graph          graphFlags
	target, output string
	traces         []string
	port           int
	tuning         tuningFlags
}

// viewCommand declares the command vkc view and its flags.
func (a *app) viewCommand() *cobra.Command {
	var f viewFlags
	cmd := &cobra.Command{
		Use:   "view GRAPH|MODEL.gguf|MODEL.onnx|BUNDLE.vkb",
		Short: "Show the compiler's work and the times of runs in a browser",
		Long: `Show the compiler's work and the times of runs in a browser.

The page has four views:

  graph    the graph before and after each pass, with repeated layers folded, and the nodes that the pass added and
           removed
  kernels  the ops of each kernel, its schedule, the prices of other kernels that rules proposed, and its GLSL, with
           the op that each line computes
  memory   which buffers share the arena, and when
  time     the times of host and device in runs that vkc run --trace wrote, on one scale

vkc view prints the page's address and serves the page until it is interrupted. Only this machine can read it, and only
at that address. With --output it writes the page to a file instead, which needs no server and no network.

vkc view compiles only up to GLSL, so it needs neither a device nor a GLSL compiler.`,
		Example: `  vkc view GRAPH.json
  vkc view MODEL.gguf --step --target nvidia-h100
  vkc view GRAPH.json -o PAGE.html
  vkc run GRAPH.json --input x=random:1 --trace A.json
  vkc view GRAPH.json --trace A.json --trace B.json`,
		Args: exactArgs("GRAPH or BUNDLE.vkb"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.view(cmd.Context(), args[0], &f) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "write the page to `FILE.html`, and serve nothing")
	flags.StringArrayVar(&f.traces, "trace", nil,
		"show the run in this `FILE.json` of vkc run --trace; may be repeated")
	flags.IntVar(&f.port, "port", 0, "serve on this `PORT` of the loopback address; 0 means any free port")
	flags.StringVar(&f.target, "target", anyTarget, targetHelp())
	f.graph.add(cmd)
	f.tuning.addWithFile(cmd)
	return cmd
}

// view runs vkc view: it compiles the program up to GLSL, and writes or serves a page that shows the passes and the
// runs.
func (a *app) view(ctx context.Context, path string, f *viewFlags) error {
	switch {
	case f.port < 0 || f.port > 65535:
		return usagef("--port %d: want 0 to 65535", f.port)
	case f.port != 0 && f.output != "":
		return usagef("--port is for serving the page, and --output writes the page to a file: give one of them")
	}
	if err := writable("output", f.output); err != nil {
		return err
	}
	var runs []view.Run
	for _, file := range f.traces {
		list, err := readRuns(file)
		if err != nil {
			return fmt.Errorf("--trace %s: %w", file, err)
		}
		runs = append(runs, list...)
	}
	g, caps, tuning, err := a.lowerable(path, &f.graph, f.target, &f.tuning)
	if err != nil {
		return err
	}
	record, err := view.Collect(ctx, g, caps, tuning)
	if err != nil {
		return err
	}
	record.Runs = append(record.Runs, runs...)
	page, err := record.HTML()
	if err != nil {
		return err
	}
	if f.output != "" {
		if err := atomicfile.WriteFile(f.output, page, 0o644); err != nil {
			return err
		}
		a.note("wrote %s, %s; open it in a browser", f.output, size(int64(len(page))))
		return nil
	}
	return a.servePage(ctx, page, f.port)
}

// readRuns reads the runs of a trace file.
func readRuns(file string) ([]view.Run, error) {
	r, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return view.ReadRuns(r, file)
}

// servePage serves a page on a port of the loopback address until ctx ends. Port 0 means any free port.
func (a *app) servePage(ctx context.Context, page []byte, port int) error {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return fmt.Errorf("--port: %w", err)
	}
	handler, path := view.Handler(page)
	server := &http.Server{Handler: handler, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	fmt.Fprintf(a.stdout, "http://%s%s\n", l.Addr(), path)
	if err := a.stdout.Flush(); err != nil {
		return errors.Join(err, l.Close())
	}
	a.note("serving the page to this machine; Ctrl-C ends it")
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
