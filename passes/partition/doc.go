// Package partition divides a graph among several devices, before every other pass.
//
// [SplitLayers] cuts it into parts that run one after another (pipeline parallelism). [SplitTensor] gives each device
// its shard of every op (tensor parallelism), with collectives where a device needs values of the others. Both make
// ordinary graphs, which are compiled each by itself.
package partition
