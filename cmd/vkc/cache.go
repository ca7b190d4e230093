package main

import (
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/internal/progcache"
	"github.com/vkc-go/vkc/ir"
)

// caches are the caches of this user.
type caches struct {
	root      string // empty if the caches are off
	programs  *progcache.Cache
	shaders   cachefile.Dir
	pipelines cachefile.Dir
}

// openCaches returns the user's caches, or an error if they are off or cannot be trusted.
func openCaches() (*caches, error) {
	root, err := cachefile.Root()
	if err != nil {
		return nil, err
	}
	if root == "" {
		return nil, fmt.Errorf("caches are off, because $%s is off: set it to a directory", cachefile.Env)
	}
	return &caches{root, progcache.Open(root), spirv.OpenCache(root),
		cachefile.Pipelines(cachefile.PipelineDir(root))}, nil
}

// cacheInfo is the output of vkc cache ls --json.
type cacheInfo struct {
	Dir       string       `json:"dir"`
	Programs  []cachedItem `json:"programs"`
	Shaders   cacheSum     `json:"shaders"`
	Pipelines cacheSum     `json:"pipelines"`
}

type cachedItem struct {
	Program string    `json:"program"`
	Target  string    `json:"target"`
	Kernels int       `json:"kernels"`
	Bytes   int64     `json:"bytes"`
	Time    time.Time `json:"time"`
	File    string    `json:"file"`
}

type cacheSum struct {
	Entries int   `json:"entries"`
	Bytes   int64 `json:"bytes"`
}

func (s cacheSum) String() string { return fmt.Sprintf("%d, %s", s.Entries, size(s.Bytes)) }

// cacheCommand declares the command vkc cache and its flags.
func (a *app) cacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "List, verify or clear the caches of compiled programs, shaders and pipelines",
		Long: `List, verify or clear the caches of compiled programs, shaders and pipelines. They are in the folder vkc
of the user's cache directory, or in the directory $VKC_CACHE_DIR. VKC_CACHE=off turns them off. vkc never uses a
damaged entry. The measurements of vkc tune are next to the caches, and clearing the caches keeps them: vkc tune --reset
deletes them.`,
		Example: "  vkc cache ls\n  vkc cache verify\n  vkc cache clear",
	}
	rejectUnknownSubcommands(cmd)
	var asJSON bool
	ls := &cobra.Command{
		Use: "ls", Short: "List the cached programs, newest first, and the size of the other caches",
		Example: "  vkc cache ls\n  vkc cache ls --json", Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error { return a.cacheList(asJSON) },
	}
	ls.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.AddCommand(ls,
		&cobra.Command{
			Use: "verify", Short: "Check every entry and remove damaged ones; exit code 1 if there were any",
			Long: `Check every program and shader and remove damaged ones. The exit code is 1 if there were any.
Pipeline caches belong to the drivers, which check them before each use.`,
			Example: "  vkc cache verify", Args: exactArgs(),
			RunE: func(*cobra.Command, []string) error { return a.cacheVerify() },
		},
		&cobra.Command{
			Use: "clear", Short: "Remove every entry",
			Example: "  vkc cache clear", Args: exactArgs(),
			RunE: func(*cobra.Command, []string) error { return a.cacheClear() },
		})
	return cmd
}

// cacheList runs vkc cache ls. asJSON is flag --json.
func (a *app) cacheList(asJSON bool) error {
	c, err := openCaches()
	if err != nil {
		return err
	}
	info := cacheInfo{Dir: c.root, Programs: []cachedItem{}}
	programs, err := c.programs.List()
	if err != nil {
		return err
	}
	for _, p := range programs {
		info.Programs = append(info.Programs, cachedItem{p.Program, p.Target, p.Kernels, p.Size, p.ModTime, p.Path})
	}
	slices.SortStableFunc(info.Programs, func(x, y cachedItem) int { return y.Time.Compare(x.Time) })
	shaders, err := c.shaders.Stats()
	if err != nil {
		return err
	}
	pipelines, err := c.pipelines.Stats()
	if err != nil {
		return err
	}
	info.Shaders, info.Pipelines = cacheSum(shaders), cacheSum(pipelines)
	if asJSON {
		return a.printJSON(info)
	}
	return a.printCaches(&info)
}

// printCaches prints the cached programs as a table, and the sizes of the other caches.
func (a *app) printCaches(info *cacheInfo) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\n", info.Dir)
	if len(info.Programs) > 0 {
		fmt.Fprintln(w, "PROGRAM\tTARGET\tKERNELS\tSIZE\tTIME")
	}
	for _, p := range info.Programs {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", ir.Printable(p.Program), ir.Printable(p.Target), p.Kernels,
			size(p.Bytes), p.Time.Format(time.DateTime))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "programs: %d\nshaders: %v\npipeline caches: %v\n", len(info.Programs),
		info.Shaders, info.Pipelines)
	return err
}

// cacheVerify runs vkc cache verify: it removes damaged entries and returns an error if there were any.
func (a *app) cacheVerify() error {
	c, err := openCaches()
	if err != nil {
		return err
	}
	programs, badPrograms, err := c.programs.Verify()
	if err != nil {
		return err
	}
	shaders, badShaders, err := c.shaders.Verify()
	if err != nil {
		return err
	}
	for _, e := range badPrograms {
		fmt.Fprintf(a.stdout, "removed %s: %s\n", e.Path, oneLine(e.Err))
	}
	for _, e := range badShaders {
		fmt.Fprintf(a.stdout, "removed %s: %s\n", e.Path, oneLine(e.Err))
	}
	fmt.Fprintf(a.stdout, "sound: %d programs, %d shaders\n", programs.Entries, shaders.Entries)
	if n := len(badPrograms) + len(badShaders); n > 0 {
		return fmt.Errorf("%d damaged cache entries removed: vkc compiles again what they held", n)
	}
	return nil
}

// cacheClear runs vkc cache clear: it removes every program, shader and pipeline cache, but not the measurements of
// vkc tune.
func (a *app) cacheClear() error {
	c, err := openCaches()
	if err != nil {
		return err
	}
	programs, err := c.programs.Clear()
	if err != nil {
		return err
	}
	shaders, err := c.shaders.Clear()
	if err != nil {
		return err
	}
	pipelines, err := c.pipelines.Clear()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "removed %d programs, %d shaders, %d pipeline caches: %s\n", programs.Entries,
		shaders.Entries, pipelines.Entries, size(programs.Bytes+shaders.Bytes+pipelines.Bytes))
	return err
}
