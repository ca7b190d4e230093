// Package collective runs the collectives of a process group: devices of one process that exchange values during a run.
//
// A [Group] has the devices. A program divided among them contains collectives, which are called exchanges here: each
// device (rank) sends values and receives the values of all others. A [Transport] is a way to move the values. The
// group probes a transport before it uses it, and takes the cheapest one that works. A [Channel] is the memory of one
// transport. A [Run] is one run of a program on all devices, and uses a part of a channel.
//
// Package internal/mailbox defines the protocol: the layout of the memory, and the flags with which devices tell each
// other that values have been written.
package collective
