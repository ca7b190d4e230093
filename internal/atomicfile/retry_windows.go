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

// Retry calls use again, for a second or so, as long as it fails because somebody else has a file open or is about to
// replace it. Windows refuses to replace what is open, if only for a moment and to be read, and to open what is being
// replaced. Other systems refuse neither, and there use is called once.
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
