package quant // want package:" 7 packages"

import (
	_ "github.com/vkc-go/vkc/internal/harmless"
	_ "github.com/vkc-go/vkc/internal/upwards" // want `vkc/passes, which helpers under internal lead to, is not for packages of "quant"`
	_ "github.com/vkc-go/vkc/irregular"        // want `irregular is not for packages of "quant"`
	_ "golang.org/x/synctest"                  // want `golang.org/x/synctest is not for packages of "quant"`
)
