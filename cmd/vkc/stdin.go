package main

import (
	"context"
	"io"
	"os"
)

// standardInput reads standard input until ctx is done. Then a waiting reader gets the error of ctx, although the read
// of the file itself cannot be interrupted.
func standardInput(ctx context.Context) io.Reader {
	r, w := io.Pipe()
	in := os.Stdin
	go func() {
		_, err := io.Copy(w, in)
		w.CloseWithError(err) // io.EOF if err is nil
	}()
	context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	return r
}
