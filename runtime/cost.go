package runtime

import "strconv"

// KernelCost maps items to the driver's statistics about a compiled kernel, such as its number of registers. Items that
// the driver does not report are absent.
type KernelCost map[CostItem]float64

// CostItem names one number of a [KernelCost].
type CostItem string

// The items of a KernelCost.
const (
	// Registers counts the 32-bit registers of one invocation, without uniform registers.
	Registers CostItem = "registers"
	// Spills counts the registers that did not fit and live in memory, or the instructions that store and reload them:
	// drivers differ.
	Spills CostItem = "spills"
	// Scratch is the memory of one invocation for spilled registers and indexed arrays, in bytes.
	Scratch CostItem = "scratch"
	// SharedMemory is the shared memory of one workgroup, in bytes.
	SharedMemory CostItem = "shared"
	// CodeSize is the size of the machine code, in bytes.
	CodeSize CostItem = "code"
	// Instructions counts the instructions of the machine code.
	Instructions CostItem = "instructions"
	// Occupancy is the number of subgroups that one scheduler of the device keeps resident.
	Occupancy CostItem = "occupancy"
	// Latency is the driver's estimate of cycles from the start of a subgroup to its end.
	Latency CostItem = "latency"
	// InverseThroughput is the driver's estimate of the cycles for which one subgroup keeps a scheduler busy.
	InverseThroughput CostItem = "inverse_throughput"
)

// costItems lists every item with its column heading, in the order of a table's columns.
var costItems = []struct {
	item  CostItem
	short string
}{
	{Registers, "regs"}, {Spills, "spills"}, {Scratch, "scratch"}, {SharedMemory, "shared"}, {Occupancy, "occ"},
	{CodeSize, "code"}, {Instructions, "instrs"}, {Latency, "latency"}, {InverseThroughput, "cycles"},
}

// CostItems returns all items in the order of a table's columns.
func CostItems() []CostItem {
	var list []CostItem
	for _, c := range costItems {
		list = append(list, c.item)
	}
	return list
}

// Short is the item's column heading in tables.
func (c CostItem) Short() string {
	for _, row := range costItems {
		if row.item == c {
			return row.short
		}
	}
	return string(c)
}

// Text formats the value of an item for a table. It returns "" if the driver does not report the item.
func (c KernelCost) Text(item CostItem) string {
	v, ok := c[item]
	if !ok {
		return ""
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
