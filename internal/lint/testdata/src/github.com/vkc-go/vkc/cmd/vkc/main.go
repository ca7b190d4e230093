package main // want package:" 8 packages"

import (
	_ "github.com/vkc-go/vkc/passes"
	_ "github.com/vkc-go/vkc/quant"
)

func main() {}
