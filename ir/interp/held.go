package interp

// Held returns the bytes of the programs' weights, including all values computed only from them, and of their states.
// Shared memory counts once.
func Held(programs []*Program) (weights, states int64) {
	seen := map[any]bool{} // by the first element
	once := func(list map[any]int) (n int64) {
		for at, size := range list {
			if at != nil && !seen[at] {
				seen[at] = true
				n += int64(size)
			}
		}
		return n
	}
	for _, p := range programs {
		for _, v := range p.consts {
			weights += once(v.memory())
		}
		for _, list := range p.packed {
			weights += once(map[any]int{start(list): 4 * len(list)})
		}
		for _, v := range p.states.all() {
			states += once(v.memory())
		}
	}
	return weights, states
}

// memory returns the sizes in bytes of the slices that a value refers to, by the address of the first element.
func (v value) memory() map[any]int {
	list := map[any]int{start(v.f64): 8 * len(v.f64), start(v.f32): 4 * len(v.f32), start(v.i64): 8 * len(v.i64),
		start(v.i32): 4 * len(v.i32)}
	if s := v.stored(); s != nil {
		list[start(s.Bytes)] = len(s.Bytes)
	}
	return list
}

// start returns the address of the first element of a list, or nil.
func start[T any](list []T) any {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}
