package schedule

import "github.com/vkc-go/vkc/codegen/device"

// byClass is how devices of each class ([device.Class]) like their work cut. A class without a row is generic.
var byClass = map[string]func(device.Caps) heuristics{
	"cpu":      cpu,
	"nvidia":   nvidia,
	"amd":      amd,
	"intel":    intel,
	"arm":      arm,
	"qualcomm": qualcomm,
	"apple":    apple,
}
