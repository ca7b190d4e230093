package ir // want package:" 2 packages"

import (
	_ "fmt"

	_ "github.com/vkc-go/vkc/internal/harmless" // want `internal/harmless is not for packages of "ir", which may import github.com/x448/float16: a graph knows no device` `internal/again, which helpers under internal lead to, is not`
	_ "github.com/x448/float16"
)
