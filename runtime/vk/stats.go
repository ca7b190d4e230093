package vk

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/runtime"
)

// Capture selects data that the driver keeps about a pipeline.
type Capture uint

const (
	// CaptureStatistics keeps the data of [Pipeline.Statistics].
	CaptureStatistics Capture = 1 << iota
	// CaptureRepresentations keeps the data of [Pipeline.Representations].
	CaptureRepresentations
)

// maxRepresentation is the largest number of bytes of a representation that is read.
const maxRepresentation = 64 << 20

// Statistic is a number that the driver reports about a pipeline, unchanged: VkPipelineExecutableStatisticKHR.
type Statistic struct {
	Name  string
	Value float64
}

// Representation is one of the driver's intermediate forms of a pipeline, or its machine code:
// VkPipelineExecutableInternalRepresentationKHR.
type Representation struct {
	Name   string
	IsText bool
	Data   []byte
}

// Statistics returns the driver's numbers about the pipeline, which must have been made with [CaptureStatistics].
func (p *Pipeline) Statistics() ([]Statistic, error) {
	if err := p.checkCaptured(CaptureStatistics, "statistics"); err != nil {
		return nil, err
	}
	rows, r := p.device.native.statistics(p.handle)
	return rows, p.device.checkResult(r, "read statistics of pipeline %s", p.name)
}

// Representations returns the driver's intermediate forms of the pipeline, which must have been made with
// [CaptureRepresentations].
func (p *Pipeline) Representations() ([]Representation, error) {
	if err := p.checkCaptured(CaptureRepresentations, "representations"); err != nil {
		return nil, err
	}
	list, r := p.device.native.representations(p.handle)
	return list, p.device.checkResult(r, "read representations of pipeline %s", p.name)
}

// checkCaptured returns an error if the pipeline is closed, or was compiled without capture c.
func (p *Pipeline) checkCaptured(c Capture, what string) error {
	if p == nil || p.closed.Load() {
		return fmt.Errorf("vk: %s of a pipeline: it is closed, or was never made", what)
	}
	if p.capture&c == 0 {
		return fmt.Errorf("vk: %s of pipeline %s: it has none; PipelineDesc.Capture asks for them", what, p.name)
	}
	return p.device.checkUsable("read " + what + " of pipeline " + p.name)
}

// Cost converts [Pipeline.Statistics] to items that are the same for all drivers.
func (p *Pipeline) Cost() (runtime.KernelCost, error) {
	rows, err := p.Statistics()
	if err != nil {
		return nil, err
	}
	return costOf(p.device.info.Caps.DriverID, rows), nil
}

// costRow maps the name of a driver's statistic to an item of a cost. times is the factor from the statistic's unit to
// the item's unit. If several statistics have the same item, they are added.
type costRow struct {
	name  string
	item  runtime.CostItem
	times float64
}

// costOffsets maps the name of a statistic to a constant to subtract: NVIDIA's driver sets bit 36 of its size of local
// memory.
var costOffsets = map[string]float64{"Local Memory Size": 1 << 36}

// costRows lists the statistics of drivers, by VkDriverId. The names are from the drivers' sources (Mesa 26.2), and for
// NVIDIA's proprietary driver from its output.
var costRows = map[uint32][]costRow{
	3: { // radv: per subgroup; a vector register is 32 bits of each invocation
		{"VGPRs", runtime.Registers, 1},
		{"Spilled VGPRs", runtime.Spills, 1},
		{"Spilled SGPRs", runtime.Spills, 1},
		{"Scratch size", runtime.Scratch, 1},
		{"LDS size", runtime.SharedMemory, 1},
		{"Code size", runtime.CodeSize, 1},
		{"Instructions", runtime.Instructions, 1},
		{"Subgroups per SIMD", runtime.Occupancy, 1},
		{"Latency", runtime.Latency, 1},
		{"Inverse Throughput", runtime.InverseThroughput, 1},
	},
	4: { // NVIDIA's proprietary driver
		{"Register Count", runtime.Registers, 1},
		{"Local Memory Size", runtime.Scratch, 1},
		{"Shared Memory Size", runtime.SharedMemory, 1},
		{"Binary Size", runtime.CodeSize, 1},
	},
	6: { // anv: its registers span 8 to 32 lanes, so they do not count per invocation
		{"Spill Count", runtime.Spills, 1},
		{"Fill Count", runtime.Spills, 1},
		{"Scratch Memory Size", runtime.Scratch, 1},
		{"Workgroup Memory Size", runtime.SharedMemory, 1},
		{"Instruction Count", runtime.Instructions, 1},
		{"Cycle Count", runtime.Latency, 1},
	},
	18: { // turnip: registers of four words, code size in words
		{"Registers used", runtime.Registers, 4},
		{"STP Count", runtime.Spills, 1},
		{"LDP Count", runtime.Spills, 1},
		{"Code size", runtime.CodeSize, 4},
		{"Instruction Count", runtime.Instructions, 1},
		{"Max Waves Per Core", runtime.Occupancy, 1},
	},
	24: { // nvk
		{"Number of GPRs", runtime.Registers, 1},
		{"Spills to memory", runtime.Spills, 1},
		{"Fills from memory", runtime.Spills, 1},
		{"SLM size", runtime.Scratch, 1},
		{"Code size", runtime.CodeSize, 1},
		{"Instruction count", runtime.Instructions, 1},
		{"Max warps/SM", runtime.Occupancy, 1},
		{"Static cycle count", runtime.InverseThroughput, 1},
	},
	26: { // honeykrisp: registers of 16 bits; 32 threads are a subgroup
		{"GPRs", runtime.Registers, 0.5},
		{"Spills", runtime.Spills, 1},
		{"Fills", runtime.Spills, 1},
		{"Scratch", runtime.Scratch, 1},
		{"Code size", runtime.CodeSize, 1},
		{"Instructions", runtime.Instructions, 1},
		{"Threads", runtime.Occupancy, 1.0 / 32},
		{"ALU", runtime.InverseThroughput, 1},
	},
}

// costOf converts a driver's statistics to a cost. It adds the statistics of all executables of a pipeline.
func costOf(driver uint32, rows []Statistic) runtime.KernelCost {
	cost := runtime.KernelCost{}
	for _, s := range rows {
		for _, row := range costRows[driver] {
			if row.name == s.Name {
				cost[row.item] += float64((s.Value - costOffsets[s.Name]) * row.times)
			}
		}
	}
	return cost
}

// DescribeShader returns the description of the pipeline for a program's shader.
func (d *Device) DescribeShader(s kernel.Shader, code []byte) PipelineDesc {
	// A kernel that relies on a subgroup size also relies on full subgroups.
	full := s.SubgroupSize > 0 && s.Workgroup%s.SubgroupSize == 0 && d.Caps().Features.FullSubgroups
	return PipelineDesc{Name: s.Name, Code: code, Buffers: s.Bindings, SubgroupSize: s.SubgroupSize,
		FullSubgroups: full}
}
