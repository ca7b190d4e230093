package emit

// Shared is a declaration of shared memory.
type Shared struct {
	Type, Name string
	Size       string // with its brackets: "[32][4]"
}

// Symbol is the name.
func (s Shared) Symbol() string { return s.Name }

// Signature is the name, too.
func (s Shared) Signature() string { return s.Name }

// String is the declaration.
func (s Shared) String() string { return "shared " + s.Type + " " + s.Name + s.Size + ";" }
