// Package multi runs one program on several devices. A [Pipeline] runs consecutive parts of the program, such as groups
// of a model's layers, one part per device. A [Tensor] divides the work of each op among the devices (tensor
// parallelism). Package passes/partition divides the graphs. Package runtime/collective exchanges values between the
// devices of a Tensor.
//
// [Prices] estimates how long a run takes by each strategy.
package multi
