package main

import (
	"context"
	"io"
	"os"
)

// standardInput reads standard input until ctx is done: who waits for more of it then gets the error of ctx, though
// the read itself cannot be ended.
func standardInput(ctx context.Context) io.Reader {
	r, w := io.Pipe()
	in := os.Stdin
	go func() {
		_, err := io.Copy(w, in)
		w.CloseWithError(err) // the end of the input where there is none
	}()
	context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	return r
}
