package schedule

import "github.com/vkc-go/vkc/codegen/device"

// byClass has the heuristics of each class of devices ([device.Class]). A class without an entry uses generic.
var byClass = map[string]func(device.Caps) heuristics{
	"cpu":      cpu,
	"nvidia":   nvidia,
	"amd":      amd,
	"intel":    intel,
	"arm":      arm,
	"qualcomm": qualcomm,
	"apple":    apple,
}
