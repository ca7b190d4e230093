package vk

import (
	"fmt"
	"slices"
)

// group is a list of recordings that were submitted together, such as several decoding steps. When the same list is
// submitted again, the group is recorded as one command buffer, because the device is idle for microseconds between
// command buffers (M-token-gap).
type group struct {
	members []*Recording
	version int        // sum of the members' versions, which changes if one is recorded again
	whole   *Recording // the command buffer of all members; nil before the second submission of these versions
}

const (
	// maxGroups is the maximum number of groups kept that end with the same recording.
	maxGroups = 8
	// maxGroupWords is the largest number of words of commands in a recording that may be part of a group.
	maxGroupWords = 1 << 14
)

// groupedLocked returns the command buffers of a list of recordings or, if the list was submitted before, the single
// command buffer of its group. The caller holds s.queue.
func (s *submitter) groupedLocked(list []*Recording) ([]uint64, error) {
	if g := s.groupLocked(list); g != nil {
		if g.whole == nil {
			if err := g.record(s.device); err != nil {
				return nil, err
			}
		}
		return []uint64{g.whole.buffer}, nil
	}
	var handles []uint64
	for _, r := range list {
		handles = append(handles, r.buffer)
	}
	return handles, nil
}

// groupLocked returns the group of a list of recordings, if the list was submitted before and none of them has been
// recorded again since. Otherwise it returns nil, and makes a group of the list for the next submission, unless a
// recording cannot be in a group. The caller holds s.queue.
func (s *submitter) groupLocked(list []*Recording) *group {
	ungroupable := func(r *Recording) bool { return r.words == nil || r.closed.Load() }
	if len(list) < 2 || slices.ContainsFunc(list, ungroupable) {
		return nil
	}
	last, version := list[len(list)-1], 0
	for _, r := range list {
		version += r.version
	}
	i := slices.IndexFunc(last.groups, func(g *group) bool { return slices.Equal(g.members, list) })
	if i >= 0 && last.groups[i].version == version {
		return last.groups[i]
	}
	if i < 0 && len(last.groups) == maxGroups {
		i = 0 // the oldest one
	}
	if i >= 0 {
		s.dropped = append(s.dropped, last.groups[i].whole)
		last.groups = slices.Delete(last.groups, i, i+1)
	}
	last.groups = append(last.groups, &group{members: slices.Clone(list), version: version})
	return nil
}

// record records all members in order as one command buffer. The barrier between two members orders only the stages
// that they use, which a barrier of separate recordings does not know. The barrier that makes results visible to the
// host comes only once, at the end.
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
