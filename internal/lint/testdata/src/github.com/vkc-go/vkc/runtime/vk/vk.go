package vk // want package:" 3 packages"

import _ "github.com/vkc-go/vkc/codegen/bundle" // want `runtime/vk comes to depend on github.com/vkc-go/vkc/passes by this import: a program that only runs a bundle carries no compiler`
