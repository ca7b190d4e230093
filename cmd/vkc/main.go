// Run vkc help for all commands and the exit codes. An error is one line on standard error, except that every mistake
// in a graph file is reported, one per line.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/internal/hostmem"
	"github.com/vkc-go/vkc/ir"
)

// The exit codes.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130 // 128 + SIGINT, as shells have it
)

// exitMeanings describes the exit codes.
var exitMeanings = []struct {
	code    int
	meaning string
}{
	{exitOK, "success"},
	{exitFailure, "failure: a file cannot be read or written, a device or tool is missing, or a result is wrong"},
	{exitUsage, "wrong usage: the command line is wrong, or does not fit the program or model"},
	{exitInterrupted, "interrupted by Ctrl-C or SIGTERM"},
}

// exitCodes returns the meanings of exit codes as lines of the help.
func exitCodes() string {
	var b strings.Builder
	for _, e := range exitMeanings {
		fmt.Fprintf(&b, "  %-4d %s\n", e.code, e.meaning)
	}
	return b.String()
}

func main() {
	hostmem.LimitHeap()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends a program that does not react to the first.
	context.AfterFunc(ctx, stop)
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// execute runs one command line, given without the program's name, and returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{stdout: newOutput(stdout), stderr: newOutput(stderr), terminal: terminalOf(stderr)}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.InitDefaultCompletionCmd(args...)
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		rejectUnknownSubcommands(c) // cobra's own command accepts any
	}
	once := sync.Once{} // a verb looks for the tools as often as it compiles
	cmd, err := root.ExecuteContextC(spirv.WithNotice(ctx, func(why *spirv.PassedOverError) {
		once.Do(func() { a.note("%v; the tools of $PATH compile instead, and may make other kernels", oneLine(why)) })
	}))
	if lost := a.stdout.Flush(); lost != nil && !errors.Is(err, lost) { // such as a full disk
		err = errors.Join(err, fmt.Errorf("standard output: %w", lost))
	}
	if err == nil {
		return exitOK
	}
	if last := (*finalError)(nil); ctx.Err() != nil && !errors.As(err, &last) {
		a.say("interrupted")
		return exitInterrupted
	}
	return a.report(cmd, err)
}

// report prints the error of a command and returns the exit code.
func (a *app) report(cmd *cobra.Command, err error) int {
	if wrong := (*generate.OptionError)(nil); errors.As(err, &wrong) && optionFlags[wrong.Field] != "" {
		err = usagef("%s", wrong.Of(optionFlags[wrong.Field]))
	}
	all, weights := (ir.ReadErrors)(nil), (*ir.WeightError)(nil)
	switch {
	case errors.As(err, &all):
		for _, one := range all {
			a.say("%s", message(cmd, oneLine(one)))
		}
	case errors.As(err, &weights):
		a.say("%s", message(cmd, err.Error())) // it may have several lines: a table of weights
	default:
		a.say("%s", message(cmd, oneLine(err)))
	}
	usage, noMemory := (*usageError)(nil), (*hostmem.Error)(nil)
	if errors.As(err, &usage) && !errors.As(err, &noMemory) {
		return exitUsage
	}
	return exitFailure
}

// usageError is a command line that cannot be understood.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// finalError is an error that a command returns after an interrupt and an orderly shutdown. Unlike other errors, it
// is printed although the command was interrupted.
type finalError struct{ error }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// oneLine returns an error's text as one line.
func oneLine(err error) string {
	var parts []string
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSpace(line)
		if line != "" {
			parts = append(parts, line)
		}
	}
	return strings.ReplaceAll(strings.Join(parts, "; "), ":; ", ": ")
}
