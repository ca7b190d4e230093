// Not published. A module of its own, so that vkc does not depend on Node.
module github.com/vkc-go/vkc/bench/onnxruntime

go 1.26.0

replace github.com/vkc-go/vkc => ../..

require (
	github.com/vkc-go/vkc v0.1.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/goki/vulkan v1.0.8 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	golang.org/x/image v0.47.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
