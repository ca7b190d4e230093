package emit

// Shared is the declaration of an array in shared memory.
type Shared struct {
	Type, Name string
	Size       string // with its brackets: "[32][4]"
}

// Symbol returns the name.
func (s Shared) Symbol() string { return s.Name }

// Signature returns the name, too: two arrays of the same name are the same.
func (s Shared) Signature() string { return s.Name }

// String returns the declaration.
func (s Shared) String() string { return "shared " + s.Type + " " + s.Name + s.Size + ";" }
