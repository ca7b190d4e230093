package kernel

// Family is a closed enum.
type Family string

const (
	FamilyMap Family = "map"
	FamilyRow Family = "row"
)

// Variant is another.
type Variant string

const VarMap Variant = "map"

// Kernel stands for the real one.
type Kernel struct {
	Family Family
	Inner  *Kernel
	Ops    []string
}
