package cachefile

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/vkc-go/vkc/internal/trusted"
)

// Trusted returns an *UntrustedError if another user could change the content of path; see [trusted.Check]. Cached
// programs are executed, so a user who can write to the cache runs code as this user. A path that does not exist yet is
// trusted if all existing directories on the way are.
func Trusted(path string) error {
	err := trusted.Check(path)
	if others := (*trusted.Error)(nil); errors.As(err, &others) {
		return &UntrustedError{others}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// UntrustedError names another user who could write to a cache.
type UntrustedError struct{ By *trusted.Error }

func (e *UntrustedError) Error() string {
	return fmt.Sprintf("%q %s, so what is in it could run code as you: %s, or set $%s to a directory of your own",
		e.By.Path, e.By.Why, e.By.Do, EnvDir)
}
