// A module of its own, so that vkc does not depend on GoMLX.
module github.com/vkc-go/vkc/gomlx

go 1.26.0

replace github.com/vkc-go/vkc => ..

require (
	github.com/gomlx/compute v0.1.3
	github.com/pkg/errors v0.9.1
	github.com/vkc-go/vkc v0.1.0
)

require (
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/goki/vulkan v1.0.8 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	golang.org/x/exp v0.0.0-20260410095643-746e56fc9e2f // indirect
	golang.org/x/image v0.47.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	k8s.io/klog/v2 v2.140.0 // indirect
)
