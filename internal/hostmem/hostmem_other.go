//go:build !linux && !windows

package hostmem

// limits knows only the size of the machine's memory, and assumes that no other process uses any.
func limits() []limit {
	total, ok := physical()
	if !ok {
		return nil
	}
	free, _ := heap()
	return []limit{{total - inUse() + free, "the machine's memory"}}
}
