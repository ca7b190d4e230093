// Package collective runs the collectives of a process group: devices of one process that exchange values during a run.
//
// A [Group] has the devices. A [Transport] is a way to move values between them; the group probes a transport before it
// uses it, and takes the cheapest one that works. A [Channel] is the memory of one transport. A [Run] is one run of a
// program on all devices, whose collectives share a part of the channel. Package internal/mailbox defines the protocol.
package collective
