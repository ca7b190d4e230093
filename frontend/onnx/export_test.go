package onnx

// Changes are the opsets in which ops changed, by op.
func Changes() map[string][]int64 {
	all := map[string][]int64{}
	for op, list := range changes {
		for _, ch := range list {
			all[op] = append(all[op], ch.opset)
		}
	}
	return all
}

// Ops lists the ops of ONNX's own domain.
func Ops() table { return domains[""] }
