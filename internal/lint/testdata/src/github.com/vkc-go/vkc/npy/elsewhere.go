//go:build neverwhere

package npy

import _ "github.com/vkc-go/vkc/passes"
