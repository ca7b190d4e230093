package device

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/internal/disabled"
)

// DisableEnv names the environment variable that turns device features off: a comma-separated list of names for
// [Caps.Without].
const DisableEnv = disabled.Env

// switches has the names in VKC_DISABLE that turn off several features, or a feature with another name.
var switches = map[string][]string{
	"coopmat":           matrixFeatures,
	"cooperativeMatrix": matrixFeatures,
	"int_dot":           {"integerDotProduct"},
	"subgroup":          slices.Collect(maps.Keys(subgroupFeatures)),
	// Every other subgroup operation needs the basic ones.
	"subgroup_basic": slices.Collect(maps.Keys(subgroupFeatures)),
	"bfloat16":       {"bfloat16", "bfloat16Matrix"},
	"float8":         {"float8", "float8Matrix"},
}

// versions has the names that turn off a Vulkan version and all later ones, with the version that remains. Features of
// a version stay if the device has them as extensions.
var versions = map[string]APIVersion{
	"vulkan1.2": Version(1, 1, 0),
	"vulkan1.3": Version(1, 2, 0),
}

var matrixFeatures = []string{"cooperativeMatrix", "cooperativeMatrix2", "bfloat16Matrix", "float8Matrix"}

// firstRuntimeFeature is the first field of [Features] that concerns only the runtime. Generated code never depends on
// it or on later fields.
const firstRuntimeFeature = "Sync2"

// TransferQueue is the name that turns off a device's copy-only queue. The runtime works without it.
const TransferQueue = "transfer_queue"

// otherSwitches has the names that turn off something other than a field of [Features]. The function of a name changes
// the rates so that the compiler no longer chooses the named thing. For the transfer queue and for AVX-512 it does
// nothing, because the runtimes look up these names themselves.
var otherSwitches = map[string]func(*Machine){
	"persistent":    func(m *Machine) { m.BarrierNs = -1 },
	TransferQueue:   func(*Machine) {},
	disabled.AVX512: func(*Machine) {},
}

// Without returns the caps of a device without the named features. A name is one of:
//
//   - a name of [Caps.Has];
//   - coopmat for cooperative matrices, int_dot for integer dot products, subgroup for all subgroup features;
//   - vulkan1.2 or vulkan1.3 for that version and later ones;
//   - persistent for persistent kernels, or transfer_queue for copies at the same time as kernels;
//   - avx512 for vector instructions of the CPU, which changes no caps.
//
// Features that depend on a removed feature are removed too. For an unknown name it returns an error that lists the
// names.
func (c Caps) Without(features ...string) (Caps, error) {
	for _, name := range features {
		parts := []string{name}
		if list, ok := switches[name]; ok {
			parts = list
		}
		for _, part := range parts {
			if !c.turnOff(part) {
				return c, fmt.Errorf("no feature %q to turn off: there are %s", name, strings.Join(switchable(), ", "))
			}
		}
	}
	if c.API.SPIRV() < 6 {
		c.Features.CooperativeMatrix2 = false // its shaders are SPIR-V 1.6
	}
	if !c.Features.CooperativeMatrix {
		c.Matrices = nil
	}
	if !c.Features.CooperativeMatrix2 {
		c.Matrix2 = nil
	}
	return c, nil
}

// turnOff turns one feature off, and reports whether the name is known.
func (c *Caps) turnOff(feature string) bool {
	if ops, ok := subgroupFeatures[feature]; ok {
		c.SubgroupOps &^= ops
		return true
	}
	if older, ok := versions[feature]; ok {
		c.API = min(c.API, older)
		return true
	}
	if off, ok := otherSwitches[feature]; ok {
		off(&c.Machine)
		return true
	}
	field := slices.Index(codeFeatures(), feature)
	if field >= 0 {
		reflect.ValueOf(&c.Features).Elem().Field(field).SetBool(false)
	}
	return field >= 0
}

// codeFeatures returns the names of the features that generated code may depend on, in field order.
func codeFeatures() []string {
	var names []string
	t := reflect.TypeFor[Features]()
	for i := 0; t.Field(i).Name != firstRuntimeFeature; i++ {
		names = append(names, t.Field(i).Tag.Get("json"))
	}
	return names
}

// switchable returns the names that Without accepts, sorted.
func switchable() []string {
	names := codeFeatures()
	names = slices.AppendSeq(names, maps.Keys(switches))
	names = slices.AppendSeq(names, maps.Keys(subgroupFeatures))
	names = slices.AppendSeq(names, maps.Keys(versions))
	names = slices.AppendSeq(names, maps.Keys(otherSwitches))
	slices.Sort(names)
	return slices.Compact(names)
}
