package passes // want package:" 1 packages"

import _ "github.com/vkc-go/vkc/codegen/kernel"
