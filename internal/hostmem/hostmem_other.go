//go:build !linux && !windows

package hostmem

// limits knows the size of the machine's memory alone, and takes all but what Go has for free.
func limits() []limit {
	total, ok := physical()
	if !ok {
		return nil
	}
	free, _ := heap()
	return []limit{{total - inUse() + free, "the machine's memory"}}
}
