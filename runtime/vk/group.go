package vk

import (
	"fmt"
	"slices"
)

// group is recordings that were submitted together, such as steps of a text. When they are for the second time, they
// are recorded as one: between two command buffers the device does nothing for microseconds (M-token-gap).
type group struct {
	members []*Recording
	whole   *Recording // nil before the second time
}

const (
	// maxGroups is how many groups are known that end with the same recording.
	maxGroups = 8
	// maxGroupWords bounds the commands of a recording of a group.
	maxGroupWords = 1 << 14
)

// groupedLocked returns the command buffers of recordings, or one of the whole group. d.queue is held.
func (d *Device) groupedLocked(list []*Recording) ([]uint64, error) {
	alone := func(r *Recording) bool { return r.words == nil || r.closed.Load() }
	if len(list) > 1 && !slices.ContainsFunc(list, alone) {
		last := list[len(list)-1]
		i := slices.IndexFunc(last.groups, func(g *group) bool { return slices.Equal(g.members, list) })
		if i < 0 {
			if len(last.groups) == maxGroups {
				d.dropped = append(d.dropped, last.groups[0].whole)
				last.groups = last.groups[1:]
			}
			last.groups = append(last.groups, &group{members: slices.Clone(list)})
		} else {
			g := last.groups[i]
			if g.whole == nil {
				if err := g.record(d); err != nil {
					return nil, err
				}
			}
			list = []*Recording{g.whole}
		}
	}
	var handles []uint64
	for _, r := range list {
		handles = append(handles, r.buffer)
	}
	return handles, nil
}

// record records all members, one after the other. What is between two of them orders what these do, and no more; what
// lets the host read what they write comes once.
func (g *group) record(d *Device) (err error) {
	c := d.NewCommandList()
	for _, r := range g.members {
		if c.stages != 0 && r.stages != 0 {
			c.Barrier(c.stages, r.stages)
		}
		c.words = append(c.words, r.words...)
		c.stages |= r.stages
		c.writesReadback = c.writesReadback || r.writesReadback
	}
	g.whole, err = d.Record(fmt.Sprintf("%d recordings as one", len(g.members)), c)
	return err
}
