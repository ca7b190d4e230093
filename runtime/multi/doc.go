// Package multi runs one program on several devices. A [Pipeline] has consecutive parts, such as groups of a model's
// layers, one per device. A [Tensor] program shares each op among the devices (tensor parallelism). Package
// passes/partition divides the graphs, and package runtime/collective moves values between the devices of a Tensor.
//
// [Prices] estimates how long a run takes by each strategy.
package multi
