package schedule

import "github.com/vkc-go/vkc/codegen/device"

// byClass is how devices of each class ([device.Class]) like their work cut. Those of a class without a row are generic.
var byClass = map[string]func(device.Caps) heuristics{"cpu": cpu, "nvidia": nvidia, "amd": amd, "intel": intel, "arm": arm,
	"qualcomm": qualcomm, "apple": apple}
