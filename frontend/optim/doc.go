// Package optim builds training steps as graphs: functions from parameters, gradients and an optimizer's state to their
// next values. Gradients come from frontend.Grad. The steps fuse like any other ops: AdamW for one parameter is one
// kernel that reads four tensors and writes three.
//
//	optim.Minimize(loss, optim.NewAdamW(1e-3), w, bias) // w and bias are states
//
// Minimize is short for gradients, a counter of steps and Train:
//
//	params := []frontend.Tensor{w, bias}
//	clipped, _ := optim.ClipGlobalNorm(1, frontend.Grad(loss, params...)...)
//	step := optim.Steps(b, "step")
//	adam := optim.NewAdamW(0)
//	adam.RateOf = optim.WarmUp(100, optim.Cosine(3e-4, 3e-5, 10000))(step)
//	optim.Train(adam, params, clipped, step)
//
// Train updates states by a Rule: AdamW, SGD, Muon or Lion. Programs that keep the optimizer's state themselves call
// the rule's method Step. LossScale and Accumulate process the gradients before Train uses them.
//
// All steps compute in f32, whatever the dtypes of parameters and gradients are. The optimizer's state should be f32.
package optim
