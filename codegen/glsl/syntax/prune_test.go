package syntax

import "testing"

// TestPrune compares blocks of statements before and after pruning.
func TestPrune(t *testing.T) {
	const source = `uint a = 1u;
uint b = 1u;
uint unused = a; // and its comment
float x[4];
float read[2];
for (uint n = 0u; n < 4u; ++n) {
    float written;
    written = sqrt(2.0);
    x[n] += written;
}
uint a_2 = v.unused;
precise float exact = 1.0;
if (a_2 < b) {
    // about unused
    y = 2.0;
    read[0] = y;
    z[b] = read[0];
}
`
	const want = `uint b = 1u;
float read[2];
uint a_2 = v.unused;
precise float exact = 1.0;
if (a_2 < b) {
    // about unused
    y = 2.0;
    read[0] = y;
    z[b] = read[0];
}
`
	list, err := Statements(source)
	if err != nil {
		t.Fatal(err)
	}
	if got := printed(Prune(list)); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := printed(list); got != source {
		t.Errorf("the statements themselves have become\n%s", got)
	}
}
