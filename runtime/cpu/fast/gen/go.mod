// Not published. A module of its own, so that vkc does not depend on avo.
module github.com/vkc-go/vkc/runtime/cpu/fast/gen

go 1.26.0

require github.com/mmcloughlin/avo v0.6.0

require (
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/tools v0.52.0 // indirect
)
