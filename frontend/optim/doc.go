// Package optim builds training steps as graphs: functions from parameters, gradients and an optimizer's state to their
// next values. Gradients come from frontend.Grad. The steps fuse like any other ops: AdamW for one parameter is one
// kernel that reads four tensors and writes three.
//
//	params := []frontend.Tensor{b.State("p", ir.F32, 512, 256)} // and all others
//	clipped, _ := optim.ClipGlobalNorm(1, frontend.Grad(loss, params...)...)
//	step := optim.Steps(b, "step")
//	adam := optim.NewAdamW(0)
//	adam.RateOf = optim.WarmUp(100, optim.Cosine(3e-4, 3e-5, 10000))(step)
//	optim.Train(func(frontend.Tensor) optim.Rule { return adam }, params, clipped, step, frontend.Tensor{})
//
// Train updates states by a Rule: AdamW, SGD, Muon or Lion. Programs that keep the optimizer's state themselves call
// the rule's method Step. LossScale and Accumulate process the gradients before Train uses them.
//
// All steps compute in f32, whatever the dtypes of parameters and gradients are. The optimizer's state should be f32.
package optim
