package quant

import _ "github.com/vkc-go/vkc/passes"
