package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/runtime"
	"golang.org/x/term"
)

// quickWork is the delay before a progress bar appears.
const quickWork = 300 * time.Millisecond

// progress shows the progress of long work as a bar on standard error, if that is a terminal.
type progress struct {
	app   *app
	what  string
	bytes bool
	shown bool // whether to show the bar: standard error is a terminal, and --quiet is not given
	start time.Time
	bar   *progressbar.ProgressBar // nil until it appears
}

// terminalOf returns the terminal that a stream is, if it is one.
func terminalOf(w io.Writer) *os.File {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// progress returns a bar that counts items.
func (a *app) progress(what string) *progress {
	return &progress{app: a, what: what, shown: a.terminal != nil && !a.quiet, start: time.Now()}
}

// byteProgress returns a bar that counts bytes.
func (a *app) byteProgress(what string) *progress {
	p := a.progress(what)
	p.bytes = true
	return p
}

// report updates the bar: of total items or bytes, this many are done.
func (p *progress) report(done, total int64) {
	if !p.shown || p.bar == nil && time.Since(p.start) < quickWork {
		return
	}
	if p.bar == nil {
		opt := []progressbar.Option{progressbar.OptionSetWriter(p.app.terminal),
			progressbar.OptionSetDescription(p.what), progressbar.OptionSetWidth(30),
			progressbar.OptionThrottle(60 * time.Millisecond), progressbar.OptionSetPredictTime(false)}
		if !p.bytes {
			opt = append(opt, progressbar.OptionShowCount())
		}
		p.bar = progressbar.NewOptions64(total, opt...)
	}
	if p.bytes { // printed by vkc: the bar would also show a speed, computed over less time than the work took
		p.bar.Describe(fmt.Sprintf("%s, %s of %s", p.what, size(done), size(total)))
	}
	p.bar.Set64(done) // a bar that cannot be drawn is no failure
}

// describe changes the text next to the bar.
func (p *progress) describe(what string) {
	p.what = what
	if p.bar != nil {
		p.bar.Describe(what)
	}
}

// stage shows the progress of compiling and loading, with one bar for each stage. While a stage is not done, it ignores
// other stages that overlap with it.
func (p *progress) stage(at vkc.Progress) {
	if what := string(at.Stage); p.what != what {
		if p.bar != nil {
			return
		}
		p.what, p.bytes = what, at.Stage == runtime.StageWeights
	}
	p.report(at.Done, at.Total)
	if at.Done >= at.Total {
		p.end()
	}
}

// end removes the bar.
func (p *progress) end() {
	if p.bar != nil {
		p.bar.Clear()
		p.bar = nil
	}
}
