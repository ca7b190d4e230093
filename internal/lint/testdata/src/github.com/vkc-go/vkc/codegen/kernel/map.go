package kernel

// Map stands for the one function that may copy a kernel.
func Map(k *Kernel) *Kernel {
	to := *k
	return &to
}

// Collapse is another one.
func Collapse(k *Kernel) *Kernel {
	to := *k // want `this copies a kernel`
	return &to
}

// Map of something else is another function.
func (k *Kernel) Map() Kernel { return *k } // want `this copies a kernel`
