package device

import (
	"cmp"
	"sync"
)

// Machine has the measured rates of a device. Passes use them to decide whether another kernel, or recomputation, is
// faster. Vulkan reports none of them. A zero means not measured.
type Machine struct {
	CopyGBps  float64 `json:"copy_gbps"`  // 10^9 bytes read and written per second
	MatrixF16 float64 `json:"f16_tflops"` // 10^12 operations per second on cooperative matrices; a multiply-add is two
	MatrixI8  float64 `json:"i8_tops"`    // the same for int8
	VectorF32 float64 `json:"f32_tflops"` // the same for ordinary f32 arithmetic
	LaunchNs  float64 `json:"launch_ns"`  // the time of one more kernel that waits for its predecessor
	// BarrierNs is the time of a barrier between workgroups within a kernel, with one workgroup per core. 0 or less
	// disables persistent kernels.
	BarrierNs float64 `json:"meet_ns,omitempty"`
	// Relayed, Copied and Staged are the ways to transfer values to another device of the same host. Relayed goes
	// through host memory while kernels wait for the host. Copied is a copy from card to card between programs; zero
	// means that there are no such copies. Staged goes through host memory between programs.
	Relayed Link `json:"relayed,omitzero"`
	Copied  Link `json:"copied,omitzero"`
	Staged  Link `json:"staged,omitzero"`
}

// Link is the cost of an exchange: two devices send bytes to each other at the same time.
type Link struct {
	LatencyNs float64 `json:"latency_ns"` // for a few bytes
	GBps      float64 `json:"gbps"`       // bytes per nanosecond that each device sends in large exchanges
}

// Time is the time in nanoseconds if each device sends the given number of bytes to the other.
func (l Link) Time(bytes int64) float64 { return l.LatencyNs + float64(bytes)/l.GBps }

// machineOf returns the rates of a device: its measured rates, and for a rate without a measurement the rate of the
// named profile, scaled by the number of cores.
func machineOf(caps Caps, profile string) Machine {
	similar := profileCaps()[profile]
	estimate := similar.Machine
	// A device with half the cores has half the rates per second. Times do not change.
	scale := float64(CoresOf(caps)) / float64(CoresOf(similar))
	m := caps.Machine
	m.CopyGBps = cmp.Or(m.CopyGBps, scale*estimate.CopyGBps)
	m.MatrixF16 = cmp.Or(m.MatrixF16, scale*estimate.MatrixF16)
	m.MatrixI8 = cmp.Or(m.MatrixI8, scale*estimate.MatrixI8)
	m.VectorF32 = cmp.Or(m.VectorF32, scale*estimate.VectorF32)
	m.LaunchNs = cmp.Or(m.LaunchNs, estimate.LaunchNs)
	m.BarrierNs = cmp.Or(m.BarrierNs, estimate.BarrierNs)
	relayed, staged := measuredLinks()
	m.Relayed = cmp.Or(m.Relayed, estimate.Relayed, relayed)
	m.Copied = cmp.Or(m.Copied, estimate.Copied)
	m.Staged = cmp.Or(m.Staged, estimate.Staged, staged)
	return m
}

// CoresOf returns the number of a device's cores, or a guess if the device does not report it.
func CoresOf(caps Caps) int64 {
	switch {
	case caps.Cores > 0:
		return int64(caps.Cores)
	case caps.Type == DeviceDiscrete:
		return 32
	}
	return 8
}

// measuredLinks returns the costs of exchanges from the first profiles that have measurements; most profiles have none.
func measuredLinks() (relayed, staged Link) {
	for _, name := range Profiles() {
		m := profileCaps()[name].Machine
		relayed, staged = cmp.Or(relayed, m.Relayed), cmp.Or(staged, m.Staged)
	}
	return relayed, staged
}

// MachineOf returns the rates of a device: measured rates, and otherwise the estimates of its class.
func MachineOf(caps Caps) Machine { return classOf(caps).machine(caps) }

// profileCaps returns the caps of all profiles, by name. A test reads each profile, so errors cannot happen here.
var profileCaps = sync.OnceValue(func() map[string]Caps {
	all := map[string]Caps{}
	for _, name := range Profiles() {
		all[name], _ = Profile(name)
	}
	return all
})
