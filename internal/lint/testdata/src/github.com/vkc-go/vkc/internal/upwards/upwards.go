package upwards // want package:" 3 packages"

import _ "github.com/vkc-go/vkc/internal/further"
