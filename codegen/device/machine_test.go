package device

import "testing"

// TestMachine: a class takes the figures of a profile, scaled by cores. Measurements of the device itself take
// precedence.
func TestMachine(t *testing.T) {
	for _, c := range classes {
		for _, name := range Kinds() {
			if m := c.machine(profileOf(t, name)); m.CopyGBps <= 0 || m.MatrixF16 <= 0 || m.MatrixI8 <= 0 ||
				m.VectorF32 <= 0 || m.LaunchNs <= 0 || !(0 < m.Relayed.Time(0)) ||
				!(m.Relayed.Time(0) < m.Staged.Time(0)) || !(m.Relayed.Time(1<<30) < m.Staged.Time(1<<30)) {
				t.Errorf("%s as %s: %+v; the profile that its class names needs a machine", name, c.name, m)
			}
		}
	}
	caps := profileOf(t, "nvidia-h100")
	whole := machineOf(caps, "nvidia-h100")
	cores := CoresOf(caps)
	caps.Cores /= 2
	caps.Machine = Machine{}
	half := machineOf(caps, "nvidia-h100")
	if CoresOf(caps)*2 != cores || half.CopyGBps*2 != whole.CopyGBps || half.VectorF32*2 != whole.VectorF32 ||
		half.LaunchNs != whole.LaunchNs {
		t.Errorf("half of the cores are %+v of %+v", half, whole)
	}
	caps.Machine = Machine{CopyGBps: 3000, LaunchNs: 7}
	measured := machineOf(caps, "nvidia-h100")
	if measured.CopyGBps != 3000 || measured.LaunchNs != 7 || measured.MatrixI8 != half.MatrixI8 {
		t.Errorf("measured %+v", measured)
	}
	if caps.Fingerprint() == profileOf(t, "nvidia-h100").Fingerprint() {
		t.Error("what was measured changes decisions, and not the fingerprint")
	}
}
