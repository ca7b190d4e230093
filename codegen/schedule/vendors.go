package schedule

import "github.com/vkc-go/vkc/codegen/device"

// byClass maps each class of devices ([device.Class]) to its heuristics. A class without an entry uses generic.
var byClass = map[string]func(device.Caps) heuristics{
	"cpu":      cpu,
	"nvidia":   nvidia,
	"amd":      amd,
	"intel":    intel,
	"arm":      arm,
	"qualcomm": qualcomm,
	"apple":    apple,
}
