// Package partition divides a graph among several devices, before every other pass.
//
// [SplitLayers] cuts it into parts that run one after another (pipeline parallelism). [SplitTensor] gives each device a
// share of the work of every op (tensor parallelism), and inserts collectives when a device needs values of the others.
// Both return one ordinary graph per device. These are compiled independently.
package partition
