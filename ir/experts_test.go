package ir

import (
	"fmt"
	"strings"
	"testing"
)

// TestConstantIDs: ids that are constants must name experts; groups must be of
// the same ids.
func TestConstantIDs(t *testing.T) {
	const text = `graph "g" {
		%%x = input {name="x", dtype=f32, shape=[2,1,4]}
		%%w = weight {name="w", dtype=f32, shape=[3,5,4]}
		%%ids = const {data=%s}
		%%other = input {name="other", dtype=i32, shape=[2,2]}
		%%groups = expert_groups %s {experts=%d, rows=16}
		%%y = matmul_id %%x, %%w, %%ids, %%groups
		output "y" %%y
	}`
	tests := []struct {
		ids, of string
		experts int
		want    string
	}{
		{"i32[2,2](0, 2, 1, 0)", "%ids", 3, ""},
		{"i64[2,2](0, 2, 1, 0)", "%ids", 3, ""},
		{"i32[2,2](0, 2, 3, 0)", "%ids", 3, "element 2 of ids (const) is 3, want 0 to 2"},
		{"i64[2,2](0, -1, 1, 0)", "%ids", 3, "element 1 of ids (const) is -1, want 0 to 2"},
		{"i32[2,2](0, 2, 1, 0)", "%other", 3, "want expert_groups of the same ids"},
		{"i32[2,2](0, 2, 1, 0)", "%ids", 4, "want expert_groups of the same ids for 3 experts"},
	}
	for _, tt := range tests {
		_, err := Parse(fmt.Sprintf(text, tt.ids, tt.of, tt.experts))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s, groups of %s by %d: error %v, want %q", tt.ids, tt.of, tt.experts, err, tt.want)
		}
	}
}
