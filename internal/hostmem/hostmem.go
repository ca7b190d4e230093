// Package hostmem computes how much host memory the process may still use, given the machine's memory, the control
// groups of the process, and the limits of its shell (ulimit). Go ends a program that runs out of memory, so code
// checks before large allocations.
package hostmem

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// Error means that there is not enough memory.
type Error struct {
	Need, Room int64  // bytes
	By         string // the limit that applies to the process
}

func (e *Error) Error() string {
	return fmt.Sprintf("out of memory: %d MiB are needed, and %s leaves %d MiB: use smaller inputs or symbol values, "+
		"or give the process more memory", (e.Need+1<<20-1)>>20, e.By, max(e.Room, 0)>>20)
}

// Reading the limits means reading files. So they are read again only after requests for uncheckedBytes in all, or for
// 1/uncheckedPart of the memory that was left, whichever is more.
const (
	uncheckedBytes = 16 << 20
	uncheckedPart  = 64
)

var (
	requested atomic.Int64 // bytes since the limits were last read
	unchecked atomic.Int64 // bytes that may be requested before they are read again, if more than uncheckedBytes
)

// Check returns an [*Error] if need bytes cannot be allocated.
func Check(need int64) error {
	if requested.Add(need) < max(uncheckedBytes, unchecked.Load()) {
		return nil
	}
	requested.Store(0)
	list := limits()
	err := check(need, list)
	if err != nil {
		debug.FreeOSMemory() // return unused memory
		list = limits()
		err = check(need, list)
	}
	unchecked.Store((least(list).left - need) / uncheckedPart)
	return err
}

// check returns an *Error if an allocation of need bytes exceeds one of the limits, and names the tightest.
func check(need int64, list []limit) error {
	if l := least(list); l.left < need+uncheckedBytes {
		return &Error{Need: need, Room: l.left, By: l.by}
	}
	return nil
}

// limit is the number of bytes that one limit, such as a control group's, still allows.
type limit struct {
	left int64
	by   string
}

// Room returns how many bytes the process may still allocate, and the limit's name. Without a known limit it returns
// the largest int64.
func Room() (bytes int64, by string) {
	l := least(limits())
	return max(l.left, 0), l.by
}

// least returns the limit that leaves the fewest bytes. Without limits these are the largest int64.
func least(list []limit) limit {
	l := limit{left: math.MaxInt64}
	for _, other := range list {
		if other.left < l.left {
			l = other
		}
	}
	return l
}

// LimitHeap sets Go's memory limit to what the process has and may still allocate. So the garbage collector also runs
// before memory is exhausted, even if the heap has not doubled since its last run. It does not override GOMEMLIMIT.
// Only main programs should call it, since it changes the whole process.
func LimitHeap() {
	room, by := Room()
	if by == "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	free, _ := heap()
	more := room - min(room, free) // both room and inUse count the free part of the heap
	debug.SetMemoryLimit(inUse() + more)
}

// heap returns the bytes of memory that Go holds unused, and the bytes of address space that it holds without memory.
func heap() (free, released int64) {
	return class("heap/free"), class("heap/released")
}

// inUse returns the bytes of memory that Go has.
func inUse() int64 { return class("total") - class("heap/released") }

// class returns the bytes of a memory class of package runtime/metrics.
func class(name string) int64 {
	list := []metrics.Sample{{Name: "/memory/classes/" + name + ":bytes"}}
	metrics.Read(list)
	if list[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(list[0].Value.Uint64())
}
