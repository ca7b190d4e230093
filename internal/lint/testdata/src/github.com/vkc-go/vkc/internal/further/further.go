package further // want package:" 2 packages"

import _ "github.com/vkc-go/vkc/passes"
