package lower_test

import (
	"testing"

	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/passes"
)

// TestLoweredOps compares the kernels of one op at a time with the reference.
func TestLoweredOps(t *testing.T) {
	tests := []struct{ name, inputs, op string }{
		{"conv 1d", "f32[2,3,17] f32[4,3,3]", "conv %0, %1 {stride=[2], padding_low=[1], padding_high=[1]}"},
		{"conv 2d", "f32[2,3,9,8] f32[5,3,3,2]", "conv %0, %1 {padding_low=[1,0], padding_high=[1,1], dilation=[2,1]}"},
		{"conv groups", "f32[1,8,6,6] f32[8,4,3,3]", "conv %0, %1 {groups=2}"},
		{"conv depthwise", "f32[2,6,7,7] f32[6,1,3,3]", "conv %0, %1 {groups=6, padding_low=[1,1], padding_high=[1,1]}"},
		{"conv 3d", "f32[1,2,4,5,6] f32[4,2,2,2,2]", "conv %0, %1"},
		{"conv symbolic", "f32[N,3,T,8] f32[4,3,3,3]", "conv %0, %1 {padding_low=[1,1], padding_high=[1,1]}"},
		{"conv transpose", "f32[2,4,5,6] f32[4,5,3,3]", "conv_transpose %0, %1 {stride=[2,2], padding_low=[1,1], padding_high=[1,1], output_padding=[1,1]}"},
		{"conv transpose groups", "f32[1,4,9] f32[4,2,3]", "conv_transpose %0, %1 {groups=2, dilation=[2]}"},
		{"avg pool", "f32[2,3,7,8]", "avg_pool %0 {kernel=[3,2], padding_low=[1,1], padding_high=[1,0], stride=[2,1]}"},
		{"avg pool inside only", "f32[2,3,7,8]", "avg_pool %0 {kernel=[3,2], padding_low=[1,1], padding_high=[1,0], stride=[2,3], ceil_mode=true, count_include_pad=false}"},
		{"max pool", "f32[2,3,7,8]", "max_pool %0 {kernel=[3,3], padding_low=[1,1], padding_high=[1,1], dilation=[1,2]}"},
		{"max pool i32", "i32[9]", "max_pool %0 {kernel=[2], ceil_mode=true}"},
		{"resize nearest", "f32[2,5,4]", "resize_nearest %0 {size=[7,9]}"},
		{"resize linear", "f32[2,5,4]", "resize_linear %0 {size=[8,3]}"},
		{"resize linear corners", "f32[2,5,4]", "resize_linear %0 {size=[8,1], align_corners=true}"},
		{"resize cubic", "f32[5,4]", "resize_cubic %0 {size=[8,7]}"},
		{"resize linear symbolic", "f32[2,T]", "resize_linear %0 {size=[12]}"},
		{"norm1", "f32[5,7]", "norm1 %0 {axes=[1]}"},
		{"norm2", "f32[5,7]", "norm2 %0 {axes=[0]}"},
		{"logsumexp", "f32[5,7]", "logsumexp %0 {axes=[1], keepdims=true}"},
		{"variance", "f32[5,7]", "variance %0 {axes=[1], correction=1}"},
		{"l2_normalize", "f32[5,7,3]", "l2_normalize %0 {axis=1}"},
		{"group_norm", "f32[2,6,5] f32[6] f32[6]", "group_norm %0, %1, %2 {groups=3}"},
		{"batch_norm", "f32[2,6,5] f32[6] f32[6] f32[6] f32[6]", "batch_norm %0, %1, %4, %2, %3"},
		{"tril", "f32[3,5,6]", "tril %0 {k=1}"},
		{"triu", "bool[5,6]", "triu %0 {k=-1}"},
		{"one_hot", "i32[4]", "one_hot %0 {depth=5}"},
		{"argsort", "f32[4,9]", "argsort %0"},
		{"argsort down", "i32[9,4]", "argsort %0 {axis=0, descending=true}"},
		{"sort", "f32[3,T]", "sort %0"},
		{"top_k", "f32[4,9]", "top_k_indices %0 {k=3}"},
		{"scatter", "f32[5,4] i32[3,4] f32[3,4]", "scatter %0, %1, %2"},
		{"scatter_add", "f32[5,4] i32[5,7] f32[5,7]", "scatter_add %0, %1, %2 {axis=1}"},
		{"index_add", "f32[5,4,3] i32[7] f32[5,7,3]", "index_add %0, %1, %2 {axis=1}"},
		{"gather_nd", "f32[5,4,3] i32[7,2]", "gather_nd %0, %1"},
		{"scatter_nd", "f32[5,4,3] i32[7,2] f32[7,3]", "scatter_nd %0, %1, %2"},
		{"scatter_nd_add", "f32[5,4] i32[7,1] f32[7,4]", "scatter_nd_add %0, %1, %2"},
		{"pad reflect", "f32[4,5]", `pad %0 {low=[3,0], high=[9,2], mode="reflect"}`},
		{"pad reflect one", "f32[1]", `pad %0 {low=[3], high=[2], mode="reflect"}`},
		{"pad replicate", "f32[4,T]", `pad %0 {low=[3,1], high=[1,2], mode="replicate"}`},
		{"dynamic_slice", "f32[6,5] i32[]", "dynamic_slice %0, %1 {size=[4]}"},
		{"roll", "f32[4,5]", "roll %0 {shifts=[1,-7]}"},
		{"roll symbolic", "f32[4,T]", "roll %0 {shifts=[-5,9]}"},
		{"variance symbolic", "f32[5,T]", "variance %0 {axes=[1], correction=1}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := passtest.OneOp(t, tt.inputs, tt.op)
			s, err := passes.Run(g, passes.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(3) {
				passtest.Compare(t, g, s, seed)
			}
		})
	}
}
