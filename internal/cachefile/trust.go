package cachefile

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/vkc-go/vkc/internal/trusted"
)

// Trusted reports an *UntrustedError if somebody else could decide what stands
// at path, as [trusted.Check] tells. What is in a cache ends as code that runs:
// whoever can write there runs code as this user. What does not exist yet is
// trusted if all on the way there is.
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

// UntrustedError says who else could write to a cache.
type UntrustedError struct{ By *trusted.Error }

func (e *UntrustedError) Error() string {
	return fmt.Sprintf("%q %s, so what is in it could run code as you: %s, or set $%s to a directory of your own",
		e.By.Path, e.By.Why, e.By.Do, EnvDir)
}
