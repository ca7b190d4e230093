package runtime

import "strconv"

// KernelCost is what a driver says that a kernel costs on its device. What the driver does not say is absent.
type KernelCost map[CostItem]float64

// CostItem is one of the numbers of a [KernelCost].
type CostItem string

// The items.
const (
	// Registers are 32-bit registers of one invocation, and uniform ones beside them are not counted.
	Registers CostItem = "registers"
	// Spills are registers that had to go to memory, or as many instructions that move them there and back.
	Spills CostItem = "spills"
	// Scratch is memory of one invocation, in bytes, for spilled registers and arrays that are indexed.
	Scratch CostItem = "scratch"
	// SharedMemory is what a workgroup takes, in bytes.
	SharedMemory CostItem = "shared"
	// CodeSize is the machine code, in bytes.
	CodeSize CostItem = "code"
	// Instructions are those of the machine code.
	Instructions CostItem = "instructions"
	// Occupancy is how many subgroups one scheduler of the device holds at once.
	Occupancy CostItem = "occupancy"
	// Latency is the driver's estimate of cycles from the start of a subgroup to its end.
	Latency CostItem = "latency"
	// InverseThroughput is the driver's estimate of cycles a scheduler spends on a subgroup.
	InverseThroughput CostItem = "inverse_throughput"
)

// costItems are all of them in the order of tables, and how tables call them.
var costItems = []struct {
	item  CostItem
	short string
}{
	{Registers, "regs"}, {Spills, "spills"}, {Scratch, "scratch"}, {SharedMemory, "shared"}, {Occupancy, "occ"},
	{CodeSize, "code"}, {Instructions, "instrs"}, {Latency, "latency"}, {InverseThroughput, "cycles"},
}

// CostItems returns all items in the order of tables.
func CostItems() []CostItem {
	var list []CostItem
	for _, c := range costItems {
		list = append(list, c.item)
	}
	return list
}

// Short is what tables call the item.
func (c CostItem) Short() string {
	for _, row := range costItems {
		if row.item == c {
			return row.short
		}
	}
	return string(c)
}

// Text prints an item; "" where the driver does not say it.
func (c KernelCost) Text(item CostItem) string {
	v, ok := c[item]
	if !ok {
		return ""
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
