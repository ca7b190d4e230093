package emit

// Shared is the declaration of an array in shared memory.
type Shared struct {
	Type, Name string
	Size       string // with its brackets: "[32][4]"
}

// String returns the declaration.
func (s Shared) String() string { return "shared " + s.Type + " " + s.Name + s.Size + ";" }
