package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc/internal/atomicfile"
)

// manCommand declares the command vkc man, which releases use. It is hidden, because a user gets its pages from a
// package.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages of all commands to a directory",
		Example: "  vkc man /usr/local/share/man/man1",
		Args:    exactArgs("DIR"),
		Hidden:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return writeManPages(cmd.Root(), args[0])
		},
	}
}

// writeManPages writes the man page of a command, and the pages of its subcommands.
func writeManPages(cmd *cobra.Command, dir string) error {
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	if err := atomicfile.WriteFile(filepath.Join(dir, name+".1"), []byte(manPage(cmd)), 0o644); err != nil {
		return err
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			if err := writeManPages(c, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// manPage returns the manual page of a command, in the language of man(7), with the text of its help.
func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	cmd.InitDefaultHelpFlag()
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"vkc %s\" \"vkc\"\n", strings.ToUpper(name), manText(thisVersion().Version))
	section := func(title, text string) {
		text = strings.Trim(text, "\n")
		if text != "" {
			// Help is laid out in columns, so it is not filled.
			fmt.Fprintf(&b, ".SH %s\n.nf\n%s\n.fi\n", title, manText(text))
		}
	}
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", manText(name), manText(cmd.Short))
	use := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		use = cmd.CommandPath() + " COMMAND"
	}
	section("SYNOPSIS", use)
	section("DESCRIPTION", cmd.Long)
	var list strings.Builder
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			fmt.Fprintf(&list, "%-12s %s\n", c.Name(), c.Short)
		}
	}
	section("COMMANDS", list.String())
	section("OPTIONS", cmd.LocalFlags().FlagUsagesWrapped(100))
	section("EXAMPLES", cmd.Example)
	if cmd.HasParent() {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", strings.ReplaceAll(cmd.Parent().CommandPath(), " ", "-"))
	}
	return b.String()
}

// manText escapes a text for troff: backslashes, hyphens, and a dot or an apostrophe at the beginning of a line, which
// would begin a request.
func manText(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
