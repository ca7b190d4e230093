package main

import (
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far some long work is, as a bar on standard error if that
// is a terminal. It appears with the first report, so quick work shows none.
type progress struct {
	app    *app
	what   string
	bytes  bool
	shown  bool // a terminal is there to show it on
	bar    *progressbar.ProgressBar
	totals int64
}

func (a *app) progress(what string, bytes bool) *progress {
	f, ok := a.stderr.(*os.File)
	return &progress{app: a, what: what, bytes: bytes, shown: ok && !a.quiet && term.IsTerminal(int(f.Fd()))}
}

// report says that done of total are done.
func (p *progress) report(done, total int64) {
	if !p.shown {
		return
	}
	if p.bar == nil {
		p.totals = total
		p.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(p.app.stderr), progressbar.OptionSetDescription(p.what),
			progressbar.OptionShowBytes(p.bytes), progressbar.OptionShowCount(), progressbar.OptionSetWidth(30),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false))
	}
	p.bar.Set64(done) // a bar that cannot be drawn is no failure
}

// end removes the bar.
func (p *progress) end() {
	if p.bar != nil {
		p.bar.Clear()
	}
}
