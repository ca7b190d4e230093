// Package optim has the steps of training as graphs: functions from parameters,
// gradients and an optimizer's memory to their next values. Gradients come from
// frontend.Grad; the steps fuse like any other ops, so that AdamW over one parameter
// is one kernel that reads four tensors and writes three.
//
//	p, m, v := b.State("p", ir.F32, 512, 256), b.State("p.m", ir.F32, 512, 256), b.State("p.v", ir.F32, 512, 256)
//	clipped, _ := optim.ClipGlobalNorm(1, grad)
//	adam := optim.NewAdamW(3e-4)
//	p2, m2, v2 := adam.Step(p, clipped[0], m, v, optim.Steps(b, "step"))
//	b.Update(p, p2)
//	b.Update(m, m2)
//	b.Update(v, v2)
//
// All steps compute in f32 whatever the dtypes of parameters and gradients are;
// the memory they keep should be f32.
package optim
