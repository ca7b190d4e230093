package atomicfile

import (
	"errors"
	"time"

	"golang.org/x/sys/windows"
)

const (
	retries   = 40
	retryWait = 25 * time.Millisecond
)

// Retry calls use, and repeats the call for about a second while it fails because another process has the file open or
// is replacing it. Windows refuses to replace an open file, even one open for reading, and to open a file that is being
// replaced. Other systems allow both, and there Retry calls use once.
func Retry(use func() error) error {
	err := use()
	for range retries {
		if !errors.Is(err, windows.ERROR_SHARING_VIOLATION) && !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
			break
		}
		time.Sleep(retryWait)
		err = use()
	}
	return err
}
