package glsl

// sharedArray is a declaration of shared memory.
type sharedArray struct {
	typ, name string
	size      string // with its brackets: "[32][4]"
}

// symbol is the name.
func (s sharedArray) symbol() string { return s.name }

// signature is the name, too.
func (s sharedArray) signature() string { return s.name }

// String is the declaration.
func (s sharedArray) String() string { return "shared " + s.typ + " " + s.name + s.size + ";" }
