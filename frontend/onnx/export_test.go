package onnx

// Changes returns the opsets in which ops changed, by op.
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

// Rows are the attributes that the rows of each domain leave out, by op.
func Rows() map[string]map[string]map[string]string {
	all := map[string]map[string]map[string]string{}
	for domain, rows := range domains {
		all[domain] = map[string]map[string]string{}
		for op, row := range rows {
			all[domain][op] = row.leftOut
		}
	}
	return all
}

// Smooth is smooth.
var Smooth = smooth
